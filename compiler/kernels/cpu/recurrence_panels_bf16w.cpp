#include "recurrence_panels.h"
AOTC_ENTRY(recurrence_panels_bf16w_f32) { recurrence_panels<float, bf16>(args, begin, end); }
