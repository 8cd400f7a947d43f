#include "conv.h"
AOTC_ENTRY(conv_f16) { conv<ConvWiden<f16, MulF16>>(args, begin, end); }
