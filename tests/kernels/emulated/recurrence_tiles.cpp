// aotc_recurrence_tiles_*_amx_emulated: for machines without AMX.
#include "recurrence_tiles_bf16.cpp"
#include "recurrence_tiles_bf16w.cpp"
