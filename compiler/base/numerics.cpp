#include "base/numerics.h"

#include <iterator>

#include "base/diagnostic.h"

namespace aotc {
namespace {
constexpr std::string_view kF32Matmul[] = {"highest", "high", "medium"};  // in the order of F32Matmul
}

std::string_view f32_matmul_name(F32Matmul f) { return kF32Matmul[static_cast<size_t>(f)]; }

F32Matmul parse_f32_matmul(std::string_view text) {
  for (size_t i = 0; i < std::size(kF32Matmul); ++i)
    if (kF32Matmul[i] == text) return static_cast<F32Matmul>(i);
  throw Diagnostic(ExitCode::usage, Loc{}, fmt::format("--f32-matmul: '{}' is not known", text)).note("known: highest, high, medium");
}

}  // namespace aotc
