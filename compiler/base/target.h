#pragma once
// What the artifact is made for.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace aotc {

/// CPU instruction sets that there are kernels for, in rising order; each implies those before it. The rows of AOTC_ISA_LIST.
enum class Isa : uint8_t { avx2, avx512, avx512_bf16, amx };
std::string_view isa_name(Isa isa);
/// AOTC_CPU_* that code compiled for it may use.
uint32_t isa_features(Isa isa);
/// Names of AOTC_CPU_* bits.
std::vector<std::string_view> feature_names(uint32_t features);
/// All that a CPU with these features can run.
std::vector<Isa> isas_of(uint32_t features);
/// What the machine that runs aotc has.
std::vector<Isa> native_isas();

/// How accurate products of float32 must be where the machine has faster ones.
enum class F32Matmul : uint8_t { highest, high, medium };  ///< float32; TF32; TF32 or less
std::string_view f32_matmul_name(F32Matmul f);

struct Target {
  std::vector<Isa> isas;                      ///< CPU: one code version each, best last; empty for a GPU-only artifact
  std::vector<std::string> sms;               ///< GPU: "sm_90a" ...; empty for a CPU artifact
  bool native = false;                        ///< CPU: for the machine that runs aotc, its cache sizes included
  F32Matmul f32_matmul = F32Matmul::highest;  ///< GPU
  int threads = 0;                            ///< CPU: threads of a run that choices aim at; 0: see machine_of
  /// CPU: 3x3 convolutions may go by Winograd's F(4x4), at three times the error of a direct sum.
  bool winograd4 = false;
  /// CPU: products of float32 with weights may go by Strassen's seven products, at about one and a half times the error of plain sums of
  /// rows that are alike.
  bool strassen = false;
  /// CPU: kernels of bf16 operands round nothing else to bf16 (Winograd's transforms do), as what --precision auto has measured.
  bool bf16_rounds_once = false;
  /// CPU: products with int8 weights may round the rows that they multiply to 8 bits each.
  bool int8_rows = false;
  bool is_gpu() const { return !sms.empty(); }
  bool has(Isa isa) const {
    for (Isa i : isas)
      if (i == isa) return true;
    return false;
  }
  std::string str() const;  ///< "avx2,avx512" or "sm_90a"
};
/// Parses "native", "portable" (avx2 and avx512), "avx2,avx512"; throws Diagnostic (usage) with the known names. What the operating system
/// may refuse to a process (amx) never stands alone: avx512_bf16 comes with it.
Target parse_cpu_target(std::string_view text);
Target parse_cuda_target(std::string_view text);
/// "highest", "high" or "medium"; throws Diagnostic (usage) otherwise.
F32Matmul parse_f32_matmul(std::string_view text);

}  // namespace aotc
