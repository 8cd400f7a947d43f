#include "gemm_bytes_tiles.h"
AOTC_ENTRY(gemm_bytes_tiles_u8) { GemmBytesTiles(args).run(begin, end); }
