#include "recurrence.h"
AOTC_ENTRY(recurrence_f32) { recurrence<float>(args, begin, end); }
