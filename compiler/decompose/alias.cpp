#include "decompose/alias.h"

#include <algorithm>
#include <map>

#include "decompose/indexing.h"

namespace aotc::decompose {
namespace {

std::string_view base_name(std::string_view target) {
  if (target.substr(0, 5) != "aten.") return {};
  target.remove_prefix(5);
  return target.substr(0, target.find('.'));
}

bool contiguous(const Rule& r, const import::TensorMeta& m) {
  Expr expected = 1;
  for (size_t i = m.sizes.size(); i-- > 0;) {
    if (m.sizes[i].is(1)) continue;
    if (i >= m.strides.size() || !r.b.syms().proves_eq(m.strides[i], expected)) return false;
    expected *= m.sizes[i];
  }
  return true;
}

/// An operator that copies only where it must: same when the argument already is what is asked for.
Aliasing same_if_equal(Rule& r) {
  const import::TensorMeta* m = r.meta_arg("self");
  if (!m || (r.has("copy") && r.boolean_or("copy", false))) return Aliasing::none;
  return m->dtype == r.meta_result().dtype ? Aliasing::same : Aliasing::none;
}
Aliasing same_if_contiguous(Rule& r) {
  const import::TensorMeta* m = r.meta_arg("self");
  if (!m) return Aliasing::unclear;
  return contiguous(r, *m) ? Aliasing::same : Aliasing::none;
}
Aliasing reshape_alias(Rule& r) {
  const import::TensorMeta* m = r.meta_arg("self");
  return m && contiguous(r, *m) ? Aliasing::view : Aliasing::unclear;
}
Aliasing always_view(Rule&) { return Aliasing::view; }
Aliasing always_same(Rule&) { return Aliasing::same; }

ValueId reshaped(Rule& r, ValueId x, ValueId v, size_t) { return r.b.reshape(v, r.b.dims(x)); }

/// Runs the permutation on the list of dims, by finding where each dim of the argument went.
Ints permutation(Rule& r, int n) {
  const std::string_view op = base_name(r.node.target);
  Ints p;
  for (int i = 0; i < n; ++i) p.push_back(i);
  if (op == "permute") {
    p = r.integers("dims");
    for (int64_t& d : p) d = d < 0 ? d + n : d;
  } else if (op == "numpy_T") {
    std::reverse(p.begin(), p.end());
  } else if (op == "transpose" || op == "swapdims" || op == "swapaxes") {
    const bool axes = r.has("axis0");
    if (n > 0)
      std::swap(p[static_cast<size_t>(r.dim(axes ? "axis0" : "dim0", n))], p[static_cast<size_t>(r.dim(axes ? "axis1" : "dim1", n))]);
  } else if (n >= 2) {
    std::swap(p[static_cast<size_t>(n) - 2], p[static_cast<size_t>(n) - 1]);
  }
  return p;
}
ValueId permuted(Rule& r, ValueId x, ValueId v, size_t) {
  const Ints p = permutation(r, r.b.rank(x));
  Ints back(p.size());
  for (size_t i = 0; i < p.size(); ++i) back[static_cast<size_t>(p[i])] = static_cast<int64_t>(i);
  return r.b.permute(v, back);
}

ValueId sliced(Rule& r, ValueId x, ValueId v, size_t) {
  const int d = r.dim("dim", r.b.rank(x));
  const Expr start = slice_bound(r, "start", r.b.dims(x)[static_cast<size_t>(d)], 0);
  return write_slice({r.b, x}, {r.b, v}, d, start, r.has("step") ? r.integer_or("step", 1) : 1);
}

ValueId selected(Rule& r, ValueId x, ValueId v, size_t) {
  const int d = r.dim("dim", r.b.rank(x));
  const Expr i = wrap_index(r, r.sym("index"), r.b.dims(x)[static_cast<size_t>(d)]);
  return write_slice({r.b, x}, T(r.b, v).unsqueeze(d), d, i, 1);
}

ValueId piece(Rule& r, ValueId x, ValueId v, size_t which) {
  const int d = r.has("dim") ? r.dim("dim", r.b.rank(x)) : 0;
  Expr at = 0;
  const std::vector<TensorType> types = r.meta_list();
  for (size_t i = 0; i < which; ++i) at += types[i].dims.at(static_cast<size_t>(d));
  return write_slice({r.b, x}, {r.b, v}, d, at, 1);
}

ValueId unbound(Rule& r, ValueId x, ValueId v, size_t which) {
  const int d = r.has("dim") ? r.dim("dim", r.b.rank(x)) : 0;
  return write_slice({r.b, x}, T(r.b, v).unsqueeze(d), d, static_cast<int64_t>(which), 1);
}

ValueId diagonal(Rule& r, ValueId xv, ValueId v, size_t) {
  const T x(r.b, xv);
  if (x.rank() != 2 || r.integer("offset") != 0 || !r.b.syms().proves_eq(x.dim(0), x.dim(1)))
    r.refuse("an in-place write to a diagonal other than the main one of a square matrix", "use torch.diagonal_scatter");
  const T eye = iota(r.b, x.dims(), 0) == iota(r.b, x.dims(), 1);
  return where(eye, T(r.b, v).unsqueeze(0).expand(x.dims()), x);
}

ValueId strided(Rule& r, ValueId x, ValueId v, size_t) {
  const Expr start = r.none("storage_offset") ? Expr(0) : r.sym("storage_offset");
  return write_strided({r.b, x}, {r.b, v}, r.syms("stride"), start);
}

using Kind = Aliasing (*)(Rule&);
using Back = ValueId (*)(Rule&, ValueId, ValueId, size_t);
struct Row {
  Kind kind;
  Back back;
};

const std::map<std::string_view, Row>& rows() {
  static const std::map<std::string_view, Row> table = {
      {"alias", {always_same, nullptr}},
      {"detach", {always_same, nullptr}},
      {"lift_fresh", {always_same, nullptr}},
      {"real", {always_same, nullptr}},
      {"resolve_conj", {always_same, nullptr}},
      {"resolve_neg", {always_same, nullptr}},
      {"positive", {always_same, nullptr}},
      {"dropout", {always_same, nullptr}},
      {"feature_dropout", {always_same, nullptr}},
      {"alpha_dropout", {always_same, nullptr}},
      {"contiguous", {same_if_contiguous, nullptr}},
      {"to", {same_if_equal, nullptr}},
      {"type_as", {same_if_equal, nullptr}},
      {"view", {always_view, reshaped}},
      {"view_as", {always_view, reshaped}},
      {"_reshape_alias", {always_view, reshaped}},
      {"squeeze", {always_view, reshaped}},
      {"unsqueeze", {always_view, reshaped}},
      {"unflatten", {always_view, reshaped}},
      {"atleast_1d", {always_view, reshaped}},
      {"atleast_2d", {always_view, reshaped}},
      {"atleast_3d", {always_view, reshaped}},
      {"reshape", {reshape_alias, reshaped}},
      {"reshape_as", {reshape_alias, reshaped}},
      {"flatten", {reshape_alias, reshaped}},
      {"ravel", {reshape_alias, reshaped}},
      {"permute", {always_view, permuted}},
      {"transpose", {always_view, permuted}},
      {"swapaxes", {always_view, permuted}},
      {"swapdims", {always_view, permuted}},
      {"t", {always_view, permuted}},
      {"mT", {always_view, permuted}},
      {"numpy_T", {always_view, permuted}},
      {"movedim", {always_view, nullptr}},
      {"select", {always_view, selected}},
      {"slice", {always_view, sliced}},
      {"narrow", {always_view, sliced}},
      {"split", {always_view, piece}},
      {"split_with_sizes", {always_view, piece}},
      {"chunk", {always_view, piece}},
      {"tensor_split", {always_view, nullptr}},
      {"unbind", {always_view, unbound}},
      {"diagonal", {always_view, diagonal}},
      {"expand", {always_view, nullptr}},
      {"expand_as", {always_view, nullptr}},
      {"broadcast_to", {always_view, nullptr}},
      {"unfold", {always_view, nullptr}},
      {"as_strided", {always_view, strided}},
  };
  return table;
}

const Row* find_row(const import::PNode& node) {
  const auto it = rows().find(base_name(node.target));
  return it == rows().end() ? nullptr : &it->second;
}

}  // namespace

std::string aliased_argument(const import::PNode& node) {
  for (const import::NamedArg& a : node.args)
    if (const auto* t = std::get_if<import::TensorRef>(&a.value)) return t->name;
  return {};
}

Aliasing aliasing_of(Rule& r) {
  const Row* row = find_row(r.node);
  return row ? row->kind(r) : Aliasing::none;
}

ValueId write_back(Rule& r, ValueId argument, ValueId updated, size_t result) {
  const Row* row = find_row(r.node);
  if (!row || !row->back)
    r.refuse(fmt::format("an in-place write through {} is not supported", r.node.target), "export with run_decompositions()");
  return row->back(r, argument, updated, result);
}

}  // namespace aotc::decompose
