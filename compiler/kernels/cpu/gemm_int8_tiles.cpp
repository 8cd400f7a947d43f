#include "gemm_int8_tiles.h"
AOTC_ENTRY(gemm_int8_tiles_f32) { GemmInt8Tiles(args).run(begin, end); }
