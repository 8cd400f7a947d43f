#include "lu.h"
AOTC_ENTRY(lu_f64) { lu(args, begin, end); }
