#include "conv_channels_last.h"
AOTC_ENTRY(conv_last_f16) { conv_last<LastWiden<f16, MulF16>>(args, begin, end); }
