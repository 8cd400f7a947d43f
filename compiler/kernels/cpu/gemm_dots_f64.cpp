#include "gemm_dots.h"
AOTC_ENTRY(gemm_dots_f64) { GemmDots<double>(args).run(begin, end); }
