#include "gemm_tiles.h"
AOTC_ENTRY(gemm_tiles_bf16) { GemmTiles(args).run(begin, end); }
