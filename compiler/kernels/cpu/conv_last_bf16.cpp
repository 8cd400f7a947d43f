#include "conv_channels_last.h"
#if defined(__AVX512BF16__)
AOTC_ENTRY(conv_last_bf16) { conv_last<LastDot>(args, begin, end); }
#else
AOTC_ENTRY(conv_last_bf16) { conv_last<LastWiden<bf16, MulBf16> >(args, begin, end); }
#endif
