#include "conv_bytes_tiles.h"
AOTC_ENTRY(conv_bytes_tiles_u8) { ConvBytesTiles(args).run(begin, end); }
