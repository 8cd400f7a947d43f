#include "import/rounded_rows.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace aotc::import {
namespace {

/// Operators that multiply rows with a matrix, and where their arguments stand.
struct Product {
  std::string_view target;
  size_t rows, weight;
};
constexpr Product kProducts[] = {
    {"aten.linear.default", 0, 1}, {"aten.mm.default", 0, 1}, {"aten.matmul.default", 0, 1}, {"aten.addmm.default", 1, 2}};

/// As gemm_int8 does: 255 steps between a row's smallest and its largest value.
at::Tensor rounded(const at::Tensor& x) {
  const at::Tensor low = at::amin(x, {-1}, true) * 0.5, high = at::amax(x, {-1}, true) * 0.5;
  const at::Tensor half = at::clamp_min(high - low, 0x1p-103), centre = high + low;
  return at::round((x - centre) * (127 / half)) * (half / 127) + centre;
}

}  // namespace

void RoundedRows::add(const std::string& name, const at::Tensor& weight) { weights_.emplace(weight.storage().data(), name); }

void RoundedRows::apply(std::string_view target, std::vector<c10::IValue>& arguments) const {
  for (const Product& p : kProducts) {
    if (p.target != target) continue;
    const at::Tensor x = arguments.at(p.rows).toTensor(), w = arguments.at(p.weight).toTensor();
    const auto it = w.dim() == 2 && w.has_storage() ? weights_.find(w.storage().data()) : weights_.end();
    if (it == weights_.end() || x.numel() == 0) return;
    const at::Tensor y = rounded(x);
    if (errors_) {
      RowError& e = (*errors_)[it->second];
      e.lost += (y - x).square().sum(at::kDouble).item<double>();
      e.all += x.square().sum(at::kDouble).item<double>();
    }
    arguments[p.rows] = y;
    return;
  }
}

}  // namespace aotc::import
