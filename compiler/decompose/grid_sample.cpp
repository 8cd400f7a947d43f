// Sampling of images and volumes at given coordinates, and its gradients.
#include <limits>

#include "decompose/families.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

enum Mode { bilinear = 0, nearest = 1, bicubic = 2 };
enum Padding { zeros = 0, border = 1, reflection = 2 };

/// Where each place of the result [N, O..] reads along one spatial dim: a coordinate in elements, and its derivative by the grid's number.
struct Coordinate {
  T at, slope, size;
};

/// Reflected at lo and hi, both given times two, as LibTorch has it for volumes.
Coordinate reflect_exactly(const Coordinate& c, const T& lo2, const T& hi2) {
  const T lo = lo2 * 0.5, span = (hi2 - lo2) * 0.5;
  const T from = c.at - lo, d = abs(from), extra = binary(Op::fmod, d, span.expand(d.dims())), flips = floor(d / span);
  const T even = (binary(Op::remainder, flips, 2.0) == 0.0) | !(flips < 0x1p31);
  const T slope = where(from < 0.0, -c.slope, c.slope);
  const T none = span == 0.0;
  return {where(none, 0.0, where(even, extra + lo, span - extra + lo)), where(none, 0.0, where(even, slope, -slope)), c.size};
}

/// The same for images, where coordinates so far away that the quotient is rounded come out before the first element.
Coordinate reflect(const Coordinate& c, const T& lo2, const T& hi2) {
  const T lo = lo2 * 0.5, twice = hi2 - lo2;
  const T from = c.at - lo, d = abs(from), extra = d - unary(Op::trunc, d / twice) * twice, other = twice - extra;
  const T slope = where(from < 0.0, -c.slope, c.slope), flipped = extra > other;
  const T none = twice == 0.0;
  return {where(none, 0.0, where(flipped, other, extra) + lo), where(none, 0.0, where(flipped, -slope, slope)), c.size};
}

/// Keys' cubic kernel with a = -0.75 at the distances from the taps -1, 0, 1, 2 to a place f behind tap 0, and its derivative by f.
T cubic_weight(const T& f, int tap) {
  const T d = tap < 2 ? f + (1.0 - tap) : static_cast<double>(tap) - 1.0 - f;
  if (tap == 1 || tap == 2) return (d * 1.25 - 2.25) * d * d + 1.0;
  return ((d * -0.75 + 3.75) * d - 6.0) * d + 3.0;
}
T cubic_slope(const T& f, int tap) {
  const T d = tap < 2 ? f + (1.0 - tap) : static_cast<double>(tap) - 1.0 - f;
  const T slope = tap == 1 || tap == 2 ? (d * 3.75 - 4.5) * d : (d * -2.25 + 7.5) * d - 6.0;
  return tap < 2 ? slope : -slope;
}

/// An operator's call: images [N, C, S..], coordinates per spatial dim. A corner is one tap along each.
class Sampling {
 public:
  explicit Sampling(Rule& r)
      : x(tensor(r, "input").up()),
        mode(r.integer("interpolation_mode")),
        padding(r.integer("padding_mode")),
        align(r.boolean("align_corners")) {
    if (mode != bilinear && mode != nearest && mode != bicubic) r.refuse(fmt::format("interpolation mode {} of grid sampling", mode));
    if (mode == bicubic && k() != 2) r.refuse("bicubic grid sampling of other than images [N, C, H, W]");
    const T grid = tensor(r, "grid").to(x.dtype());
    for (int i = 0; i < k(); ++i) {
      const T size = scalar_of(r.b, x.dim(2 + i), x.dtype()), g = grid.select(-1, k() - 1 - i);  // the last dim comes first
      const T slope = (align ? size - 1.0 : size) * 0.5;
      Coordinate c{unnormalized(g + 1.0, size), slope.expand(g.dims()), size};
      if (volumes() && padding == zeros) c.at = where(abs(c.at) < kInfinity, c.at, -100.0);  // far outside
      along.push_back(mode == bicubic ? c : padded(c));
    }
  }
  int k() const { return x.rank() - 2; }
  bool volumes() const { return k() == 3; }
  int taps() const { return mode == nearest ? 1 : mode == bilinear ? 2 : 4; }
  int corners() const {
    int n = 1;
    for (int i = 0; i < k(); ++i) n *= taps();
    return n;
  }
  const std::vector<Expr>& places() const { return along[0].at.dims(); }

  /// Along dim i: the whole coordinate of a corner, its weight, and the weight's derivative by the coordinate. Bicubic sampling finds the
  /// taps first and then what stands for those outside; the other modes the other way round.
  T whole(int corner, int i) const {
    const Coordinate& c = along[static_cast<size_t>(i)];
    if (mode == nearest) return unary(Op::round, c.at);
    if (mode == bilinear) return tap(corner, i) ? floor(c.at) + 1.0 : floor(c.at);
    return padded({floor(c.at) + static_cast<double>(tap(corner, i) - 1), c.slope, c.size}).at;
  }
  T weight(int corner, int i) const {
    const T f = fraction(i);
    return mode == bicubic ? cubic_weight(f, tap(corner, i)) : tap(corner, i) ? f : 1.0 - f;
  }
  T weight_slope(int corner, int i) const {
    const T f = fraction(i);
    return mode == bicubic ? cubic_slope(f, tap(corner, i)) : f.like(tap(corner, i) ? 1.0 : -1.0);
  }
  /// The product of a corner's weights, [N, O..]; the derivative along dim `by` in place of the weight there.
  T weights(int corner, int by = -1) const {
    T w(x.b(), full(x.b(), x.dtype(), places(), 1.0));
    for (int i = 0; i < k() && mode != nearest; ++i) w = w * (i == by ? weight_slope(corner, i) : weight(corner, i));
    return w;
  }
  /// Whether corners may lie outside of the image: with padding, those after a coordinate on its last row or column.
  bool leaves() const { return padding == zeros || mode == bilinear; }
  /// Whether a corner lies in the image. One outside counts for nothing, whatever its neighbour holds.
  T inside(int corner) const {
    T in(x.b(), full(x.b(), DType::boolean, places(), 1.0));
    for (int i = 0; i < k() && leaves(); ++i) {
      const T c = whole(corner, i);
      if (padding == zeros || corner >> i & 1) in = in & (c <= along[static_cast<size_t>(i)].size - 1.0);
      if (padding == zeros) in = in & (c >= 0.0);
    }
    return in;
  }
  /// The index of a corner along dim i, the nearest one where it is outside.
  T index(int corner, int i) const {
    return minimum(maximum(whole(corner, i).to(DType::i64), 0.0), scalar_of(x.b(), x.dim(2 + i) - 1, DType::i64));
  }
  /// The images at a corner, 0 outside, [N, C, O..]. One index for all spatial dims: what it costs is for every channel.
  T sample(int corner) const {
    std::vector<Expr> lines = {x.dim(0), x.dim(1), Expr(1)};
    T flat = index(corner, 0);
    for (int i = 0; i < k(); ++i) {
      lines[2] *= x.dim(2 + i);
      if (i) flat = flat * scalar_of(x.b(), x.dim(2 + i), DType::i64) + index(corner, i);
    }
    Ints perm = {0, k() + 1};
    for (int i = 0; i < k(); ++i) perm.push_back(1 + i);
    const T v(x.b(), x.b().index(x.reshape(lines), {iota(x.b(), places(), 0), flat}, {0, 2}, 0));  // [N, O.., C]
    return (leaves() ? where(inside(corner).unsqueeze(-1), v, 0.0) : v).permute(perm);
  }

  T x;
  int64_t mode, padding;
  bool align;
  std::vector<Coordinate> along;

 private:
  int tap(int corner, int i) const {
    for (; i > 0; --i) corner /= taps();
    return corner % taps();
  }
  T fraction(int i) const {
    const T& c = along[static_cast<size_t>(i)].at;
    return c - floor(c);
  }
  /// From 0 to 2 over the image. Products end in an exact one: what an inexact one loses, a subtraction after it need not.
  T unnormalized(const T& g, const T& size) const {
    if (align) return g * ((size - 1.0) * 0.25) * 2.0;
    const T half = g * (size * 0.5);
    return volumes() ? (half * 2.0 - 1.0) * 0.5 : half - 0.5;
  }
  /// What stands for a coordinate outside of the image. For one that is not a number LibTorch takes the first element of images and the
  /// last one of volumes (on GPUs the first one of both).
  Coordinate padded(Coordinate c) const {
    const T zero = c.size.like(0), last = c.size - 1.0;
    if (padding == reflection) {
      const T lo2 = align ? zero : zero - 1.0, hi2 = align ? last * 2.0 : c.size * 2.0 - 1.0;
      c = volumes() ? reflect_exactly(c, lo2, hi2) : reflect(c, lo2, hi2);
    }
    if (padding != zeros) {
      c.slope = where((c.at > 0.0) & (c.at < last), c.slope, 0.0);
      c.at = volumes() ? maximum(where(c.at < last, c.at, last), 0.0) : minimum(where(c.at > 0.0, c.at, 0.0), last);
    }
    return c;
  }
};

void sample(Rule& r) {
  const Sampling s(r);
  std::optional<T> sum;
  for (int corner = 0; corner < s.corners(); ++corner) {
    const T v = s.sample(corner), term = s.mode == nearest ? v : v * s.weights(corner).unsqueeze(1);
    sum = sum ? *sum + term : term;
  }
  r.set(sum->to(r.meta_result().dtype));
}

/// Of the images: each corner gets the gradient times its weight.
T of_images(const Sampling& s, const T& g) {
  Builder& b = s.x.b();
  std::vector<Expr> flat = {s.x.dim(0), s.x.dim(1), aotc::product({s.x.dims().begin() + 2, s.x.dims().end()})};
  const std::vector<Expr> read = {s.x.dim(0), s.x.dim(1), aotc::product({s.places().begin() + 1, s.places().end()})};
  T sum(b, full(b, s.x.dtype(), flat, 0.0));
  for (int corner = 0; corner < s.corners(); ++corner) {
    T at = s.index(corner, 0);
    for (int i = 1; i < s.k(); ++i) at = at * scalar_of(b, s.x.dim(2 + i), DType::i64) + s.index(corner, i);
    const T v = where(s.inside(corner).unsqueeze(1), g * s.weights(corner).unsqueeze(1), 0.0);
    const std::vector<ValueId> in = {sum, at.unsqueeze(1).expand(g.dims()).reshape(read), v.reshape(read)};
    sum = {b, b.make1(Op::scatter, in, {{Attr::dim, int64_t{2}}, {Attr::reduce, std::string("sum")}, {Attr::include_self, true}})};
  }
  return sum.reshape(s.x.dims());
}

/// Of the grid: the corners' values weigh against each other.
T of_grid(const Sampling& s, const T& g) {
  Builder& b = s.x.b();
  std::vector<T> dims(static_cast<size_t>(s.k()), T(b, full(b, s.x.dtype(), s.places(), 0.0)));
  for (int corner = 0; corner < s.corners() && s.mode != nearest; ++corner) {
    const T v = (g * s.sample(corner)).sum({1}, false);
    for (int i = 0; i < s.k(); ++i) {
      T& sum = dims[static_cast<size_t>(i)];
      sum = sum + v * s.weights(corner, i);
    }
  }
  std::vector<ValueId> numbers;
  for (int i = s.k(); i-- > 0;) numbers.push_back((dims[static_cast<size_t>(i)] * s.along[static_cast<size_t>(i)].slope).unsqueeze(-1));
  return {b, b.cat(numbers, s.k() + 1)};
}

void gradients(Rule& r) {
  const Sampling s(r);
  const T g = tensor(r, "grad_output").to(s.x.dtype());
  const auto set = [&](size_t i, auto make) {
    if (!r.wants(i)) return;
    const TensorType t = r.meta_result(i);
    const bool empty = t.elems().is(0) || r.b.type(g).elems().is(0);
    r.set(i, empty ? T(r.b, full(r.b, t.dtype, t.dims, 0.0)) : make(s, g).to(t.dtype));
  };
  set(0, of_images);
  set(1, of_grid);
}

constexpr RuleRow kRows[] = {
    {"aten.grid_sampler.default aten.grid_sampler_2d.default aten.grid_sampler_3d.default", sample},
    {"aten.grid_sampler_2d_backward.default aten.grid_sampler_3d_backward.default", gradients},
};
}  // namespace

RuleTable grid_sample_rules() { return kRows; }

}  // namespace aotc::decompose
