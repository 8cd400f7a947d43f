#include "shared_tiles.h"
AOTC_TILES_F32(AOTC_TILES_DEFINED)
