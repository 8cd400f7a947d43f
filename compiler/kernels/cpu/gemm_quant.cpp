#include "gemm_quant.h"
AOTC_ENTRY(gemm_quant_f32) { QuantRun(args).run(begin, end); }
