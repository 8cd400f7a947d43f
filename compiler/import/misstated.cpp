#include "import/misstated.h"

#include <algorithm>
#include <set>

#include "import/aliases.h"
#include "import/operands.h"
#include "import/result_types.h"

namespace aotc::import {
namespace {

const Arg* find(const PNode& node, std::string_view name) {
  for (const NamedArg& a : node.args)
    if (a.name == name) return &a.value;
  return nullptr;
}

void set_sizes(TensorMeta& m, std::vector<Expr> sizes) {
  m.sizes = std::move(sizes);
  m.strides.assign(m.sizes.size(), Expr(1));
  for (size_t i = m.sizes.size(); i-- > 1;) m.strides[i - 1] = m.strides[i] * max(m.sizes[i], 1);
  m.storage_offset = 0;
}

/// torch 2.11 on processors where oneDNN has the layer: its meta kernel keeps the dim of the one layer that it is called for, so that the
/// states of the results have sizes [L, 1, B, H]. They are like the states of the operands.
std::vector<std::string> correct_lstm(Program& p, const PNode& node) {
  const Arg* hx = find(node, "hx");
  const auto* states = hx ? std::get_if<TensorList>(hx) : nullptr;
  if (!states || states->size() != 2 || node.results.size() != 3) return {};
  std::vector<std::string> changed;
  for (size_t i = 0; i < 2; ++i) {
    const auto* result = std::get_if<TensorRef>(&node.results[i + 1]);
    const auto stated = result ? p.tensors.find(result->name) : p.tensors.end();
    const auto state = p.tensors.find((*states)[i].name);
    if (stated == p.tensors.end() || state == p.tensors.end()) continue;
    const std::vector<Expr>& right = state->second.sizes;
    const std::vector<Expr>& wrong = stated->second.sizes;
    if (right.size() != 3 || wrong.size() != 4 || !wrong[1].is(1)) continue;
    if (wrong[0] != right[0] || wrong[2] != right[1] || wrong[3] != right[2]) continue;
    set_sizes(stated->second, right);
    changed.push_back(result->name);
  }
  return changed;
}

/// torch 2.11: its meta kernel gives the places and counts of equal elements, or rows, the type of these.
std::vector<std::string> correct_unique(Program& p, const PNode& node) {
  std::vector<std::string> changed;
  for (size_t i = 1; i < node.results.size(); ++i) {
    const auto* result = std::get_if<TensorRef>(&node.results[i]);
    const auto stated = result ? p.tensors.find(result->name) : p.tensors.end();
    if (stated == p.tensors.end() || stated->second.dtype == DType::i64) continue;
    stated->second.dtype = DType::i64;
    changed.push_back(result->name);
  }
  return changed;
}

/// torch 2.11: its meta kernel gives sums of weights the type of counts. They are float32 of float32, float64 of all others.
std::vector<std::string> correct_bincount(Program& p, const PNode& node) {
  const Arg* weights = find(node, "weights");
  const auto* given = weights ? std::get_if<TensorRef>(weights) : nullptr;
  const auto of = given ? p.tensors.find(given->name) : p.tensors.end();
  const auto* result = node.results.size() == 1 ? std::get_if<TensorRef>(&node.results[0]) : nullptr;
  const auto stated = result ? p.tensors.find(result->name) : p.tensors.end();
  if (of == p.tensors.end() || stated == p.tensors.end()) return {};
  const DType right = of->second.dtype == DType::f32 ? DType::f32 : DType::f64;
  if (stated->second.dtype == right) return {};
  stated->second.dtype = right;
  return {result->name};
}

struct Row {
  std::string_view target;
  std::vector<std::string> (*correct)(Program&, const PNode&);  ///< gives the results that were misstated
};
constexpr Row kRows[] = {
    {"aten.lstm.input", correct_lstm},
    {"aten._unique2.default", correct_unique},
    {"aten.unique_consecutive.default", correct_unique},
    {"aten.unique_dim.default", correct_unique},
    {"aten.bincount.default", correct_bincount},
};

template <class Fn>
void each_operand(const PNode& node, Fn&& fn) {
  for (const NamedArg& a : node.args) each_tensor(a.value, fn);
}

/// The results of an operator some operand of which was misstated; gives those that were, too.
std::vector<std::string> follow(Program& p, const PNode& node, const std::string& first) {
  const std::vector<std::string> names = result_names(node);
  if (names.empty()) return {};
  const auto fail = [&](const std::string& why) {
    return Diagnostic({p.file, node.path, node.name, node.source},
                      fmt::format("the archive misstates the type of '{}', from which this is computed, and {} does not say its own: {}",
                                  first, node.target, why))
        .note("export with torch 2.13 or later, or with sizes that are fixed");
  };
  const Result<std::vector<TensorMeta>> types = result_types(p, node);
  if (!types) throw fail(types.why());
  if (types->size() != names.size()) throw fail("it gives another number of results");
  std::vector<std::string> changed;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto stated = p.tensors.find(names[i]);
    if (stated == p.tensors.end()) continue;
    if (stated->second.sizes == (*types)[i].sizes && stated->second.dtype == (*types)[i].dtype) continue;
    stated->second.dtype = (*types)[i].dtype;
    set_sizes(stated->second, (*types)[i].sizes);
    stated->second.strides = (*types)[i].strides;
    stated->second.storage_offset = (*types)[i].storage_offset;
    changed.push_back(names[i]);
  }
  return changed;
}

/// Whether elements of the two, which are alike, lie otherwise to one another.
bool strides_differ(const TensorMeta& a, const TensorMeta& b, const SymTable& syms) {
  if (a.strides.size() != b.strides.size()) return true;
  for (size_t d = 0; d < a.sizes.size(); ++d)
    if (!a.sizes[d].is(1) && !syms.proves_eq(a.strides[d], b.strides[d])) return true;
  return false;
}

/// The operand that the node gives back: by its kind, or since it is what the node wrote.
bool gives_back(const PNode& node, const Alias& alias, const TensorMeta& in, const TensorMeta& out) {
  const std::string_view name = std::string_view(node.target).substr(0, node.target.rfind('.'));
  const bool written = !name.empty() && name.back() == '_' && functional_view(node.target).empty();
  return (alias.kind == Alias::same || written) && in.sizes == out.sizes && in.dtype == out.dtype;
}

struct Moved {
  Expr by;               ///< how much later it begins than stated
  bool strides = false;  ///< its strides are others, too
};

/// The places in memory of what gives its operand back. torch.export traces dropout, in evaluation too, by a decomposition that copies:
/// places are misstated from there on, through all views of it. Where they are not known now, strides are none.
void correct_places(Program& p) {
  std::map<std::string, Moved> moved;
  for (const PNode& node : p.nodes) {
    const std::vector<std::string> names = result_names(node);
    std::vector<Alias> aliases = aliases_of(node, p.tensors, p.syms);
    each_operand(node, [&](const std::string& name) {
      if (!aliases.empty() && aliases[0].of.empty()) aliases[0].of = name;  // what an in-place operator writes
    });
    for (size_t i = 0; i < names.size(); ++i) {
      const auto in = p.tensors.find(aliases[i].of), out = p.tensors.find(names[i]);
      if (in == p.tensors.end() || out == p.tensors.end()) continue;
      TensorMeta& stated = out->second;
      if (gives_back(node, aliases[i], in->second, stated)) {
        const Moved by{p.syms.simplify(in->second.storage_offset - stated.storage_offset), strides_differ(in->second, stated, p.syms)};
        if (by.by.is(0) && !by.strides) continue;
        stated.strides = in->second.strides;
        stated.storage_offset = in->second.storage_offset;
        moved.emplace(names[i], by);
        continue;
      }
      const auto from = moved.find(aliases[i].of);
      if (from == moved.end() || !may_alias(node.target)) continue;
      if (aliases[i].kind == Alias::none) {
        stated.storage_offset = 0;
        continue;
      }
      moved.emplace(names[i], Moved(from->second));
      if (!from->second.strides) {
        const Arg* start = views_memory(node) ? find(node, "storage_offset") : nullptr;
        if (!start || std::holds_alternative<NoneArg>(*start))
          stated.storage_offset = p.syms.simplify(stated.storage_offset + from->second.by);
        continue;
      }
      const Result<std::vector<TensorMeta>> types = result_types(p, node);
      if (types && types->size() == names.size() && (*types)[i].sizes == stated.sizes) {
        stated.strides = (*types)[i].strides;
        stated.storage_offset = (*types)[i].storage_offset;
      } else {
        stated.strides.clear();
      }
    }
  }
}

}  // namespace

void correct_misstated(Program& p) {
  std::map<std::string, std::string> misstated;  // tensor → the first one, from which it is computed
  for (const PNode& node : p.nodes) {
    const std::string* first = nullptr;
    each_operand(node, [&](const std::string& name) {
      if (const auto it = misstated.find(name); it != misstated.end()) first = &it->second;
    });
    if (first)
      for (const std::string& name : follow(p, node, *first)) misstated.emplace(name, *first);
    for (const Row& row : kRows)
      if (row.target == node.target)
        for (const std::string& name : row.correct(p, node)) misstated.emplace(name, name);
  }
  correct_places(p);
  for (Program& s : p.subgraphs) correct_misstated(s);
}

}  // namespace aotc::import
