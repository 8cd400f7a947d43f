// Gradients of distances between rows.
#include <cmath>

#include "decompose/families.h"
#include "decompose/linalg.h"

namespace aotc::decompose {
namespace {

/// The gradient of a norm's p-distance to one operand: g and dist broadcast to diff, which is this operand less the other.
T of_difference(const T& g, const T& diff, const T& dist, double p) {
  if (p == 0) return (diff * g).like(0);
  if (p == 1) return g * unary(Op::sign, diff);
  if (std::isinf(p)) return where(abs(diff) == dist, g * unary(Op::sign, diff), 0.0);
  const T scale = p == 2 ? g / dist : g * binary(Op::pow, dist, 1.0 - p);
  const T v = p == 2 ? diff * scale : unary(Op::sign, diff) * binary(Op::pow, abs(diff), p - 1.0) * scale;
  const T none = p < 1 ? (dist == 0.0) | (diff == 0.0) : dist == 0.0;
  return where(none, 0.0, v);
}

/// The gradient of the distances, as torch calls it since 2.15 and before.
std::string_view gradient_of(const Rule& r) { return r.has("grad_output") ? "grad_output" : "grad"; }

void cdist(Rule& r) {
  const TensorType t = r.meta_result();
  const DType in = compute_type(t.dtype);
  const T x = tensor(r, "x1").to(in), y = tensor(r, "x2").to(in);
  const T g = tensor(r, gradient_of(r)).to(in), dist = tensor(r, "cdist").to(in);
  if (t.elems().is(0) || r.b.type(g).elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  const T v = of_difference(g.unsqueeze(-1), x.unsqueeze(-2) - y.unsqueeze(-3), dist.unsqueeze(-1), r.number("p"));
  r.set(v.sum({v.rank() - 2}, false).to(t.dtype));
}

/// Pairs (i, j) with i < j, each once; row i of the result sums over the pairs it is in.
void pdist(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").up();
  const int64_t n = r.constant(x.dim(0), "the number of rows");
  if (n > kMaxPairedRows) r.refuse(fmt::format("distances of all pairs of more than {} rows", kMaxPairedRows), "use torch.cdist");
  if (n < 2 || x.dim(1).is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  Ints pair;  // [n, n]: the pair's number; the diagonal is no pair, its difference is 0
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const int64_t a = std::min(i, j), b = std::max(i, j);
      pair.push_back(i == j ? 0 : a * n - a * (a + 1) / 2 + b - a - 1);
    }
  const T at = T(r.b, literal(r.b, pair)).reshape({n, n});
  const auto square = [&](std::string_view name) { return T(r.b, r.b.index(tensor(r, name).to(x.dtype()), {at}, {0}, 0)).unsqueeze(-1); };
  const T v = of_difference(square(gradient_of(r)), x.unsqueeze(1) - x.unsqueeze(0), square("pdist"), r.number("p"));
  const T other = iota(r.b, {n, n, 1}, 0) != iota(r.b, {n, n, 1}, 1);
  r.set(where(other, v, 0.0).sum({1}, false).to(t.dtype));
}

constexpr RuleRow kRows[] = {
    {"aten._cdist_backward.default", cdist},
    {"aten._pdist_backward.default", pdist},
};
}  // namespace

RuleTable backward_distance_rules() { return kRows; }

}  // namespace aotc::decompose
