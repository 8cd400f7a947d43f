/* Element types. Values are pinned for ever and shared by the C ABI, the plan tables and the compiler. C11 and C++17. */
#ifndef AOTC_DTYPE_H_
#define AOTC_DTYPE_H_

/* X(NAME, value, text, bytes per element) */
#define AOTC_DTYPE_LIST(X)            \
  X(BOOL, 1, "bool", 1)               \
  X(U8, 2, "uint8", 1)                \
  X(I8, 3, "int8", 1)                 \
  X(I16, 4, "int16", 2)               \
  X(I32, 5, "int32", 4)               \
  X(I64, 6, "int64", 8)               \
  X(F16, 7, "float16", 2)             \
  X(BF16, 8, "bfloat16", 2)           \
  X(F32, 9, "float32", 4)             \
  X(F64, 10, "float64", 8)            \
  X(C64, 11, "complex64", 8)          \
  X(C128, 12, "complex128", 16)       \
  X(F8E4M3FN, 13, "float8_e4m3fn", 1) \
  X(F8E5M2, 14, "float8_e5m2", 1)

#define AOTC_DTYPE_ENUM_(name, value, text, bytes) AOTC_DTYPE_##name = value,
enum { AOTC_DTYPE_LIST(AOTC_DTYPE_ENUM_) };
#undef AOTC_DTYPE_ENUM_

#endif
