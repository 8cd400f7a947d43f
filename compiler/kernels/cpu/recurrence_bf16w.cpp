#include "recurrence.h"
AOTC_ENTRY(recurrence_bf16w_f32) { recurrence<float, bf16>(args, begin, end); }
