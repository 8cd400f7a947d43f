#include "conv.h"
#if defined(__AVX512BF16__)
AOTC_ENTRY(conv_bf16) { conv<ConvDot>(args, begin, end); }
#else
AOTC_ENTRY(conv_bf16) { conv<ConvWiden<bf16, MulBf16> >(args, begin, end); }
#endif
