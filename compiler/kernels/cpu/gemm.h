#pragma once
// Matrix products of run-time size: aotc_gemm_* of aotc/detail/library_abi.h.
//
// A work unit is an mc x nc block. A's rows of the block are packed once per kp values of k and kept over the units that follow with the
// same rows (weights: n runs fastest), or B's columns are (run-time B: m runs fastest). Inside, column panel after column panel, kc
// values of k at a time, all row tiles: B's kc x 32 chunk stays in L1, A streams from L2, the next chunk of B is prefetched meanwhile.
// The epilogue runs on finished panels while they are in L1. An operand with a prologue is computed where it would be read: A by register
// tiles (or by whole blocks, to be read in place), B by panels, and kept as long as its panels are.
#include "gemm_units.h"
#include "panels.h"
#include "tiny_rows.h"

namespace {

/// Where a packed B comes from whose panels are not in memory (gemm_unpack.h); of others nothing is asked.
struct NoSource {
  static constexpr bool kUnpacks = false;
  static constexpr int64_t kStep = 1, kMr = 1, kMostK = 0;
  static constexpr int64_t register_rows = 0;
  static int64_t sums(int64_t) { return 0; }
  explicit NoSource(const aotc_kargs*) {}
};

/// What tiles prefetch as they run, `step` bytes a step, each where the tile before it ended: from `at` on, those from tile `split` on from
/// `second` on.
struct Ahead {
  const char* at;
  int64_t step;
  const char* second = nullptr;
  int64_t split = INT64_MAX;
  const char* of_tile(int64_t t, int64_t steps) const { return t < split ? at + t * step * steps : second + (t - split) * step * steps; }
};

/// What an element type means to the driver.
template <class Elem>
struct GemmPlain {
  using E = Elem;
  using EB = Elem;  // of B
  using Acc = Elem;
  using Packed = MulPlain<Elem>;   // B from weight panels
  using Runtime = MulPlain<Elem>;  // B packed here
  static constexpr bool kInPlaceA = true, kInPlaceB = true, kPairsA = false;
  using Source = NoSource;
  static void pack_a(const E* src, int64_t rs, int64_t cs, int64_t rows, int64_t k, Acc* dst) { pack_rows(src, rs, cs, rows, k, dst); }
  static void pack_b(const E* src, int64_t rs, int64_t cs, int64_t k, int64_t cols, Acc* dst) {
    pack_cols(src, rs, cs, k, cols, AOTC_PANEL_N, dst, AOTC_PANEL_N);
  }
};
/// 16-bit floats computed in f32; or f32 rows, whose weight alone is of 16 bits.
template <class ElemB, class PackedMul, class ElemA = ElemB>
struct GemmWiden {
  using E = ElemA;
  using EB = ElemB;
  using Acc = float;
  using Packed = PackedMul;
  using Runtime = MulPlain<float>;
  static constexpr bool kInPlaceA = sizeof(E) == sizeof(Acc), kInPlaceB = false, kPairsA = false;
  using Source = NoSource;
  static void pack_a(const E* src, int64_t rs, int64_t cs, int64_t rows, int64_t k, Acc* dst) { pack_rows(src, rs, cs, rows, k, dst); }
  static void pack_b(const EB* src, int64_t rs, int64_t cs, int64_t k, int64_t cols, Acc* dst) {
    pack_cols(src, rs, cs, k, cols, AOTC_PANEL_N, dst, AOTC_PANEL_N);
  }
};
#if defined(__AVX512BF16__)
struct GemmDot {
  using E = bf16;
  using EB = bf16;
  using Acc = float;
  using Packed = MulDot;
  using Runtime = MulDot;
  static constexpr bool kInPlaceA = true, kInPlaceB = false, kPairsA = true;
  using Source = NoSource;
  static void pack_a(const E* src, int64_t rs, int64_t cs, int64_t rows, int64_t k, Acc* dst) {
    pack_row_pairs(src, rs, cs, rows, k, reinterpret_cast<u32*>(dst));
  }
  static void pack_b(const E* src, int64_t rs, int64_t cs, int64_t k, int64_t cols, Acc* dst) {
    pack_col_pairs(src, rs, cs, k, cols, AOTC_PANEL_N, reinterpret_cast<u32*>(dst), AOTC_PANEL_N);
  }
};
using GemmBf16 = GemmDot;
#else
using GemmBf16 = GemmWiden<bf16, MulBf16>;
#endif

/// A single row waits for memory: its tile reads b once, in order, and prefetches this many bytes ahead (measured on a Zen 4: 20 to 40 %
/// more than with the next chunk, most with huge pages; rows of larger blocks gain nothing).
constexpr int64_t kRowAhead = 4096;

/// Bytes from row to row of b, and of all of it, beyond which more than kFewRows rows of a do not read it where it is.
constexpr int64_t kRowsApart = 1024, kFarBytes = 512 << 10, kFewRows = 4;

/// Columns of 16 bits that the tiles of P widen step by step: several tiles of rows widen them again and again.
template <class P>
inline constexpr bool kWidens = P::kBytesB == 2 && P::kBytesA == 4;
/// Tiles whose rows may have tiny numbers taken apart (tiny_rows.h).
template <class P>
inline constexpr bool kPartsTiny = false;
template <>
inline constexpr bool kPartsTiny<MulPlain<float>> = true;
/// The most steps of tiles that run before the flags are read once more; of a unit they are read after its first tile, then after twice as
/// many steps each time. Reading them waits for all sums that were begun, so tiles of a short k must not do it each (Zen 4: 60 cycles a
/// tile).
constexpr int64_t kStepsAsked = 512;
/// Bytes of a weight's panels that all tiles of rows may read one after another.
constexpr int64_t kNearBytes = 128 << 10;
/// Values of k that are widened at once: with two vectors of columns they stay in L1.
constexpr int64_t kWideK = 256;
static_assert(kWideK * kMaxNv * Vec<float>::kLanes * 4 <= AOTC_GEMM_WIDENED_BYTES);

/// dst[steps * P::kGroup][nv vectors], the nv first vectors of each step of a panel.
template <class P>
void widen_panel(const char* b, int64_t b_stride, int64_t steps, int64_t nv, float* dst) {
  constexpr int W = Vec<float>::kLanes, kVecB = W * P::kBytesB * P::kGroup;
  for (int64_t s = 0; s < steps; ++s, b += b_stride, dst += P::kGroup * nv * W)
    for (int64_t j = 0; j < nv; ++j) {
      const typename P::B x = P::load(b + j * kVecB);
      if constexpr (P::kGroup == 2) {
        Vec<float>::store(dst + j * W, x.even);
        Vec<float>::store(dst + (nv + j) * W, x.odd);
      } else {
        Vec<float>::store(dst + j * W, x.v);
      }
    }
}

template <class G>
struct GemmRun {
  using E = typename G::E;
  using EB = typename G::EB;
  using Acc = typename G::Acc;
  using Unit = GemmUnits::Unit;
  static constexpr int W = Vec<Acc>::kLanes;
  static constexpr bool kUnpacks = G::Source::kUnpacks;

  const aotc_kargs* args;
  const aotc_gemm_config* cfg;
  const int64_t* size;
  GemmUnits units;
  int64_t m, k, mr;
  const E* a;
  const EB* b;
  int64_t a_rs, a_cs, b_rs, b_cs;
  bool a_in_place, b_in_place;
  Acc *a_pack, *b_pack, *tile;
  E* a_rows;
  EB* b_rows;                      // what prologues have computed, before it is packed; or A's whole block
  int64_t a_key = -1, b_key = -1;  // what the pack buffers hold
  typename G::Source source;
  Finish finish;          // of the segment at hand; without steps where sums go to the tile
  Acc* wide = nullptr;    // of a packed B that is widened
  Acc* a_sums = nullptr;  // of the rows that a_pack has, for a B that is unpacked in registers
  DenormalFlags flags;
  bool tiny_met = false;
  int64_t unasked = 0;                       // multiply-adds of vectors since the run was last asked whether it ends
  bool ended = false;                        // it did
  int64_t steps_unasked = 0, ask_after = 1;  // of this unit: steps since its flags were last read, after which they are read again
  TinyRows tiny_rows;

  explicit GemmRun(const aotc_kargs* x)
      : args(x), cfg(static_cast<const aotc_gemm_config*>(x->config)), size(x->size), units(x), source(x) {
    m = size[AOTC_GEMM_M];
    k = size[AOTC_GEMM_K];
    mr = min_of<int64_t>(cfg->mr, kMaxMr);
    const int64_t kp = min_of<int64_t>(kUnpacks ? packed_rows(k) : k + (k & 1), cfg->kp);
    a = cfg->a_prologue ? nullptr : static_cast<const E*>(x->ptr[cfg->a_ptr]) + size[AOTC_GEMM_A_BASE];
    b = cfg->b_prologue || kUnpacks ? nullptr : static_cast<const EB*>(x->ptr[cfg->b_ptr]) + size[AOTC_GEMM_B_BASE];
    a_rs = cfg->a_prologue ? kp + 16 : size[AOTC_GEMM_A_RS];  // not a power of two: rows apart in the cache
    a_cs = cfg->a_prologue ? 1 : size[AOTC_GEMM_A_CS];
    b_rs = size[AOTC_GEMM_B_RS];
    b_cs = size[AOTC_GEMM_B_CS];
    // Packing A pays when its rows are read often; where k goes in pairs, the last must not reach beyond an odd one.
    a_in_place = G::kInPlaceA && (a_cs == 1 || k == 1) && (!cfg->pack_a || m <= 4) && !(G::Packed::kGroup == 2 && k % 2);
    if (kUnpacks) a_in_place = false;
    // Rows that lie far apart are packed in their order, which memory gives faster than the tiles' columns of them.
    const int64_t row_bytes = b_rs * static_cast<int64_t>(sizeof(EB));
    const bool apart = row_bytes >= kRowsApart && row_bytes * k >= kFarBytes && m > kFewRows;
    b_in_place = G::kInPlaceB && !cfg->b_packed && !cfg->b_prologue && b_cs == 1 && m <= 2 * mr && !apart;
    a_pack = static_cast<Acc*>(x->scratch);
    b_pack = a_pack + (cfg->mc + 16) * kp;
    b_pack += -(b_pack - a_pack) & 15;  // 64-byte lines
    tile = b_pack + (cfg->b_packed ? 0 : cfg->nc * kp);
    tile += -(tile - a_pack) & 15;
    Acc* rest = tile + int64_t{1} * cfg->mc * cfg->nc;
    rest += -(rest - a_pack) & 15;
    if (kUnpacks) {
      wide = rest, rest += G::Source::kMostK * kMaxNv * W;
      a_sums = rest, rest += G::Source::sums(kp);
    } else if (kWidens<typename G::Packed> && cfg->b_packed) {
      wide = rest, rest += AOTC_GEMM_WIDENED_BYTES / static_cast<int64_t>(sizeof(Acc));
    }
    a_rows = reinterpret_cast<E*>(rest);
    b_rows = reinterpret_cast<EB*>(rest + (cfg->a_prologue ? (cfg->mc + 1) * (kp + 32) : 0));
  }

  int64_t panel_rows() const { return G::Packed::kGroup == 2 ? k + (k & 1) : k; }
  /// Rows of packed A that klen values of k take. Where the products go two by two, an odd one is followed by zeros: the panel has zeros
  /// there, too, but zero times whatever was in the scratch may be NaN.
  static int64_t packed_rows(int64_t klen) {
    if (kUnpacks) return ceil_div(klen, G::Source::kStep) * G::Source::kStep;
    return G::kPairsA ? (klen + 1) / 2 : G::Packed::kGroup == 2 ? klen + (klen & 1) : klen;
  }

  /// Whether a unit's tiles unpack B in registers.
  bool in_registers(int64_t rows) const { return rows <= source.register_rows && !cfg->ordered; }
  int64_t tile_rows(int64_t rows) const { return ceil_div(rows, in_registers(rows) ? G::Source::kMr : mr); }

  void pack_a_block(const E* src, const Unit& u, int64_t ks, int64_t klen) {
    const int64_t rows = u.m1 - u.m0, tiles = tile_rows(rows);
    Acc* dst = a_pack;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t r0 = t * rows / tiles, r1 = (t + 1) * rows / tiles;
      if (cfg->a_prologue) cfg->a_prologue(args, u.batch, u.m0 + r0, r1 - r0, ks, klen, a_rows, a_rs);
      G::pack_a(cfg->a_prologue ? a_rows : src + r0 * a_rs, a_rs, a_cs, r1 - r0, klen, dst);
      if constexpr (!G::kPairsA)
        for (int64_t i = (r1 - r0) * klen; i < (r1 - r0) * packed_rows(klen); ++i) dst[i] = 0;
      if constexpr (kUnpacks)
        if (in_registers(rows)) G::Source::sum_rows(dst, r1 - r0, packed_rows(klen), a_sums + r0 * packed_rows(klen) / G::Source::kStep);
      dst += (r1 - r0) * packed_rows(klen);
    }
  }

  /// A panel of columns of B, rows [ks, ks + klen), from memory or from the prologue.
  void pack_b_panel(const EB* src, const Unit& u, int64_t ks, int64_t klen, int64_t j0, int64_t width, Acc* dst) {
    if (!cfg->b_prologue) return G::pack_b(src + ks * b_rs + j0 * b_cs, b_rs, b_cs, klen, width, dst);
    const int64_t column = units.segment_begin(u.segment) + u.n0 + j0;
    if constexpr (G::kInPlaceB) {  // the panel form is that of the elements
      cfg->b_prologue(args, u.batch, ks, klen, column, width, dst, AOTC_PANEL_N);
      for (int64_t i = 0; width < AOTC_PANEL_N && i < klen; ++i)
        for (int64_t j = width; j < AOTC_PANEL_N; ++j) dst[i * AOTC_PANEL_N + j] = 0;
    } else {
      cfg->b_prologue(args, u.batch, ks, klen, column, width, b_rows, AOTC_PANEL_N);
      G::pack_b(b_rows, AOTC_PANEL_N, 1, klen, width, dst);
    }
  }

  /// The panels of a block from rows that lie where they are, a few rows of all panels after each other: memory is read in its order.
  void pack_b_block(const EB* src, int64_t ks, int64_t klen, int64_t cols, Acc* dst, int64_t panel_elems) {
    constexpr int64_t kAtOnce = 8;
    for (int64_t i = 0; i < klen; i += kAtOnce)
      for (int64_t j0 = 0; j0 < cols; j0 += AOTC_PANEL_N)
        G::pack_b(src + (ks + i) * b_rs + j0, b_rs, 1, min_of(kAtOnce, klen - i), min_of<int64_t>(AOTC_PANEL_N, cols - j0),
                  dst + j0 / AOTC_PANEL_N * panel_elems + i / G::Runtime::kGroup * AOTC_PANEL_N);
  }

  /// What the tiles of a block multiply by one panel: the rows [m0, m0 + rows) and the segment's columns from n0 on, of which `width` are
  /// wanted, klen values of k.
  struct PanelRun {
    const E* a_src;
    int64_t m0, rows, klen, n0, width;
    Acc* c;
    int64_t ldc;
    bool first, last_of_k;  // the sums begin here, end here
  };

  /// Not where sums are ordered: tiles that part tiny numbers sum otherwise, and a row must not depend on another's.
  bool asks_for_tiny() const { return !tiny_met && !args->free_denormals && !cfg->ordered; }

  /// Whether a tiny number was met in these steps.
  bool raised_after(int64_t steps) {
    ask_after = min_of(kStepsAsked, 2 * max_of(ask_after, steps));
    return flags.raised();
  }

  /// Whether the run ends here: what is computed by now is of no use.
  bool ends() { return ended || (ended = run_ends(args)); }

  /// The same before a tile of so many multiply-adds of vectors. Asking takes the time of a clock's reading.
  bool ends_before(int64_t products) {
    constexpr int64_t kMostUnasked = int64_t{1} << 15;  // some 10 us
    unasked += products;
    if (unasked < kMostUnasked) return ended;
    unasked = 0;
    return ends();
  }

  /// Values [k0, k0 + kn) of k, nv vectors of columns from the panel's vector v on, all tiles of rows. b: of these columns. pf: its steps
  /// are P's.
  template <class P>
  void tiles_of(const PanelRun& r, int64_t k0, int64_t kn, int64_t v, int64_t nv, const char* b, int64_t b_stride, const Ahead& pf) {
    const int64_t tiles = tile_rows(r.rows), steps = ceil_div(kn, P::kGroup), last = min_of<int64_t>(W, r.width - (v + nv - 1) * W);
    bool asks = false;
    if constexpr (kPartsTiny<P>) {
      steps_unasked += steps * tiles;
      asks = asks_for_tiny() && steps_unasked >= ask_after;
      if (asks) flags.clear(), steps_unasked = 0;  // what packing and epilogues have raised
    }
    int64_t since = 0;
    RowTiles each(r.rows, tiles);
    for (int64_t t = 0; t < tiles; ++t) {
      const auto [r0, n_rows] = each.next();
      if (ends_before(steps * n_rows * nv)) return;
      Acc* out = r.c + r0 * r.ldc + v * W;
      const TileFinish in_tile = {&finish, r.m0 + r0, r.n0 + v * W, last};
      const TileFinish* fin = finish.n && r.last_of_k && k0 + kn >= r.klen ? &in_tile : nullptr;
      const char* ahead = pf.of_tile(t, steps);
      // Else tiles follow each other, each [packed_rows][n_rows].
      const char* ap = a_in_place ? reinterpret_cast<const char*>(r.a_src + r0 * a_rs + k0)
                                  : reinterpret_cast<const char*>(a_pack + r0 * packed_rows(r.klen) + (G::kPairsA ? k0 / 2 : k0) * n_rows);
      const int64_t stride = a_in_place ? a_rs * sizeof(E) : n_rows * sizeof(Acc);
      const bool fresh = r.first && k0 == 0;
      if constexpr (kPartsTiny<P>) {
        if (asks && since >= ask_after) tiny_met = raised_after(since), asks = !tiny_met, since = 0;
        since += steps;
        if (tiny_met) {
          (a_in_place ? micro_of_tiny<G::kInPlaceA> : micro_of_tiny<false>)(tiny_rows, n_rows, nv, last, steps, ap, stride, b, b_stride,
                                                                            out, r.ldc, fresh, ahead, pf.step, fin);
          continue;
        }
      }
      const bool ordered = cfg->ordered != 0;
      const MicroFn fn = a_in_place ? micro_of<P, G::kInPlaceA>(n_rows, nv, last, ordered) : micro_of<P, false>(n_rows, nv, last, ordered);
      fn(steps, ap, stride, b, b_stride, out, r.ldc, fresh, ahead, pf.step, fin);
    }
    if constexpr (kPartsTiny<P>) tiny_met = tiny_met || (asks && raised_after(since));
  }

  /// One panel, kc values of k at a time, into c, or with the last of k to where `finish` says. Columns of 16 bits that several tiles read
  /// are widened before the first of them.
  template <class P>
  void panel(const PanelRun& r, const char* b_src, int64_t b_stride) {
    const int64_t tiles = tile_rows(r.rows), vecs = ceil_div(r.width, W), most = r.rows == 1 ? kRowNv : kMaxNv;
    const bool widen = kWidens<P> && tiles > 1;
    const int64_t kc = widen ? min_of<int64_t>(cfg->kc, kWideK) : cfg->kc;
    for (int64_t k0 = 0; k0 < r.klen; k0 += kc) {
      const int64_t kn = min_of(kc, r.klen - k0), steps = ceil_div(kn, P::kGroup);
      const char* b0 = b_src + k0 / P::kGroup * b_stride;
      const char* next = b0 + (b_in_place ? 0 : steps * b_stride);  // panels follow each other
      const int64_t pf_step = b_in_place ? 0 : b_stride / tiles;
      for (int64_t v = 0; v < vecs; v += most) {
        const int64_t nv = min_of(most, vecs - v);
        const char* bv = b0 + v * W * P::kBytesB * P::kGroup;
        if constexpr (kWidens<P>) {
          if (widen) {
            widen_panel<P>(bv, b_stride, steps, nv, wide);
            tiles_of<MulPlain<Acc>>(r, k0, kn, v, nv, reinterpret_cast<const char*>(wide), nv * W * sizeof(Acc),
                                    {next, pf_step / P::kGroup});
            continue;
          }
        }
        tiles_of<P>(r, k0, kn, v, nv, bv, b_stride, {r.rows == 1 ? bv + kRowAhead : next, pf_step});
      }
    }
  }

  /// The same of a B that is unpacked: once for all tiles of rows, or by each of a few as it is read.
  template <class Panel>
  void panel_of_source(const PanelRun& r, const Panel& b) {
    const int64_t tiles = tile_rows(r.rows), vecs = ceil_div(r.width, W), kc = min_of<int64_t>(cfg->kc, G::Source::kMostK);
    const Panel after = b.next();
    for (int64_t k0 = 0; k0 < r.klen; k0 += kc) {
      const int64_t kn = min_of(kc, r.klen - k0);
      if (in_registers(r.rows)) {
        for (int64_t t = 0; t < tiles; ++t) {
          const int64_t r0 = t * r.rows / tiles, n_rows = (t + 1) * r.rows / tiles - r0;
          const int64_t at = r0 * packed_rows(r.klen) + k0 * n_rows;
          b.multiply(a_pack + at, a_sums + at / G::Source::kStep, n_rows, k0, kn, vecs, r.c + r0 * r.ldc, r.ldc, r.first && k0 == 0);
        }
        continue;
      }
      for (int64_t v = 0; v < vecs; v += kMaxNv) {
        if (ends()) return;
        const int64_t nv = min_of<int64_t>(kMaxNv, vecs - v);
        b.unpack(k0, kn, v, nv, wide);
        const bool columns_follow = v + kMaxNv < vecs, of_this = columns_follow || k0 + kc < r.klen;
        const int64_t next_v = columns_follow ? v + kMaxNv : 0, next_k = columns_follow ? k0 : of_this ? k0 + kc : 0;
        const Ahead ahead = (of_this ? b : after).ask(next_k, min_of(kc, r.klen - next_k), next_v, tiles, kn);
        tiles_of<MulPlain<Acc>>(r, k0, kn, v, nv, reinterpret_cast<const char*>(wide), nv * W * sizeof(Acc), ahead);
      }
    }
  }

  /// Whether the tiles of a unit go row after row: all of k in one pass, panels of the weight that are near, sums finished in their tiles.
  bool goes_by_rows(int64_t rows, int64_t cols) const {
    if constexpr (kUnpacks || kWideVectors || kWidens<typename G::Packed>) return false;
    const bool one_pass = k <= cfg->kc && k <= cfg->kp;
    return finish.n && cfg->b_packed && rows > mr && one_pass && panel_rows() * cols * int64_t{sizeof(EB)} <= kNearBytes;
  }

  /// All of a unit: results are written in the order of memory, and tiles of a short k follow each other closely.
  void tiles_by_rows(const Unit& u, const E* a_of_unit, const EB* panels) {
    using P = typename G::Packed;
    const int64_t rows = u.rows(), cols = u.cols(), tiles = tile_rows(rows), steps = ceil_div(k, P::kGroup);
    constexpr int64_t b_stride = AOTC_PANEL_N * sizeof(EB) * P::kGroup, kColumns = kMaxNv * W;
    const int64_t panel_bytes = panel_rows() * AOTC_PANEL_N * int64_t{sizeof(EB)};
    if constexpr (kPartsTiny<P>) flags.clear();
    int64_t since = 0;
    RowTiles each(rows, tiles);
    for (int64_t t = 0; t < tiles; ++t) {
      const auto [r0, n_rows] = each.next();
      if (ends_before(steps * n_rows * ceil_div(cols, W))) return;
      const char* ap = reinterpret_cast<const char*>(a_pack + r0 * packed_rows(k));
      if (a_in_place) ap = reinterpret_cast<const char*>(a_of_unit + r0 * a_rs);
      const int64_t stride = a_in_place ? a_rs * sizeof(E) : n_rows * sizeof(Acc);
      const auto tile_of = [&](int64_t nv, int64_t last) {
        const bool ordered = cfg->ordered != 0;
        return a_in_place ? micro_of<P, G::kInPlaceA>(n_rows, nv, last, ordered) : micro_of<P, false>(n_rows, nv, last, ordered);
      };
      if constexpr (kPartsTiny<P>) {
        if (since >= ask_after && asks_for_tiny()) tiny_met = raised_after(since), since = 0;
      }
      const MicroFn most = tile_of(kMaxNv, W);
      for (int64_t j = 0; j < cols; j += kColumns, since += steps) {
        const int64_t nv = min_of<int64_t>(kMaxNv, ceil_div(cols - j, W)), last = min_of<int64_t>(W, cols - j - (nv - 1) * W);
        const char* b = reinterpret_cast<const char*>(panels) + j / AOTC_PANEL_N * panel_bytes + j % AOTC_PANEL_N * P::kBytesB * P::kGroup;
        const TileFinish fin = {&finish, u.m0 + r0, u.n0 + j, last};
        if constexpr (kPartsTiny<P>) {
          if (tiny_met) {
            (a_in_place ? micro_of_tiny<G::kInPlaceA> : micro_of_tiny<false>)(tiny_rows, n_rows, nv, last, steps, ap, stride, b, b_stride,
                                                                              tile, kColumns, true, b, 0, &fin);
            continue;
          }
        }
        const MicroFn fn = nv == kMaxNv && last == W ? most : tile_of(nv, last);
        fn(steps, ap, stride, b, b_stride, tile, kColumns, true, b + panel_bytes, t ? 0 : b_stride, &fin);
      }
    }
  }

  void run_unit(const Unit& u) {
    tiny_met = false, steps_unasked = 0, ask_after = 1;
    const int64_t rows = u.rows(), cols = u.cols(), panels = ceil_div(cols, AOTC_PANEL_N);
    if (rows == 0) return;
    const int64_t b1 = size[AOTC_GEMM_B1], i0 = u.batch / b1, i1 = u.batch % b1;
    const E* a_src = cfg->a_prologue ? nullptr : a + i0 * size[AOTC_GEMM_A_B0] + i1 * size[AOTC_GEMM_A_B1] + u.m0 * a_rs;
    const EB* b_src = cfg->b_prologue || kUnpacks ? nullptr : b + i0 * size[AOTC_GEMM_B_B0] + i1 * size[AOTC_GEMM_B_B1];
    if (cfg->in_runs && b_src) b_src += u.matrix * size[AOTC_GEMM_RUN_STRIDE];
    if (kUnpacks) {
      b_src = nullptr;  // the source knows
    } else if (cfg->b_packed) {
      b_src += (units.panel_columns_before(u.segment) + u.n0) * panel_rows();
    } else if (!cfg->b_prologue) {
      b_src += (units.segment_begin(u.segment) + u.n0) * b_cs;
    }
    const aotc_epilogue_fn epilogue = cfg->epilogues[u.segment];
    const bool in_tiles = kFinishes<Acc> && k > 0 && cfg->finishes && !in_registers(rows);
    finish = in_tiles ? Finish(args, cfg->finishes + u.segment) : Finish();
    finish.store_rows(m);
    const bool whole = k <= cfg->kp;  // else the tile gathers several pieces of k
    const int64_t group = whole ? min_of<int64_t>(panels, max_of<int64_t>(1, 4096 / (rows * AOTC_PANEL_N))) : panels;
    const int64_t ldc = group * AOTC_PANEL_N;
    if (k == 0)
      for (int64_t i = 0; i < rows * ldc; ++i) tile[i] = 0;
    for (int64_t ks = 0; ks < k || ks == 0; ks += cfg->kp) {
      const int64_t klen = min_of<int64_t>(cfg->kp, k - ks);
      if (klen > 0 && (!a_in_place || cfg->a_prologue)) {
        if (!whole || a_key != units.a_key(u)) {
          if (a_in_place)
            cfg->a_prologue(args, u.batch, u.m0, rows, ks, klen, a_rows, a_rs);
          else
            pack_a_block(cfg->a_prologue ? nullptr : a_src + ks * a_cs, u, ks, klen);
        }
        a_key = units.a_key(u);
      }
      const E* a_piece = cfg->a_prologue ? a_rows : a_src + ks;
      if (goes_by_rows(rows, cols)) {
        tiles_by_rows(u, a_piece, b_src);
        continue;
      }
      bool fresh_b = !whole || b_key != units.b_key(u);
      b_key = units.b_key(u);
      const int64_t panel_elems = AOTC_PANEL_N * min_of<int64_t>(k + (k & 1), cfg->kp);
      if (fresh_b && !cfg->b_packed && !cfg->b_prologue && !b_in_place && b_cs == 1)
        pack_b_block(b_src, ks, klen, cols, b_pack, panel_elems), fresh_b = false;
      for (int64_t p0 = 0; p0 < panels; p0 += group) {
        const int64_t p1 = min_of(p0 + group, panels);
        for (int64_t p = p0; p < p1 && klen > 0; ++p) {
          const int64_t j0 = p * AOTC_PANEL_N, width = min_of<int64_t>(AOTC_PANEL_N, cols - j0);
          Acc* c = tile + (p - p0) * AOTC_PANEL_N;
          const PanelRun r = {a_piece, u.m0, rows, klen, u.n0 + j0, width, c, ldc, ks == 0, ks + klen >= k};
          if constexpr (kUnpacks) {
            panel_of_source(
                r, source.panel(units.panel_columns_before(u.segment) + u.n0 + j0, units.segment_begin(u.segment) + u.n0 + j0, ks));
          } else if (cfg->b_packed) {
            const EB* bp = b_src + p * panel_rows() * AOTC_PANEL_N + ks * AOTC_PANEL_N;
            panel<typename G::Packed>(r, reinterpret_cast<const char*>(bp), AOTC_PANEL_N * sizeof(EB) * G::Packed::kGroup);
          } else if (b_in_place && width % W == 0) {
            const EB* bp = b_src + ks * b_rs + j0;
            panel<typename G::Runtime>(r, reinterpret_cast<const char*>(bp), b_rs * sizeof(EB));
          } else {
            Acc* bp = b_pack + p * panel_elems;
            if (fresh_b) pack_b_panel(b_src, u, ks, klen, j0, width, bp);
            panel<typename G::Runtime>(r, reinterpret_cast<const char*>(bp), AOTC_PANEL_N * sizeof(Acc));
          }
        }
        if (ends()) return;  // the sums are not whole, and the unit's other epilogues take their time
        if (ks + klen >= k && !finish.n)
          epilogue(args, tile, ldc, u.batch, u.m0, rows, u.n0 + p0 * AOTC_PANEL_N, min_of(p1 * AOTC_PANEL_N, cols) - p0 * AOTC_PANEL_N);
      }
    }
  }

  void run(int64_t begin, int64_t end) {
    a_key = held_key(args, 0), b_key = held_key(args, 1);
    flags.begin();
    for (int64_t i = begin; i < end && !ended; ++i) run_unit(units.at(i));
    flags.end();
    hold_key(args, a_key, 0), hold_key(args, b_key, 1);
  }
};

/// Integers: plain loops, columns as lanes. Computed operands in pieces of k for which their room is enough.
template <class E, class Acc>
void gemm_plain_loops(const aotc_kargs* args, int64_t begin, int64_t end) {
  const auto* cfg = static_cast<const aotc_gemm_config*>(args->config);
  const int64_t* size = args->size;
  const int64_t m = size[AOTC_GEMM_M], k = size[AOTC_GEMM_K], m_blocks = ceil_div(m, cfg->mc), b1 = size[AOTC_GEMM_B1];
  int64_t n_blocks = 0;
  auto len = [&](int64_t s) { return size[AOTC_GEMM_SIZES + 2 * s + 1] - size[AOTC_GEMM_SIZES + 2 * s]; };
  for (int s = 0; s < cfg->n_segments; ++s) n_blocks += ceil_div(len(s), cfg->nc);
  const bool computed = cfg->a_prologue || cfg->b_prologue;
  const int64_t kp = min_of<int64_t>(k + (k & 1), cfg->kp);
  const int64_t piece = computed ? max_of<int64_t>(1, min_of<int64_t>(kp, AOTC_PANEL_N * kp / cfg->nc)) : k;
  Acc* tile = static_cast<Acc*>(args->scratch);
  Acc* rest = tile + int64_t{1} * cfg->mc * cfg->nc;
  E* a_room = reinterpret_cast<E*>(rest);
  E* b_room = reinterpret_cast<E*>(rest + (cfg->a_prologue ? (cfg->mc + 1) * (kp + 32) : 0));
  for (int64_t u = begin; u < end; ++u) {
    const int64_t m_block = u % m_blocks, batch = u / m_blocks / n_blocks;
    int64_t nb = u / m_blocks % n_blocks, s = 0;
    for (; nb >= ceil_div(len(s), cfg->nc); ++s) nb -= ceil_div(len(s), cfg->nc);
    const int64_t m0 = m_block * m / m_blocks, m1 = (m_block + 1) * m / m_blocks;
    const int64_t n0 = nb * cfg->nc, n1 = min_of<int64_t>(n0 + cfg->nc, len(s)), cols = n1 - n0;
    const int64_t column = size[AOTC_GEMM_SIZES + 2 * s] + n0;
    for (int64_t i = 0; i < (m1 - m0) * cols; ++i) tile[i] = 0;
    for (int64_t k0 = 0; k0 < k; k0 += piece) {
      const int64_t kn = min_of<int64_t>(piece, k - k0);
      // Element (i, kk) of A and (kk, j) of B, counted from this block and piece.
      const E *a, *b;
      int64_t a_rs = piece, a_cs = 1, b_rs = cols, b_cs = 1;
      if (cfg->a_prologue) {
        cfg->a_prologue(args, batch, m0, m1 - m0, k0, kn, a_room, a_rs);
        a = a_room;
      } else {
        a_rs = size[AOTC_GEMM_A_RS], a_cs = size[AOTC_GEMM_A_CS];
        a = static_cast<const E*>(args->ptr[cfg->a_ptr]) + size[AOTC_GEMM_A_BASE] + batch / b1 * size[AOTC_GEMM_A_B0] +
            batch % b1 * size[AOTC_GEMM_A_B1] + m0 * a_rs + k0 * a_cs;
      }
      if (cfg->b_prologue) {
        cfg->b_prologue(args, batch, k0, kn, column, cols, b_room, b_rs);
        b = b_room;
      } else {
        b_rs = size[AOTC_GEMM_B_RS], b_cs = size[AOTC_GEMM_B_CS];
        b = static_cast<const E*>(args->ptr[cfg->b_ptr]) + size[AOTC_GEMM_B_BASE] + batch / b1 * size[AOTC_GEMM_B_B0] +
            batch % b1 * size[AOTC_GEMM_B_B1] + column * b_cs + k0 * b_rs;
      }
      for (int64_t i = 0; i < m1 - m0; ++i) {
        Acc* row = tile + i * cols;
        for (int64_t kk = 0; kk < kn; ++kk) {
          const Acc x = static_cast<Acc>(a[i * a_rs + kk * a_cs]);
          const E* in = b + kk * b_rs;
          if (b_cs == 1)
            for (int64_t j = 0; j < cols; ++j) row[j] += x * static_cast<Acc>(in[j]);
          else
            for (int64_t j = 0; j < cols; ++j) row[j] += x * static_cast<Acc>(in[j * b_cs]);
        }
      }
    }
    cfg->epilogues[s](args, tile, cols, batch, m0, m1 - m0, n0, cols);
  }
}

}  // namespace
