#include "conv_channels_last.h"
#include "conv_few.h"
#if defined(__AVX512BF16__)
AOTC_ENTRY(conv_few_bf16) { ConvFew<LastDot>(args).run(begin, end); }
#else
AOTC_ENTRY(conv_few_bf16) { ConvFew<LastWiden<bf16, MulBf16> >(args).run(begin, end); }
#endif
