// aotc_conv_last_tiles_bf16_amx_emulated: for machines without AMX.
#include "conv_last_tiles_bf16.cpp"
