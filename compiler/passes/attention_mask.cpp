#include "passes/attention_mask.h"

#include <cmath>

#include "graph/constant_store.h"
#include "graph/infer.h"
#include "graph/scalar.h"

namespace aotc::passes {
namespace {

using Found = std::optional<ValueId>;

/// What a constant mask shows, element by element.
struct Shown {
  bool known = false, all = true, triangle = true;
  bool is_triangle() const { return known && triangle; }
};

Shown shown_by(const Graph& g, ValueId mask) {
  const Node* e = g.def(mask);
  if (e && e->op == Op::expand) mask = e->inputs[0];
  const Value& v = g.values[mask];
  if (v.kind != ValueKind::constant) return {};
  const ConstData& c = g.constants[v.constant];
  if (!has_data(c)) return {};
  const DType t = c.type.dtype;
  const int64_t columns = *c.type.dims[3].as_const(), rows = *c.type.dims[2].as_const(), count = *c.type.elems().as_const();
  Shown s{true, true, rows == columns};
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* p = c.data + i * dtype_bytes(t);
    bool show;
    if (is_bool(t)) {
      show = *p != std::byte{0};
    } else {
      double x;
      load_f64(t, p, &x, 1);
      if (x != 0 && !(x <= kHiddenScore)) return {};
      show = x == 0;
    }
    s.all = s.all && show;
    s.triangle = s.triangle && show == (i % columns <= i / columns % rows);
  }
  // Zeros alone may be any bias before it is trained; what hides keys is a mask.
  return c.exchangeable && s.all ? Shown{} : s;
}

/// The position along dim 2 (query) or 3 (key) of a mask: an iota seen through views, starting at 0.
std::optional<int> position_dim(const Rewriter& r, ValueId v) {
  const Exprs dims = r.dims(v);
  if (dims.size() != 4) return {};
  if (const Node* e = r.def(v, Op::expand)) v = e->inputs[0];
  const Exprs column = r.dims(v);
  const Node* n = r.def(v, Op::reshape);
  const ValueId root = n ? n->inputs[0] : v;
  const Node* iota = r.def(root, Op::iota);
  if (!iota) return {};
  if (root == v) {
    const int64_t d = iota->get<int64_t>(Attr::dim);
    return d >= 2 ? std::optional<int>(static_cast<int>(d)) : std::nullopt;
  }
  // A reshaped line of positions: where its one long dim stands.
  std::optional<int> at;
  for (int i = 0; i < 4; ++i) {
    if (column[i].is(1)) continue;
    if (at || i < 2) return {};
    at = i;
  }
  return r.g.type(root).rank() == 1 || r.same(r.dims(root)[iota->get<int64_t>(Attr::dim)], r.g.type(root).elems()) ? at : std::nullopt;
}

/// key <= query, computed from positions.
bool is_triangle(const Rewriter& r, ValueId mask) {
  if (const Node* e = r.def(mask, Op::expand)) mask = e->inputs[0];
  const Node* n = r.g.def(mask);
  if (!n || !is_bool(r.dtype(mask))) return false;
  if (n->op == Op::reshape) {  // ones in front of a plain [L, S] mask
    const Exprs d = r.dims(mask), inner = r.dims(n->inputs[0]);
    const Node* c = r.g.def(n->inputs[0]);
    if (inner.size() != 2 || !c || !r.same(d[2], inner[0]) || !r.same(d[3], inner[1]) || (c->op != Op::le && c->op != Op::ge)) return false;
    auto along = [&](ValueId v) -> int64_t {
      int64_t shift = 0;
      const Exprs at = r.dims(v);
      if (const Node* e = r.def(v, Op::expand)) v = e->inputs[0];
      const Exprs line = r.dims(v);
      if (const Node* s = r.def(v, Op::reshape); s && r.g.type(s->inputs[0]).rank() == 1) {
        v = s->inputs[0];
        shift = line[0].is(1) ? 1 : line[1].is(1) ? 0 : -1;
      }
      const Node* i = r.def(v, Op::iota);
      return i && shift >= 0 ? i->get<int64_t>(Attr::dim) + shift : -1;
    };
    const int64_t a = along(c->inputs[0]), b = along(c->inputs[1]);
    return c->op == Op::le ? a == 1 && b == 0 : a == 0 && b == 1;
  }
  if (n->op != Op::le && n->op != Op::ge) return false;
  const auto a = position_dim(r, n->inputs[0]), b = position_dim(r, n->inputs[1]);
  return a && b && (n->op == Op::le ? *a == 3 && *b == 2 : *a == 2 && *b == 3);
}

Found with_mask(Rewriter& r, const Node& n, Found mask, bool causal, bool no_nan = false) {
  std::vector<ValueId> inputs(n.inputs.begin(), n.inputs.begin() + 3);
  if (mask) inputs.push_back(*mask);
  if (const size_t sinks = attention_inputs(r.g, n).sinks) inputs.push_back(n.inputs[sinks]);
  auto attrs = n.attrs;
  attrs[Attr::causal] = causal;
  if (no_nan) attrs[Attr::nan_rows] = false;
  if (!mask || is_bool(r.dtype(*mask))) attrs.erase(Attr::mask_fills);
  return r.b.make1(Op::attention, std::move(inputs), std::move(attrs));
}

struct Picks {
  ValueId shown;
  bool no_nan;  ///< rows that show no key are numbers in eager
};

/// where(c, 0, -inf) as c; also where(c, 0, a finite number that hides) if each row shows a key: rows that show none have equal scores
/// there. Beside sinks those have no weight, and the row is zero; were its sink minus infinity, it would be the mean of all values.
std::optional<Picks> as_bool(Rewriter& r, ValueId mask, bool sinks) {
  const Exprs dims = r.dims(mask);
  if (const Node* e = r.def(mask, Op::expand)) mask = e->inputs[0];
  const Node* shape = r.def(mask, Op::reshape);
  const Exprs inner = r.dims(mask);
  const Node* cast = r.def(shape ? shape->inputs[0] : mask, Op::cast);
  const Node* w = r.def(cast ? cast->inputs[0] : shape ? shape->inputs[0] : mask, Op::where);
  if (!w) return {};
  const auto a = splat_value(r.g, w->inputs[1]), b = splat_value(r.g, w->inputs[2]);
  if (!a || !b) return {};
  const bool hides_true = *b == 0;
  const double fill = hides_true ? *a : *b;
  if ((hides_true ? *b : *a) != 0 || !(fill <= kHiddenScore)) return {};
  const ValueId c = hides_true ? r.b.unary(Op::logical_not, w->inputs[0]) : w->inputs[0];
  const ValueId shown = r.b.expand(r.b.reshape(c, inner), dims);
  if (std::isinf(fill) || is_triangle(r, shown)) return Picks{shown, false};
  return sinks ? std::optional(Picks{shown, true}) : std::nullopt;
}

}  // namespace

Found simpler_mask(Rewriter& r, const Node& n) {
  const AttentionInputs in = attention_inputs(r.g, n);
  if (!in.mask || in.from || in.scales) return {};
  const ValueId mask = n.inputs[in.mask];
  const bool causal = n.get<bool>(Attr::causal);
  if (const auto s = splat_value(r.g, mask)) {
    const bool hides_nothing = is_bool(r.dtype(mask)) ? *s != 0 : *s == 0;
    return hides_nothing ? with_mask(r, n, {}, causal) : Found();
  }
  const Shown s = shown_by(r.g, mask);
  if (s.known && s.all) return with_mask(r, n, {}, causal);
  if (s.is_triangle() || is_triangle(r, mask)) return with_mask(r, n, {}, true);
  const Node* both = r.g.def(mask);
  if (both && both->op == Op::bit_and && is_bool(r.dtype(mask)))
    for (int i : {0, 1})
      if (is_triangle(r, both->inputs[i]) || shown_by(r.g, both->inputs[i]).is_triangle())
        return with_mask(r, n, both->inputs[1 - i], true);
  if (is_float(r.dtype(mask)))
    if (const auto m = as_bool(r, mask, in.sinks != 0)) return with_mask(r, n, m->shown, causal, m->no_nan);
  if (const Node* e = r.def(mask, Op::expand)) {  // the kernel repeats dims of size 1 itself, all but the last
    Exprs dims = r.dims(e->inputs[0]);
    dims.back() = r.dims(mask).back();
    if (!same_dims(r.g, dims, r.dims(mask))) return with_mask(r, n, r.b.expand(e->inputs[0], dims), causal);
  }
  const DType t = r.dtype(mask);
  if (is_float(t) && t != DType::f32 && t != r.dtype(n.inputs[0])) return with_mask(r, n, r.b.cast(mask, DType::f32), causal);
  return {};
}

}  // namespace aotc::passes
