#include "gemm.h"
AOTC_ENTRY(gemm_f16) { GemmRun<GemmWiden<f16, MulF16>>(args).run(begin, end); }
