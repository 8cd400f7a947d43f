#include "gemm.h"
AOTC_ENTRY(gemm_f64) { GemmRun<GemmPlain<double>>(args).run(begin, end); }
