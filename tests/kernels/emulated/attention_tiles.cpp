// aotc_attention_tiles_bf16_amx_emulated: for machines without AMX.
#include "attention_tiles_bf16.cpp"
