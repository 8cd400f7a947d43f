// What is reduced over segments of a line, and over bins of values.
#include <algorithm>
#include <limits>

#include "decompose/families.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

/// segment_reduce: segments along `axis`, given by their lengths or by where each begins and the last ends, for each of the lines before.
void segment_reduce(Rule& r) {
  struct Kind {
    std::string_view name, scatter;
    double none;  ///< of no elements
  };
  static constexpr Kind kKinds[] = {
      {"sum", "sum", 0}, {"mean", "sum", 0}, {"prod", "prod", 1}, {"max", "amax", -kInfinity}, {"min", "amin", kInfinity}};
  const std::string how = r.text("reduce");
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == how; });
  if (kind == std::end(kKinds)) r.refuse(fmt::format("reduce='{}' is not supported", how));
  const T x = tensor(r, "data");
  const int axis = static_cast<int>(r.integer_or("axis", 0));
  const bool by_lengths = !r.none("lengths");
  if (!by_lengths && r.none("offsets")) r.refuse("segments without lengths or offsets");
  const T given = tensor(r, by_lengths ? "lengths" : "offsets").to(DType::i64);
  if (axis < 0 || axis >= x.rank() || given.rank() != axis + 1) r.refuse("segments along another dim than the last of their lengths");
  const T ends = by_lengths ? T(r.b, r.b.scan(ReduceKind::sum, given, axis)) : given.slice(-1, 1, given.dim(-1) - 1);
  const T lengths = by_lengths ? given : ends - given.slice(-1, 0, given.dim(-1) - 1);
  const Expr count = lengths.dim(-1), size = x.dim(axis);
  if (!r.boolean_or("unsafe", false)) {
    const T last = count.is(0) ? T(r.b, full(r.b, DType::i64, {}, 0.0)) : ends.slice(-1, count - 1, 1);
    const T fits = (last == scalar_of(r.b, size, DType::i64)) & (lengths.reduce(ReduceKind::min, {axis}, true) >= 0.0);
    Ints all;
    for (int d = 0; d < fits.rank(); ++d) all.push_back(d);
    r.check(!T(r.b, (!fits).reduce(ReduceKind::max, all, false)),
            fmt::format("{}: lengths that do not add up to the data's", r.node.target));
  }
  // The segment of each place: as many as end before it; those in none go behind all.
  const T place = iota(r.b, {size}, 0);
  T segment = (ends.unsqueeze(-2) <= place.unsqueeze(-1)).to(DType::i64).sum({axis + 1}, false);
  if (!by_lengths) segment = where(place < given.slice(-1, 0, 1), scalar_of(r.b, count, DType::i64).expand(segment.dims()), segment);
  std::vector<Expr> base(x.dims()), spread(segment.dims());
  base[static_cast<size_t>(axis)] = count + 1;
  spread.resize(x.dims().size(), Expr(1));
  const double initial = r.none("initial") ? kind->none : r.number("initial");
  const T sums(r.b, r.b.make1(Op::scatter, {full(r.b, x.dtype(), base, initial), segment.reshape(spread).expand(x.dims()), x},
                              {{Attr::dim, int64_t{axis}}, {Attr::reduce, std::string(kind->scatter)}, {Attr::include_self, true}}));
  T y = sums.slice(axis, 0, count);
  if (how == "mean") {
    std::vector<Expr> line(lengths.dims());
    line.resize(x.dims().size(), Expr(1));
    const T n = lengths.reshape(line);
    y = where(n > 0.0, y / maximum(n, 1.0).to(x.dtype()), r.none("initial") ? y.like(kNan) : y);
  }
  r.set(y);
}

/// The sums of the weights of what lies in each bin [edges[i], edges[i + 1]), the last one with its end; by the bins' sizes and the sum of
/// all for a density.
void set_histogram(Rule& r, const T& values, const T& edges) {
  const Expr bins = edges.dim(0) - 1;
  const T x = values.reshape({Expr(1), r.b.type(values).elems()}), low = edges.slice(0, 0, bins).unsqueeze(-1),
          high = edges.slice(0, 1, bins).unsqueeze(-1), last = iota(r.b, {bins, Expr(1)}, 0) == scalar_of(r.b, bins - 1, DType::i64);
  const T within = (x >= low) & ((x < high) | (last & (x == high)));
  T sums = where(within, 1.0, x.like(0.0).expand(within.dims()));
  if (const auto weight = opt_tensor(r, "weight")) sums = where(within, weight->reshape(x.dims()).expand(within.dims()), 0.0);
  T y = sums.sum({1}, false);
  if (r.boolean_or("density", false)) y = y / (edges.slice(0, 1, bins) - edges.slice(0, 0, bins)) / y.sum({0}, true);
  if (r.wants(0)) r.set(0, y);
  if (r.wants(1)) r.set(1, edges);
}

void histogram_of_edges(Rule& r) { set_histogram(r, tensor(r, "self"), tensor(r, "bins")); }

/// Bins of one size between two bounds: those given, or the least and the largest value.
void histogram_of_bins(Rule& r) {
  const T x = tensor(r, "self");
  const int64_t bins = r.integer("bins");
  const T flat = x.reshape({r.b.type(x).elems()});
  const bool given = !r.none("range");
  const auto bound = [&](size_t i, ReduceKind kind) {
    if (given) return T(r.b, full(r.b, x.dtype(), {1}, r.numbers("range").at(i)));
    if (flat.dim(0).is(0)) return T(r.b, full(r.b, x.dtype(), {1}, static_cast<double>(i)));
    return flat.reduce(kind, {0}, true);
  };
  T low = bound(0, ReduceKind::min), high = bound(1, ReduceKind::max);
  const T one = low == high;  // value: a bin around it
  const T from = where(one, low - 0.5, low), to = where(one, high + 0.5, high);
  // As linspace has them: from both ends.
  const T step = (to - from) / static_cast<double>(bins), at = iota(r.b, {Expr(bins + 1)}, 0, x.dtype());
  const T edges = where(at < static_cast<double>((bins + 1) / 2), from + step * at, to - step * (static_cast<double>(bins) - at));
  set_histogram(r, flat, edges);
}

constexpr RuleRow kRows[] = {
    {"aten.segment_reduce.default", segment_reduce},
    {"aten.histogram.bins_tensor", histogram_of_edges},
    {"aten.histogram.bin_ct", histogram_of_bins},
};
}  // namespace

RuleTable segment_rules() { return kRows; }

}  // namespace aotc::decompose
