#include "entry.h"
#include "gemm_held.h"
AOTC_ENTRY(gemm_held_bf16) { GemmHeld(args).run(begin, end); }
