#include "strips.h"
AOTC_ENTRY(strips) { Strips(args).run(begin, end); }
