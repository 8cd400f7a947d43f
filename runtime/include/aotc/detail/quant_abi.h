#ifndef AOTC_DETAIL_QUANT_ABI_H
#define AOTC_DETAIL_QUANT_ABI_H
/* What is added to the bits of an aotc_gemm_quant_config whose scales and offsets are float32 in place of bf16. */
enum { AOTC_QUANT_WIDE_SCALES = 64 };
#endif
