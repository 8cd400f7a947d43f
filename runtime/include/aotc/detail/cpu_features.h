/* What code of an artifact may demand of an x86-64 CPU, as bits. Shared by the compiler, which knows what each kernel was compiled for, and
 * the runtime, which asks the machine. C11 and C++17. */
#ifndef AOTC_DETAIL_CPU_FEATURES_H_
#define AOTC_DETAIL_CPU_FEATURES_H_

/* X(name, bit, text). Extensions that come together are one feature. */
#define AOTC_CPU_FEATURE_LIST(X)                          \
  X(AVX2, 0, "avx2")                                      \
  X(FMA, 1, "fma")                                        \
  X(F16C, 2, "f16c")                                      \
  X(BMI, 3, "bmi1/bmi2/lzcnt/movbe")                      \
  X(OS_AVX, 4, "operating system support for AVX")        \
  X(AVX512F, 5, "avx512f")                                \
  X(AVX512_REST, 6, "avx512dq/bw/vl/cd")                  \
  X(OS_AVX512, 7, "operating system support for AVX-512") \
  X(AVX512_BF16, 8, "avx512_bf16/vnni")                   \
  X(AMX_TILES, 9, "amx-tile/amx-bf16/amx-int8")           \
  X(OS_AMX, 10, "operating system support for AMX")       \
  X(AVX512_VNNI, 11, "avx512_vnni")                       \
  X(AVX_VNNI, 12, "avx_vnni")
#define AOTC_ENUM_(name, bit, text) AOTC_CPU_##name = 1u << (bit),
enum { AOTC_CPU_FEATURE_LIST(AOTC_ENUM_) };
#undef AOTC_ENUM_
#define AOTC_OR_FEATURE_(name, bit, text) | AOTC_CPU_##name
#define AOTC_CPU_ALL (0u AOTC_CPU_FEATURE_LIST(AOTC_OR_FEATURE_))

/* x86-64-v3 and x86-64-v4 */
#define AOTC_CPU_V3 (AOTC_CPU_AVX2 | AOTC_CPU_FMA | AOTC_CPU_F16C | AOTC_CPU_BMI | AOTC_CPU_OS_AVX)
#define AOTC_CPU_V4 (AOTC_CPU_V3 | AOTC_CPU_AVX512F | AOTC_CPU_AVX512_REST | AOTC_CPU_OS_AVX512)

/* X(name, value, text, features): named sets of features that kernels are compiled for, and all that such code may use. A set stands behind
 * those that it includes: of what a CPU can run, the last one is the best. Sets need not include each other. */
#define AOTC_ISA_LIST(X)                                                 \
  X(AVX2, 0, "avx2", AOTC_CPU_V3)                                        \
  X(AVX512, 1, "avx512", AOTC_CPU_V4)                                    \
  X(AVX512_BF16, 2, "avx512_bf16", (AOTC_CPU_V4 | AOTC_CPU_AVX512_BF16)) \
  X(AMX, 3, "amx", (AOTC_CPU_V4 | AOTC_CPU_AVX512_BF16 | AOTC_CPU_AMX_TILES | AOTC_CPU_OS_AMX))
#define AOTC_ENUM_(name, value, text, features) AOTC_ISA_##name = value,
enum { AOTC_ISA_LIST(AOTC_ENUM_) };
#undef AOTC_ENUM_

#endif
