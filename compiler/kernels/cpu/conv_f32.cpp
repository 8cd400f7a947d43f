#include "conv.h"
AOTC_ENTRY(conv_f32) { conv<ConvPlain<float>>(args, begin, end); }
