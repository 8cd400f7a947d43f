// aotc_gemm_parts_f32_amx_emulated: for machines without AMX.
#include "gemm_parts_f32.cpp"
