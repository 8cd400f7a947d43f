#include "passes/passes.h"

#include <algorithm>
#include <cmath>

#include "graph/constant_store.h"
#include "graph/ranges.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

bool is_bytes(DType t) { return t == DType::u8 || t == DType::i8; }

/// A value as (bytes - zero) * scale.
struct Quantised {
  ValueId bytes;
  /// Of the value's rank, 1 along each dim that they do not change along. zero: i32, kNone: 0.
  ValueId scale, zero = kNone<ValueId>;
};

class Finder {
 public:
  explicit Finder(Rewriter& r) : r_(r), b_(r.b) {}

  std::optional<Quantised> find(ValueId v) {
    const Node* n = r_.g.def(v);
    if (!n) return std::nullopt;
    if (n->op == Op::mul) return scaled(*n);
    if (n->op != Op::reshape && n->op != Op::permute && n->op != Op::expand && n->op != Op::slice) return std::nullopt;
    const Node view = *n;  // a copy: building nodes moves them
    const auto of = find(view.inputs[0]);
    return of ? through(*of, view) : std::nullopt;
  }

 private:
  /// What v repeats, with dims of 1 where it does.
  std::optional<ValueId> small(ValueId v, int rank) {
    if (const Node* e = r_.def(v, Op::expand)) return e->inputs[0];
    const Exprs ones(static_cast<size_t>(rank), Expr(1));
    if (const auto x = splat_value(r_.g, v); x && is_float(r_.dtype(v))) return b_.full({r_.dtype(v), ones}, *x);
    if (const auto i = splat_int(r_.g, v)) return b_.full_int({r_.dtype(v), ones}, *i);
    return v;
  }

  /// bytes, as they are or less a zero point, in any type that holds them.
  std::optional<Quantised> moved(ValueId v) {
    // Below casts to types that hold all bytes.
    const auto below = [&](ValueId x) {
      for (const Node* c = r_.def(x, Op::cast); c && is_wide(r_.dtype(x)); c = r_.def(x, Op::cast)) x = c->inputs[0];
      return x;
    };
    const ValueId at = below(v);
    Quantised q{at, kNone<ValueId>};
    if (const Node* s = r_.def(at, Op::sub); s && is_wide(r_.dtype(at))) {
      const ValueId from = s->inputs[0], zero = s->inputs[1];
      const auto of = small(zero, r_.g.type(v).rank());
      if (!of || !is_integral(zero)) return std::nullopt;
      q.bytes = below(from), q.zero = *of;
      if (is_zero(*of))
        q.zero = kNone<ValueId>;
      else if (const auto known = splat_value(r_.g, *of))
        q.zero = b_.full_int({DType::i32, r_.dims(*of)}, static_cast<int64_t>(*known));
      else if (r_.dtype(*of) != DType::i32)
        q.zero = b_.cast(*of, DType::i32);
    }
    return is_bytes(r_.dtype(q.bytes)) ? std::optional(q) : std::nullopt;
  }

  bool is_zero(ValueId v) const {
    if (const auto x = splat_value(r_.g, v)) return *x == 0;
    for (const Node* n = r_.g.def(v); n && (n->op == Op::cast || n->op == Op::reshape || n->op == Op::permute); n = r_.g.def(v))
      v = n->inputs[0];
    const Value& of = r_.g.values[v];
    if (of.kind != ValueKind::constant || !has_data(r_.g.constants[of.constant])) return false;
    const ConstData& c = r_.g.constants[of.constant];
    if (c.exchangeable) return false;
    return std::all_of(c.data, c.data + c.bytes, [](std::byte b) { return b == std::byte{0}; });
  }
  static bool is_wide(DType t) { return t == DType::f32 || t == DType::f64 || t == DType::i32 || t == DType::i64; }
  /// Whether a zero point is an integer, whatever its type.
  bool is_integral(ValueId v) const {
    for (;;) {
      if (is_int(r_.dtype(v))) return true;
      if (const auto x = splat_value(r_.g, v)) return *x == static_cast<double>(static_cast<int32_t>(*x));
      const Node* n = r_.g.def(v);
      if (!n || (n->op != Op::cast && n->op != Op::reshape && n->op != Op::expand)) return false;
      v = n->inputs[0];
    }
  }

  std::optional<Quantised> scaled(const Node& found) {
    const Node mul = found;
    if (r_.dtype(mul.outputs[0]) != DType::f32) return std::nullopt;
    for (const size_t i : {0, 1}) {
      auto q = moved(mul.inputs[i]);
      if (!q) continue;
      const auto scale = small(mul.inputs[1 - i], r_.g.type(mul.outputs[0]).rank());
      if (!scale) continue;
      q->scale = *scale;
      return q;
    }
    return std::nullopt;
  }

  /// The same through a view; scales must not change along what a reshape or a slice touches.
  std::optional<Quantised> through(const Quantised& q, const Node& view) {
    const TensorType from = r_.g.type(view.inputs[0]);
    TensorType to = r_.g.type(view.outputs[0]);
    const auto moved_small = [&](ValueId v) -> std::optional<ValueId> {
      const Exprs dims = r_.dims(v);
      if (view.op == Op::permute) return b_.permute(v, view.get<Ints>(Attr::perm));
      const bool uniform = std::all_of(dims.begin(), dims.end(), [](const Expr& e) { return e.is(1); });
      if (uniform) return b_.reshape(v, Exprs(to.dims.size(), Expr(1)));
      if (view.op == Op::expand) return v;
      // Rows stay rows.
      if (view.op != Op::reshape || !dims.back().is(1) || !r_.same(from.dims.back(), to.dims.back())) return std::nullopt;
      for (size_t d = 0; d + 1 < dims.size(); ++d)
        if (!r_.same(dims[d], from.dims[d])) return std::nullopt;
      Exprs rows = to.dims;
      rows.back() = 1;
      return b_.reshape(v, rows);
    };
    Quantised out = q;
    const auto scale = moved_small(q.scale);
    if (!scale) return std::nullopt;
    out.scale = *scale;
    if (q.zero != kNone<ValueId>) {
      const auto zero = moved_small(q.zero);
      if (!zero) return std::nullopt;
      out.zero = *zero;
    }
    to.dtype = r_.dtype(q.bytes);
    out.bytes = b_.make1(view.op, {q.bytes}, view.attrs, &to);
    return out;
  }

  Rewriter& r_;
  Builder& b_;
};

Interval bytes_of(DType t) { return t == DType::u8 ? Interval{0, 255} : Interval{-128, 127}; }

/// Limits of a float, where it is between two numbers by its definition.
std::optional<Interval> limits(const Rewriter& r, ValueId v) {
  std::optional<double> least, most;
  for (const Node* n = r.g.def(v); n && (n->op == Op::round || n->op == Op::minimum || n->op == Op::maximum); n = r.g.def(v)) {
    v = n->inputs[0];
    if (n->op == Op::round) continue;
    const auto limit = splat_value(r.g, n->inputs[1]);
    if (!limit) return std::nullopt;
    (n->op == Op::minimum ? most : least) = *limit;
    if (least && most) return *least <= *most ? std::optional(Interval{std::llround(*least), std::llround(*most)}) : std::nullopt;
  }
  return std::nullopt;
}

/// What a zero point cannot leave: the range of bytes, numbers known here, limits that it was clamped to.
std::optional<Interval> zero_range(const Rewriter& r, ValueId v) {
  for (;;) {
    if (is_bytes(r.dtype(v))) return bytes_of(r.dtype(v));
    if (const auto known = int_range(r.g, v)) return known;
    if (is_float(r.dtype(v))) return limits(r, v);
    const Node* n = r.g.def(v);
    if (!n || (n->op != Op::cast && n->op != Op::reshape && n->op != Op::expand && n->op != Op::permute)) return std::nullopt;
    v = n->inputs[0];
  }
}

bool is_made_of_constants(const Graph& g, ValueId v) {
  const Node* n = g.def(v);
  if (!n) return g.values[v].kind == ValueKind::constant;
  return std::all_of(n->inputs.begin(), n->inputs.end(), [&](ValueId x) { return is_made_of_constants(g, x); });
}

class Product {
 public:
  Product(Rewriter& r, const Node& n) : r_(r), b_(r.b), n_(n), is_conv_(n.op == Op::conv) {}

  std::optional<ValueId> make() {
    if (const auto y = of_widened()) return y;
    if (r_.dtype(n_.outputs[0]) != DType::f32 || r_.dtype(n_.inputs[0]) != DType::f32) return std::nullopt;
    Finder finder(r_);
    const auto w = finder.find(n_.inputs[1]);
    if (!w || w->zero != kNone<ValueId> || !is_weight(w->bytes)) return std::nullopt;
    auto x = finder.find(n_.inputs[0]);
    if (!x || !sums_fit(*x) || !along_columns(w->scale) || !along_rows(x->scale)) return std::nullopt;
    if (x->zero != kNone<ValueId> && !along_rows(x->zero)) return std::nullopt;
    if (r_.dtype(x->bytes) == DType::i8) unsign(*x);
    std::map<Attr, AttrValue> attrs = n_.attrs;
    if (is_conv_ && x->zero != kNone<ValueId>) {
      const auto around = splat_int(r_.g, x->zero);
      if (around && *around >= 0 && *around <= 255)
        attrs[Attr::value] = *around;
      else if (is_padded())
        return std::nullopt;
    }
    TensorType sums = r_.g.type(n_.outputs[0]);
    sums.dtype = DType::i32;
    ValueId y = b_.make1(n_.op, {x->bytes, w->bytes}, std::move(attrs), &sums);
    if (x->zero != kNone<ValueId>) y = b_.binary(Op::sub, y, lacking(*x, w->bytes));
    return b_.binary(Op::mul, b_.cast(y, DType::f32), scales(x->scale, by_column(w->scale)));
  }

 private:
  /// Bytes that were widened to int32 before they are multiplied: the sums are the same, wrapped alike.
  std::optional<ValueId> of_widened() {
    if (is_conv_ || r_.dtype(n_.outputs[0]) != DType::i32) return std::nullopt;
    const Node *left = r_.def(n_.inputs[0], Op::cast), *right = r_.def(n_.inputs[1], Op::cast);
    if (!left || !right) return std::nullopt;
    const ValueId w = right->inputs[0], of = left->inputs[0];
    Quantised x{of, b_.full({DType::f32, Exprs(r_.dims(n_.inputs[0]).size(), Expr(1))}, 1)};
    if (!is_bytes(r_.dtype(x.bytes)) || !is_weight(w)) return std::nullopt;
    if (r_.dtype(x.bytes) == DType::i8) unsign(x);
    const ValueId y = b_.matmul(x.bytes, w, DType::i32);
    return x.zero == kNone<ValueId> ? y : b_.binary(Op::sub, y, lacking(x, w));
  }

  /// A constant of signed bytes, of a product one matrix for all of its batch.
  bool is_weight(ValueId w) const {
    if (r_.dtype(w) != DType::i8 || !is_made_of_constants(r_.g, w)) return false;
    if (is_conv_) return true;
    while (const Node* e = r_.def(w, Op::expand)) w = e->inputs[0];
    const Exprs dims = r_.dims(w);
    for (size_t d = 0; d + 2 < dims.size(); ++d)
      if (!dims[d].is(1)) return false;
    return true;
  }

  /// Whether 32 bits hold the sums of (bytes - zero) * weight. What is summed on the way may wrap.
  bool sums_fit(const Quantised& x) const {
    const Exprs w = r_.dims(n_.inputs[1]);
    const auto depth = (is_conv_ ? product(Exprs(w.begin() + 1, w.end())) : w[w.size() - 2]).as_const();
    const Interval bytes = bytes_of(r_.dtype(x.bytes));
    const auto zero = x.zero == kNone<ValueId> ? std::optional(Interval{0, 0}) : zero_range(r_, x.zero);
    constexpr int64_t kMostZero = int64_t{1} << 16, kLargestWeight = 128;
    if (!depth || !zero || zero->min < -kMostZero || zero->max > kMostZero) return false;
    const int64_t most = std::max(bytes.max - zero->min, zero->max - bytes.min) * kLargestWeight;
    return *depth <= INT32_MAX / most;
  }
  bool is_padded() const {
    for (const Attr a : {Attr::padding, Attr::padding_hi})
      for (const int64_t p : n_.get<Ints>(a))
        if (p != 0) return true;
    return false;
  }
  /// Of the weight: it changes along the columns of the result alone.
  bool along_columns(ValueId v) const {
    const Exprs dims = r_.dims(v);
    const size_t column = is_conv_ ? 0 : dims.size() - 1;
    for (size_t d = 0; d < dims.size(); ++d)
      if (d != column && !dims[d].is(1)) return false;
    return true;
  }
  /// Of the other operand: a product's rows may have their own, a convolution's images have one.
  bool along_rows(ValueId v) const {
    const Exprs dims = r_.dims(v);
    if (!is_conv_) return dims.back().is(1);
    return std::all_of(dims.begin(), dims.end(), [](const Expr& e) { return e.is(1); });
  }
  /// Signed bytes are unsigned ones less 128.
  void unsign(Quantised& x) const {
    const TensorType t = r_.g.type(x.bytes), u{DType::u8, t.dims};
    x.bytes = b_.make1(Op::bitcast, {b_.binary(Op::bit_xor, x.bytes, b_.full_int(t, -128))}, {}, &u);
    const TensorType one{DType::i32, r_.dims(x.scale)};
    x.zero = x.zero == kNone<ValueId> ? b_.full_int(one, 128) : plus(x.zero, 128);
  }
  ValueId plus(ValueId v, int64_t i) const { return b_.binary(Op::add, v, b_.full_int(r_.g.type(v), i)); }

  /// One a column, with the rank of the result.
  ValueId by_column(ValueId v) const {
    if (!is_conv_) return v;
    Exprs dims(r_.dims(n_.outputs[0]).size(), Expr(1));
    dims[1] = r_.dims(n_.outputs[0])[1];
    if (r_.g.type(v).elems().is(1)) dims[1] = 1;
    return b_.reshape(v, dims);
  }
  ValueId spread(ValueId v) const { return b_.expand(v, r_.dims(n_.outputs[0])); }

  /// Both, where they are known a number a column.
  ValueId scales(ValueId x, ValueId w) const {
    const Exprs dims = r_.dims(x);
    const bool one = std::all_of(dims.begin(), dims.end(), [](const Expr& e) { return e.is(1); });
    if (!one || !is_made_of_constants(r_.g, x)) return b_.binary(Op::mul, spread(x), spread(w));
    return spread(b_.binary(Op::mul, b_.expand(x, r_.dims(w)), w));
  }

  /// [.., 1, n] of a product, [Co] of a convolution: as products with ones, for which weights are not widened first.
  ValueId column_sums(ValueId w) const {
    Exprs dims = r_.dims(w);
    if (is_conv_) {
      w = b_.transpose(b_.reshape(w, {dims[0], product(Exprs(dims.begin() + 1, dims.end()))}), 0, 1);
      dims = r_.dims(w);
    }
    dims.back() = dims[dims.size() - 2], dims[dims.size() - 2] = 1;
    return b_.matmul(b_.full_int({DType::u8, dims}, 1), w, DType::i32);
  }

  /// zero * the sum of the weights of a column.
  ValueId lacking(const Quantised& x, ValueId weights) const {
    const ValueId sums = by_column(column_sums(weights));
    if (const auto zero = splat_int(r_.g, x.zero)) return spread(b_.binary(Op::mul, sums, b_.full_int(r_.g.type(sums), *zero)));
    return b_.binary(Op::mul, spread(x.zero), spread(sums));
  }

  Rewriter& r_;
  Builder& b_;
  const Node& n_;
  const bool is_conv_;
};

}  // namespace

/// On CPUs, products and convolutions of (x - zero) * scale with a constant weight of integers times scales, as quantised programs have
/// them, become sums of bytes, u8 by i8 in 32 bits: sum (x - zero) w = sum x w - zero * sum w, times both scales. What lies around a
/// convolution's images is then `zero`. Sums of integers are exact, where those of float32 round.
/// So do products of bytes that were widened to int32. Comes before constants are folded, for
/// then weights are float32.
void integer_products(Graph& g, PassContext&) {
  Rewriter r(g);
  r.sweep([](Rewriter& by, const Node& n) -> std::optional<ValueId> {
    if (n.op != Op::matmul && n.op != Op::conv) return std::nullopt;
    return Product(by, n).make();
  });
  g.compact();
}

}  // namespace aotc::passes
