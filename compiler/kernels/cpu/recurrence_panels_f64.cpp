#include "recurrence_panels.h"
AOTC_ENTRY(recurrence_panels_f64) { recurrence_panels<double>(args, begin, end); }
