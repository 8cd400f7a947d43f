// Gradients of convolutions, as convolutions and matrix products.
#include <algorithm>
#include <numeric>

#include "decompose/families.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

struct Geometry {
  Ints kernel, stride, padding, dilation;
  int64_t groups = 1;
  size_t rank() const { return kernel.size(); }
};

std::vector<Expr> spatial(const T& x) { return {x.dims().begin() + 2, x.dims().end()}; }

std::map<Attr, AttrValue> attrs_of(const Geometry& g) {
  return {{Attr::stride, g.stride},
          {Attr::padding, g.padding},
          {Attr::padding_hi, g.padding},
          {Attr::dilation, g.dilation},
          {Attr::groups, g.groups}};
}

/// x with its trailing dims cut to `to`.
T cut(const T& x, const std::vector<Expr>& to) {
  T y = x;
  for (int i = 0; i < static_cast<int>(to.size()); ++i)
    y = y.slice(x.rank() - static_cast<int>(to.size()) + i, 0, to[static_cast<size_t>(i)]);
  return y;
}

/// The gradient of a convolution's input: the transposed convolution of the result's gradient. Inputs that no window reaches end up behind
/// the last one; how many these are is known only for fixed sizes, for others the most that there can be are made and cut.
T of_input(const T& y, const T& w, const std::vector<Expr>& to, const Geometry& g) {
  SymTable& syms = y.b().syms();
  Ints extra;
  for (size_t i = 0; i < g.rank(); ++i) {
    const Expr reached = (y.dim(2 + static_cast<int>(i)) - 1) * g.stride[i] - 2 * g.padding[i] + g.dilation[i] * (g.kernel[i] - 1) + 1;
    extra.push_back(syms.simplify(to[i] - reached).as_const().value_or(g.stride[i] - 1));
  }
  std::map<Attr, AttrValue> attrs = attrs_of(g);
  attrs[Attr::output_padding] = extra;
  return cut(T(y.b(), y.b().make1(Op::conv_transpose, {y, w}, attrs)), to);
}

/// The gradient of a weight: w[r, c, k] = sum over images n and places p of y[n, r, p] * x[n, c, p * stride + k * dilation - padding], r
/// and c of one group.
///
/// Both tensors are laid out by channel, each channel one line of all its images with zeros between their rows, in such a way that tap k of
/// place p stands a fixed distance behind p: so the taps are the batch of one matrix product over the whole line. A stride splits x into
/// its phases, and taps into classes that read one phase each.
class WeightGradient {
 public:
  WeightGradient(const T& y, const T& x, const Geometry& g, DType out)
      : b_(y.b()), g_(g), out_(out), k_(static_cast<int>(g.rank())), y_(y), x_(x), rows_(y.dim(1)), columns_(floordiv(x.dim(1), g.groups)) {
    for (size_t i = 0; i < g.rank(); ++i) step_.push_back(g.stride[i] / std::gcd(g.stride[i], g.dilation[i]));
  }

  T get() const {
    std::vector<Expr> to = {rows_, columns_};
    to.insert(to.end(), g_.kernel.begin(), g_.kernel.end());
    if (g_.groups > 1 && columns_.is(1) && rows_.is(g_.groups)) return depthwise().reshape(to);
    int64_t products = 1;
    for (size_t i = 0; i < g_.rank(); ++i) products *= std::min(step_[i], g_.kernel[i]) * (i < loose() ? g_.kernel[i] : 1);
    return (products <= kMaxProducts ? by_taps() : by_patches()).reshape(to);
  }

 private:
  static constexpr int64_t kMaxProducts = 32;
  static constexpr size_t kMaxBatchDims = 2;

  /// Dims whose taps are products of their own, so that the others and the groups are the batch.
  size_t loose() const {
    const size_t batch = g_.rank() + (g_.groups > 1 ? 1 : 0);
    return batch > kMaxBatchDims ? batch - kMaxBatchDims : 0;
  }

  /// Each channel for itself: a sum over all places, a row a tap.
  T depthwise() const {
    std::vector<Expr> dims = y_.dims();
    dims.insert(dims.end(), g_.rank(), Expr(1));
    Ints over = {0};
    for (int i = 0; i < k_; ++i) over.push_back(2 + i);
    return (y_.up().reshape(dims) * patches().up()).sum(over, false).to(out_);
  }

  /// What the taps of each place read, [N, C, P.., K..].
  T patches() const { return {b_, b_.window(x_, g_.kernel, g_.stride, g_.padding, g_.dilation, spatial(y_), 0.0)}; }

  /// One product over all taps, whose right side is made of patches: where these do not overlap.
  T by_patches() const {
    std::vector<Expr> taps(g_.kernel.begin(), g_.kernel.end());
    const Expr places = y_.dim(0) * product(spatial(y_));
    Ints perm = {0, 2};  // of [groups, c, N, P.., K..]
    for (int i = 0; i < k_; ++i) perm.push_back(3 + i);
    perm.push_back(1);
    for (int i = 0; i < k_; ++i) perm.push_back(3 + k_ + i);
    const T right = by_group(patches()).permute(perm).reshape({Expr(g_.groups), places, columns_ * product(taps)});
    return multiply(by_group(y_).reshape({Expr(g_.groups), floordiv(rows_, g_.groups), places}), right);
  }

  /// [N, C, A..] → [groups, C / groups, N, A..]
  T by_group(const T& v) const {
    std::vector<Expr> dims = v.dims();
    dims[1] = floordiv(v.dim(1), g_.groups);
    dims.insert(dims.begin() + 1, Expr(g_.groups));
    Ints perm(dims.size());
    std::iota(perm.begin(), perm.end(), 0);
    perm[0] = 1, perm[1] = 2, perm[2] = 0;
    return v.reshape(dims).permute(perm);
  }

  T multiply(const T& a, const T& b) const { return {b_, b_.matmul(a, b, out_)}; }

  /// How far behind a place a tap reads along dim i, in rows (or elements) of a phase.
  int64_t distance(size_t i, int64_t tap) const { return tap * g_.dilation[i] / g_.stride[i]; }

  T by_taps() const {
    SymTable& syms = b_.syms();
    const size_t n = g_.rank();
    // The pitch of each dim. Without a stride the zeros before a row end the one before it.
    std::vector<Expr> pitch;
    for (size_t i = 0; i < n; ++i) {
      const Expr size = x_.dim(static_cast<int>(2 + i)), places = y_.dim(static_cast<int>(2 + i));
      const int64_t reach = g_.dilation[i] * (g_.kernel[i] - 1), s = g_.stride[i], pad = g_.padding[i];
      const Expr least = s == 1 ? places : places + reach / s, whole = ceildiv(size + pad, s);
      pitch.push_back(syms.simplify(s == 1 && reach >= pad ? whole : syms.proves_le(least, whole) ? whole : max(least, whole)));
    }
    // The distance from a row to the next, the length of a channel's line, and how far taps reach behind it.
    std::vector<Expr> apart(n, Expr(1));
    for (size_t i = n - 1; i-- > 0;) apart[i] = apart[i + 1] * pitch[i + 1];
    const Expr line = y_.dim(0) * product(pitch);
    Expr tail = 0;
    for (size_t i = 0; i < n; ++i) tail += apart[i] * distance(i, g_.kernel[i] - 1);

    const T left = lines(y_, Ints(n, 0), pitch, Ints(n, 1)).reshape({y_.dim(1), line});
    T right = lines(x_, g_.padding, pitch, g_.stride);  // [phases.., C, N, pitch..]
    const Expr channels = x_.dim(1);
    right = right.reshape({product({g_.stride.begin(), g_.stride.end()}) * channels, line});
    if (!tail.is(0)) right = {b_, b_.pad(right, {0, 0}, {0, tail}, 0.0)};
    return taps_of_dim(0, {left, right, channels, line, syms.simplify(line + tail), apart}, {}, 0, 0);
  }

  /// v [N, C, S..] → [phases.., C, N, pitch..], with `before` zeros in front of each row and as many behind as the pitch asks for.
  T lines(const T& v, const Ints& before, const std::vector<Expr>& pitch, const Ints& stride) const {
    std::vector<Expr> lo = {0, 0}, hi = {0, 0}, split = {v.dim(0), v.dim(1)};
    Ints perm;
    for (size_t i = 0; i < stride.size(); ++i) {
      const Expr size = v.dim(static_cast<int>(2 + i));
      lo.emplace_back(before[i]);
      hi.push_back(b_.syms().simplify(pitch[i] * stride[i] - size - before[i]));
      split.push_back(pitch[i]), split.emplace_back(stride[i]);
      perm.push_back(static_cast<int64_t>(3 + 2 * i));
    }
    perm.push_back(1), perm.push_back(0);
    for (size_t i = 0; i < stride.size(); ++i) perm.push_back(static_cast<int64_t>(2 + 2 * i));
    return T(b_, b_.pad(v, lo, hi, 0.0)).reshape(split).permute(perm);
  }

  struct Lines {
    T left, right;  ///< [C of y, line], [phases * C of x, line and tail]
    Expr channels, line, whole;
    std::vector<Expr> apart;
  };
  /// A dim of the batch: how many taps, and what lies between them.
  struct Taps {
    int64_t count;
    Expr apart;
  };

  /// [C of y, C of x / groups, chosen taps.., K_dim ..]: the classes of a dim's taps, interleaved. `chosen` are those of the dims before,
  /// which begin at `at` in phase `phase`.
  T taps_of_dim(size_t dim, const Lines& l, const std::vector<Taps>& chosen, const Expr& at, int64_t phase) const {
    if (dim == g_.rank()) return product_of(l, chosen, at + l.channels * l.whole * phase);
    const int64_t kernel = g_.kernel[dim], classes = std::min(step_[dim], kernel), most = (kernel - 1) / step_[dim] + 1;
    const int64_t next = g_.dilation[dim] * step_[dim] / g_.stride[dim];
    const int axis = 2 + static_cast<int>(chosen.size());
    std::vector<ValueId> parts;
    for (int64_t c = 0; c < classes; ++c) {
      const int64_t count = (kernel - 1 - c) / step_[dim] + 1, from = phase * g_.stride[dim] + c * g_.dilation[dim] % g_.stride[dim];
      const Expr start = at + l.apart[dim] * distance(dim, c);
      std::vector<ValueId> of_class;
      if (dim < loose()) {
        for (int64_t t = 0; t < count; ++t)
          of_class.push_back(taps_of_dim(dim + 1, l, chosen, start + l.apart[dim] * (t * next), from).unsqueeze(axis));
      } else {
        std::vector<Taps> with = chosen;
        with.push_back({count, l.apart[dim] * next});
        of_class = {taps_of_dim(dim + 1, l, with, start, from)};
      }
      const T part(b_, b_.cat(of_class, axis));
      if (classes == 1) return part;
      std::vector<Expr> lo(static_cast<size_t>(part.rank()), Expr(0)), hi = lo;
      hi[static_cast<size_t>(axis)] = most - count;
      parts.push_back(T(b_, b_.pad(part, lo, hi, 0.0)).unsqueeze(axis + 1));
    }
    const T all(b_, b_.cat(parts, axis + 1));
    std::vector<Expr> to = all.dims();
    to.erase(to.begin() + axis + 1);
    to[static_cast<size_t>(axis)] = most * classes;
    return all.reshape(to).slice(axis, 0, kernel);
  }

  /// [C of y, C of x / groups, taps..]: one product whose batch are the groups and the chosen taps.
  T product_of(const Lines& l, const std::vector<Taps>& taps, const Expr& start) const {
    const Expr own = floordiv(rows_, g_.groups);
    std::vector<Expr> a, b, strides;
    T left = l.left;
    if (g_.groups > 1) {
      a.emplace_back(g_.groups), b.emplace_back(g_.groups), strides.push_back(columns_ * l.whole);
      left = left.reshape({Expr(g_.groups), own, l.line});
    }
    for (const Taps& t : taps) {
      left = left.unsqueeze(left.rank() - 2);
      a.emplace_back(t.count), b.emplace_back(t.count), strides.push_back(t.apart);
    }
    const int lead = static_cast<int>(a.size()), group = g_.groups > 1 ? 1 : 0;
    a.push_back(own), a.push_back(l.line);
    b.push_back(l.line), b.push_back(columns_);
    strides.emplace_back(1), strides.push_back(l.whole);
    const T y = multiply(left.expand(a), T(b_, b_.strided(l.right, b, strides, start)));  // [groups, taps.., own, columns]
    Ints perm;
    if (group) perm.push_back(0);
    perm.push_back(lead), perm.push_back(lead + 1);
    for (int i = group; i < lead; ++i) perm.push_back(i);
    std::vector<Expr> to = {rows_, columns_};
    for (const Taps& t : taps) to.emplace_back(t.count);
    return y.permute(perm).reshape(to);
  }

  Builder& b_;
  const Geometry& g_;
  DType out_;
  int k_;
  T y_, x_;
  Expr rows_, columns_;
  Ints step_;  ///< from a tap of a class to the next, per dim
};

/// The gradient y of the result has the sizes that the convolution of x makes.
void agree(Rule& r, const T& y, const T& x, const T& w, const Geometry& g, bool transposed) {
  const Ints extra = r.spatial("output_padding", static_cast<int>(g.rank()), 0);
  std::vector<Expr> in = {x.dim(0), transposed ? w.dim(0) : w.dim(1) * g.groups};
  std::vector<Expr> out = {x.dim(0), transposed ? w.dim(1) * g.groups : w.dim(0)};
  for (size_t i = 0; i < g.rank(); ++i) {
    const Expr size = x.dim(static_cast<int>(2 + i));
    const int64_t reach = g.dilation[i] * (g.kernel[i] - 1) + 1, both = 2 * g.padding[i], s = g.stride[i];
    in.push_back(size);
    out.push_back(r.b.syms().simplify(transposed ? (size - 1) * s - both + reach + extra[i] : floordiv(size + both - reach, s) + 1));
  }
  r.agree(in, x.dims(), "the input of the convolution");
  r.agree(out, y.dims(), "the convolution");
}

void convolution(Rule& r) {
  const T y = tensor(r, "grad_output"), x = tensor(r, "input").to(y.dtype()), w = tensor(r, "weight").to(y.dtype());
  const int k = w.rank() - 2;
  if (y.rank() != k + 2 || x.rank() != k + 2) r.refuse("the gradient of a convolution without a batch dim", "add one to its input");
  Geometry g;
  for (int i = 0; i < k; ++i) g.kernel.push_back(r.constant(w.dim(2 + i), "the kernel size of a convolution"));
  g.stride = r.spatial("stride", k);
  g.padding = r.spatial("padding", k, 0);
  g.dilation = r.spatial("dilation", k);
  g.groups = r.integer("groups");
  const bool transposed = r.boolean("transposed");
  agree(r, y, x, w, g, transposed);
  const bool empty = r.b.type(y).elems().is(0) || r.b.type(x).elems().is(0);
  const auto set = [&](size_t i, auto&& make) {
    if (!r.wants(i)) return;
    const TensorType t = r.meta_result(i);
    r.set(i, empty ? T(r.b, full(r.b, t.dtype, t.dims, 0.0)) : make(t.dtype));
  };
  set(0, [&](DType t) {
    if (!transposed) return of_input(y, w, spatial(x), g).to(t);
    return cut(T(r.b, r.b.make1(Op::conv, {y, w}, attrs_of(g))), spatial(x)).to(t);
  });
  set(1, [&](DType t) { return (transposed ? WeightGradient(x, y, g, t) : WeightGradient(y, x, g, t)).get(); });
  set(2, [&](DType t) {
    Ints over = {0};
    for (int i = 0; i < k; ++i) over.push_back(2 + i);
    return y.up().sum(over, false).to(t);
  });
}

constexpr RuleRow kRows[] = {
    {"aten.convolution_backward.default aten.convolution_backward_overrideable.default", convolution},
};
}  // namespace

RuleTable backward_conv_rules() { return kRows; }

}  // namespace aotc::decompose
