#pragma once
// Register tiles of a matrix product: c[MR, NV vectors] (+)= a[MR, k] * b[k, NV vectors].
#include "entry.h"
#include "finish.h"

namespace {

/// Runs `steps` steps of P::kGroup values of k each.
/// a: RowA: row i at a + i*a_stride bytes, k contiguous; else k-th column at a + k*a_stride bytes (dot: pairs), rows contiguous.
/// b: step s at b + s*b_stride bytes. c: acc elements, rows ldc apart; the sum is added to c, with `first` it replaces c.
/// pf: prefetched while running, pf_step bytes a step. fin: not null (only where kFinishes), a TileFinish: what becomes of the sums; they
/// are not stored to c then.
using MicroFn = void (*)(int64_t steps, const char* a, int64_t a_stride, const char* b, int64_t b_stride, void* c, int64_t ldc, bool first,
                         const char* pf, int64_t pf_step, const void* fin);

#if defined(__AVX512F__)
constexpr bool kWideVectors = true;
#else
constexpr bool kWideVectors = false;
#endif

/// B of the accumulation type itself. kHalves: there are tiles whose last vector of columns is half a vector.
template <class T>
struct MulPlain {
  using Acc = T;
  using V = typename Vec<T>::V;
  static constexpr int kGroup = 1, kBytesA = sizeof(T), kBytesB = sizeof(T);
  static constexpr bool kHalves = kWideVectors && T(0.5) != T(0) && sizeof(T) == 4;
  struct B {
    V v;
  };
  static B load(const char* b) { return {Vec<T>::load(b)}; }
  template <bool RowA>
  static V mul(V acc, const char* a, int64_t, B b) {
    T x;
    __builtin_memcpy(&x, a, sizeof(T));
    return Vec<T>::fma(Vec<T>::set1(x), b.v, acc);
  }
};

/// B of f16 in plain panels, A f32.
struct MulF16 {
  using Acc = float;
  using V = Vec<float>::V;
  static constexpr int kGroup = 1, kBytesA = 4, kBytesB = 2;
  static constexpr bool kHalves = false;
  struct B {
    V v;
  };
  static B load(const char* b) { return {load_half(reinterpret_cast<const f16*>(b))}; }
  template <bool RowA>
  static V mul(V acc, const char* a, int64_t, B b) {
    float x;
    __builtin_memcpy(&x, a, 4);
    return Vec<float>::fma(Vec<float>::set1(x), b.v, acc);
  }
};

/// B of bf16 in VNNI-2 panels, A f32: a shift and a mask make the even and the odd k.
struct MulBf16 {
  using Acc = float;
  using V = Vec<float>::V;
  static constexpr int kGroup = 2, kBytesA = 4, kBytesB = 2;
  static constexpr bool kHalves = false;
  struct B {
    V even, odd;
  };
  static B load(const char* b) {
#if defined(__AVX512F__)
    __m512i x = _mm512_loadu_si512(b);
    return {_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)), _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-65536)))};
#else
    __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(x, 16)), _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(-65536)))};
#endif
  }
  template <bool RowA>
  static V mul(V acc, const char* a, int64_t a_stride, B b) {
    float x, y;
    __builtin_memcpy(&x, a, 4);
    __builtin_memcpy(&y, a + (RowA ? 4 : a_stride), 4);
    acc = Vec<float>::fma(Vec<float>::set1(x), b.even, acc);
    return Vec<float>::fma(Vec<float>::set1(y), b.odd, acc);
  }
};

#if defined(__AVX512BF16__)
/// Pairs of bf16 on both sides.
struct MulDot {
  using Acc = float;
  using V = __m512;
  static constexpr int kGroup = 2, kBytesA = 2, kBytesB = 2;
  static constexpr bool kHalves = true;
  struct B {
    __m512i v;
  };
  static B load(const char* b) { return {_mm512_loadu_si512(b)}; }
  template <bool RowA>
  static V mul(V acc, const char* a, int64_t, B b) {
    u32 x;
    __builtin_memcpy(&x, a, 4);
    return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_set1_epi32(static_cast<int>(x)), (__m512bh)b.v);
  }
};
#endif

/// Chains of sums that hide the latency of fma in a tile of few sums. A tile with one sums k in its order.
template <int MR, int NV>
constexpr int kChains = MR* NV <= 2   ? 4
                        : MR* NV <= 6 ? 2
                                      : 1;

}  // namespace

#if !defined(__AVX512F__)
#include "micro_avx2.h"
#endif

namespace {

/// acc = the sums of micro's steps, those of step s in set s % kSets.
template <class P, bool RowA, int MR, int NV, int kSets>
__attribute__((always_inline)) inline void sum_steps(typename P::V (&acc)[kSets][MR][NV], int64_t steps, const char* a, int64_t a_stride,
                                                     const char* b, int64_t b_stride, const char* pf, int64_t pf_step) {
  using T = typename P::Acc;
  using V = typename P::V;
  constexpr int kVecB = Vec<T>::kLanes * P::kBytesB * P::kGroup;
  const int64_t a_step = RowA ? P::kBytesA * P::kGroup : a_stride * (P::kBytesA == 2 ? 1 : P::kGroup);
  // Every loop over acc is unrolled, or it lies in memory.
#pragma GCC unroll 4
  for (int s = 0; s < kSets; ++s)
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) acc[s][i][j] = Vec<T>::zero();
  // Rows three apart share a base pointer: base, base + stride, base + 2*stride are addressing modes.
  constexpr int kBases = RowA ? (MR + 2) / 3 : 1;
  const char* base[kBases];
#pragma GCC unroll 8
  for (int i = 0; i < kBases; ++i) {
    base[i] = a + 3 * i * a_stride;
    asm("" : "+r"(base[i]));  // a register each, not lanes of a vector
  }
  auto step = [&](V(&sum)[MR][NV], const char* bp, int64_t a_off) __attribute__((always_inline)) {
    typename P::B bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) bv[j] = P::load(bp + j * kVecB);
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const char* ap = RowA ? base[i / 3] + (i % 3) * a_stride + a_off : base[0] + i * P::kBytesA * (P::kBytesA == 2 ? 2 : 1) + a_off;
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) sum[i][j] = P::template mul<RowA>(sum[i][j], ap, a_stride, bv[j]);
    }
  };
  constexpr int kUnroll = kSets > 1 ? kSets : 2;
  int64_t s = 0, at = 0;  // at: of a's steps, in bytes
  for (; s + kUnroll <= steps; s += kUnroll) {
#pragma GCC unroll 4
    for (int u = 0; u < kUnroll; ++u) {
      _mm_prefetch(pf, _MM_HINT_T1);
      _mm_prefetch(pf + 64, _MM_HINT_T1);
      step(acc[kSets > 1 ? u : 0], b, at + u * a_step);
      b += b_stride;
      pf += pf_step;
    }
    if constexpr (kBases == 1)
      base[0] += kUnroll * a_step;
    else
      at += kUnroll * a_step;
  }
  for (; s < steps; ++s, at += a_step, b += b_stride) step(acc[0], b, at);
}

template <class P, int MR, int NV, bool RowA, bool Fin, int kSets = kChains<MR, NV>>
__attribute__((noinline)) void micro(int64_t steps, const char* __restrict a, int64_t a_stride, const char* __restrict b, int64_t b_stride,
                                     void* c_out, int64_t ldc, bool first, const char* pf, int64_t pf_step,
                                     [[maybe_unused]] const void* tile_finish) {
  [[maybe_unused]] const auto* fin = static_cast<const TileFinish*>(tile_finish);
  using T = typename P::Acc;
  using V = typename P::V;
  constexpr int W = Vec<T>::kLanes;
  T* c = static_cast<T*>(c_out);
  if constexpr (Fin && kFinishes<T>) {
    if (fin && fin->finish->ahead) finish_ahead<MR, NV>(*fin);
  }
  V acc[kSets][MR][NV];
#if !defined(__AVX512F__)
  if constexpr (kInOrder<P, MR, NV, kSets>) {
    if (pf_step <= kAheadInOrder && steps > kLongSteps)
      in_order<RowA, true>(acc[0], steps, a, a_stride, b, b_stride, pf, pf_step);
    else if (pf_step <= kAheadInOrder)
      in_order<RowA, false>(acc[0], steps, a, a_stride, b, b_stride, pf, pf_step);
    else
      sum_steps<P, RowA>(acc, steps, a, a_stride, b, b_stride, pf, pf_step);
  } else {
    sum_steps<P, RowA>(acc, steps, a, a_stride, b, b_stride, pf, pf_step);
  }
#else
  sum_steps<P, RowA>(acc, steps, a, a_stride, b, b_stride, pf, pf_step);
#endif
  // Each pass sums from zero and is added once: the error grows with k/kc + kc, not with k.
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
#pragma GCC unroll 4
      for (int t = 1; t < kSets; ++t) acc[0][i][j] += acc[t][i][j];
      if (!first) acc[0][i][j] += Vec<T>::load(c + i * ldc + j * W);
    }
  if constexpr (Fin && kFinishes<T>) {
    constexpr int kLast = kWideVectors ? RowA ? 16 : -1 : 0;  // rows are packed where k is long
    if (fin) return finish_tile<kLast>(acc[0], *fin);
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) Vec<T>::store(c + i * ldc + j * W, acc[0][i][j]);
}

#if defined(__AVX512F__)
constexpr int kMaxMr = 14, kMaxNv = 2, kRowNv = 2;
#else
constexpr int kMaxMr = 6, kMaxNv = 2, kRowNv = 4;
#endif
// kRowNv: of a single row, which reads a panel of b in the order of memory.

/// Rows in tiles, one after another: tile t begins at row t * rows / tiles. Dividing takes as long as a step or two of a tile does, twenty
/// where the CPU divides slowly.
class RowTiles {
 public:
  struct Tile {
    int64_t begin, rows;
  };
  RowTiles(int64_t rows, int64_t tiles) : tiles_(tiles), whole_(rows / tiles), rest_(rows % tiles) {}
  Tile next() {
    const int64_t begin = begin_, more = (part_ += rest_) >= tiles_;
    if (more) part_ -= tiles_;
    begin_ += whole_ + more;
    return {begin, whole_ + more};
  }

 private:
  int64_t tiles_, whole_, rest_, part_ = 0, begin_ = 0;
};

}  // namespace

#define AOTC_TILES AOTC_CAT(aotc_tiles, AOTC_ISA)
/// Tiles by rows and vectors of columns, both from 1 on.
struct AOTC_TILES {
  MicroFn fn[kMaxMr][kRowNv];
};

namespace {

using MicroTable = AOTC_TILES;

template <class P, bool RowA, bool Fin, int MR = kMaxMr>
constexpr void fill_micro(MicroTable& t) {
  t.fn[MR - 1][0] = micro<P, MR, 1, RowA, Fin>;
  t.fn[MR - 1][1] = micro<P, MR, 2, RowA, Fin>;
  if constexpr (MR == 1 && kRowNv > kMaxNv) t.fn[0][2] = micro<P, 1, 3, RowA, Fin>, t.fn[0][3] = micro<P, 1, 4, RowA, Fin>;
  if constexpr (MR > 1) fill_micro<P, RowA, Fin, MR - 1>(t);
}
template <class P, bool RowA, bool Fin>
constexpr MicroTable micro_table() {
  MicroTable t{};
  fill_micro<P, RowA, Fin>(t);
  return t;
}

template <class P, bool RowA, int MR = 1, int NV = 1>
constexpr void fill_ordered(MicroTable& t) {
  if constexpr (NV <= (MR == 1 ? kRowNv : kMaxNv) && kChains < MR, NV >> 1) t.fn[MR - 1][NV - 1] = micro<P, MR, NV, RowA, true, 1>;
  if constexpr (NV < kRowNv)
    fill_ordered<P, RowA, MR, NV + 1>(t);
  else if constexpr (MR < 6)
    fill_ordered<P, RowA, MR + 1, 1>(t);
}
template <class P, bool RowA>
constexpr MicroTable ordered_table() {
  MicroTable t{};
  fill_ordered<P, RowA>(t);
  return t;
}

#if defined(__AVX512F__)
/// What the tiles with a half multiply. Values of a are read where each product needs them; pairs are spread over the lanes once for both
/// (measured on a Zen 4: either is a tenth to a third faster than the other way).
template <class P>
struct Halves {
  static const char* spread(const char* a) { return a; }
  static __m512 mul(__m512 acc, const char* a, __m512 b) {
    float x;
    __builtin_memcpy(&x, a, 4);
    return _mm512_fmadd_ps(_mm512_set1_ps(x), b, acc);
  }
  static __m256 mul(__m256 acc, const char* a, __m256 b) {
    return _mm256_fmadd_ps(_mm256_broadcast_ss(reinterpret_cast<const float*>(a)), b, acc);
  }
};
#if defined(__AVX512BF16__)
template <>
struct Halves<MulDot> {
  static __m512 spread(const char* a) {
    u32 x;
    __builtin_memcpy(&x, a, 4);
    return _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(x)));
  }
  static __m512 mul(__m512 acc, __m512 a, __m512 b) { return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b); }
  static __m256 mul(__m256 acc, __m512 a, __m256 b) { return _mm256_dpbf16_ps(acc, (__m256bh)_mm512_castps512_ps256(a), (__m256bh)b); }
};
#endif

/// micro of NV vectors of columns, of the last of which there is the lower half alone. Sums in the order of micro with one set of sums.
template <class P, int MR, int NV, bool RowA, bool Fin>
__attribute__((noinline)) void micro_half(int64_t steps, const char* __restrict a, int64_t a_stride, const char* __restrict b,
                                          int64_t b_stride, void* c_out, int64_t ldc, bool first, const char* pf, int64_t pf_step,
                                          [[maybe_unused]] const void* tile_finish) {
  [[maybe_unused]] const auto* fin = static_cast<const TileFinish*>(tile_finish);
  constexpr int W = 16, kVecB = W * P::kBytesB * P::kGroup, kFull = NV - 1, kBases = RowA ? (MR + 2) / 3 : 1;
  const int64_t a_step = RowA ? P::kBytesA * P::kGroup : a_stride * (P::kBytesA == 2 ? 1 : P::kGroup);
  float* c = static_cast<float*>(c_out);
  if constexpr (Fin) {
    if (fin && fin->finish->ahead) finish_ahead<MR, NV>(*fin);
  }
  __m512 acc[MR][NV];  // those of the last vector only when all is summed
  __m256 half[MR];
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    half[i] = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int j = 0; j < kFull; ++j) acc[i][j] = _mm512_setzero_ps();
  }
  const char* base[kBases];
#pragma GCC unroll 8
  for (int i = 0; i < kBases; ++i) {
    base[i] = a + 3 * i * a_stride;
    asm("" : "+r"(base[i]));
  }
  for (int64_t s = 0, at = 0; s < steps; ++s, at += a_step, b += b_stride, pf += pf_step) {
    _mm_prefetch(pf, _MM_HINT_T1);
    _mm_prefetch(pf + 64, _MM_HINT_T1);
    __m512 bv[NV];
#pragma GCC unroll 4
    for (int j = 0; j < kFull; ++j) bv[j] = _mm512_loadu_ps(b + j * kVecB);
    const __m256 bh = _mm256_loadu_ps(reinterpret_cast<const float*>(b + kFull * kVecB));
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const auto x =
          Halves<P>::spread(RowA ? base[i / 3] + (i % 3) * a_stride + at : base[0] + i * P::kBytesA * (P::kBytesA == 2 ? 2 : 1) + at);
#pragma GCC unroll 4
      for (int j = 0; j < kFull; ++j) acc[i][j] = Halves<P>::mul(acc[i][j], x, bv[j]);
      half[i] = Halves<P>::mul(half[i], x, bh);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    float* to = c + i * ldc;
#pragma GCC unroll 4
    for (int j = 0; j < kFull; ++j)
      if (!first) acc[i][j] += _mm512_loadu_ps(to + j * W);
    if (!first) half[i] += _mm256_loadu_ps(to + kFull * W);
    acc[i][kFull] = _mm512_castps256_ps512(half[i]);
  }
  if constexpr (Fin) {
    constexpr int kLast = RowA ? 8 : -1;
    if (fin) return finish_tile<kLast>(acc, *fin);
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    float* to = c + i * ldc;
#pragma GCC unroll 4
    for (int j = 0; j < kFull; ++j) _mm512_storeu_ps(to + j * W, acc[i][j]);
    _mm256_storeu_ps(to + kFull * W, half[i]);
  }
}

template <class P, bool RowA, bool Fin, int MR = kMaxMr>
constexpr void fill_half(MicroTable& t) {
  if constexpr (MR > 6) t.fn[MR - 1][0] = micro_half<P, MR, 1, RowA, Fin>;
  if constexpr (MR > 3) t.fn[MR - 1][1] = micro_half<P, MR, 2, RowA, Fin>;
  if constexpr (MR > 1) fill_half<P, RowA, Fin, MR - 1>(t);
}
template <class P, bool RowA, bool Fin>
constexpr MicroTable half_table() {
  MicroTable t{};
  fill_half<P, RowA, Fin>(t);
  return t;
}
#endif

/// Fin: of tiles that take a TileFinish.
template <class P, bool RowA, bool Fin = false>
inline constexpr MicroTable kMicroOwn = micro_table<P, RowA, Fin>();
template <class P, bool RowA>
inline constexpr MicroTable kOrderedOwn = ordered_table<P, RowA>();
#if defined(__AVX512F__)
template <class P, bool RowA, bool Fin>
inline constexpr MicroTable kHalfOwn = half_table<P, RowA, Fin>();
#endif

/// These, or one of those that several families have in common (shared_tiles.h).
template <class P, bool RowA, bool Fin = false>
inline constexpr const MicroTable& kMicro = kMicroOwn<P, RowA, Fin>;
/// The tiles that kMicro has with several chains, with one: a sum is the same in a tile of any number of rows and columns.
template <class P, bool RowA>
inline constexpr const MicroTable& kMicroOrdered = kOrderedOwn<P, RowA>;
#if defined(__AVX512F__)
/// Null where micro has several sets of sums: a sum is the same in either tile.
template <class P, bool RowA, bool Fin>
inline constexpr const MicroTable& kMicroHalf = kHalfOwn<P, RowA, Fin>;
#endif

}  // namespace

#include "shared_tiles.h"

namespace {

/// The tile of `rows` rows and `vecs` vectors of columns, of the last of which only the first `last` columns are wanted: the others may or
/// may not be computed.
template <class P, bool RowA, bool Fin>
MicroFn micro_of(int64_t rows, int64_t vecs, [[maybe_unused]] int64_t last) {
#if defined(__AVX512F__)
  if constexpr (P::kHalves) {
    if (last <= 8 && kMicroHalf<P, RowA, Fin>.fn[rows - 1][vecs - 1]) return kMicroHalf<P, RowA, Fin>.fn[rows - 1][vecs - 1];
  }
#endif
  return kMicro<P, RowA, Fin>.fn[rows - 1][vecs - 1];
}

/// As micro_of, of tiles that take a TileFinish; `ordered`: each sum in the order of k.
template <class P, bool RowA>
MicroFn micro_of(int64_t rows, int64_t vecs, int64_t last, bool ordered) {
  if (ordered && rows <= 6 && kMicroOrdered<P, RowA>.fn[rows - 1][vecs - 1]) return kMicroOrdered<P, RowA>.fn[rows - 1][vecs - 1];
  return micro_of<P, RowA, true>(rows, vecs, last);
}

}  // namespace
