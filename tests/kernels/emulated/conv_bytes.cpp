// aotc_conv_bytes_tiles_u8_amx_emulated: for machines without AMX.
#include "conv_bytes_tiles.cpp"
