#include "gemm_parts.h"
AOTC_ENTRY(gemm_parts_f32) { GemmParts(args).run(begin, end); }
