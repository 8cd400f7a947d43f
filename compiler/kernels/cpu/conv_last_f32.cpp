#include "conv_channels_last.h"
AOTC_ENTRY(conv_last_f32) { conv_last<LastPlain<float>>(args, begin, end); }
