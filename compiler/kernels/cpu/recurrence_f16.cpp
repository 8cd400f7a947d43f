#include "recurrence.h"
AOTC_ENTRY(recurrence_f16) { recurrence<f16>(args, begin, end); }
