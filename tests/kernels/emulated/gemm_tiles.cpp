// aotc_gemm_tiles_bf16_amx_emulated: for machines without AMX.
#include "gemm_tiles_bf16.cpp"
