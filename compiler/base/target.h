#pragma once
// What the artifact is made for.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arch.h"
#include "base/features.h"
#include "base/numerics.h"

namespace aotc {

/// CPU instruction sets that there are kernels for: names of sets of features, the rows of AOTC_ISA_LIST. Their order is that of preference
/// alone: a set stands behind those that it includes. Whether code for one runs where there is another is a question to their features.
enum class Isa : uint8_t { avx2, avx512, avx512_bf16, amx };
std::string_view isa_name(Isa isa);
/// AOTC_CPU_* that code compiled for it may use.
uint32_t isa_features(Isa isa);
FeatureSet features_of(Isa isa);

/// A named set of features. Functions of a list of them take it as an argument, all_levels() where there is none.
struct IsaLevel {
  Isa isa;
  std::string_view name;
  FeatureSet features;
};
std::span<const IsaLevel> all_levels();
/// Those that a machine with `features` runs, in the list's order.
std::vector<Isa> isas_within(FeatureSet features, std::span<const IsaLevel> levels = all_levels());
/// The first of the list that has all of `features`; `otherwise` where none has.
Isa isa_with(FeatureSet features, Isa otherwise, std::span<const IsaLevel> levels = all_levels());
/// Names of AOTC_CPU_* bits.
std::vector<std::string_view> feature_names(uint32_t features);
/// All that a CPU with these AOTC_CPU_* can run.
std::vector<Isa> isas_of(uint32_t features);
/// What the machine that runs aotc has.
std::vector<Isa> native_isas();

struct Uarch;

struct Target {
  std::vector<Isa> isas;         ///< CPU: one code version each, in the order of Isa; empty for a GPU-only artifact
  std::vector<std::string> sms;  ///< GPU: "sm_90a" ...; empty for a CPU artifact
  bool native = false;           ///< CPU: for the machine that runs aotc, its cache sizes included
  int threads = 0;               ///< CPU: threads of a run that choices aim at; 0: see machine_of
  Numerics numerics;
  /// What a data file says that its machine costs (take_uarch, base/uarch.h); null: what is known of the best code version, and of this
  /// machine's caches where it is `native`.
  std::shared_ptr<const Uarch> uarch;
  bool is_gpu() const { return !sms.empty(); }
  const ArchTraits& traits() const { return traits_of(is_gpu() ? Arch::cuda : Arch::x86_64); }
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

}  // namespace aotc
