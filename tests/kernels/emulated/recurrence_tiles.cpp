// aotc_recurrence_tiles_bf16_amx_emulated: for machines without AMX.
#include "recurrence_tiles_bf16.cpp"
