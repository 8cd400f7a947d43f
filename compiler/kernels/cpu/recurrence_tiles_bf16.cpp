#include "recurrence_tiles.h"
AOTC_ENTRY(recurrence_tiles_bf16) { recurrence_panels<bf16, bf16, TileMul>(args, begin, end); }
