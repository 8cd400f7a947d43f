#pragma once
// Products of float32 rows with a weight of few bits as sums of floats: aotc_gemm_unpack_f32 of aotc/detail/quant_abi.h.
//
// Units, blocks and tiles are gemm.h's. Two vectors of a panel's columns are unpacked for some values of k and all tiles of rows multiply
// them out of L1: what unpacking costs does not grow with the rows. Meanwhile the tiles prefetch what is unpacked next. A few rows' tiles
// unpack in registers, sum products with the integers themselves and scale the sums once a group, at least once kc values.
#include "gemm.h"
#include "near_floats.h"

namespace {

static_assert(AOTC_GEMM_UNPACK_K % kBlock == 0);

/// Value i of each column's four signed bytes. AVX-512: without the conversions, which take the ports of multiply-adds; AVX2 has no
/// registers for what that takes beside a tile's sums.
inline Floats::V value_of(Ints quad, int i) {
#if defined(__AVX512F__)
  return NearFloats<8>::get(quad, i, 0) - Floats::set1(NearFloats<8>::kAbove);
#else
  return to_floats(shift_signed32(i < 3 ? shift_left32(quad, 24 - 8 * i) : quad, 24));
#endif
}

/// The groups of k that `left` values reach into: a group's number among those of the panel's first, its values.
struct Groups {
  int64_t group, left;
  int64_t number, len;
  Groups(int64_t group_len, int64_t k0, int64_t kn)
      : group(group_len), left(kn), number(k0 / group_len), len(min_of(group_len - k0 % group_len, kn)) {}
  bool more() const { return left > 0; }
  void next() { left -= len, len = min_of(group, left), ++number; }
};

/// A panel of AOTC_PANEL_N columns from some value of k on, one of whole blocks.
template <int kBits>
struct UnpackPanel {
  using V = Floats::V;
  static constexpr int64_t kBytes = kRun * kBits / 8;  ///< of a block of a run of columns
  static constexpr int kLoads = kQuads * kBits / 8;    ///< quads that lie one after another; those of 4 bits are two each

  const char* values;
  int64_t run_bytes;  ///< from one run of AOTC_QUANT_LANES columns to the next
  ColumnNumbers scales, offsets;
  int64_t group_stride, columns;  ///< of scales and offsets, and that they may be read for
  int64_t group, k_begin;

  /// From value k0 of vector v of the columns on.
  const char* at(int64_t k0, int64_t v) const {
    const int64_t column = v * kLanes;
    return values + column / AOTC_QUANT_LANES * run_bytes + k0 / kBlock * kBytes + column % AOTC_QUANT_LANES * 4;
  }
  /// The one that follows it.
  UnpackPanel next() const {
    UnpackPanel p = *this;
    p.values += int64_t{AOTC_PANEL_N} / int64_t{AOTC_QUANT_LANES} * run_bytes;
    p.scales = scales.from(AOTC_PANEL_N);
    if (offsets.at) p.offsets = offsets.from(AOTC_PANEL_N);
    p.columns -= AOTC_PANEL_N;
    return p;
  }
  /// Prefetches the scales and offsets of kn values of k and the vectors from v on, and says how `tiles` tiles of `steps` steps each, which
  /// run before these are unpacked, prefetch their values.
  Ahead ask(int64_t k0, int64_t kn, int64_t v, int64_t tiles, int64_t steps) const {
    for (Groups g = groups(k0, kn); g.more(); g.next()) {
      const int64_t from = g.number * group_stride + v * kLanes;
      _mm_prefetch(scales.from(from).at, _MM_HINT_T1);
      if (offsets.at) _mm_prefetch(offsets.from(from).at, _MM_HINT_T1);
    }
    const int64_t bytes = kn * AOTC_QUANT_LANES * kBits / 8;  // of a run
    if (kMaxNv * kLanes == AOTC_QUANT_LANES) return {at(k0, v), ceil_div(bytes, tiles * steps)};
    const char* second = at(k0, v + 1);
    if (tiles == 1)
      for (int64_t i = 0; i < bytes; i += 64) _mm_prefetch(second + i, _MM_HINT_T1);
    const int64_t split = (tiles + 1) / 2;
    return {at(k0, v), ceil_div(bytes, max_of<int64_t>(tiles - split, 1) * steps), second, split};
  }
  V numbers(const ColumnNumbers& of, int64_t number, int64_t v) const {
    return of.from(number * group_stride + v * kLanes).load(columns - v * kLanes);
  }
  Groups groups(int64_t k0, int64_t kn) const { return {group, k_begin + k0, kn}; }

  /// dst[kn, up to whole blocks][nv vectors]
  void unpack(int64_t k0, int64_t kn, int64_t v, int64_t nv, float* dst) const {
    if (subtracts_behind())
      nv == 2 ? unpack_vectors<2, true>(k0, kn, v, dst) : unpack_vectors<1, true>(k0, kn, v, dst);
    else
      nv == 2 ? unpack_vectors<2, false>(k0, kn, v, dst) : unpack_vectors<1, false>(k0, kn, v, dst);
  }

  /// Whether what NearFloats lie above is subtracted with the offsets (kNear), which rounds no more, or before.
  bool subtracts_behind() const { return !scales.wide && (kBits == 4 || !offsets.at); }
  /// Of a group: float(number) = (near float) * s + o, or with !kNear (near float - kAbove) * s + o.
  template <int NV, bool kNear>
  void line(int64_t number, int64_t v, V (&s)[NV], V (&o)[NV]) const {
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) {
      s[j] = numbers(scales, number, v + j);
      o[j] = offsets.at ? numbers(offsets, number, v + j) : Floats::zero();
      if (kNear) o[j] = Floats::fma(Floats::set1(-NearFloats<kBits>::kAbove), s[j], o[j]);
    }
  }

  template <int NV, bool kNear>
  __attribute__((noinline)) void unpack_vectors(int64_t k0, int64_t kn, int64_t v, float* dst) const {
    using Near = NearFloats<kBits>;
    const char* w[NV];
    for (int j = 0; j < NV; ++j) w[j] = at(k0, v + j);
    for (Groups g = groups(k0, kn); g.more(); g.next()) {
      V s[NV], o[NV];
      line<NV, kNear>(g.number, v, s, o);
      for (int64_t b = 0; b < g.len; b += kBlock, dst += kBlock * NV * kLanes)
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) {
          const char* from = w[j];
          w[j] += kBytes;
#pragma GCC unroll 2
          for (int q = 0; q < kLoads; ++q) {
            const Ints quad = load_ints(from + q * 4 * AOTC_QUANT_LANES);
#pragma GCC unroll 2
            for (int high = 0; high < 8 / kBits; ++high) {
              const Ints four = Near::four(quad, high);
#pragma GCC unroll 4
              for (int i = 0; i < 4; ++i) {
                V x = Near::get(four, i, high);
                if (!kNear) x -= Floats::set1(Near::kAbove);
                Floats::store(dst + ((high * kLoads + q) * 4 + i) * NV * kLanes + j * kLanes, Floats::fma(x, s[j], o[j]));
              }
            }
          }
        }
    }
  }

  /// Whether sums are needed of the rows: what offsets are multiplied by.
  bool needs_sums() const { return kBits == 8 && offsets.at; }
  /// Pre: rows <= kRegisterRows<kBits>. c[rows, vecs vectors] (+)= a * the panel, kn values of k from k0 on; a[kn, up to
  /// whole blocks with zeros][rows]; sums[blocks][rows]
  void multiply(const float* a, const float* sums, int64_t rows, int64_t k0, int64_t kn, int64_t vecs, float* c, int64_t ldc,
                bool first) const;
};

/// Rows of a tile that unpacks in registers, at most. With AVX2 there are too few for numbers of 4 bits.
template <int kBits>
constexpr int kRegisterRows = kLanes == 16 ? (kBits == 8 ? 12 : 10)
                              : kBits == 8 ? 6
                                           : 0;
/// sum += a * b. Where the sums take all registers but four, compilers spill some for copies of factors: the instruction says which stays.
inline void add_product(Floats::V& sum, Floats::V a, Floats::V b) {
#if defined(__AVX512F__)
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
#else
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
#endif
}

template <int kBits, int MR, int NV>
struct UnpackTile {
  using P = UnpackPanel<kBits>;
  using V = Floats::V;
  static constexpr int kSets = MR * NV <= 2 ? 4 : MR * NV <= 4 ? 2 : 1;  // chains enough to hide the latency of fma
  /// Whether there are registers for the integers as they were read, else they are read again for each of their values.
  static constexpr bool kHeld = kLanes == 16 ? MR * NV <= 20 : MR * NV * kSets <= 8;

  static inline __attribute__((always_inline)) void zero(V (&sum)[kSets][MR][NV]) {
#pragma GCC unroll 4
    for (int s = 0; s < kSets; ++s)
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r)
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) sum[s][r][j] = Floats::zero();
  }
  static inline __attribute__((always_inline)) void add_rows(const float* xs, const V (&y)[NV], V (&sum)[MR][NV]) {
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const V xr = Floats::set1(xs[r]);
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) add_product(sum[r][j], xr, y[j]);
    }
  }
  static inline __attribute__((always_inline)) V in_one(const V (&sum)[kSets][MR][NV], int r, int j) {
    V all = sum[0][r][j];
#pragma GCC unroll 4
    for (int t = 1; t < kSets; ++t) all += sum[t][r][j];
    return all;
  }

  /// sum (+)= a block of bytes; x: its rows.
  static inline __attribute__((always_inline)) void block(const char* const (&w)[NV], const float* x, V (&sum)[kSets][MR][NV]) {
#pragma GCC unroll 8
    for (int q = 0; q < P::kLoads; ++q) {
      Ints quad[NV];
      if constexpr (kHeld) {
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) {
          quad[j] = load_ints(w[j] + q * 4 * AOTC_QUANT_LANES);
          asm("" : "+v"(quad[j]));  // unpacked value after value, not all at once
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        V y[NV];
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) {
          if constexpr (!kHeld) {
            const char* at = w[j];
            asm volatile("" : "+r"(at));  // read again: there is no register to keep it
            quad[j] = load_ints(at + q * 4 * AOTC_QUANT_LANES);
          }
          y[j] = value_of(quad[j], i);
        }
        add_rows(x + (q * 4 + i) * MR, y, sum[i % kSets]);
      }
    }
  }

  /// What is read some blocks later, of each run.
  static inline __attribute__((always_inline)) void ask(const char* const (&w)[NV]) {
    constexpr int64_t kAhead = 4096;
    for (int j = 0; j < NV; j += AOTC_QUANT_LANES / kLanes)
      for (int64_t i = 0; i < P::kBytes; i += 64) _mm_prefetch(w[j] + kAhead + i, _MM_HINT_T0);
  }

  /// Sums of the numbers themselves.
  template <bool kNear>
  static __attribute__((noinline)) void columns_of_numbers(const P& p, const float* x, int64_t k0, int64_t kn, int64_t v, float* c,
                                                           int64_t ldc, bool first) {
    using Near = NearFloats<kBits>;
    V sum[kSets][MR][NV];
    zero(sum);
    const char* w[NV];
    for (int j = 0; j < NV; ++j) w[j] = p.at(k0, v + j);
    for (Groups g = p.groups(k0, kn); g.more(); g.next()) {
      V s[NV], o[NV];
      p.template line<NV, kNear>(g.number, v, s, o);
      for (int64_t b = 0; b < g.len; b += kBlock, x += kBlock * MR) {
        ask(w);
#pragma GCC unroll 8
        for (int q = 0; q < P::kLoads; ++q)
#pragma GCC unroll 2
          for (int high = 0; high < 8 / kBits; ++high) {
            Ints four[NV];
#pragma GCC unroll 2
            for (int j = 0; j < NV; ++j) {
              four[j] = Near::four(load_ints(w[j] + q * 4 * AOTC_QUANT_LANES), high);
              asm("" : "+v"(four[j]));  // unpacked value after value, not all at once
            }
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) {
              V y[NV];
#pragma GCC unroll 2
              for (int j = 0; j < NV; ++j) {
                y[j] = Near::get(four[j], i, high);
                if (!kNear) y[j] -= Floats::set1(Near::kAbove);
                y[j] = Floats::fma(y[j], s[j], o[j]);
              }
              add_rows(x + ((high * P::kLoads + q) * 4 + i) * MR, y, sum[i % kSets]);
            }
          }
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) w[j] += P::kBytes;
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r)
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) {
        float* out = c + r * ldc + j * kLanes;
        const V all = in_one(sum, r, j);
        Floats::store(out, first ? all : Floats::load(out) + all);
      }
  }

  static void columns(const P& p, const float* x, const float* row_sums, int64_t k0, int64_t kn, int64_t v, float* c, int64_t ldc,
                      bool first) {
    if constexpr (kBits == 8)
      columns_of_integers(p, x, row_sums, k0, kn, v, c, ldc, first);
    else if (p.subtracts_behind())
      columns_of_numbers<true>(p, x, k0, kn, v, c, ldc, first);
    else
      columns_of_numbers<false>(p, x, k0, kn, v, c, ldc, first);
  }

  /// Sums of the integers, scaled once a group.
  static __attribute__((noinline)) void columns_of_integers(const P& p, const float* x, const float* row_sums, int64_t k0, int64_t kn,
                                                            int64_t v, float* c, int64_t ldc, bool first) {
    const bool sums = p.needs_sums();
    const char* w[NV];
    for (int j = 0; j < NV; ++j) w[j] = p.at(k0, v + j);
    for (Groups g = p.groups(k0, kn); g.more(); g.next(), first = false) {
      V sum[kSets][MR][NV];
      zero(sum);
      float group_sums[MR] = {};
      for (int64_t b = 0; b < g.len; b += kBlock, x += kBlock * MR, row_sums += MR) {
        if (sums)
          for (int r = 0; r < MR; ++r) group_sums[r] += row_sums[r];
        ask(w);
        block(w, x, sum);
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) w[j] += P::kBytes;
      }
      V s[NV], o[NV];
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) {
        s[j] = p.numbers(p.scales, g.number, v + j);
        if (sums) o[j] = p.numbers(p.offsets, g.number, v + j);
      }
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r)
#pragma GCC unroll 2
        for (int j = 0; j < NV; ++j) {
          float* out = c + r * ldc + j * kLanes;
          V total = first ? Floats::zero() : Floats::load(out);
          if (sums) total = Floats::fma(Floats::set1(group_sums[r]), o[j], total);
          Floats::store(out, Floats::fma(in_one(sum, r, j), s[j], total));
        }
    }
  }
};

/// UnpackPanel::multiply of MR rows.
template <int kBits, int MR>
void unpack_tile(const UnpackPanel<kBits>& p, const float* a, const float* sums, int64_t k0, int64_t kn, int64_t vecs, float* c,
                 int64_t ldc, bool first) {
  int64_t v = 0;
  for (; v + 2 <= vecs; v += 2) UnpackTile<kBits, MR, 2>::columns(p, a, sums, k0, kn, v, c + v * kLanes, ldc, first);
  if (v < vecs) UnpackTile<kBits, MR, 1>::columns(p, a, sums, k0, kn, v, c + v * kLanes, ldc, first);
}

template <int kBits>
struct UnpackTiles {
  using Fn = void (*)(const UnpackPanel<kBits>&, const float*, const float*, int64_t, int64_t, int64_t, float*, int64_t, bool);
  Fn fn[kRegisterRows<kBits>];
  template <int MR>
  constexpr void fill() {
    fn[MR - 1] = unpack_tile<kBits, MR>;
    if constexpr (MR > 1) fill<MR - 1>();
  }
  constexpr UnpackTiles() : fn{} { fill<kRegisterRows<kBits>>(); }
};
template <int kBits>
inline constexpr UnpackTiles<kBits> kUnpackTiles{};

template <int kBits>
void UnpackPanel<kBits>::multiply(const float* a, const float* sums, int64_t rows, int64_t k0, int64_t kn, int64_t vecs, float* c,
                                  int64_t ldc, bool first) const {
  if constexpr (kRegisterRows<kBits> != 0) kUnpackTiles<kBits>.fn[rows - 1](*this, a, sums, k0, kn, vecs, c, ldc, first);
}

/// The weight of an aotc_gemm_unpack_config.
template <int kBits>
struct UnpackSource {
  using Panel = UnpackPanel<kBits>;
  static constexpr bool kUnpacks = true;
  static constexpr int64_t kStep = kBlock, kMr = max_of(kRegisterRows<kBits>, 1), kMostK = AOTC_GEMM_UNPACK_K;
  /// Floats of scratch for sums of rows of kp values.
  static int64_t sums(int64_t kp) { return AOTC_GEMM_UNPACK_ROWS * (kp / kBlock + 1); }

  const char* values;
  ColumnNumbers scales, offsets;
  int64_t n, k, group, register_rows;

  explicit UnpackSource(const aotc_kargs* x) {
    const auto* cfg = static_cast<const aotc_gemm_unpack_config*>(x->config);
    const bool wide = cfg->bits & AOTC_QUANT_WIDE_SCALES;
    values = static_cast<const char*>(x->ptr[cfg->product.b_ptr]);
    scales = {static_cast<const char*>(x->ptr[cfg->scales_ptr]), wide};
    offsets = {cfg->offsets_ptr < 0 ? nullptr : static_cast<const char*>(x->ptr[cfg->offsets_ptr]), wide};
    n = x->size[AOTC_GEMM_N], k = x->size[AOTC_GEMM_K], group = cfg->group;
    register_rows = kRegisterRows<kBits> ? min_of<int64_t>(cfg->register_rows, AOTC_GEMM_UNPACK_ROWS) : 0;
  }
  /// sums[whole blocks of k][rows] of a[k][rows]
  static void sum_rows(const float* a, int64_t rows, int64_t k, float* sums) {
    for (int64_t b = 0; b < k; b += kBlock, a += kBlock * rows, sums += rows)
      for (int64_t r = 0; r < rows; ++r) {
        float sum[4] = {};
        for (int64_t i = 0; i < kBlock; ++i) sum[i % 4] += a[i * rows + r];
        sums[r] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
      }
  }
  /// From column `at` of all panels on, which is `column` of the scales, and value ks of k.
  Panel panel(int64_t at, int64_t column, int64_t ks) const {
    const int64_t run = ceil_div(k, kBlock) * Panel::kBytes;
    return {values + at / AOTC_QUANT_LANES * run + ks / kBlock * Panel::kBytes,
            run,
            scales.from(column),
            offsets.at ? offsets.from(column) : offsets,
            n,
            n - column,
            group,
            ks};
  }
};

template <int kBits>
struct GemmUnpack : GemmPlain<float> {
  static constexpr bool kInPlaceB = false;
  using Source = UnpackSource<kBits>;
};

inline void gemm_unpack(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_gemm_unpack_config*>(args->config);
  if ((cfg->bits & ~AOTC_QUANT_WIDE_SCALES) == 8)
    GemmRun<GemmUnpack<8>>(args).run(begin, end);
  else
    GemmRun<GemmUnpack<4>>(args).run(begin, end);
}

}  // namespace
