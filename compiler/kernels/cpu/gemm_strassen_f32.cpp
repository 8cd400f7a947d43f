#include "gemm_strassen.h"
AOTC_ENTRY(gemm_strassen_f32) { StrassenRun(args).run(begin, end); }
