#include "gemm_dots.h"
AOTC_ENTRY(gemm_dots_f32) { GemmDots<float>(args).run(begin, end); }
