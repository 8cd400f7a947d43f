// What is reduced over segments of a line, and over bins of values.
#include <algorithm>
#include <array>
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

/// Two bounds, each of one element, with room between them.
struct Bounds {
  T low, high;
};
/// Those given, or the least and the largest of a line (of none: 0 and 1); one value for both gets a bin around it.
Bounds bounds_of(const T& line, const std::optional<std::array<double, 2>>& given) {
  const auto bound = [&](size_t i, ReduceKind kind) {
    if (!given && !line.dim(0).is(0)) return line.reduce(kind, {0}, true);
    return T(line.b(), full(line.b(), line.dtype(), {1}, given ? (*given)[i] : static_cast<double>(i)));
  };
  const T low = bound(0, ReduceKind::min), high = bound(1, ReduceKind::max), one = low == high;
  return {where(one, low - 0.5, low), where(one, high + 0.5, high)};
}
/// [bins + 1]: edges of bins of one size, as linspace has them, from both ends.
T even_edges(const Bounds& at, int64_t bins) {
  Builder& b = at.low.b();
  const T step = (at.high - at.low) / static_cast<double>(bins), place = iota(b, {Expr(bins + 1)}, 0, at.low.dtype());
  return where(place < static_cast<double>((bins + 1) / 2), at.low + step * place, at.high - step * (static_cast<double>(bins) - place));
}
std::optional<std::array<double, 2>> range_of(Rule& r, size_t dim) {
  if (r.none("range")) return std::nullopt;
  const auto all = r.numbers("range");
  return std::array<double, 2>{all.at(2 * dim), all.at(2 * dim + 1)};
}

void histogram_of_bins(Rule& r) {
  const T x = tensor(r, "self"), flat = x.reshape({r.b.type(x).elems()});
  set_histogram(r, flat, even_edges(bounds_of(flat, range_of(r, 0)), r.integer("bins")));
}

/// Points [.., D] counted (or their weights summed) by the bins of each of their D numbers; those outside of any dim's bins are left out.
void set_histogram_of_points(Rule& r, const T& points, const std::vector<T>& edges) {
  const Expr count = points.dim(0);
  T bin = iota(r.b, {count}, 0) * 0.0, inside = bin == 0.0;
  Expr bins = 1;
  std::vector<Expr> dims;
  for (size_t d = 0; d < edges.size(); ++d) {
    const T x = points.select(-1, static_cast<int64_t>(d)), line = edges[d].to(x.dtype());
    const Expr n = line.dim(0) - 1;
    const T low = line.slice(0, 0, 1), high = line.slice(0, n, 1);
    const T edge = (line.unsqueeze(0) <= x.unsqueeze(1)).to(DType::i64).sum({1}, false) - 1.0;  // the last one that is not above it
    inside = inside & (x >= low) & (x <= high);
    bin = bin * scalar_of(r.b, n, DType::i64) + minimum(edge, scalar_of(r.b, n - 1, DType::i64));
    bins *= n;
    dims.push_back(n);
  }
  const T one = points.select(-1, 0).like(1.0);
  const auto given = opt_tensor(r, "weight");
  const T weight = given ? given->reshape({count}).to(points.dtype()) : one;
  const T sums(r.b, r.b.make1(Op::scatter,
                              {full(r.b, points.dtype(), {bins + 1}, 0.0), where(inside, bin, scalar_of(r.b, bins, DType::i64)), weight},
                              {{Attr::dim, int64_t{0}}, {Attr::reduce, std::string("sum")}, {Attr::include_self, true}}));
  T y = sums.slice(0, 0, bins).reshape(dims);
  if (r.boolean_or("density", false)) {
    y = y / sums.slice(0, 0, bins).sum({0}, false);
    for (size_t d = 0; d < edges.size(); ++d) {
      const T widths = edges[d].slice(0, 1, dims[d]) - edges[d].slice(0, 0, dims[d]);
      std::vector<Expr> along(dims.size(), Expr(1));
      along[d] = dims[d];
      y = y / widths.reshape(along);
    }
  }
  r.set(0, y);
}
T points_of(Rule& r) {
  const T x = tensor(r, "self");
  if (x.rank() < 2) r.refuse("points without a dim of their numbers");
  Expr count = 1;
  for (int d = 0; d + 1 < x.rank(); ++d) count *= x.dim(d);
  return x.reshape({count, x.dim(-1)});
}

enum class Edges { given, counted, counted_alike };
template <Edges from>
void histogram_of_points(Rule& r) {
  const T points = points_of(r);
  const int64_t numbers = r.constant(points.dim(-1), "how many numbers a point has");
  std::vector<T> edges;
  if (from == Edges::given)
    for (const ValueId v : r.tensors("bins")) edges.emplace_back(r.b, v);
  else
    for (int64_t d = 0; d < numbers; ++d)
      edges.push_back(even_edges(bounds_of(points.select(-1, d), range_of(r, static_cast<size_t>(d))),
                                 from == Edges::counted ? r.integers("bins").at(static_cast<size_t>(d)) : r.integer("bins")));
  if (static_cast<int64_t>(edges.size()) != numbers) r.refuse("bins of other than each number of a point");
  if (r.wants(0)) set_histogram_of_points(r, points, edges);
  if (!r.wants(1)) return;
  r.set_list(1, std::vector<ValueId>(edges.begin(), edges.end()));
}

/// Counts of equal bins between two bounds, those given or the least and the largest value; both bounds belong.
void histc(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self");
  const double lo = r.number_or("min", 0), hi = r.number_or("max", 0);
  const int64_t bins = r.integer_or("bins", 100);
  const T v = x.reshape({r.b.type(x).elems()}).to(is_float(x.dtype()) ? compute_type(x.dtype()) : DType::f64);
  T low(r.b, full(r.b, v.dtype(), {}, lo)), high(r.b, full(r.b, v.dtype(), {}, hi));
  if (lo == hi) {  // one value for both gets a bin on each side of it
    if (!v.dim(0).is(0)) low = v.reduce(ReduceKind::min, {0}, false), high = v.reduce(ReduceKind::max, {0}, false);
    r.check(abs(low) + abs(high) < kInfinity, fmt::format("{}: a range of values that is not finite", r.node.target));
    const T one = low == high;
    low = where(one, low - 1.0, low), high = where(one, high + 1.0, high);
  }
  const T bin = minimum(floor((v - low) * static_cast<double>(bins) / (high - low)), static_cast<double>(bins - 1)).to(DType::i64);
  const T hit = (bin.unsqueeze(0) == iota(r.b, {Expr(bins)}, 0).unsqueeze(1)) & ((v >= low) & (v <= high)).unsqueeze(0);
  r.set(hit.to(DType::i64).sum({1}, false).to(t.dtype));
}

constexpr RuleRow kRows[] = {
    {"aten.segment_reduce.default", segment_reduce},
    {"aten.histogram.bins_tensor", histogram_of_edges},
    {"aten.histogram.bin_ct", histogram_of_bins},
    {"aten.histogramdd.default", histogram_of_points<Edges::counted>},
    {"aten.histogramdd.int_bins", histogram_of_points<Edges::counted_alike>},
    {"aten.histogramdd.TensorList_bins", histogram_of_points<Edges::given>},
    {"aten.histc.default", histc},
};
}  // namespace

RuleTable segment_rules() { return kRows; }

}  // namespace aotc::decompose
