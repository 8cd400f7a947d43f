// Numbers rounded to a grid of small integers, q = round(x / scale) + zero point from quant_min to quant_max, and products of such
// integers. The operators of quantized_decomposed are those that PyTorch's export quantisation (PT2E) leaves in a program; they are defined
// in torch/ao/quantization/fx/_decomposed.py.
#include <limits>

#include "decompose/families.h"
#include "decompose/linalg.h"

namespace aotc::decompose {
namespace {

constexpr double kFloatEps = std::numeric_limits<float>::epsilon();

/// A number, or the number of a tensor of one element: in float64, as Python has it.
T number(Rule& r, std::string_view name) {
  if (r.is_tensor(name)) return tensor(r, name).reshape({}).to(DType::f64);
  return {r.b, full(r.b, DType::f64, {}, r.number(name))};
}

T clamped(Rule& r, const T& q) { return minimum(maximum(q, number(r, "quant_min").to(q.dtype())), number(r, "quant_max").to(q.dtype())); }

DType quantized_type(Rule& r) {
  const std::optional<DType> t = r.opt_dtype("dtype");
  if (!t || is_float(*t) || is_bool(*t) || is_complex(*t)) r.refuse("quantisation to other types than integers");
  return *t;
}

/// The type of tensors of these two types together, none of them a number.
DType both(const T& a, const T& b) { return promote_types(a.dtype(), b.dtype()); }

void quantize_per_tensor(Rule& r) {
  const DType to = quantized_type(r);
  const T x = tensor(r, "input").up(), steps = (1.0 / number(r, "scale")).to(x.dtype());
  r.set(clamped(r, unary(Op::round, x * steps) + number(r, "zero_point").to(x.dtype())).to(to));
}

void dequantize_per_tensor(Rule& r) {
  const DType out = r.opt_dtype("out_dtype").value_or(DType::f32);
  const T moved = (tensor(r, "input").to(out).up() - number(r, "zero_point").to(compute_type(out))).to(out);
  r.set((moved.up() * number(r, "scale").to(compute_type(out))).to(out));
}

/// Along an axis of the tensor, as many of them as there are.
T along(Rule& r, const T& of, const T& x) {
  std::vector<Expr> dims(static_cast<size_t>(x.rank()), Expr(1));
  const size_t axis = static_cast<size_t>(r.dim("axis", x.rank()));
  dims[axis] = x.dim(static_cast<int>(axis));
  return of.reshape(dims);
}

void quantize_per_channel(Rule& r) {
  const DType to = quantized_type(r);
  const T x = tensor(r, "input").up();
  const T scale = along(r, tensor(r, "scales"), x), zero = along(r, tensor(r, "zero_points"), x);
  const T steps = (1.0 / scale.up()).to(scale.dtype());
  const DType in = both(x, steps);
  const T q = unary(Op::round, x.to(in) * steps.to(in));
  const DType sum = both(q, zero);
  r.set(clamped(r, q.to(sum) + zero.to(sum)).to(to));
}

/// (x - zero) * scale, each in the type that PyTorch's promotion gives it.
T dequantized(const T& x, const std::optional<T>& zero, const T& scale) {
  const T moved = zero ? x.to(both(x, *zero)) - zero->to(both(x, *zero)) : x;
  const DType t = both(moved, scale);
  return (moved.to(t).up() * scale.to(t).up()).to(t);
}

void dequantize_per_channel(Rule& r) {
  const T x = tensor(r, "input");
  std::optional<T> zero = opt_tensor(r, "zero_points");
  if (zero) zero = along(r, *zero, x);
  r.set(dequantized(x, zero, along(r, tensor(r, "scales"), x)).to(r.opt_dtype("out_dtype").value_or(DType::f32)));
}

/// In float64 where the scales are, which is what choose_qparams_per_token_asymmetric gives.
T quantized(Rule& r, const T& x, const T& scale, const T& zero) {
  const DType to = quantized_type(r);
  const T steps = (1.0 / scale.up()).to(scale.dtype());
  const DType in = both(x, steps);
  const T scaled = (x.to(in).up() * steps.to(in).up()).to(in);
  const DType sum = both(scaled, zero);
  const T moved = (scaled.to(sum).up() + zero.to(sum).up()).to(sum);
  return clamped(r, unary(Op::round, moved)).to(to);
}

void quantize_per_token(Rule& r) { r.set(quantized(r, tensor(r, "input"), tensor(r, "scales"), tensor(r, "zero_points"))); }

void dequantize_per_token(Rule& r) {
  const DType out = r.meta_result().dtype;
  r.set(dequantized(tensor(r, "input"), tensor(r, "zero_points"), tensor(r, "scales")).to(out));
}

/// Rows of groups: [rows * groups, of a group].
T grouped(Rule& r, const T& x) {
  const int64_t n = x.rank() == 2 ? r.constant(x.dim(1), "the length of quantised rows") : 0, given = r.integer_or("group_size", 128);
  const int64_t of_group = given > n ? n : given;  // one group a row
  if (x.rank() != 2 || of_group < 1 || n % of_group != 0) r.refuse("groups that do not divide the rows of a matrix");
  return x.reshape({x.dim(0) * (n / of_group), of_group});
}
/// One a group.
T of_groups(const T& x) { return x.reshape({product(x.dims()), 1}); }

void quantize_per_channel_group(Rule& r) {
  const T x = tensor(r, "input");
  r.set(quantized(r, grouped(r, x), of_groups(tensor(r, "scales")), of_groups(tensor(r, "zero_points"))).reshape(x.dims()));
}

void dequantize_per_channel_group(Rule& r) {
  const T x = tensor(r, "input");
  std::optional<T> zero = opt_tensor(r, "zero_points");
  if (zero) zero = of_groups(*zero);
  r.set(dequantized(grouped(r, x), zero, of_groups(tensor(r, "scales"))).reshape(x.dims()).to(r.meta_result().dtype));
}

/// Least and largest of the tensor, 0 among them.
struct Range {
  T least, largest;
};
Range range_of(const T& x, const Ints& dims, bool keep) {
  return {minimum(x.reduce(ReduceKind::min, dims, keep), 0.0), maximum(x.reduce(ReduceKind::max, dims, keep), 0.0)};
}

/// eps is a float32 tensor there.
T at_least_eps(Rule& r, const T& scale) {
  return maximum(scale.to(promote_types(scale.dtype(), DType::f32)), static_cast<double>(static_cast<float>(r.number("eps"))));
}

template <bool symmetric>
void choose_qparams(Rule& r) {
  const T x = tensor(r, "input");
  const DType to = quantized_type(r);
  const double lo = static_cast<double>(r.integer("quant_min")), hi = static_cast<double>(r.integer("quant_max"));
  Ints all;
  for (int d = 0; d < x.rank(); ++d) all.push_back(d);
  const Range range = range_of(x, all, false);
  // Where nothing was observed, or nothing but infinities and NaN, eager gives a scale of 1 in float32.
  const double steps = symmetric ? (hi - lo) / 2 : hi - lo;
  const T width = symmetric ? maximum(-range.least, range.largest) : (range.largest.up() - range.least.up()).to(x.dtype());
  const T scale = at_least_eps(r, (width.up() / steps).to(x.dtype()));
  r.set(0, scale.to(DType::f64).reshape({1}));
  if (!r.wants(1)) return;
  if (symmetric) return r.set(1, full(r.b, DType::i64, {1}, to == DType::u8 ? 128.0 : 0.0));
  const DType in = both(range.least, scale);
  const T zero = lo - unary(Op::round, range.least.to(in) / scale.to(in)).to(DType::i32).to(DType::f64);
  r.set(1, minimum(maximum(zero, lo), hi).to(DType::i64).reshape({1}));
}

/// The archive has float64 scales and int64 zero points, as the other way of choosing gives; eager has float32 and float32.
void choose_qparams_per_token(Rule& r) {
  if (quantized_type(r) != DType::i8) r.refuse("parameters for other types than int8");
  const T x = tensor(r, "input");
  T most = abs(x).reduce(ReduceKind::max, {x.rank() - 1}, true);
  if (most.dtype() == DType::f16) most = most.to(DType::f32);
  r.set(0, (maximum(most, 1e-5).up() / 127.0).to(most.dtype()).to(r.meta_result(0).dtype));
  if (r.wants(1)) r.set(1, full(r.b, r.meta_result(1).dtype, most.dims(), 0.0));
}

void choose_qparams_per_token_asymmetric(Rule& r) {
  const T x = tensor(r, "input");
  const DType t = x.dtype();
  const Range range = range_of(x, {x.rank() - 1}, true);
  const T width = (range.largest.up() - range.least.up()).to(t);
  const T scale = maximum((width.up() / 255.0).to(t), kFloatEps);
  r.set(0, scale.to(DType::f64));
  if (!r.wants(1)) return;
  const auto round_to = [&](const T& v) { return v.to(t).up(); };
  const T least = round_to(range.least.up() / scale.up()), largest = round_to(range.largest.up() / scale.up());
  const T errors = round_to(round_to(least + -128.0) + round_to(largest + 127.0));
  const T zero = where(errors > 0.0, round_to(-128.0 - least), round_to(127.0 - largest));
  r.set(1, unary(Op::round, minimum(maximum(zero, -128.0), 127.0)).to(DType::i64));
}

void to_dtype(Rule& r) { r.set(tensor(r, "input").to(r.meta_result().dtype)); }

/// int8 by int8, sums of int32.
void int_mm(Rule& r) { r.set(matmul(tensor(r, "self").to(DType::i32), tensor(r, "mat2").to(DType::i32), DType::i32)); }

/// Rows by weights of int8, [n, k], each of whose rows has a scale.
void weight_int8pack_mm(Rule& r) {
  const T x = tensor(r, "self");
  const T w(r.b, r.b.transpose(tensor(r, "mat2").to(DType::f32), 0, 1));
  r.set((matmul(x.to(DType::f32), w, DType::f32) * tensor(r, "scales").to(DType::f32)).to(x.dtype()));
}

/// A scale of all, or of each line along `dim`.
T scale_of(Rule& r, const T& s, int dim, const Expr& lines) {
  if (product(s.dims()).is(1)) return s.reshape({1, 1});
  if (s.rank() != 2 || !s.dim(1 - dim).is(1)) r.refuse("scales of blocks of 8-bit floats");
  r.agree(s.dim(dim), lines, "the scales");
  return s;
}

/// The sums times both scales, plus the bias, are rounded once. Sums of 8-bit products hold fewer bits than float32, so that only what is
/// rounded to fewer is computed by these; others multiply bfloat16, which holds every 8-bit float.
void scaled_product(Rule& r, const T& scale_a, const T& scale_b) {
  const T a = tensor(r, "self"), b = tensor(r, "mat2");
  const DType out = r.meta_result().dtype;
  if (!is_float8(a.dtype()) || !is_float8(b.dtype())) r.refuse(fmt::format("a scaled product of {}", dtype_name(a.dtype())));
  if (r.has("scale_result") && !r.none("scale_result")) r.refuse("a scale of the result");
  const DType in = a.dtype() == b.dtype() && dtype_bytes(out) < 4 ? a.dtype() : DType::bf16;
  T y = matmul(a.to(in), b.to(in), DType::f32) * scale_of(r, scale_a, 0, a.dim(0)) * scale_of(r, scale_b, 1, b.dim(1));
  if (const auto bias = opt_tensor(r, "bias")) y = y + bias->to(DType::f32);
  r.set(y.to(out));
}
void scaled_mm(Rule& r) { scaled_product(r, tensor(r, "scale_a").to(DType::f32), tensor(r, "scale_b").to(DType::f32)); }
/// Scales as lists, of which those of tensors and of rows are of one.
void scaled_mm_v2(Rule& r) {
  const auto only = [&](const char* name) {
    const std::vector<ValueId> all = r.tensors(name);
    if (all.size() != 1) r.refuse("scales of several levels");
    return T(r.b, all[0]).to(DType::f32);
  };
  scaled_product(r, only("scale_a"), only("scale_b"));
}

constexpr RuleRow kRows[] = {
    {"quantized_decomposed.quantize_per_tensor.default quantized_decomposed.quantize_per_tensor.tensor "
     "quantized_decomposed.quantize_per_tensor.tensor2",
     quantize_per_tensor},
    {"quantized_decomposed.dequantize_per_tensor.default quantized_decomposed.dequantize_per_tensor.tensor "
     "quantized_decomposed.dequantize_per_tensor.tensor2",
     dequantize_per_tensor},
    {"quantized_decomposed.quantize_per_channel.default", quantize_per_channel},
    {"quantized_decomposed.dequantize_per_channel.default", dequantize_per_channel},
    {"quantized_decomposed.quantize_per_token.default", quantize_per_token},
    {"quantized_decomposed.dequantize_per_token.default", dequantize_per_token},
    {"quantized_decomposed.quantize_per_channel_group.default", quantize_per_channel_group},
    {"quantized_decomposed.dequantize_per_channel_group.default", dequantize_per_channel_group},
    {"quantized_decomposed.choose_qparams.tensor", choose_qparams<false>},
    {"quantized_decomposed.choose_qparams_symmetric.tensor", choose_qparams<true>},
    {"quantized_decomposed.choose_qparams_per_token.default", choose_qparams_per_token},
    {"quantized_decomposed.choose_qparams_per_token_asymmetric.default "
     "quantized_decomposed._choose_qparams_per_token_asymmetric_impl.default",
     choose_qparams_per_token_asymmetric},
    {"quantized_decomposed.convert_element_type.no_fuse", to_dtype},
    {"aten._int_mm.default", int_mm},
    {"aten._scaled_mm.default", scaled_mm},
    {"aten._scaled_mm_v2.default", scaled_mm_v2},
    {"aten._weight_int8pack_mm.default", weight_int8pack_mm},
};
}  // namespace

RuleTable quantized_rules() { return kRows; }

}  // namespace aotc::decompose
