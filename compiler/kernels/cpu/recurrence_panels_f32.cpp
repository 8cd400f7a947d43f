#include "recurrence_panels.h"
AOTC_ENTRY(recurrence_panels_f32) { recurrence_panels<float>(args, begin, end); }
