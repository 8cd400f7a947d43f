#include "cholesky.h"
AOTC_ENTRY(cholesky_f32) { cholesky<float>(args, begin, end); }
AOTC_ENTRY(cholesky_f64) { cholesky<double>(args, begin, end); }
