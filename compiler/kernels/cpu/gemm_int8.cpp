#include "gemm_int8.h"
AOTC_ENTRY(gemm_int8_f32) { Int8Run(args).run(begin, end); }
