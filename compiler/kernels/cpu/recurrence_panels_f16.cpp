#include "recurrence_panels.h"
AOTC_ENTRY(recurrence_panels_f16) { recurrence_panels<f16>(args, begin, end); }
