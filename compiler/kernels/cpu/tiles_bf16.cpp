#include "shared_tiles.h"
AOTC_TILES_BF16(AOTC_TILES_DEFINED)
