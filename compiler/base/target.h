#pragma once
// What the artifact is made for.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace aotc {

/// CPU instruction sets, in rising order. Each implies those before it, except amx, which implies avx512_bf16.
enum class Isa : uint8_t { avx2, avx512, avx512_bf16, amx };
std::string_view isa_name(Isa isa);
/// What the machine that runs aotc has.
std::vector<Isa> native_isas();

struct Target {
  std::vector<Isa> isas;         ///< CPU: one code version each, best last; empty for a GPU-only artifact
  std::vector<std::string> sms;  ///< GPU: "sm_90a" ...; empty for a CPU artifact
  int threads_hint = 2;          ///< threads for which costs are estimated
  bool is_gpu() const { return !sms.empty(); }
  bool has(Isa isa) const {
    for (Isa i : isas)
      if (i == isa) return true;
    return false;
  }
  std::string str() const;  ///< "avx2,avx512" or "sm_90a"
};
/// Parses "native", "avx2,avx512", throws Diagnostic (usage) with the known names.
Target parse_cpu_target(std::string_view text);
Target parse_cuda_target(std::string_view text);

}  // namespace aotc
