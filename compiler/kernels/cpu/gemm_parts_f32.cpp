#include "gemm_parts.h"

extern "C" void aotc_gemm_f32_avx512(const aotc_kargs*, int64_t, int64_t);

// A panel is split for the rows that it meets: of few rows plain float32, which reads the same panels, has the result before that is done.
// A plan is for every size of its range, so that this is known in a run alone.
AOTC_ENTRY(gemm_parts_f32) {
  constexpr int64_t kFewRows = 20;
  if (args->size[AOTC_GEMM_M] <= kFewRows)
    aotc_gemm_f32_avx512(args, begin, end);
  else
    GemmParts(args).run(begin, end);
}
