#include "conv_channels_last.h"
#include "conv_few.h"
AOTC_ENTRY(conv_few_f32) { ConvFew<LastPlain<float>>(args).run(begin, end); }
