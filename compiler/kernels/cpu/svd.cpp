#include "svd.h"
AOTC_ENTRY(svd_f64) { svd(args, begin, end); }
