#include "gemm_unpack.h"
AOTC_ENTRY(gemm_unpack_f32) { gemm_unpack(args, begin, end); }
