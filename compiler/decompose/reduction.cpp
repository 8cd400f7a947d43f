// Reductions.
#include "decompose/reduction.h"

#include <algorithm>
#include <cmath>

#include "decompose/bits.h"
#include "decompose/families.h"
#include "decompose/linalg.h"

namespace aotc::decompose {

Ints reduced_dims(Rule& r, int rank, bool empty_means_all) {
  if (!r.has("dim") || r.none("dim")) {
    if (r.pairs) --rank;
    Ints all;
    for (int i = 0; i < rank; ++i) all.push_back(i);
    return all;
  }
  return r.dims("dim", rank, empty_means_all);
}

T reduced_count(const T& x, const Ints& dims, DType dtype, double minus) {
  std::vector<Expr> sizes;
  for (int64_t d : dims) sizes.push_back(x.dims()[static_cast<size_t>(d)]);
  const T n = count(x.b(), sizes, dtype);
  if (minus == 0) return n;
  const std::optional<int64_t> c = x.b().syms().simplify(product(sizes)).as_const();
  if (c) return {x.b(), full(x.b(), dtype, {}, std::max(static_cast<double>(*c) - minus, 0.0))};
  return maximum(n - minus, 0.0);
}

T mean_of(const T& x, const Ints& dims, bool keep) { return x.sum(dims, keep) / reduced_count(x, dims, x.dtype()); }

namespace {

/// A power of two; sums of as many elements times it stay within the elements' range.
double sum_scale(const T& x, const Ints& dims) {
  constexpr int kMost = 20;  // the scale of larger and unknown numbers of elements
  std::vector<Expr> sizes;
  for (const int64_t d : dims) sizes.push_back(x.dim(static_cast<int>(d)));
  const int64_t most = x.b().syms().interval(product(sizes)).max;
  int power = 0;
  while (power < kMost && (int64_t{1} << power) < most) ++power;
  return std::ldexp(1.0, -power);
}

/// What is left of elements without their mean, which their type rounds; `rest` is what that subtracted too little.
struct Center {
  T rounded, centered;
  std::optional<T> rest;  ///< none where the elements were rounded to fewer bits than the mean is
  T count;
  double scale;  ///< of sums
  T mean() const { return rest ? where(unary(Op::isinf, rounded), rounded, rounded + *rest) : rounded; }
};

T sum_of_scaled(const T& x, const Ints& dims, double scale) { return (scale == 1.0 ? x : x * scale).sum(dims, true); }

Center center_of(const T& x, DType of, const Ints& dims) {
  const bool same_range = x.dtype() == of || (of == DType::bf16 && x.dtype() == DType::f32);
  const double scale = same_range ? sum_scale(x, dims) : 1.0;
  const T n = reduced_count(x, dims, x.dtype()), scaled = n * scale;
  const T mean = sum_of_scaled(x, dims, scale) / scaled, centered = x - mean;
  Center c{mean, centered, std::nullopt, n, scale};
  if (x.dtype() == of) c.rest = sum_of_scaled(centered, dims, scale) / scaled;
  return c;
}

/// The sum of squared deviations from the mean that is not rounded.
T squares_of(const T& centered, const std::optional<T>& rest, const T& n, const Ints& dims) {
  const T sum = (centered * centered).sum(dims, true);
  return rest ? where(unary(Op::isinf, sum), sum, maximum(sum - *rest * *rest * n, 0.0)) : sum;
}

/// Powers of two, one for each float32 sum of magnitudes, that bring it near one.
T units_of(const T& sums) {
  constexpr double kExponent = 0x7f800000, kOfOne = 0x7f000000, kLeast = 0x00800000;  // bits of a float32; of the exponents of x and 1 / x
  return retyped(maximum(kOfOne - binary(Op::bit_and, retyped(sums, DType::i32), kExponent), kLeast), DType::f32);
}

}  // namespace

Moments moments_of(const T& x, DType of, const Ints& dims) {
  const Center c = center_of(x, of, dims);
  return {c.mean(), c.rest ? c.centered - *c.rest : c.centered, squares_of(c.centered, c.rest, c.count, dims) / c.count};
}

namespace {

T root_of_powers(const T& x, double ord, const Ints& dims) {
  if (ord == 2) return sqrt((x * x).sum(dims, true));
  return binary(Op::pow, binary(Op::pow, abs(x), ord).sum(dims, true), 1.0 / ord);
}

bool keeps(Rule& r) { return r.boolean_or("keepdim", false); }

/// What was reduced with its dims kept, as the operator's keepdim has it.
T as_asked(Rule& r, T kept, Ints dims) {
  if (keeps(r)) return kept;
  std::sort(dims.begin(), dims.end());
  while (!dims.empty()) kept = kept.squeeze(static_cast<int>(dims.back())), dims.pop_back();
  return kept;
}

}  // namespace

T vector_norm(const T& x, double ord, const Ints& dims) {
  const T a = abs(x);
  // The norm of one element is its magnitude, without a power that may leave the type's range.
  if (ord != 0 && ord != 1 && !std::isinf(ord)) {
    std::vector<Expr> sizes;
    for (int64_t d : dims) sizes.push_back(x.dim(static_cast<int>(d)));
    const SymTable& syms = x.b().syms();
    const Expr n = syms.simplify(product(sizes));
    if (n.is(1)) return a;
    const T y = root_of_powers(x, ord, dims);
    return syms.proves_ne(n, 1) ? y : where(scalar_of(x.b(), n, DType::i64) == 1.0, a.sum(dims, true), y);
  }
  if (std::isinf(ord)) return a.reduce(ord > 0 ? ReduceKind::max : ReduceKind::min, dims, true);
  if (ord == 0) return (x != 0.0).to(x.dtype()).sum(dims, true);
  return a.sum(dims, true);
}

namespace {

/// Sum of `x` cast to the result's type of arithmetic.
void sum(Rule& r) {
  const TensorType t = r.meta_result();
  if (is_bool(t.dtype)) {
    const T x = tensor(r, "self").to(t.dtype);
    return r.set(x.reduce(ReduceKind::max, reduced_dims(r, x.rank(), true), keeps(r)));
  }
  const T x = tensor(r, "self").to(compute_type(t.dtype));
  r.set(x.sum(reduced_dims(r, x.rank(), true), keeps(r)).to(t.dtype));
}

void prod(Rule& r) {
  const TensorType t = r.meta_result();
  if (is_bool(t.dtype)) {
    const T x = tensor(r, "self").to(t.dtype);
    return r.set(x.reduce(ReduceKind::min, reduced_dims(r, x.rank(), true), keeps(r)));
  }
  const T x = tensor(r, "self").to(compute_type(t.dtype));
  r.set(x.reduce(ReduceKind::prod, reduced_dims(r, x.rank(), true), keeps(r)).to(t.dtype));
}

void mean(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").to(compute_type(t.dtype));
  r.set(mean_of(x, reduced_dims(r, x.rank(), true), keeps(r)).to(t.dtype));
}

void nansum(Rule& r) {
  const TensorType t = r.meta_result();
  T x = tensor(r, "self");
  if (is_float(x.dtype())) x = where(unary(Op::isnan, x), 0.0, x);
  x = x.to(compute_type(t.dtype));
  r.set(x.sum(reduced_dims(r, x.rank(), true), keeps(r)).to(t.dtype));
}

void nanmean(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").to(compute_type(t.dtype));
  const Ints d = reduced_dims(r, x.rank(), true);
  const T bad = unary(Op::isnan, x);
  r.set((where(bad, 0.0, x).sum(d, keeps(r)) / (!bad).to(x.dtype()).sum(d, keeps(r))).to(t.dtype));
}

void check_not_empty(Rule& r, const T& x, const Ints& dims) {
  for (int64_t d : dims)
    if (x.dim(static_cast<int>(d)).is(0)) r.refuse("reduction over an empty dimension");
}

template <ReduceKind kind>
void extreme(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self");
  const Ints d = reduced_dims(r, x.rank(), true);
  if (!t.elems().is(0)) check_not_empty(r, x, d);
  r.set(x.reduce(kind, d, keeps(r)));
}

template <ReduceKind kind, ReduceKind arg>
void extreme_with_index(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.dim("dim", x.rank());
  const Ints over = x.rank() == 0 ? Ints{} : Ints{d};
  if (r.wants(0)) r.set(0, x.reduce(kind, over, keeps(r)));
  if (r.wants(1)) r.set(1, x.reduce(arg, over, keeps(r)));
}

template <ReduceKind arg>
void arg_extreme(Rule& r) {
  const TensorType t = r.meta_result();
  T x = tensor(r, "self");
  Ints over;
  const bool all = r.none("dim");
  const std::vector<Expr> ones(keeps(r) ? static_cast<size_t>(x.rank()) : 0, Expr(1));
  if (all) {
    x = x.reshape({r.b.type(x).elems()});
    over = {0};
  } else {
    const int d = r.dim("dim", x.rank());
    if (x.rank() > 0) over = {d};
  }
  if (!t.elems().is(0)) check_not_empty(r, x, over);
  const T y = x.reduce(arg, over, keeps(r) && !all);
  r.set(all ? y.reshape(ones) : y);
}

void aminmax(Rule& r) {
  const T x = tensor(r, "self");
  const Ints d = r.none("dim") ? reduced_dims(r, x.rank(), true) : x.rank() == 0 ? Ints{} : Ints{r.dim("dim", x.rank())};
  if (r.wants(0)) r.set(0, x.reduce(ReduceKind::min, d, keeps(r)));
  if (r.wants(1)) r.set(1, x.reduce(ReduceKind::max, d, keeps(r)));
}

template <ReduceKind kind>
void truth(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").to(DType::boolean);
  // An empty list of dims: all of them for a None, none of them for any.dims and all.dims.
  r.set(x.reduce(kind, reduced_dims(r, x.rank(), true), keeps(r)).to(t.dtype));
}

void count_nonzero(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").to(DType::boolean).to(DType::i64);
  r.set(x.sum(reduced_dims(r, x.rank(), true), keeps(r)));
}

double correction_of(Rule& r) {
  if (r.has("unbiased")) return r.boolean("unbiased") ? 1.0 : 0.0;
  return r.number_or("correction", 1.0);
}

/// The mean as Welford's recurrence leaves it: an infinity that is not the last element meets itself in the next step.
T recurrent_mean(const T& x, const T& mean, const Ints& over) {
  T place = scalar_of(x.b(), 0, DType::i64);
  std::vector<Expr> sizes;
  for (int64_t d : over) {
    sizes.push_back(x.dim(static_cast<int>(d)));
    place = place * scalar_of(x.b(), sizes.back(), DType::i64) + iota(x.b(), x.dims(), static_cast<int>(d));
  }
  const T early = place < scalar_of(x.b(), product(sizes) - 1, DType::i64);
  return where((unary(Op::isinf, x) & early).reduce(ReduceKind::max, over, true), std::nan(""), mean);
}

/// Deviations may be of any magnitude that the type has: their squares are of units in which they are near one.
template <bool root, bool with_mean>
void variance(Rule& r) {
  const T x0 = tensor(r, "self"), x = x0.up();
  const Ints d = reduced_dims(r, x.rank(), true);
  const Center c = center_of(x, x0.dtype(), d);
  const auto put = [&](size_t i, const T& v) {
    if (r.wants(i)) r.set(i, as_asked(r, v.to(r.meta_result(i).dtype), d));
  };
  const T divisor = reduced_count(x, d, x.dtype(), correction_of(r));
  if (x.dtype() == DType::f32 && x0.dtype() != DType::f16) {
    const T unit = units_of(sum_of_scaled(abs(x), d, c.scale));
    const T var = squares_of(c.centered * unit, c.rest ? std::optional(*c.rest * unit) : std::nullopt, c.count, d) / divisor;
    put(0, root ? sqrt(var) / unit : var / unit / unit);
  } else {
    const T var = squares_of(c.centered, c.rest, c.count, d) / divisor;
    put(0, root ? sqrt(var) : var);
  }
  if (with_mean && r.wants(1)) put(1, recurrent_mean(x, c.mean(), d));
}

void logsumexp(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").to(compute_type(t.dtype));
  const Ints d = reduced_dims(r, x.rank(), true);
  const T top = x.reduce(ReduceKind::max, d, true);
  const T shift = where(unary(Op::isinf, top), 0.0, top);
  r.set(as_asked(r, (log(exp(x - shift).sum(d, true)) + shift).to(t.dtype), d));
}

void norm(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, r.has("self") ? "self" : "A").to(compute_type(t.dtype));
  const std::string_view ord = r.has("ord") ? "ord" : "p";
  if (r.has(ord) && std::holds_alternative<std::string>(r.arg(ord)) && r.text(ord) != "fro")
    r.refuse(fmt::format("the norm '{}' is not supported", r.text(ord)));
  const bool two = r.none(ord) || std::holds_alternative<std::string>(r.arg(ord));
  const Ints d = reduced_dims(r, x.rank(), true);
  r.set(as_asked(r, vector_norm(x, two ? 2.0 : r.number(ord), d).to(t.dtype), d));
}

/// torch.linalg.norm: a matrix norm where ord is given for two dims.
void linalg_norm(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, r.has("self") ? "self" : "A").to(compute_type(t.dtype));
  const Ints d = reduced_dims(r, x.rank(), true);
  const bool frobenius = r.none("ord") || (std::holds_alternative<std::string>(r.arg("ord")) && r.text("ord") == "fro");
  if (frobenius) return r.set(as_asked(r, vector_norm(x, 2.0, d).to(t.dtype), d));
  const bool nuclear = std::holds_alternative<std::string>(r.arg("ord"));
  const double ord = nuclear ? 0 : r.number("ord");
  const bool vector = !nuclear && (r.none("dim") ? x.rank() == 1 : d.size() == 1);
  if (vector) return r.set(as_asked(r, vector_norm(x, ord, d).to(t.dtype), d));
  if (d.size() != 2) r.refuse("a matrix norm over other than two dims");
  Ints given = r.none("dim") ? Ints{0, 1} : r.integers("dim");
  for (int64_t& i : given)
    if (i < 0) i += x.rank();
  const ReduceKind over = ord > 0 ? ReduceKind::max : ReduceKind::min;
  if (std::isinf(ord)) return r.set(as_asked(r, abs(x).sum({given[1]}, true).reduce(over, {given[0]}, true).to(t.dtype), d));
  if (std::abs(ord) == 1) return r.set(as_asked(r, abs(x).sum({given[0]}, true).reduce(over, {given[1]}, true).to(t.dtype), d));
  if (!nuclear && std::abs(ord) != 2) r.refuse(fmt::format("the matrix norm of order {} is not supported", ord));
  Ints last;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != given[0] && i != given[1]) last.push_back(i);
  last.insert(last.end(), given.begin(), given.end());
  const T values = singular_values(r, x.permute(last).to(DType::f64));
  T result = values.reduce(nuclear ? ReduceKind::sum : over, {values.rank() - 1}, false);
  for (const int64_t i : {std::min(given[0], given[1]), std::max(given[0], given[1])}) result = result.unsqueeze(static_cast<int>(i));
  r.set(as_asked(r, result.to(t.dtype), d));
}

void trace(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").to(compute_type(t.dtype));
  const T eye = iota(r.b, x.dims(), 0) == iota(r.b, x.dims(), 1);
  r.set(where(eye, x, 0.0).sum({0, 1}, false).to(t.dtype));
}

void renorm(Rule& r) {
  const T x = tensor(r, "self"), y = x.up();
  const int keep = r.dim("dim", x.rank());
  Ints over;
  for (int i = 0; i < x.rank(); ++i)
    if (i != keep) over.push_back(i);
  const double limit = r.number("maxnorm");
  const T n = vector_norm(y, r.number("p"), over);
  r.set((y * where(n > limit, limit / (n + 1e-7), n.like(1.0))).to(x.dtype()));
}

constexpr auto kMax = ReduceKind::max, kMin = ReduceKind::min;
constexpr RuleRow kRows[] = {
    {"aten.sum.default aten.sum.dim_IntList", sum},
    {"aten.prod.default aten.prod.dim_int", prod},
    {"aten.mean.default aten.mean.dim", mean},
    {"aten.nansum.default", nansum},
    {"aten.nanmean.default", nanmean},
    {"aten.max.default aten.amax.default", extreme<kMax>},
    {"aten.min.default aten.amin.default", extreme<kMin>},
    {"aten.max.dim", extreme_with_index<kMax, ReduceKind::argmax>},
    {"aten.min.dim", extreme_with_index<kMin, ReduceKind::argmin>},
    {"aten.argmax.default", arg_extreme<ReduceKind::argmax>},
    {"aten.argmin.default", arg_extreme<ReduceKind::argmin>},
    {"aten.aminmax.default", aminmax},
    {"aten.any.default aten.any.dim aten.any.dims", truth<kMax>},
    {"aten.all.default aten.all.dim aten.all.dims", truth<kMin>},
    {"aten.count_nonzero.default aten.count_nonzero.dim_IntList", count_nonzero},
    {"aten.var.default aten.var.dim aten.var.correction", variance<false, false>},
    {"aten.std.default aten.std.dim aten.std.correction", variance<true, false>},
    {"aten.var_mean.default aten.var_mean.dim aten.var_mean.correction", variance<false, true>},
    {"aten.std_mean.default aten.std_mean.dim aten.std_mean.correction", variance<true, true>},
    {"aten.logsumexp.default aten.special_logsumexp.default", logsumexp},
    {"aten.linalg_vector_norm.default aten.norm.Scalar aten.norm.ScalarOpt_dim aten.norm.ScalarOpt_dtype aten.norm.ScalarOpt_dim_dtype "
     "aten.frobenius_norm.dim",
     norm},
    {"aten.linalg_norm.default aten.linalg_norm.ord_str aten.linalg_matrix_norm.default aten.linalg_matrix_norm.str_ord", linalg_norm},
    {"aten.trace.default", trace},
    {"aten.renorm.default", renorm},
};
}  // namespace

RuleTable reduction_rules() { return kRows; }

}  // namespace aotc::decompose
