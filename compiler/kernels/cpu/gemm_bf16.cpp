#include "gemm.h"
#if defined(__AVX512BF16__)
AOTC_ENTRY(gemm_bf16) { GemmRun<GemmDot>(args).run(begin, end); }
#else
AOTC_ENTRY(gemm_bf16) { GemmRun<GemmWiden<bf16, MulBf16> >(args).run(begin, end); }
#endif
