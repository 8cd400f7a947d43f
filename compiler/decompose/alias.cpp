#include "decompose/alias.h"

#include <algorithm>

#include "base/words.h"
#include "decompose/bits.h"
#include "decompose/complex.h"
#include "decompose/indexing.h"
#include "graph/infer.h"

namespace aotc::decompose {
namespace {

std::string_view base_name(std::string_view target) {
  if (target.substr(0, 5) != "aten.") return {};
  target.remove_prefix(5);
  return target.substr(0, target.find('.'));
}

ValueId reshaped(Rule& r, ValueId x, ValueId v, size_t) { return r.b.reshape(v, r.b.dims(x)); }

/// The order of dims, by finding where each dim of the argument went.
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

ValueId conjugated(Rule& r, ValueId, ValueId v, size_t) {
  if (!r.pairs) return v;
  const Complex z = apart({r.b, v});
  return join({z.re, -z.im});
}
ValueId conjugate_transposed(Rule& r, ValueId x, ValueId v, size_t) {
  const int last = r.b.rank(x) - (r.pairs ? 2 : 1);
  return conjugated(r, x, r.b.transpose(v, last - 1, last), 0);
}

ValueId sliced(Rule& r, ValueId x, ValueId v, size_t) {
  if (r.read_integer("start") || (r.has("step") && r.read_integer("step"))) return kNone<ValueId>;
  const int d = r.dim("dim", r.b.rank(x));
  const Expr start = slice_bound(r, "start", r.b.dims(x)[static_cast<size_t>(d)], 0);
  const Expr step = slice_step(r);
  const Expr &size = r.b.dims(x)[static_cast<size_t>(d)], &n = r.b.dims(v)[static_cast<size_t>(d)];
  const bool fits = holds(r.b.graph(), ShapeGuard::Kind::le, start + (n - 1) * step + 1, size);
  return fits || n.is(0) ? write_slice({r.b, x}, {r.b, v}, d, start, step) : write_within({r.b, x}, {r.b, v}, d, start, step);
}

ValueId selected(Rule& r, ValueId x, ValueId v, size_t) {
  if (r.read_integer("index")) return kNone<ValueId>;
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
  if (x.rank() != 2 || r.integer("offset") != 0 || !r.b.syms().proves_eq(x.dim(0), x.dim(1))) return kNone<ValueId>;
  const T eye = iota(r.b, x.dims(), 0) == iota(r.b, x.dims(), 1);
  return where(eye, T(r.b, v).unsqueeze(0).expand(x.dims()), x);
}

struct Row {
  std::string_view views;
  ValueId (*back)(Rule&, ValueId, ValueId, size_t);
};
constexpr Row kRows[] = {
    {"view view_as _unsafe_view _reshape_alias squeeze unsqueeze unflatten atleast_1d atleast_2d atleast_3d reshape reshape_as flatten "
     "ravel sum_to_size",
     reshaped},
    {"permute transpose swapaxes swapdims t mT numpy_T", permuted},
    {"select", selected},
    {"slice narrow", sliced},
    {"split split_with_sizes unsafe_split unsafe_split_with_sizes chunk unsafe_chunk", piece},
    {"unbind", unbound},
    {"diagonal", diagonal},
    {"conj _conj", conjugated},
    {"mH adjoint matrix_H", conjugate_transposed},
};
constexpr std::string_view kConjugate = "conj _conj mH adjoint matrix_H";

bool windows_overlap(Rule& r) {
  const std::optional<int64_t> size = r.sym("size").as_const();
  return !size || *size > r.integer("step");
}

/// Strides in order, each past what those before it reach.
bool strides_overlap(Rule& r) {
  const std::vector<Expr> sizes = r.syms("size"), strides = r.syms("stride");
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::optional<int64_t> n = sizes[i].as_const(), stride = strides[i].as_const();
    if (!n || !stride) return true;
    if (*n > 1) steps.emplace_back(*stride, *n);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, n] : steps) {
    if (stride <= reach) return true;
    reach += (n - 1) * stride;
  }
  return false;
}

/// Elements along a new dim, or along one that was 1, are one element.
bool expanded(Rule&) { return true; }

struct OverlapRow {
  std::string_view views;
  bool (*overlaps)(Rule&);
};
constexpr OverlapRow kOverlaps[] = {
    {"unfold", windows_overlap},
    {"as_strided", strides_overlap},
    {"expand expand_as broadcast_to broadcast_tensors meshgrid", expanded},
};

}  // namespace

bool conjugates(const Rule& r) { return r.pairs && has_word(kConjugate, base_name(r.node.target)); }

bool may_overlap(Rule& r) {
  const std::string_view name = base_name(r.node.target);
  return std::any_of(std::begin(kOverlaps), std::end(kOverlaps),
                     [&](const OverlapRow& row) { return has_word(row.views, name) && row.overlaps(r); });
}

ValueId write_back(Rule& r, ValueId operand, ValueId updated, size_t result) {
  const std::string_view name = base_name(r.node.target);
  if (r.b.type(operand).dtype != r.b.type(updated).dtype) return retyped({r.b, updated}, r.b.type(operand).dtype);
  for (const Row& row : kRows)
    if (has_word(row.views, name)) return row.back(r, operand, updated, result);
  return kNone<ValueId>;
}

}  // namespace aotc::decompose
