// aotc_gemm_int8_tiles_f32_amx_emulated: for machines without AMX.
#include "gemm_int8_tiles.cpp"
