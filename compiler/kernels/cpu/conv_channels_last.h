#pragma once
// Convolutions of channels-last tensors: aotc_conv_last_* of aotc/detail/library_abi.h.
#include "conv_last.h"
#include "conv_last_depthwise.h"
#include "conv_winograd.h"

namespace {

/// What an element type means to the kernels: Row is what the copied rows hold.
template <class Elem>
struct LastPlain {
  using E = Elem;
  using Acc = Elem;
  using Row = Elem;
  using Packed = MulPlain<Elem>;
  static constexpr bool kPairPanels = false;
  static void widen(Elem v, Elem* to) { *to = v; }
};
template <class Elem, class PackedMul>
struct LastWiden {
  using E = Elem;
  using Acc = float;
  using Row = float;
  using Packed = PackedMul;
  static constexpr bool kPairPanels = PackedMul::kGroup == 2;
  static void widen(Elem v, float* to) { *to = to_acc(v); }
};
#if defined(__AVX512BF16__)
struct LastDot {
  using E = bf16;
  using Acc = float;
  using Row = bf16;
  using Packed = MulDot;
  static constexpr bool kPairPanels = true;
  static void widen(bf16 v, bf16* to) { *to = v; }
};
using LastBf16 = LastDot;
#else
using LastBf16 = LastWiden<bf16, MulBf16>;
#endif

template <class G>
void conv_last(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_conv_config*>(args->config);
  if (cfg->algo == AOTC_CONV_LAST_DEPTHWISE) return DepthwiseLast<G>(args).run(begin, end);
  if constexpr (sizeof(typename G::E) == 4) {
    if (cfg->algo == AOTC_CONV_WINOGRAD && cfg->kp == 4) return ConvWinograd<4, G>(args).run(begin, end);
  }
  if constexpr (sizeof(typename G::E) == 4 || G::kPairPanels) {
    if (cfg->algo == AOTC_CONV_WINOGRAD) return ConvWinograd<2, G>(args).run(begin, end);
  }
  ConvLast<G>(args).run(begin, end);
}

}  // namespace
