#include "gemm.h"
AOTC_ENTRY(gemm_bf16w_f32) { GemmRun<GemmHalfWeights>(args).run(begin, end); }
