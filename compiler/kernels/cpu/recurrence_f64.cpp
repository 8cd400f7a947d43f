#include "recurrence.h"
AOTC_ENTRY(recurrence_f64) { recurrence<double>(args, begin, end); }
