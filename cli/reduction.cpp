#include "reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>

#include "graph/interp.h"
#include "graph/scalar.h"
#include "import/aliases.h"
#include "import/read_archive.h"
#include "import/result_types.h"
#include "import/save_archive.h"
#include "import/subprogram.h"

namespace aotc::cli {
namespace {

using import::Json;
using Nodes = std::vector<size_t>;

HostTensor host(const ConstData& d) {
  HostTensor t{d.type.dtype, {}, {d.data, d.data + d.bytes}};
  for (const Expr& e : d.type.dims) t.dims.push_back(*e.as_const());
  return t;
}

ConstData constant(const std::string& name, HostTensor t) {
  ConstData d;
  d.name = name;
  d.type.dtype = t.dtype;
  for (const int64_t n : t.dims) d.type.dims.emplace_back(n);
  const auto bytes = std::make_shared<std::vector<std::byte>>(std::move(t.bytes));
  d.keepalive = bytes, d.data = bytes->data(), d.bytes = bytes->size();
  return d;
}

class Search {
 public:
  Search(const Candidate& whole, const Reducer& reducer, std::string scratch)
      : whole_(whole), r_(reducer), scratch_(std::move(scratch)), best_(whole) {}

  Candidate run() {
    const Nodes all = import::operators_of(whole_.model);
    // As a program of plain tensors in a row it may not fail any more; then it stays as it is.
    if (!accept({part(all), whole_.data}, "as a plain list of inputs and results")) return best_;
    operators(all);
    results();
    if (accept({import::with_known_sizes(best_.model, r_.size), best_.data}, "with fixed sizes")) sizes();
    return best_;
  }

 private:
  Json part(const Nodes& nodes) const { return import::subprogram(whole_.model, {nodes.begin(), nodes.end()}); }

  bool accept(Candidate c, const std::string& what) {
    if (!r_.time_left() || !seen_.insert(c.model.dump()).second || !r_.fails(c)) return false;
    best_ = std::move(c);
    r_.tell(fmt::format("{} operators, {}", import::operators_of(best_.model).size(), what));
    return true;
  }

  /// ddmin: parts, then complements of parts, each time of a finer division.
  void operators(Nodes nodes) {
    for (size_t n = 2; nodes.size() >= 2 && r_.time_left();) {
      n = std::min(n, nodes.size());
      const auto slice = [&](size_t i, bool inside) {
        const size_t begin = i * nodes.size() / n, end = (i + 1) * nodes.size() / n;
        Nodes out;
        for (size_t k = 0; k < nodes.size(); ++k)
          if ((k >= begin && k < end) == inside) out.push_back(nodes[k]);
        return out;
      };
      const auto take = [&](bool inside) -> std::optional<Nodes> {
        for (size_t i = 0; i < n; ++i) {
          Nodes some = slice(i, inside);
          if (!some.empty() && accept({part(some), whole_.data}, "after leaving some out")) return some;
        }
        return std::nullopt;
      };
      if (auto some = take(true)) {
        nodes = std::move(*some), n = 2;
      } else if (auto rest = n > 2 ? take(false) : std::nullopt) {
        nodes = std::move(*rest), n = std::max<size_t>(n - 1, 2);
      } else if (n < nodes.size()) {
        n *= 2;
      } else {
        return;
      }
    }
  }

  void results() {
    for (const std::string& name : import::returned(best_.model))
      if (import::returned(best_.model).size() > 1) accept({import::without_result(best_.model, name), best_.data}, "without a result");
  }

  void sizes() {
    for (const int64_t from : import::input_sizes(best_.model))
      for (int64_t to = 1; to < from; to *= 2)
        if (auto c = resized(from, to); c && accept(std::move(*c), fmt::format("{} where {} was", to, from))) break;
  }

  /// The best so far with another size, and the sizes of results that LibTorch says follow.
  std::optional<Candidate> resized(int64_t from, int64_t to) {
    try {
      Candidate c{import::with_input_size(best_.model, from, to), best_.data};
      Json& values = c.model["graph_module"]["graph"]["tensor_values"];
      for (auto& [name, d] : c.data) {
        HostTensor t = host(d);
        std::vector<int64_t> dims = t.dims;
        std::replace(dims.begin(), dims.end(), from, to);
        if (dims != t.dims) d = constant(name, beginning(t, dims));
      }
      import::save_archive(scratch_, c.model, c.data);
      import::Program program = import::read_archive(scratch_);
      for (const import::PNode& node : program.nodes) {
        const std::vector<std::string> names = import::result_names(node);
        if (names.empty()) continue;
        const auto types = import::result_types(program, node);
        if (!types && known(node)) return std::nullopt;
        for (size_t i = 0; i < names.size(); ++i) {
          const import::TensorMeta meta = types ? types->at(i) : guessed(program.tensors.at(names[i]), from, to);
          program.tensors[names[i]] = meta;
          if (!values.contains(names[i])) continue;
          Json& value = values[names[i]];
          value["sizes"] = value["strides"] = Json::array();
          for (const Expr& e : meta.sizes) value["sizes"].push_back({{"as_int", e.as_const().value()}});
          for (const Expr& e : meta.strides) value["strides"].push_back({{"as_int", e.as_const().value()}});
        }
      }
      return c;
    } catch (const Diagnostic&) { return std::nullopt; }
  }

  static bool known(const import::PNode& node) { return node.target.rfind("aten.", 0) == 0 || node.target.rfind("prims.", 0) == 0; }
  /// Of an operator that LibTorch does not know here, whose results are taken to follow the size; whether the program fails still decides.
  static import::TensorMeta guessed(import::TensorMeta meta, int64_t from, int64_t to) {
    Expr stride = 1;
    for (size_t d = meta.sizes.size(); d-- > 0;) {
      if (meta.sizes[d].is(from)) meta.sizes[d] = to;
      meta.strides.at(d) = stride;
      stride = stride * meta.sizes[d];
    }
    return meta;
  }

  const Candidate& whole_;
  const Reducer& r_;
  const std::string scratch_;
  Candidate best_;
  std::set<std::string> seen_;
};

}  // namespace

std::map<std::string, ConstData> drawn_weights(const std::map<std::string, ConstData>& data) {
  std::mt19937_64 random(0);
  std::map<std::string, ConstData> out;
  for (const auto& [name, d] : data) {
    HostTensor t = host(d);
    const int64_t n = t.elems() * (is_complex(t.dtype) ? 2 : 1);
    const DType parts = t.dtype == DType::c64 ? DType::f32 : t.dtype == DType::c128 ? DType::f64 : t.dtype;
    if (is_float(parts)) {
      std::vector<double> x(static_cast<size_t>(n));
      load_f64(parts, t.bytes.data(), x.data(), n);
      double sum = 0, squares = 0, least = 0;
      for (const double v : x)
        if (std::isfinite(v)) sum += v, squares += v * v, least = std::min(least, v);
      const double mean = n > 0 ? sum / static_cast<double>(n) : 0;
      const double deviation = n > 0 ? std::sqrt(std::max(0.0, squares / static_cast<double>(n) - mean * mean)) : 0;
      std::normal_distribution<double> draw(mean, deviation > 0 ? deviation : 1);
      for (double& v : x) {
        v = deviation > 0 || n == 1 ? draw(random) : mean;
        if (least >= 0) v = std::abs(v);
      }
      store_f64(parts, x.data(), t.bytes.data(), n);
    } else {
      std::vector<int64_t> x(static_cast<size_t>(n));
      load_i64(parts, t.bytes.data(), x.data(), n);
      if (n > 0) {
        std::uniform_int_distribution<int64_t> draw(*std::min_element(x.begin(), x.end()), *std::max_element(x.begin(), x.end()));
        for (int64_t& v : x) v = draw(random);
      }
      store_i64(parts, x.data(), t.bytes.data(), n);
    }
    out.emplace(name, constant(name, std::move(t)));
  }
  return out;
}

Candidate reduced(const Candidate& whole, const Reducer& reducer, const std::string& scratch) {
  return Search(whole, reducer, scratch).run();
}

}  // namespace aotc::cli
