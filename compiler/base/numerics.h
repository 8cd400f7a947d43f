#pragma once
// What results may lose for speed: options of a build, set by its user (or tried and judged by the search), apart from what machines can
// do.
#include <cstdint>
#include <string>
#include <string_view>

namespace aotc {

/// How accurate products of float32 must be where there are faster ones.
enum class F32Matmul : uint8_t { highest, high, medium };  ///< float32; TF32; TF32 or less
std::string_view f32_matmul_name(F32Matmul f);
/// "highest", "high" or "medium"; throws Diagnostic (usage) otherwise.
F32Matmul parse_f32_matmul(std::string_view text);

struct Numerics {
  F32Matmul f32_matmul = F32Matmul::highest;  ///< GPU; on CPUs, less than that lets Strassen's products sum long blocks
  /// CPU: 3x3 convolutions may go by Winograd's F(4x4), at three times the error of a direct sum.
  bool winograd4 = false;
  /// CPU: products of float32 with weights may go by Strassen's seven products, at about one and a half times the error of plain sums of
  /// rows that are alike.
  bool strassen = false;
  /// CPU: kernels of bf16 operands round nothing else to bf16 (Winograd's transforms do), as what --precision auto has measured.
  bool bf16_rounds_once = false;
  /// CPU: products with int8 weights may round the rows that they multiply to 8 bits each.
  bool int8_rows = false;
  /// CPU: a row of the results has the same bits whatever rows stand beside it, on any number of threads.
  bool reproducible = false;
  friend bool operator==(const Numerics&, const Numerics&) = default;
};

}  // namespace aotc
