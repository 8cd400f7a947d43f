#pragma once
// The steps of micro.h's tiles of two vectors of eight floats, instruction by instruction.

namespace {

/// Whether micro's steps are in_order's. Then kAheadInOrder bounds the bytes that are to be asked for a step.
template <class P, int MR, int NV, int kSets>
inline constexpr bool kInOrder = false;
template <int MR>
inline constexpr bool kInOrder<MulPlain<float>, MR, 2, 1> = MR >= 4;
constexpr int64_t kAheadInOrder = 32;
/// Steps from which on what tiles read of a panel is not in L1 any more when the next tile does: 128 bytes apart, lines have half of its
/// sets.
constexpr int64_t kLongSteps = 256;

// Rows r and r + 1: two values of a at `at0` and `at1` are spread, then come their products.
#define AOTC_SPREAD(row, at, to) ".if %c[mr] > " #row "\n vbroadcastss " at ", %%" to "\n .endif\n"
#define AOTC_PRODUCTS(row, x)                                      \
  ".if %c[mr] > " #row "\n vfmadd231ps %%ymm12, %%" x ", %[s" #row \
  "0]\n vfmadd231ps"                                               \
  " %%ymm13, %%" x ", %[s" #row "1]\n .endif\n"
#define AOTC_TWO_ROWS(r0, at0, r1, at1) \
  AOTC_SPREAD(r0, at0, "ymm14") AOTC_SPREAD(r1, at1, "ymm15") AOTC_PRODUCTS(r0, "ymm14") AOTC_PRODUCTS(r1, "ymm15")
/// Step u of those that share pointers to rows, or to the packed rows of the step.
#define AOTC_STEP_OF(u)                                                                                                              \
  ".if %c[long_run]\n prefetcht0 1024(%[b])\n .endif\n"                                                                              \
  "vmovups (%[b]), %%ymm12\n vmovups 32(%[b]), %%ymm13\n add %[b_stride], %[b]\n"                                                    \
  ".if %c[in_rows]\n" AOTC_TWO_ROWS(0, "4*" #u "(%[a])", 1, "4*" #u "(%[a],%[a_stride])")                                            \
      AOTC_TWO_ROWS(2, "4*" #u "(%[a],%[a_stride],2)", 3, "4*" #u "(%[low])") AOTC_TWO_ROWS(                                         \
          4, "4*" #u "(%[low],%[a_stride])", 5, "4*" #u "(%[low],%[a_stride],2)") ".else\n" AOTC_TWO_ROWS(0, "(%[a])", 1, "4(%[a])") \
          AOTC_TWO_ROWS(2, "8(%[a])", 3, "12(%[a])") AOTC_TWO_ROWS(4, "16(%[a])", 5, "20(%[a])") "add %[a_stride], %[a]\n .endif\n"
#define AOTC_NEXT_STEPS(n) ".if %c[in_rows]\n add $4*" #n ", %[a]\n add $4*" #n ", %[low]\n .endif\n"
#define AOTC_NO_SUMS(row) "vxorps %[s" #row "0], %[s" #row "0], %[s" #row "0]\n vxorps %[s" #row "1], %[s" #row "1], %[s" #row "1]\n"

/// acc = the sums of micro's steps, where b's rows are `steps` times two vectors. In the order that GCC 12 gives the same instructions a
/// step of six rows takes 7.1 cycles on a Cascade Lake, in this one 6.1; the arithmetic takes 6. Lines ahead are asked for, two every four
/// steps. pf_step: at most kAheadInOrder.
template <bool RowA, bool kLong, int MR>
__attribute__((always_inline)) inline void in_order(__m256 (&acc)[MR][2], int64_t steps, const char* a, int64_t a_stride, const char* b,
                                                    int64_t b_stride, const char* pf, int64_t pf_step) {
  const char* low = RowA ? a + 3 * a_stride : a;  // of row 3
  int64_t fours = steps / 4, left = steps % 4;
  __m256 sum[6][2];
  // clang-format off
  asm volatile(
      AOTC_NO_SUMS(0) AOTC_NO_SUMS(1) AOTC_NO_SUMS(2) AOTC_NO_SUMS(3) AOTC_NO_SUMS(4) AOTC_NO_SUMS(5)
      "test %[fours], %[fours]\n jz 2f\n .p2align 5\n"
      "1:\n prefetcht1 (%[pf])\n prefetcht1 64(%[pf])\n add %[pf_step], %[pf]\n"
      AOTC_STEP_OF(0) AOTC_STEP_OF(1) AOTC_STEP_OF(2) AOTC_STEP_OF(3) AOTC_NEXT_STEPS(4)
      "dec %[fours]\n jnz 1b\n"
      "2: test %[left], %[left]\n jz 4f\n"
      "3:\n" AOTC_STEP_OF(0) AOTC_NEXT_STEPS(1)
      "dec %[left]\n jnz 3b\n"
      "4:\n"
      : [s00] "=&x"(sum[0][0]), [s01] "=&x"(sum[0][1]), [s10] "=&x"(sum[1][0]), [s11] "=&x"(sum[1][1]), [s20] "=&x"(sum[2][0]),
        [s21] "=&x"(sum[2][1]), [s30] "=&x"(sum[3][0]), [s31] "=&x"(sum[3][1]), [s40] "=&x"(sum[4][0]), [s41] "=&x"(sum[4][1]),
        [s50] "=&x"(sum[5][0]), [s51] "=&x"(sum[5][1]), [a] "+&r"(a), [low] "+&r"(low), [b] "+&r"(b), [pf] "+&r"(pf), [fours] "+&r"(fours),
        [left] "+&r"(left)
      : [a_stride] "r"(a_stride), [b_stride] "r"(b_stride), [pf_step] "r"(4 * pf_step), [mr] "i"(MR), [in_rows] "i"(RowA), [long_run] "i"(kLong)
      : "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
  // clang-format on
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) acc[i][0] = sum[i][0], acc[i][1] = sum[i][1];
}

#undef AOTC_SPREAD
#undef AOTC_PRODUCTS
#undef AOTC_TWO_ROWS
#undef AOTC_STEP_OF
#undef AOTC_NEXT_STEPS
#undef AOTC_NO_SUMS

}  // namespace
