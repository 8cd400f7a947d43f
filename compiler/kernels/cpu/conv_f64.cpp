#include "conv.h"
AOTC_ENTRY(conv_f64) { conv<ConvPlain<double>>(args, begin, end); }
