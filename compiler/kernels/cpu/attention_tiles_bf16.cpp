#include "attention_tiles.h"
AOTC_ENTRY(attention_tiles_bf16) { AttentionTiles(args).run(begin, end); }
