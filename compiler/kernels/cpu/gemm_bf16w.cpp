#include "gemm.h"
AOTC_ENTRY(gemm_bf16w_f32) { GemmRun<GemmWiden<bf16, MulBf16, float>>(args).run(begin, end); }
