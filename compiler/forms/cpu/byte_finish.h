#pragma once
// Epilogues of sums of bytes as data: aotc_byte_finish of aotc/detail/bytes_abi.h.
#include <optional>
#include <string>

#include "loop/loop.h"

namespace aotc::forms::cpu {

struct BytePlace {
  loop::ParamId param = kNone<loop::ParamId>;  ///< kNone: there is none
  int64_t base = 0, pitch = 0;
};
/// See aotc_byte_finish.
struct ByteFinish {
  int add_kind = 0;
  int64_t add_zero = 0, zero = 0;
  BytePlace sub, scale, bias, add, bytes, floats;
  bool trips = false;
  int64_t trip_zero = 0;
  float scale_all = 1, add_scale = 1, steps = 1, again = 1, trip_steps = 1, trip_scale = 1;
  float at_least, at_most;  ///< infinite: none
};

/// Nothing where the epilogue does anything else than it can say.
std::optional<ByteFinish> byte_finish(const loop::ConvKernel& k);
std::optional<ByteFinish> byte_finish(const loop::MatmulKernel& k, const loop::Segment& s);

/// The initialiser of an aotc_byte_finish; of nothing: one that is not taken.
std::string byte_finish_text(const loop::Kernel& kernel, const std::optional<ByteFinish>& finish);

}  // namespace aotc::forms::cpu
