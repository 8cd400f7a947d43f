// scatter and index_put (kernels/cuda/scatter.cuh): deterministic, a thread a line or a thread an element.
#include <algorithm>

#include "emit/cuda/code.h"
#include "emit/cuda/library.h"
#include "forms/cuda/common.h"
#include "forms/cuda/forms.h"
#include "forms/cuda/simt_tile.h"
#include "forms/library_attrs.h"

namespace aotc::forms::cuda {

using emit::cuda::IndexPutCode;
using emit::cuda::ScatterCode;
using emit::cuda::UpdateOrder;
using loop::LibraryKernel;

namespace {

constexpr int kThreads = 256;

struct Order {
  int by_element = 0;
  static std::span<const Member<Order>> members() {
    static constexpr Member<Order> kRows[] = {{{"by_element", 0, 1}, &Order::by_element}};
    return kRows;
  }
};
UpdateOrder order_of(const Choice& c) { return unpack<Order>(c).by_element ? UpdateOrder::by_element : UpdateOrder::by_line; }

class Updates : public FormOf<LibraryKernel> {
 public:
  std::span<const Field> fields() const override { return fields_of<Order>(); }

 protected:
  /// Both orders: `lines` threads make `updates` each and copy `extent`, or one of each element looks at them.
  std::vector<Candidate> both(const Site& s, const Expr& lines, const Expr& extent, const Expr& updates, bool copies) const {
    const auto n = [&](const Expr& e) { return static_cast<double>(at_least_one(e, s)); };
    const double filled = std::max(1.0, n(lines) / (s.machine.cores * 1024.0)), per_ns = s.machine.cores * 64.0;
    const double line = kLaunchNs + filled * (n(updates) * 400 + (copies ? n(extent) * 20 : 0));
    const double element = kLaunchNs + n(updates) * 8 + n(lines) * n(extent) * n(updates) / per_ns;
    return {{pack(*this, Order{0}), Fit::yes(), line}, {pack(*this, Order{1}), Fit::yes(), element}};
  }
  StepSpec points_step(const LibraryKernel& k, const Expr& points) const {
    StepSpec f;
    f.kind = StepKind::cuda;
    f.symbol = emit::cuda::function_name(k.name);
    f.block[0] = kThreads;
    f.grid[0] = min(ceildiv(points, kThreads), kMaxGrid);
    return f;
  }
};

class ScatterForm final : public Updates {
 public:
  std::string_view name() const override { return "cuda_scatter"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return {k.algorithm == "scatter", ""}; }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const Dims d = dims(k);
    std::vector<Candidate> all = both(s, d.lines, d.extent, d.sizes[d.rank + d.dim], true);
    if (scatter_reduce(k) == AOTC_SCATTER_MEAN) all[0].fit = refuse("a line has no place for its counts");
    return all;
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const Dims d = dims(k);
    StepSpec f = points_step(k, order_of(c) == UpdateOrder::by_line ? d.lines : d.lines * d.extent);
    f.sizes = d.sizes;
    return f;
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    const Dims d = dims(k);
    const ScatterCode code{static_cast<int>(d.rank), static_cast<int>(d.dim), scatter_reduce(k), flag(k, Attr::include_self, true)};
    return emit::cuda::emit_scatter(k.params.begin()->dtype, code, order_of(c), kThreads, symbol);
  }

 private:
  /// Of rank 1 at least; sizes: the dims of x, of the index, of src.
  struct Dims {
    size_t rank, dim;
    Exprs sizes;
    Expr lines = 1, extent;
  };
  static Dims dims(const LibraryKernel& k) {
    Dims d{static_cast<size_t>(*k.sizes.at(0).as_const()), 0, {k.sizes.begin() + 1, k.sizes.end()}, 1, 1};
    if (d.rank == 0) d.rank = 1, d.sizes = {1, 1, 1};
    const auto rank = static_cast<int64_t>(d.rank);
    if (auto dim = k.attrs.find(Attr::dim); dim != k.attrs.end())
      d.dim = static_cast<size_t>((std::get<int64_t>(dim->second) + rank) % rank);
    d.extent = d.sizes[d.dim];
    for (size_t i = 0; i < d.rank; ++i)
      if (i != d.dim) d.lines *= d.sizes[i];
    return d;
  }
};

class IndexPutForm final : public Updates {
 public:
  std::string_view name() const override { return "cuda_index_put"; }

 protected:
  Fit fits(const LibraryKernel& k, const Site&) const override { return {k.algorithm == "index_put", ""}; }
  std::vector<Candidate> candidates(const LibraryKernel& k, const Site& s) const override {
    const Dims d = dims(k);
    return both(s, d.free, d.indexed, d.entries, true);
  }
  StepSpec step(const LibraryKernel& k, const Site&, const Choice& c) const override {
    const Dims d = dims(k);
    StepSpec f = points_step(k, order_of(c) == UpdateOrder::by_line ? d.free : d.free * d.indexed);
    f.sizes = d.sizes;
    return f;
  }
  std::string source(const LibraryKernel& k, const Site&, const Choice& c, const std::string& symbol) const override {
    return emit::cuda::emit_index_put(k.params.begin()->dtype, dims(k).code, order_of(c), kThreads, symbol);
  }

 private:
  struct Dims {
    IndexPutCode code;
    Exprs sizes;  ///< of x, of the index tensors
    Expr free = 1, indexed = 1, entries = 1;
  };
  static Dims dims(const LibraryKernel& k) {
    Dims d;
    auto at = k.sizes.begin();
    auto number = [&] { return static_cast<int>(*(at++)->as_const()); };
    d.code.rank = number();
    d.sizes.assign(at, at + d.code.rank);
    at += d.code.rank;
    d.code.n_index = number();
    d.code.indexed = 0;
    for (int i = 0; i < d.code.n_index; ++i) d.code.indexed |= uint64_t{1} << number();
    d.code.index_rank = number();
    for (int i = 0; i < d.code.index_rank; ++i, ++at) {
      d.sizes.push_back(*at);
      d.entries *= *at;
    }
    d.code.out_pos = number();
    d.code.accumulate = flag(k, Attr::accumulate, false);
    for (int i = 0; i < d.code.rank; ++i) (d.code.indexed >> i & 1 ? d.indexed : d.free) *= d.sizes[static_cast<size_t>(i)];
    return d;
  }
};

}  // namespace

const Form& scatter() {
  static const ScatterForm form;
  return form;
}
const Form& index_put() {
  static const IndexPutForm form;
  return form;
}

}  // namespace aotc::forms::cuda
