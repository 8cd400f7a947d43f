#include "conv_channels_last.h"
AOTC_ENTRY(conv_last_f64) { conv_last<LastPlain<double>>(args, begin, end); }
