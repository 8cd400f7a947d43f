#include "recurrence_panels.h"
AOTC_ENTRY(recurrence_panels_bf16) { recurrence_panels<bf16>(args, begin, end); }
