// aotc_gemm_bytes_tiles_u8_amx_emulated: for machines without AMX.
#include "gemm_bytes_tiles.cpp"
