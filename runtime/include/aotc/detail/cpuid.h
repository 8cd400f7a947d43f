/* How the features of cpu_features.h are found: one list of CPUID facts, for the compiler (compiler/base/native.cpp) and the runtime
 * (runtime/src/cpu.cpp). x86-64; C11 and C++17. */
#ifndef AOTC_DETAIL_CPUID_H_
#define AOTC_DETAIL_CPUID_H_

#include <cpuid.h>
#include <stdint.h>

#include "aotc/detail/cpu_features.h"

/* What is read: registers of leaves (CPUID_7_1_EAX: leaf 7, subleaf 1), and the register state that the operating system saves. */
enum {
  AOTC_CPUID_1_ECX,
  AOTC_CPUID_7_EBX,
  AOTC_CPUID_7_ECX,
  AOTC_CPUID_7_EDX,
  AOTC_CPUID_7_1_EAX,
  AOTC_CPUID_EXT_1_ECX, /* leaf 0x80000001 */
  AOTC_CPUID_XCR0,
  AOTC_CPUID_WORDS
};

/* X(feature, word, bits): a CPU has a feature where all bits of all its rows are set. Source: Intel SDM volume 2, CPUID, and volume 1,
 * chapter 13 (XCR0); AMD APM volume 3, appendix E. */
#define AOTC_CPU_FACT_LIST(X)                                               \
  X(AVX2, 7_EBX, 1u << 5)                                                   \
  X(AVX2, 1_ECX, 1u << 28 /* avx */)                                        \
  X(FMA, 1_ECX, 1u << 12)                                                   \
  X(F16C, 1_ECX, 1u << 29)                                                  \
  X(BMI, 7_EBX, 1u << 3 | 1u << 8)                                          \
  X(BMI, EXT_1_ECX, 1u << 5 /* lzcnt */)                                    \
  X(BMI, 1_ECX, 1u << 22 /* movbe */)                                       \
  X(OS_AVX, XCR0, 0x6u)                                                     \
  X(AVX512F, 7_EBX, 1u << 16)                                               \
  X(AVX512_REST, 7_EBX, 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)          \
  X(OS_AVX512, XCR0, 0xe6u)                                                 \
  X(AVX512_BF16, 7_1_EAX, 1u << 5)                                          \
  X(AVX512_BF16, 7_ECX, 1u << 11 /* vnni */)                                \
  X(AMX_TILES, 7_EDX, 1u << 22 /* bf16 */ | 1u << 24 | 1u << 25 /* int8 */) \
  X(OS_AMX, XCR0, 0x60000u)                                                 \
  X(AVX512_VNNI, 7_ECX, 1u << 11)                                           \
  X(AVX_VNNI, 7_1_EAX, 1u << 4)

/* AOTC_CPU_* of a CPU whose registers read so. */
static inline uint32_t aotc_cpu_features_of(const uint32_t words[AOTC_CPUID_WORDS]) {
  uint32_t lacks = 0;
#define AOTC_FACT_(feature, word, bits) lacks |= (words[AOTC_CPUID_##word] & (bits)) == (bits) ? 0u : (uint32_t)AOTC_CPU_##feature;
  AOTC_CPU_FACT_LIST(AOTC_FACT_)
#undef AOTC_FACT_
  return AOTC_CPU_ALL & ~lacks;
}

typedef void (*aotc_cpuid_fn)(uint32_t leaf, uint32_t subleaf, uint32_t out[4]); /* eax, ebx, ecx, edx */
typedef uint64_t (*aotc_xgetbv_fn)(void);                                        /* XCR0 */

/* AOTC_CPU_* of the CPU that answers; leaves that it does not have are not asked for. */
static inline uint32_t aotc_cpu_features(aotc_cpuid_fn cpuid, aotc_xgetbv_fn xgetbv) {
  uint32_t words[AOTC_CPUID_WORDS] = {0}, r[4], last;
  cpuid(0, 0, r);
  last = r[0];
  cpuid(1, 0, r);
  words[AOTC_CPUID_1_ECX] = r[2];
  if (last >= 7) {
    cpuid(7, 0, r);
    words[AOTC_CPUID_7_EBX] = r[1], words[AOTC_CPUID_7_ECX] = r[2], words[AOTC_CPUID_7_EDX] = r[3];
    if (r[0] >= 1) {
      cpuid(7, 1, r);
      words[AOTC_CPUID_7_1_EAX] = r[0];
    }
  }
  cpuid(0x80000000u, 0, r);
  if (r[0] >= 0x80000001u) {
    cpuid(0x80000001u, 0, r);
    words[AOTC_CPUID_EXT_1_ECX] = r[2];
  }
  if (words[AOTC_CPUID_1_ECX] >> 27 & 1 /* osxsave */) words[AOTC_CPUID_XCR0] = (uint32_t)xgetbv();
  return aotc_cpu_features_of(words);
}

/* The CPU that runs this. */
static inline void aotc_hardware_cpuid(uint32_t leaf, uint32_t subleaf, uint32_t out[4]) {
  __cpuid_count(leaf, subleaf, out[0], out[1], out[2], out[3]);
}
static inline uint64_t aotc_hardware_xgetbv(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

#endif
