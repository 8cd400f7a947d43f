// The operators of quantized_decomposed for LibTorch's dispatcher, where the reference finds them: PyTorch defines them in Python alone
// (torch/ao/quantization/fx/_decomposed.py). Said with ATen's own operators, and in the type of what they are given, so that the float64
// reference stays in float64.
#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

using at::ScalarType;
using at::Tensor;
using OptType = std::optional<ScalarType>;

Tensor wide(const Tensor& x) { return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x; }
ScalarType default_type() { return c10::get_default_dtype_as_scalartype(); }

Tensor quantize(const Tensor& x, double scale, int64_t zero, int64_t lo, int64_t hi, ScalarType type) {
  return at::clamp(at::round(wide(x) * (1.0 / scale)) + zero, lo, hi).to(type);
}
Tensor quantize_tensor(const Tensor& x, const Tensor& scale, const Tensor& zero, int64_t lo, int64_t hi, ScalarType type) {
  return quantize(x, scale.item().toDouble(), zero.item().toLong(), lo, hi, type);
}
Tensor quantize_tensor2(const Tensor& x, const Tensor& scale, const Tensor& zero, const Tensor& lo, const Tensor& hi, ScalarType type) {
  return quantize_tensor(x, scale, zero, lo.item().toLong(), hi.item().toLong(), type);
}

Tensor dequantize(const Tensor& x, double scale, int64_t zero, int64_t, int64_t, ScalarType, OptType out) {
  return (x.to(out.value_or(default_type())) - zero) * scale;
}
Tensor dequantize_tensor(const Tensor& x, const Tensor& scale, const Tensor& zero, int64_t lo, int64_t hi, ScalarType type, OptType out) {
  return dequantize(x, scale.item().toDouble(), zero.item().toLong(), lo, hi, type, out);
}
Tensor dequantize_tensor2(const Tensor& x, const Tensor& scale, const Tensor& zero, const Tensor&, const Tensor&, ScalarType type,
                          OptType out) {
  return dequantize_tensor(x, scale, zero, 0, 0, type, out);
}

Tensor along(const Tensor& of, const Tensor& x, int64_t axis) {
  std::vector<int64_t> dims(static_cast<size_t>(x.dim()), 1);
  dims.at(static_cast<size_t>(axis < 0 ? axis + x.dim() : axis)) = of.size(0);
  return of.view(dims);
}
Tensor quantize_channels(const Tensor& x, const Tensor& scales, const Tensor& zeros, int64_t axis, int64_t lo, int64_t hi,
                         ScalarType type) {
  return at::clamp(at::round(wide(x) * along(scales, x, axis).reciprocal()) + along(zeros, x, axis), lo, hi).to(type);
}
Tensor dequantize_channels(const Tensor& x, const Tensor& scales, const std::optional<Tensor>& zeros, int64_t axis, int64_t, int64_t,
                           ScalarType, OptType out) {
  return ((zeros ? x - along(*zeros, x, axis) : x) * along(scales, x, axis)).to(out.value_or(default_type()));
}

Tensor quantize_rows(const Tensor& x, const Tensor& scales, const Tensor& zeros, int64_t lo, int64_t hi, ScalarType type) {
  return (x * scales.reciprocal()).add(zeros).round().clamp(lo, hi).to(type);
}
Tensor dequantize_rows(const Tensor& x, const Tensor& scales, const Tensor& zeros, int64_t, int64_t, ScalarType, ScalarType out) {
  return ((x - zeros) * scales).to(out);
}
Tensor groups(const Tensor& x, int64_t size) { return x.reshape({-1, std::min(size, x.size(-1))}); }
Tensor quantize_groups(const Tensor& x, const Tensor& scales, const Tensor& zeros, int64_t lo, int64_t hi, ScalarType type, int64_t size) {
  return quantize_rows(groups(x, size), scales.reshape({-1, 1}), zeros.reshape({-1, 1}), lo, hi, type).reshape_as(x);
}
Tensor dequantize_groups(const Tensor& x, const Tensor& scales, const std::optional<Tensor>& zeros, int64_t, int64_t, ScalarType,
                         int64_t size, ScalarType out) {
  const Tensor grouped = groups(x, size);
  return ((zeros ? grouped - zeros->reshape({-1, 1}) : grouped) * scales.reshape({-1, 1})).reshape_as(x).to(out);
}

using Parameters = std::tuple<Tensor, Tensor>;
Parameters choose(const Tensor& x, int64_t lo, int64_t hi, double eps, ScalarType type, bool symmetric) {
  const auto [min, max] = at::aminmax(x);
  const Tensor nothing = at::zeros_like(min), least = at::minimum(min, nothing), largest = at::maximum(max, nothing);
  const Tensor floor = at::full({1}, static_cast<float>(eps), at::kFloat);
  const double steps = static_cast<double>(hi - lo);
  if (symmetric)
    return {at::maximum(at::maximum(-least, largest) / (steps / 2), floor).to(at::kDouble),
            at::full({1}, type == at::kByte ? 128 : 0, at::kLong)};
  const Tensor scale = at::maximum((largest - least) / steps, floor);
  return {scale.to(at::kDouble), at::clamp(lo - at::round(least / scale).to(at::kInt), lo, hi).to(at::kLong)};
}
Parameters choose_affine(const Tensor& x, int64_t lo, int64_t hi, double eps, ScalarType type) {
  return choose(x, lo, hi, eps, type, false);
}
Parameters choose_symmetric(const Tensor& x, int64_t lo, int64_t hi, double eps, ScalarType type) {
  return choose(x, lo, hi, eps, type, true);
}

Parameters choose_rows(const Tensor& x, ScalarType) {
  Tensor most = x.abs().amax(-1, true);
  if (most.scalar_type() == at::kHalf) most = most.to(at::kFloat);
  const Tensor scales = most.clamp_min(1e-5).div(127);
  return {scales, at::zeros_like(scales)};
}
Parameters choose_rows_affine(const Tensor& x, ScalarType) {
  const double lo = -128, hi = 127;
  const Tensor min = x.amin(-1, true), max = x.amax(-1, true), nothing = at::zeros_like(min);
  const Tensor least = at::minimum(min, nothing), largest = at::maximum(max, nothing);
  const Tensor scale = ((largest - least) / (hi - lo)).clamp_min(std::numeric_limits<float>::epsilon());
  const Tensor below = least / scale, above = largest / scale;
  const Tensor zero = at::where((lo + below) + (hi + above) > 0, lo - below, hi - above);
  return {scale.to(at::kDouble), at::clamp(zero, lo, hi).round().to(at::kLong)};
}

Tensor to_type(const Tensor& x, ScalarType type) { return x.to(type); }

TORCH_LIBRARY(quantized_decomposed, m) {
  constexpr const char* kWithNumbers = "float scale, int zero_point, int quant_min, int quant_max, ScalarType dtype";
  constexpr const char* kWithTensors = "Tensor scale, Tensor zero_point, int quant_min, int quant_max, ScalarType dtype";
  constexpr const char* kAllTensors = "Tensor scale, Tensor zero_point, Tensor quant_min, Tensor quant_max, ScalarType dtype";
  constexpr const char* kOut = ", *, ScalarType? out_dtype=None) -> Tensor";
  const auto text = [](auto... parts) { return (std::string() + ... + parts); };
  m.def(text("quantize_per_tensor(Tensor input, ", kWithNumbers, ") -> Tensor").c_str(), quantize);
  m.def(text("quantize_per_tensor.tensor(Tensor input, ", kWithTensors, ") -> Tensor").c_str(), quantize_tensor);
  m.def(text("quantize_per_tensor.tensor2(Tensor input, ", kAllTensors, ") -> Tensor").c_str(), quantize_tensor2);
  m.def(text("dequantize_per_tensor(Tensor input, ", kWithNumbers, kOut).c_str(), dequantize);
  m.def(text("dequantize_per_tensor.tensor(Tensor input, ", kWithTensors, kOut).c_str(), dequantize_tensor);
  m.def(text("dequantize_per_tensor.tensor2(Tensor input, ", kAllTensors, kOut).c_str(), dequantize_tensor2);
  m.def(
      "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, int quant_min, int quant_max, ScalarType dtype) -> "
      "Tensor",
      quantize_channels);
  m.def(
      "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, int quant_min, int quant_max, ScalarType dtype, "
      "*, "
      "ScalarType? out_dtype=None) -> Tensor",
      dequantize_channels);
  m.def("quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype) -> Tensor",
        quantize_rows);
  m.def(
      "dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, ScalarType "
      "output_dtype) -> Tensor",
      dequantize_rows);
  m.def(
      "quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, int quant_max, ScalarType dtype, int "
      "group_size) -> Tensor",
      quantize_groups);
  m.def(
      "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, int quant_max, ScalarType dtype, int "
      "group_size, ScalarType output_dtype) -> Tensor",
      dequantize_groups);
  m.def("choose_qparams.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)",
        choose_affine);
  m.def("choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype) -> (Tensor, Tensor)",
        choose_symmetric);
  m.def("choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)", choose_rows);
  m.def("choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)", choose_rows_affine);
  m.def("_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> (Tensor, Tensor)", choose_rows_affine);
  m.def("convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor", to_type);
}

}  // namespace
