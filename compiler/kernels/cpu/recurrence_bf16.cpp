#include "recurrence.h"
AOTC_ENTRY(recurrence_bf16) { recurrence<bf16>(args, begin, end); }
