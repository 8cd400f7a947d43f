#pragma once
// What code may use of a machine, as sets without an order: one instruction set need not include another.
#include <cstdint>
#include <initializer_list>

#include "aotc/detail/cpu_features.h"

namespace aotc {

/// Those of x86-64 are the bits that the runtime asks the CPU for (AOTC_CPU_*); the others are the compiler's alone.
enum class Feature : uint8_t {
#define AOTC_X(name, bit, text) name = bit,
  AOTC_CPU_FEATURE_LIST(AOTC_X)
#undef AOTC_X
  // CUDA; every code version of the target has them
  tensor_cores = 32,  ///< products of bf16, float16 and TF32 by warps (mma.sync): sm_80 or newer
  clusters,           ///< blocks that reach each other's shared memory: sm_90 or newer
  wgmma,              ///< products of a warpgroup, bulk copies by tensor maps: sm_90a alone
};

class FeatureSet {
 public:
  constexpr FeatureSet() = default;
  constexpr FeatureSet(std::initializer_list<Feature> features) {
    for (const Feature f : features) bits_ |= bit(f);
  }
  /// AOTC_CPU_* bits, and what they imply: "avx512_bf16/vnni" is demanded as one.
  static constexpr FeatureSet of_cpu(uint32_t features) {
    FeatureSet s;
    s.bits_ = features | (features & AOTC_CPU_AVX512_BF16 ? static_cast<uint32_t>(AOTC_CPU_AVX512_VNNI) : 0);
    return s;
  }
  constexpr bool has(Feature f) const { return bits_ & bit(f); }
  constexpr bool includes(FeatureSet other) const { return (bits_ & other.bits_) == other.bits_; }
  friend constexpr FeatureSet operator|(FeatureSet a, FeatureSet b) { return a.bits_ |= b.bits_, a; }
  friend constexpr FeatureSet operator&(FeatureSet a, FeatureSet b) { return a.bits_ &= b.bits_, a; }
  friend constexpr bool operator==(FeatureSet, FeatureSet) = default;

 private:
  static constexpr uint64_t bit(Feature f) { return uint64_t{1} << static_cast<int>(f); }
  uint64_t bits_ = 0;
};

}  // namespace aotc
