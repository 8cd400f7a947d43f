#include "import/vector_signs.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "graph/singular.h"

namespace aotc::import {
namespace {

/// [..., 1, k]: 1 or -1 for each of the columns.
at::Tensor signs_of(const at::Tensor& columns) {
  const at::Tensor size = columns.abs(), large = size >= size.amax(-2, true) * kSignedPart;
  const at::Tensor first = large.to(at::kLong).argmax(-2, true);
  const at::Tensor one = at::ones_like(first, columns.options());
  return at::where(columns.gather(-2, first) < 0, -one, one);
}

void settle(c10::IValue& columns, int64_t count, const at::Tensor& signs) {
  const at::Tensor t = columns.toTensor();
  const std::vector<at::Tensor> parts = {t.narrow(-1, 0, count) * signs, t.narrow(-1, count, t.size(-1) - count)};
  columns = at::cat(parts, -1);
}

void settle_eigenvectors(std::vector<c10::IValue>& results) {
  const at::Tensor v = results.at(1).toTensor();
  if (v.numel() > 0) settle(results[1], v.size(-1), signs_of(v));
}
/// U, S, V: V's signs where x has no more columns than rows, else U's.
void settle_singular_vectors(std::vector<c10::IValue>& results) {
  const at::Tensor u = results.at(0).toTensor(), v = results.at(2).toTensor();
  const int64_t count = results.at(1).toTensor().size(-1);
  if (u.numel() == 0 || v.numel() == 0) return;
  const at::Tensor signs = signs_of((v.size(-2) <= u.size(-2) ? v : u).narrow(-1, 0, count));
  settle(results[0], count, signs);
  settle(results[2], count, signs);
}
void settle_adjoint(std::vector<c10::IValue>& results) {
  results.at(2) = results.at(2).toTensor().mT();
  settle_singular_vectors(results);
  results[2] = results[2].toTensor().mT();
}

struct Row {
  std::string_view target;
  void (*fn)(std::vector<c10::IValue>&);
};
constexpr Row kRows[] = {{"aten.linalg_eigh.default", settle_eigenvectors},
                         {"aten._linalg_eigh.default", settle_eigenvectors},
                         {"aten.svd.default", settle_singular_vectors},
                         {"aten.linalg_svd.default", settle_adjoint},
                         {"aten._linalg_svd.default", settle_adjoint}};

}  // namespace

void settle_signs(std::string_view target, std::vector<c10::IValue>& results) {
  for (const Row& r : kRows)
    if (r.target == target && !results.at(0).toTensor().is_complex()) r.fn(results);
}

}  // namespace aotc::import
