#include "conv_last_tiles.h"
AOTC_ENTRY(conv_last_tiles_bf16) { ConvLastTiles(args).run(begin, end); }
