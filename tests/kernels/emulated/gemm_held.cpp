// aotc_gemm_held_bf16_amx_emulated: for machines without AMX.
#include "gemm_held_bf16.cpp"
