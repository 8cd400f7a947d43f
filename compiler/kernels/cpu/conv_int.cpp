#include "conv_direct.h"
AOTC_ENTRY(conv_u8) { conv_by_rows<uint8_t, u32>(args, begin, end); }
AOTC_ENTRY(conv_i8) { conv_by_rows<int8_t, u32>(args, begin, end); }
AOTC_ENTRY(conv_i16) { conv_by_rows<int16_t, u32>(args, begin, end); }
AOTC_ENTRY(conv_i32) { conv_by_rows<int32_t, u32>(args, begin, end); }
AOTC_ENTRY(conv_i64) { conv_by_rows<int64_t, uint64_t>(args, begin, end); }
