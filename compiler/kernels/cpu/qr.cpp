#include "qr.h"
AOTC_ENTRY(qr_f64) { qr(args, begin, end); }
