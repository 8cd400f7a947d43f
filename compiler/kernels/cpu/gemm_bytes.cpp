#include "gemm_bytes.h"
AOTC_ENTRY(gemm_bytes_u8) { GemmBytes(args).run(begin, end); }
