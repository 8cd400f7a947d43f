#include "gemm.h"
// Unsigned sums: integers wrap.
AOTC_ENTRY(gemm_u8) { gemm_plain_loops<uint8_t, u32>(args, begin, end); }
AOTC_ENTRY(gemm_i8) { gemm_plain_loops<int8_t, u32>(args, begin, end); }
AOTC_ENTRY(gemm_i16) { gemm_plain_loops<int16_t, u32>(args, begin, end); }
AOTC_ENTRY(gemm_i32) { gemm_plain_loops<int32_t, u32>(args, begin, end); }
AOTC_ENTRY(gemm_i64) { gemm_plain_loops<int64_t, uint64_t>(args, begin, end); }
