#include "passes/passes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "graph/infer.h"
#include "graph/scalar.h"
#include "passes/attention_mask.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

using Found = std::optional<ValueId>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Scores of queries against keys on the way to a softmax, found from the softmax towards the product.
struct Scores {
  const Node* product = nullptr;
  double scale = 1;
  struct Added {
    ValueId mask;  ///< float, broadcastable to the scores
    double scale;  ///< applied after it was added
  };
  std::vector<Added> added;
  bool fills = false;              ///< some of `added` stands for a fill
  double over = kInfinity;         ///< times `scale`, what becomes infinite in a narrower type on the way to the softmax
  ValueId sinks = kNone<ValueId>;  ///< one more score of each row, behind the others
  double sinks_over = kInfinity;   ///< what of them becomes infinite in a narrower type
  bool shifted = false;            ///< the maximum of each row was taken from it: NaN where that is minus infinity
};

class Matcher {
 public:
  explicit Matcher(Rewriter& r) : r_(r), b_(r.b) {}

  /// n: the product of probabilities and values.
  Found match(const Node& n) {
    Found p = batch_root(n.inputs[0], 1);
    const Node* without_sink = p ? r_.def(*p, Op::slice) : nullptr;
    if (without_sink) p = batch_root(without_sink->inputs[0], 1);
    const auto s = p ? softmax_of(*p) : std::nullopt;
    if (!s || r_.g.type(s->input).rank() > 4) return {};
    const auto scores = find_scores(s->input, without_sink);
    if (!scores) return {};
    set_batch(s->input);
    return build(n, *scores, s->nan_rows || scores->shifted);
  }

 private:
  bool last_two_equal(ValueId a, ValueId b) const {
    const Exprs x = r_.dims(a), y = r_.dims(b);
    if (x.size() < 2 || y.size() < 2) return false;
    return r_.same(x.back(), y.back()) && r_.same(x[x.size() - 2], y[y.size() - 2]);
  }

  /// Through casts between floating types and reshapes that only regroup batch dims; none when something else uses a value on the way.
  /// over: becomes the least number that is infinite after a cast on the way, where that is less.
  Found batch_root(ValueId v, size_t uses, double* over = nullptr) const {
    while (true) {
      if (r_.uses(v) > uses) return {};
      const Node* n = r_.g.def(v);
      const bool regroup = n && n->op == Op::reshape && last_two_equal(v, n->inputs[0]);
      const bool cast = n && n->op == Op::cast && is_float(r_.dtype(n->inputs[0])) && is_float(r_.dtype(v));
      if (!regroup && !cast) return v;
      if (cast && over) *over = std::min(*over, least_infinite(r_.dtype(v)));
      v = n->inputs[0];
      uses = 1;
    }
  }
  /// The least number that rounds to infinity.
  static double least_infinite(DType t) {
    if (t == DType::f16) return 65520;
    return t == DType::bf16 ? 0x1.ffp127 : t == DType::f32 ? 0x1.ffffffp127 : kInfinity;
  }

  // ---- softmax
  ValueId through_broadcast(ValueId v) const {
    for (const Node* n = r_.g.def(v); n && (n->op == Op::expand || n->op == Op::reshape); n = r_.g.def(v)) v = n->inputs[0];
    return v;
  }
  /// v is this reduction of x's rows, repeated along them (or kept as a column).
  bool is_row_stat(ValueId v, ReduceKind kind, ValueId x) const {
    Exprs column = r_.dims(x);
    column.back() = 1;
    if (const Node* e = r_.def(v, Op::expand)) v = e->inputs[0];
    const Node* keep = r_.def(v, Op::reshape);
    if (!keep || !same_dims(r_.g, r_.dims(v), column)) return false;
    const Node* n = r_.def(keep->inputs[0], Op::reduce);
    return n && n->reduce_kind() == kind && n->inputs[0] == x && n->get<Ints>(Attr::dims) == Ints{r_.g.type(x).rank() - 1};
  }
  bool is_splat(ValueId v, double c) const {
    const auto s = splat_value(r_.g, v);
    return s && *s == c;
  }
  /// v: "this row of x is -inf everywhere" (or its opposite).
  bool tells_empty_row(ValueId v, ValueId x, bool opposite) const {
    v = through_broadcast(v);
    const Node* n = r_.g.def(v);
    if (!n) return false;
    if (n->op == Op::logical_not) return tells_empty_row(n->inputs[0], x, !opposite);
    if (n->op == (opposite ? Op::ne : Op::eq) && is_splat(n->inputs[1], -kInfinity)) return is_row_stat(n->inputs[0], ReduceKind::max, x);
    if (!opposite || n->op != Op::reduce || n->reduce_kind() != ReduceKind::max) return false;
    const Node* finite = r_.def(n->inputs[0], Op::ne);
    return finite && finite->inputs[0] == x && is_splat(finite->inputs[1], -kInfinity);
  }
  /// The row maximum of x, or that with 0 for rows that are -inf everywhere.
  bool is_row_top(ValueId v, ValueId x) const {
    if (is_row_stat(v, ReduceKind::max, x)) return true;
    if (const Node* e = r_.def(v, Op::expand)) v = e->inputs[0];
    const Node* w = r_.def(v, Op::where);
    return w && is_splat(w->inputs[1], 0) && tells_empty_row(w->inputs[0], x, false) && is_row_stat(w->inputs[2], ReduceKind::max, x);
  }

  struct Softmax {
    ValueId input;
    bool nan_rows;  ///< nothing makes zeros of rows that attend nowhere
  };
  std::optional<Softmax> softmax_of(ValueId p) const {
    ValueId guard = kNone<ValueId>;
    bool opposite = false;
    if (const Node* w = r_.def(p, Op::where)) {  // rows that attend nowhere give zeros
      opposite = is_splat(w->inputs[2], 0);
      if (!opposite && !is_splat(w->inputs[1], 0)) return {};
      guard = w->inputs[0];
      p = w->inputs[opposite ? 1 : 2];
    }
    const Node* q = r_.def(p, Op::div);
    const Node* e = q ? r_.def(q->inputs[0], Op::exp) : nullptr;
    if (!e || r_.uses(q->inputs[0]) != 2 || !is_row_stat(q->inputs[1], ReduceKind::sum, q->inputs[0])) return {};
    const Node* d = r_.def(e->inputs[0], Op::sub);
    if (!d || !is_row_top(d->inputs[1], d->inputs[0])) return {};
    const ValueId s = d->inputs[0];
    if (guard != kNone<ValueId> && !tells_empty_row(guard, s, opposite)) return {};
    return r_.uses(s) <= 3 ? std::optional(Softmax{s, guard == kNone<ValueId>}) : std::nullopt;
  }

  // ---- scores
  /// without_sink: the slice of probabilities that leaves out those of sinks, or null.
  std::optional<Scores> find_scores(ValueId v, const Node* without_sink) const {
    Scores s;
    size_t uses = 3;
    const ValueId input = v;
    v = before_shift(input, uses);
    s.shifted = v != input;
    if (without_sink && !take_sinks(*without_sink, s, v, uses)) return {};
    while (true) {
      double over = kInfinity;
      const Found root = batch_root(v, uses, &over);
      const Node* n = root ? r_.g.def(*root) : nullptr;
      if (!n) return {};
      s.over = std::min(s.over, over * s.scale);
      uses = 1;
      if (n->op == Op::matmul) {
        s.product = n;
        return s;
      }
      if (n->op == Op::mul || n->op == Op::div) {
        const auto c = splat_value(r_.g, n->inputs[1]);
        if (!c || !(*c > 0) || !std::isfinite(*c)) return {};
        s.scale *= n->op == Op::mul ? *c : 1 / *c;
        v = n->inputs[0];
      } else if (n->op == Op::add) {
        if (!take_added(*n, s, v)) return {};
      } else if (n->op != Op::where || !take_filled(*n, s, v)) {
        return {};
      }
    }
  }

  /// Scores from which the maximum of each row was taken before their softmax: those before that.
  ValueId before_shift(ValueId v, size_t& uses) const {
    const Found root = batch_root(v, uses);
    const Node* n = root ? r_.def(*root, Op::sub) : nullptr;
    if (!n || !is_row_stat(n->inputs[1], ReduceKind::max, n->inputs[0])) return v;
    uses = 2;  // by the maximum, too
    return n->inputs[0];
  }

  /// cat(scores, sinks) of which the softmax is taken; of its result `slice` leaves the last column out.
  bool take_sinks(const Node& slice, Scores& s, ValueId& v, size_t& uses) const {
    const Found root = batch_root(v, uses, &s.over);
    const Node* n = root ? r_.def(*root, Op::cat) : nullptr;
    if (!n || n->inputs.size() != 2) return false;
    const int64_t last = r_.g.type(*root).rank() - 1;
    const Exprs scores = r_.dims(n->inputs[0]), sinks = r_.dims(n->inputs[1]), kept = r_.dims(slice.outputs[0]);
    if (n->get<int64_t>(Attr::dim) != last || !sinks.back().is(1)) return false;
    if (slice.get<int64_t>(Attr::dim) + 1 != static_cast<int64_t>(kept.size()) || slice.get<int64_t>(Attr::step) != 1) return false;
    if (!slice.get<Expr>(Attr::start).is(0) || !r_.same(kept.back(), scores.back())) return false;
    v = n->inputs[0], s.sinks = n->inputs[1], s.sinks_over = s.over, uses = 1;
    return true;
  }

  bool leads_to_product(ValueId v) const {
    while (const Node* n = r_.g.def(v)) {
      if (n->op == Op::matmul) return true;
      const bool passes = n->op == Op::reshape || n->op == Op::cast || n->op == Op::mul || n->op == Op::div || n->op == Op::add;
      if (!passes) return n->op == Op::where && (leads_to_product(n->inputs[1]) || leads_to_product(n->inputs[2]));
      if (n->op == Op::add && leads_to_product(n->inputs[1])) return true;
      v = n->inputs[0];
    }
    return false;
  }

  bool take_added(const Node& n, Scores& s, ValueId& v) const {
    const bool left = leads_to_product(n.inputs[0]);
    if (left == leads_to_product(n.inputs[1])) return false;
    v = n.inputs[left ? 0 : 1];
    ValueId mask = n.inputs[left ? 1 : 0];
    if (const double over = s.over / s.scale; over < least_infinite(r_.dtype(mask)))
      mask = b_.where(b_.binary_scalar(Op::le, mask, -over), b_.full(r_.g.type(mask), -kInfinity), mask);
    s.added.push_back({mask, s.scale});
    return true;
  }

  /// masked_fill(scores, mask, c): a mask that holds c in place of what hides, and fills; simpler_mask() makes a bool one of it where it
  /// can.
  bool take_filled(const Node& n, Scores& s, ValueId& v) const {
    const auto a = splat_value(r_.g, n.inputs[1]), b = splat_value(r_.g, n.inputs[2]);
    const bool fills_true = a && *a <= kHiddenScore;
    if (!fills_true && !(b && *b <= kHiddenScore)) return false;
    v = n.inputs[fills_true ? 2 : 1];
    const Node* e = r_.def(n.inputs[0], Op::expand);
    const ValueId mask = e ? e->inputs[0] : n.inputs[0];
    const TensorType type{is_half(r_.dtype(v)) ? DType::f32 : r_.dtype(v), r_.dims(mask)};
    const ValueId hidden = b_.full(type, hiding((fills_true ? *a : *b) * s.scale, s.over, type.dtype)), shown = b_.full(type, 0);
    s.added.push_back({fills_true ? b_.where(mask, hidden, shown) : b_.where(mask, shown, hidden), 1});
    s.fills = true;
    return true;
  }

  /// What a mask of type t (f32, f64) holds where scores are filled with c: hides (the lowest float16 does not), and stays finite beside a
  /// bias, so that a row that is hidden whole has equal scores.
  static double hiding(double c, double over, DType t) {
    const double lowest = t == DType::f64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
    return c < lowest || c <= -over ? -kInfinity : std::clamp(c, lowest / 2, kHiddenScore);
  }

  // ---- the node
  void set_batch(ValueId s) {
    const Exprs d = r_.dims(s);
    batch_ = d.size() > 2 ? d[0] : Expr(1);
    heads_ = d.size() > 3 ? d[1] : Expr(1);
  }

  /// v, whose leading dims are some grouping of batch and heads, as [B, H, rows, columns].
  ValueId four_dims(ValueId v) const {
    const Exprs d = r_.dims(v);
    const Exprs to = {batch_, heads_, d[d.size() - 2], d.back()};
    const Node* n = r_.def(v, Op::reshape);
    if (n && same_dims(r_.g, r_.dims(n->inputs[0]), to)) return n->inputs[0];
    return b_.reshape(v, to);
  }

  /// What is added to the scores (or stands beside them), as [B|1, H|1, rows|1, columns].
  Found mask_dims(ValueId m, const Expr& rows, const Expr& columns) const {
    const Exprs full = r_.dims(m);
    if (const Node* e = r_.def(m, Op::expand)) m = e->inputs[0];
    Exprs d = r_.dims(m);
    if (d.size() == 5 && full.size() == 5) {  // the batch seen as two dims (windows of images)
      if (!r_.same(full[0] * full[1], batch_)) return {};
      if (d[0].is(1) && d[1].is(1)) {
        d = {1, d[2], d[3], d[4]};
      } else {
        m = b_.expand(m, {full[0], full[1], d[2], d[3], d[4]});
        d = {batch_, d[2], d[3], d[4]};
      }
    } else if (d.size() == 3 && !heads_.is(1) && !d[0].is(1)) {
      d = {batch_, heads_, d[1], d[2]};
    } else if (d.size() == 3) {
      d.insert(d.begin() + 1, Expr(1));
    }
    while (d.size() < 4) d.insert(d.begin(), Expr(1));
    const Exprs most = {batch_, heads_, rows, columns};
    for (size_t i = 0; i < most.size(); ++i)
      if (d.size() != 4 || (!d[i].is(1) && !r_.same(d[i], most[i]))) return {};
    m = b_.reshape(m, d);
    d.back() = columns;
    return b_.expand(m, d);
  }

  ValueId sum_of(ValueId a, ValueId b) const {
    Exprs d = r_.dims(a);
    for (size_t i = 0; i < d.size(); ++i)
      if (d[i].is(1)) d[i] = r_.dims(b)[i];
    return b_.binary(Op::add, b_.expand(a, d), b_.expand(b, d));
  }

  /// v without a constant factor, which goes to `scale`, also from below views.
  ValueId without_scale(ValueId v, double& scale) const {
    const Node* n = r_.g.def(v);
    if (!n) return v;
    if (n->op == Op::mul || n->op == Op::div) {
      const auto c = splat_value(r_.g, n->inputs[1]);
      if (!c || *c == 0 || !std::isfinite(*c)) return v;
      scale *= n->op == Op::mul ? *c : 1 / *c;
      return without_scale(n->inputs[0], scale);
    }
    if (n->op != Op::permute && n->op != Op::reshape && n->op != Op::expand) return v;
    const Op op = n->op;
    const Ints perm = op == Op::permute ? n->get<Ints>(Attr::perm) : Ints();
    const ValueId from = n->inputs[0], inner = without_scale(from, scale);
    if (inner == from) return v;
    const Exprs to = r_.dims(v);
    return op == Op::permute ? b_.permute(inner, perm) : op == Op::reshape ? b_.reshape(inner, to) : b_.expand(inner, to);
  }

  Found build(const Node& n, const Scores& s, bool nan_rows) {
    double scale = s.scale;
    const Node product = *s.product;
    const ValueId q = without_scale(four_dims(product.inputs[0]), scale);
    const ValueId k = b_.transpose(without_scale(four_dims(product.inputs[1]), scale), -1, -2);
    const ValueId v = four_dims(n.inputs[1]);
    const DType t = r_.dtype(v);
    if (!is_float(t) || r_.dtype(product.outputs[0]) == DType::i64) return {};
    std::vector<ValueId> inputs = {narrowed(q, t), narrowed(k, t), v};
    if (r_.dtype(inputs[0]) != t || r_.dtype(inputs[1]) != t) return {};
    const Expr rows = r_.dims(q)[2], columns = r_.dims(v)[2];
    Found mask;
    for (const Scores::Added& a : s.added) {
      const Found shaped = mask_dims(a.mask, rows, columns);
      if (!shaped) return {};
      ValueId more = *shaped;
      if (a.scale != 1) more = b_.binary_scalar(Op::mul, more, a.scale);
      if (mask && r_.dtype(more) != r_.dtype(*mask)) {
        more = b_.cast(more, DType::f32);
        mask = b_.cast(*mask, DType::f32);
      }
      mask = mask ? sum_of(*mask, more) : more;
    }
    if (mask) inputs.push_back(*mask);
    std::map<Attr, AttrValue> attrs = {{Attr::scale, scale}, {Attr::causal, false}, {Attr::nan_rows, nan_rows}};
    if (s.fills) attrs[Attr::mask_fills] = true;
    if (s.sinks != kNone<ValueId>) {
      const DType of_sums = is_half(t) ? DType::f32 : t;
      const Found sinks = mask_dims(s.sinks, rows, 1);
      if (!sinks || !is_float(r_.dtype(*sinks)) || dtype_bytes(r_.dtype(*sinks)) > dtype_bytes(of_sums)) return {};
      ValueId rounded = *sinks;
      for (DType narrow : {DType::f16, DType::bf16, DType::f32})
        if (s.sinks_over < least_infinite(r_.dtype(rounded)) && s.sinks_over == least_infinite(narrow)) rounded = b_.cast(rounded, narrow);
      inputs.push_back(b_.cast(rounded, of_sums));
      attrs[Attr::sinks] = true;
    }
    const ValueId y = b_.make1(Op::attention, inputs, std::move(attrs));
    return b_.cast(b_.reshape(y, r_.dims(n.outputs[0])), r_.dtype(n.outputs[0]));
  }

  /// x before it was widened from t; attention computes in a wider type itself.
  ValueId narrowed(ValueId x, DType t) const {
    const Node* c = r_.def(x, Op::cast);
    return c && r_.dtype(c->inputs[0]) == t && is_half(t) ? c->inputs[0] : x;
  }

  Rewriter& r_;
  Builder& b_;
  Expr batch_ = 1, heads_ = 1;
};

/// [B, H*G, S, E] made of [B, H, S, E] by repeating each head G times: the value before that.
Found repeated_heads(const Rewriter& r, ValueId v, bool* one_head) {
  const Node* n = r.g.def(v);
  *one_head = false;
  if (n && n->op == Op::expand) {
    const Exprs from = r.dims(n->inputs[0]), to = r.dims(v);
    *one_head = from[1].is(1) && r.same(from[0], to[0]) && r.same(from[2], to[2]) && r.same(from[3], to[3]);
    return *one_head ? Found(n->inputs[0]) : Found();
  }
  if (!n || n->op != Op::reshape) return {};
  const ValueId wide = n->inputs[0];
  const Node* e = r.def(wide, Op::expand);
  if (!e || r.g.type(wide).rank() != 5) return {};
  const Exprs from = r.dims(e->inputs[0]), to = r.dims(wide), out = r.dims(v);
  if (!from[2].is(1) || !r.same(to[0], out[0]) || !r.same(to[3], out[2]) || !r.same(to[4], out[3])) return {};
  for (int i : {0, 1, 3, 4})
    if (!r.same(from[i], to[i])) return {};
  return e->inputs[0];
}

Found group_heads(Rewriter& r, const Node& n) {
  bool one_k, one_v;
  const Found k = repeated_heads(r, n.inputs[1], &one_k), v = repeated_heads(r, n.inputs[2], &one_v);
  if (!k || !v || one_k != one_v) return {};
  const Exprs dk = r.dims(*k), dv = r.dims(*v);
  if (!r.same(dk[1], dv[1])) return {};
  std::vector<ValueId> inputs = n.inputs;
  inputs[1] = one_k ? *k : r.b.reshape(*k, {dk[0], dk[1], dk[3], dk[4]});
  inputs[2] = one_v ? *v : r.b.reshape(*v, {dv[0], dv[1], dv[3], dv[4]});
  return r.b.make1(Op::attention, std::move(inputs), n.attrs);
}

Found rule(Rewriter& r, const Node& n) {
  if (n.op == Op::matmul) return Matcher(r).match(n);
  if (n.op != Op::attention) return {};
  if (Found f = group_heads(r, n)) return f;
  return simpler_mask(r, n);
}

}  // namespace

/// Recognises matmul, scale, mask, softmax, matmul as one attention node; reads repeated key and value heads once; turns a mask that is
/// the lower triangle into the causal flag. The softmax is then computed by the attention kernel, in another order.
void fuse_attention(Graph& g, PassContext&) { Rewriter::run(g, rule); }

}  // namespace aotc::passes
