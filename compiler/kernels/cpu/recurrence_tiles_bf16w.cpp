#include "recurrence_tiles.h"
AOTC_ENTRY(recurrence_tiles_bf16w_f32) { recurrence_panels<float, bf16, TileMul>(args, begin, end); }
