#include "gemm.h"
AOTC_ENTRY(gemm_f32) { GemmRun<GemmPlain<float>>(args).run(begin, end); }
