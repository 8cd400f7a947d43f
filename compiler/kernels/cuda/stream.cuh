// Matrix products of few rows and a large constant weight on tensor cores: out(i, j) = finish(sum_k x(i, k) * b(k, j), i, j), which take as long
// as the weight takes to come. The weight is the left operand of mma.sync m16n8k16. Each warp has strips of 16 columns and copies slabs of them into
// a ring of its own in shared memory, `depth` rounds ahead, so that warps wait for nobody; the rows, the right operand, are there for all warps of the
// block, whole or in chunks. k is shared out to `along` warps of a block and to the blocks of a cluster; sums are added up in a fixed order.
#pragma once
#include "slabs.cuh"

AOTC_DI void stream_mma(bf16, float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma_bf16(c, a, b); }
AOTC_DI void stream_mma(f16, float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) { mma_f16(c, a, b); }

// Weights as they lie in memory, k contiguous: a slab is 128 bytes of a column, in 8 pieces of 16, which lie in the ring at their number ^ column % 8.
template <class Type> struct PlainWeights {
  typedef Type T;
  typedef Type Scale;
  static constexpr int deep = 64, bytes = 2048, step_bytes = 128, group = 0;
  static constexpr bool few_bits = false, offsets = false;
  static constexpr float made = 1.0f;
};
// Of few bits in slabs (slabs.cuh), a scale for each `Group` of k of a column and, with Offsets, an offset: both [n][groups].
template <class Type, class Format, class ScaleType, int Group, bool Offsets> struct SlabWeights {
  typedef Type T;
  typedef Format In;
  typedef ScaleType Scale;
  static constexpr int deep = Format::deep, bytes = slab_bytes, step_bytes = slab_bytes, group = Group;
  static constexpr bool few_bits = true, offsets = Offsets;
  static constexpr float made = Format::template made<Type>;
};

// K: a multiple of 8. Rows: of x, at most. Along: of the Warps, those that share columns. Run: slabs of a strip in a round of a warp. Depth: rounds
// under way. Split: blocks of a cluster. Chunk: rounds whose rows are in shared memory at a time; all, or Depth and more. Sums: products of the same
// rows that are finished together. Made: ready() computes the rows, in shared memory.
template <class Weights, int K, int Rows, int Warps, int Along, int Strips, int Run, int Depth, int Split, int Chunk, int Sums, bool Made>
struct StreamTile {
  typedef Weights W;
  typedef typename Weights::T T;
  typedef typename Weights::Scale Scale;
  static constexpr int k = K, rows = Rows, row_tiles = (Rows + 7) / 8, threads = Warps * 32, along = Along, strips = Strips, run = Run, sums = Sums;
  static constexpr int split = has_clusters ? Split : 1;
  static constexpr bool made = Made;
  static constexpr int items = Warps / Along * Strips * 16;  // columns of a block, of each product
  static constexpr int slabs = (K + Weights::deep - 1) / Weights::deep, step_k = Run * Weights::deep;
  static constexpr int steps = (slabs + Run - 1) / Run, part = (steps + split - 1) / split, rounds = (part + Along - 1) / Along;
  static constexpr int depth = Depth < rounds ? Depth : rounds, chunk = Chunk < rounds ? Chunk : rounds;
  static constexpr bool even = steps % (split * Along) == 0, whole = chunk == rounds;
  // The last step is no whole one: copies stop at K, or slabs at the last.
  static constexpr bool ragged = Weights::few_bits ? slabs % Run != 0 : K % step_k != 0;
  static constexpr int round_bytes = Strips * Sums * Run * Weights::bytes, ring_bytes = Warps * depth * round_bytes;
  static constexpr int chunk_k = chunk * Along * step_k, pitch = chunk_k + 8;  // 8 rows' 16 bytes lie in different banks
  static constexpr int buffer = Rows * pitch, rows_bytes = (whole ? 1 : 2) * buffer * int(sizeof(T));
  // Scales of a column that a block takes, from a multiple of `scale_run` on, so many of which are copied at once; an odd number of fours.
  static constexpr int group = Weights::few_bits ? Weights::group : K, groups = (K + group - 1) / group;
  static constexpr int scale_run = groups % 4 == 0 ? 4 : groups % 2 == 0 ? 2 : 1;
  static constexpr int slab_groups = group < Weights::deep && group < K ? Weights::deep / group : 1;
  static constexpr int whole_groups = (groups + slab_groups - 1) / slab_groups * slab_groups;  // zeros behind those that there are
  static constexpr int part_groups = split == 1 || groups == 1 ? whole_groups : (part * step_k + group - 1) / group + 4;
  static constexpr int scale_fours = (part_groups + 3) / 4 | 1, scale_pitch = 4 * scale_fours;
  // Sums that a product of a warp is added to in turn, so that each waits for one before the last.
  static constexpr int chains = Strips * Sums * row_tiles == 1 ? 2 : 1;
  static constexpr int sum_pitch = items + 4, sum_part = row_tiles * 8 * sum_pitch;
  static_assert(K % 8 == 0 && Warps % Along == 0 && (whole || (chunk >= depth && !Made)), "tile shape");
  static_assert(!Weights::few_bits || group >= K || (group % 16 == 0 && (group % Weights::deep == 0 || Weights::deep % group == 0)), "groups of a slab");
};

// Where the weights of a block are: of each product, the first column's; bytes from a column to the next, or from a strip.
template <class Tile> struct StreamSource {
  const char* at[Tile::sums];
  i64 next_bytes[Tile::sums];
  const typename Tile::Scale* scales[Tile::sums];   // of few bits: of the first column
  const typename Tile::Scale* offsets[Tile::sums];  // null: none
};

// The column of an item. Mates: items are pairs, of columns j and j + Mates where j / Mates is even.
template <int Mates> AOTC_DI i64 stream_column(i64 item, int which) {
  if constexpr (Mates > 0) return item + item / Mates * Mates + which * Mates;
  else return item;
}

// m rows of x, Tile::chunk_k of them from k0 on, to shared memory, zeros beyond K. Async: 16 bytes at a time where they lie together, as part of the
// copies that the thread commits next; else they are there after a barrier.
template <class Tile, bool Async> AOTC_DI void stream_rows(typename Tile::T* to, const typename Tile::T* x, i64 x_row, int m, int k0) {
  typedef typename Tile::T T;
  constexpr int pieces = Tile::chunk_k / 8, each = (Tile::rows * pieces + Tile::threads - 1) / Tile::threads;  // of 8 numbers; of a thread
  if (Tile::made || aligned16(x)) {
    constexpr int at_once = Async ? 1 : each < 8 ? each : 8;
#pragma unroll Async ? 4 : 1
    for (int from = threadIdx.x; from < m * pieces; from += at_once * Tile::threads) {
      Wide<T, 8> held[at_once];
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        const int e = from + i * Tile::threads, row = e / pieces, at = e % pieces * 8;
        const bool inside = e < m * pieces && k0 + at < Tile::k;
        const T* const piece = inside ? x + row * x_row + k0 + at : x;
        if constexpr (Async) copy16_async(to + row * Tile::pitch + at, piece, inside ? 16 : 0);
        else if constexpr (Tile::made) held[i] = inside ? load_wide<T, 8>(piece) : Wide<T, 8>{};
        else held[i] = load_wide_if<T, 8>(piece, inside);
      }
      if constexpr (!Async)
#pragma unroll
        for (int i = 0; i < at_once; ++i) {
          const int e = from + i * Tile::threads;
          if (e < m * pieces) keep_wide(to + e / pieces * Tile::pitch + e % pieces * 8, held[i]);
        }
    }
  } else {
#pragma unroll 1
    for (int e = threadIdx.x; e < m * pieces * 8; e += Tile::threads) {
      const int row = e / (pieces * 8), at = e % (pieces * 8);
      to[row * Tile::pitch + at] = k0 + at < Tile::k ? x[row * x_row + k0 + at] : T(0.0f);
    }
  }
}

// The scales, and offsets, of a block's columns from group `first_group` on, to shared memory: a warp a column, by copies that the thread commits
// next, but for scales that lie 2 bytes apart, which are there after a barrier.
template <class Tile, int Mates>
AOTC_DI void stream_scales(typename Tile::Scale* to, const StreamSource<Tile>& b, i64 first, i64 n, int first_group) {
  typedef typename Tile::Scale Scale;
  constexpr int kinds = Tile::W::offsets ? 2 : 1, run = Tile::scale_run, bytes = run * int(sizeof(Scale)), warps = Tile::threads / 32;
#pragma unroll
  for (int u = 0; u < Tile::sums; ++u)
#pragma unroll
    for (int o = 0; o < kinds; ++o) {
      const Scale* const from = o ? b.offsets[u] : b.scales[u];
      Scale* const into = to + (u * kinds + o) * Tile::items * Tile::scale_pitch;
      if constexpr (bytes == 2) {
#pragma unroll 4
        for (int e = threadIdx.x; e < Tile::items * Tile::part_groups; e += Tile::threads) {
          const int item = e / Tile::part_groups, of = e % Tile::part_groups;
          const bool inside = first + item < n && first_group + of < Tile::groups;
          into[item * Tile::scale_pitch + of] =
              inside ? from[stream_column<Mates>(first + item, u) * Tile::groups + first_group + of] : Scale(0.0f);
        }
      } else {
#pragma unroll 1
        for (int item = threadIdx.x >> 5; item < Tile::items; item += warps) {
          const Scale* const at = from + (first + item < n ? stream_column<Mates>(first + item, u) : 0) * Tile::groups + first_group;
#pragma unroll 1
          for (int of = (threadIdx.x & 31) * run; of < Tile::part_groups; of += 32 * run) {
            const bool inside = first + item < n && first_group + of < Tile::groups;
            Scale* const place = into + item * Tile::scale_pitch + of;
            if constexpr (bytes == 16) copy16_async(place, inside ? at + of : from, inside ? 16 : 0);
            else if constexpr (bytes == 8) copy8_async(place, inside ? at + of : from, inside ? 8 : 0);
            else copy4_async(place, inside ? at + of : from, inside ? 4 : 0);
          }
        }
      }
    }
}

// N scales of a column, next to each other.
template <class Scale, int N> struct StreamScales {
  static constexpr int words = N * int(sizeof(Scale)) < 4 ? 1 : N * int(sizeof(Scale)) / 4, in_word = sizeof(Scale) == 2 ? 2 : 1;
  static constexpr int at_once = words % 4 == 0 && in_word == 1 ? 4 : words % 2 == 0 ? 2 : 1;  // lines begin at multiples of 4 scales
  u32 w[words];
  AOTC_DI void load(const Scale* at) {
    if constexpr (N * sizeof(Scale) == 2) w[0] = *reinterpret_cast<const u16*>(at);
    else
#pragma unroll
      for (int i = 0; i < words; i += at_once) {
        const Wide<u32, at_once> some = load_wide<u32, at_once>(reinterpret_cast<const u32*>(at) + i);
#pragma unroll
        for (int j = 0; j < at_once; ++j) w[i + j] = some.v[j];
      }
  }
};

// A warp's place in its block, and what it copies and multiplies.
template <class Tile, int Mates> struct StreamWarp {
  typedef typename Tile::W W;
  typedef typename Tile::T T;
  typedef typename Tile::Scale Scale;
  static constexpr int strips = Tile::strips, sums = Tile::sums, run = Tile::run, copies = W::bytes / 512;  // copies of a lane for a slab
  int lane, along, across, begin, own, rounds, mine;  // steps of the block from `begin`, the warp's first; rounds of the block and of the warp
  const char* at[strips][sums][copies];               // of its next round
  char* ring;

  AOTC_DI StreamWarp(char* shared, const StreamSource<Tile>& b, i64 first, i64 n, int rank) {
    const int warp = threadIdx.x >> 5, end = Tile::steps * (rank + 1) / Tile::split;
    lane = threadIdx.x & 31, along = warp % Tile::along, across = warp / Tile::along;
    begin = Tile::steps * rank / Tile::split, own = begin + along;
    rounds = Tile::even ? Tile::rounds : (end - begin + Tile::along - 1) / Tile::along;
    mine = Tile::even ? Tile::rounds : (end - own + Tile::along - 1) / Tile::along;
    ring = shared + warp * Tile::depth * Tile::round_bytes;
#pragma unroll
    for (int s = 0; s < strips; ++s)
#pragma unroll
      for (int u = 0; u < sums; ++u)
#pragma unroll
        for (int c = 0; c < copies; ++c) {
          const i64 strip = first + (across * strips + s) * 16;
          i64 from;
          if constexpr (W::few_bits) from = stream_column<Mates>(imin(strip, (n - 1) / 16 * 16), u) / 16 * b.next_bytes[u] + c * 512 + lane * 16;
          else from = stream_column<Mates>(imin(strip + c * 4 + (lane >> 3), n - 1), u) * b.next_bytes[u] + (lane & 7) * 16;
          at[s][u][c] = b.at[u] + from + i64(own) * run * W::step_bytes;
        }
  }

  // Copies the warp's next round, of number `round`, to `place` of the ring.
  AOTC_DI void fetch(int place, int round) {
    const int step = own + round * Tile::along;
#pragma unroll
    for (int s = 0; s < strips; ++s)
#pragma unroll
      for (int u = 0; u < sums; ++u)
#pragma unroll
        for (int c = 0; c < copies; ++c) {
#pragma unroll
          for (int r = 0; r < run; ++r) {
            // Columns c * 4 + lane / 8, of which a piece's place is its number ^ column % 8.
            const int into = W::few_bits ? c * 512 + lane * 16 : (c * 4 + (lane >> 3)) * 128 + ((lane & 7) ^ (c * 4 + (lane >> 3) & 7)) * 16;
            const bool inside = !Tile::ragged || (W::few_bits ? step * run + r < Tile::slabs : (step * run + r) * W::deep + (lane & 7) * 8 < Tile::k);
            copy16_async(ring + place * Tile::round_bytes + ((s * sums + u) * run + r) * W::bytes + into,
                         inside ? at[s][u][c] + r * W::step_bytes : at[s][u][c], inside ? 16 : 0);
          }
          at[s][u][c] += Tile::along * run * W::step_bytes;
        }
  }

  // Adds the products of the round in `place` to the sums; y: the block's rows from the warp's k of that round on; scales: those of the lane's first
  // column from the group of that k on, [products][scales and offsets][items].
  AOTC_DI void multiply(float (&acc)[strips][sums][Tile::row_tiles * Tile::chains][4], int place, const T* y, const Scale* scales) const {
    constexpr int kinds = W::offsets ? 2 : 1;
    const char* const round = ring + place * Tile::round_bytes;
    // Row and piece of the right operand's matrices, 8 x 8 each: 32 of k. Row and piece of the left one's: 16 columns, 16 of k.
    int line[Tile::row_tiles];
#pragma unroll
    for (int t = 0; t < Tile::row_tiles; ++t) {
      const int row = t * 8 + (lane & 7);
      line[t] = ((t + 1) * 8 <= Tile::rows || row < Tile::rows ? row : Tile::rows - 1) * Tile::pitch + (lane >> 3) * 8;
    }
    const int left_line = (lane & 15) * 128 + ((lane >> 4) ^ (lane & 7)) * 16;
#pragma unroll
    for (int r = 0; r < run; ++r) {
      u32 words[strips][sums][2][4];
      StreamScales<Scale, Tile::slab_groups> scale[strips][sums][kinds][2];
      if constexpr (W::few_bits) {
#pragma unroll
        for (int s = 0; s < strips; ++s)
#pragma unroll
          for (int u = 0; u < sums; ++u)
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              const Wide<u32, 4> w = load_wide<u32, 4>(reinterpret_cast<const u32*>(round + ((s * sums + u) * run + r) * W::bytes + h * 512 + lane * 16));
#pragma unroll
              for (int i = 0; i < 4; ++i) words[s][u][h][i] = w.v[i];
#pragma unroll
              for (int o = 0; o < kinds; ++o)
                scale[s][u][o][h].load(scales + ((u * kinds + o) * Tile::items + s * 16 + h * 8) * Tile::scale_pitch +
                                       (Tile::group >= Tile::k ? 0 : r * W::deep / Tile::group));
            }
      }
#pragma unroll
      for (int p = 0; p < W::deep / 32; ++p) {
        u32 right[Tile::row_tiles][4];
#pragma unroll
        for (int t = 0; t < Tile::row_tiles; ++t) load_matrices(right[t], y + line[t] + r * W::deep + p * 32);
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int s = 0; s < strips; ++s)
#pragma unroll
            for (int u = 0; u < sums; ++u) {
              u32 left[4];
              if constexpr (W::few_bits) {
                const int of = (p * 2 + half) * 16 * Tile::slab_groups / W::deep;
                constexpr int in_word = StreamScales<Scale, Tile::slab_groups>::in_word;
                SlabScale<T, typename W::In, Scale> low, high;
                low.take(scale[s][u][0][0].w[of / in_word], of % in_word), high.take(scale[s][u][0][1].w[of / in_word], of % in_word);
                if constexpr (W::offsets)
                  low.take_offset(scale[s][u][1][0].w[of / in_word], of % in_word), high.take_offset(scale[s][u][1][1].w[of / in_word], of % in_word);
                slab_slice<T, typename W::In>(left, words[s][u], p * 2 + half, low, high);
              } else {
                load_matrices(left, round + ((s * sums + u) * run + r) * W::bytes + (left_line ^ (p * 2 + half) * 32));
              }
#pragma unroll
              for (int t = 0; t < Tile::row_tiles; ++t) {
                const u32 two[2] = {right[t][2 * half], right[t][2 * half + 1]};
                stream_mma(T(), acc[s][u][t * Tile::chains + half % Tile::chains], left, two);
              }
            }
      }
    }
  }
};

// Items [first, first + Tile::items) of n, all threads of the block, or of the cluster's blocks. shared: dynamic memory (StreamTile of
// emit/cuda/launch.h), from a multiple of 128 bytes on. ready(): called once, before x is read. finish(sums, held, i, j): what becomes of one sum of
// each product; with mates it is told of each column, its own sum first. ahead(i, j): what it takes beside the sums, called after ready() and, where
// a thread has few of them, before the products.
template <class Tile, int Mates, class Ready, class Ahead, class Finish>
AOTC_DI void stream_block(char* shared, const StreamSource<Tile>& b, const typename Tile::T* x, i64 x_row, i64 first, i64 n, int m, const Ready& ready,
                          const Ahead& ahead, const Finish& finish) {
  typedef typename Tile::W W;
  typedef typename Tile::T T;
  typedef typename Tile::Scale Scale;
  constexpr int Strips = Tile::strips, Sums = Tile::sums;
  const int rank = Tile::split > 1 ? blockIdx.x % Tile::split : 0;
  StreamWarp<Tile, Mates> w(shared, b, first, n, rank);
  T* const rows = reinterpret_cast<T*>(shared + Tile::ring_bytes);
  Scale* const scales = reinterpret_cast<Scale*>(shared + Tile::ring_bytes + Tile::rows_bytes);  // [products][scales and offsets][items][scale_pitch]
  const int first_group = Tile::group >= Tile::k ? 0 : w.begin * Tile::step_k / Tile::group / Tile::scale_run * Tile::scale_run;
  if constexpr (W::few_bits) {
    static_assert(Sums == 1 || Mates % 16 == 0, "pairs of strips");
    stream_scales<Tile, Mates>(scales, b, first, n, first_group);
    copies_commit();
  }
#pragma unroll
  for (int d = 0; d < Tile::depth; ++d) {
    if (d < w.mine) w.fetch(d, d);
    copies_commit();
  }
  ready();
  stream_rows<Tile, false>(rows, x, x_row, m, w.begin * Tile::step_k);

  // The block's sums: this thread's first is `first_sum`, each other one `every` further on.
  constexpr int every = Tile::threads * Tile::split, each = (Tile::items * Tile::row_tiles * 8 + every - 1) / every, columns = Mates ? 2 : 1;
  constexpr bool early = each <= 2;
  const int first_sum = threadIdx.x + rank * Tile::threads;
  auto here = [&](int e) { return e < Tile::items * m && first + e % Tile::items < n; };
  auto beside = [&](int e, int which) { return ahead(i64(e / Tile::items), stream_column<Mates>(first + e % Tile::items, which)); };
  typedef decltype(ahead(i64(0), i64(0))) Held;
  Held held[early ? each : 1][columns];
  if constexpr (early) {
#pragma unroll
    for (int i = 0; i < each; ++i)
#pragma unroll
      for (int u = 0; u < columns; ++u)
        if (here(first_sum + i * every)) held[i][u] = beside(first_sum + i * every, u);
  }

  float acc[Strips][Sums][Tile::row_tiles * Tile::chains][4];
  clear(acc);
  const Scale* const lane_scales = scales + (w.across * Strips * 16 + (w.lane >> 2)) * Tile::scale_pitch;
  const T* y = rows + w.along * Tile::step_k;
  int place = 0, until = Tile::chunk, next = 1;  // the round that the next chunk begins with, and its number
  auto fetch_chunk = [&] {
    if (until < w.rounds) stream_rows<Tile, true>(rows + next % 2 * Tile::buffer, x, x_row, m, w.begin * Tile::step_k + next * Tile::chunk_k);
  };
  if constexpr (W::few_bits) copies_wait<Tile::depth>();  // the scales, which were asked for first
  __syncthreads();
  if constexpr (!Tile::whole) fetch_chunk();
#pragma unroll 1
  for (int round = 0; round < w.rounds; ++round) {
    copies_wait<Tile::depth - 1>();
    __syncwarp();
    if constexpr (!Tile::whole)
      if (round == until) {  // committed Tile::depth rounds ago, or more
        __syncthreads();
        y = rows + next % 2 * Tile::buffer + w.along * Tile::step_k;
        until += Tile::chunk, ++next;
        fetch_chunk();
      }
    if (Tile::even || round < w.mine) {
      const int group = Tile::group >= Tile::k ? 0 : (w.own + round * Tile::along) * Tile::step_k / Tile::group - first_group;
      w.multiply(acc, place, y, lane_scales + group);
      if (round + Tile::depth < w.mine) w.fetch(place, round + Tile::depth);
    }
    copies_commit();
    place = place + 1 < Tile::depth ? place + 1 : 0;
    y += Tile::along * Tile::step_k;
  }

  float* const parts = reinterpret_cast<float*>(shared);  // [along][products][rows][items]
  __syncthreads();
#pragma unroll
  for (int s = 0; s < Strips; ++s)
#pragma unroll
    for (int u = 0; u < Sums; ++u)
#pragma unroll
      for (int t = 0; t < Tile::row_tiles; ++t)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          float sum = acc[s][u][t * Tile::chains][r];
#pragma unroll
          for (int c = 1; c < Tile::chains; ++c) sum += acc[s][u][t * Tile::chains + c][r];
          parts[(w.along * Sums + u) * Tile::sum_part + (t * 8 + (w.lane & 3) * 2 + (r & 1)) * Tile::sum_pitch + (w.across * Strips + s) * 16 +
                (w.lane >> 2) + (r >> 1) * 8] = sum;
        }
  if (Tile::split > 1) cluster_barrier();
  else __syncthreads();
  auto give = [&](int e, const Held(&beside_sums)[columns]) {
    const int row = e / Tile::items, item = e % Tile::items;
    float sum[Sums];
#pragma unroll
    for (int u = 0; u < Sums; ++u) sum[u] = 0.0f;
#pragma unroll
    for (int c = 0; c < Tile::split; ++c)
#pragma unroll
      for (int a = 0; a < Tile::along; ++a)
#pragma unroll
        for (int u = 0; u < Sums; ++u) {
          const float* const p = &parts[(a * Sums + u) * Tile::sum_part + row * Tile::sum_pitch + item];
          sum[u] += Tile::split > 1 ? load_of_block(p, c) : *p;
        }
#pragma unroll
    for (int u = 0; u < columns; ++u) {
      float told[Sums];
#pragma unroll
      for (int v = 0; v < Sums; ++v) told[v] = sum[Mates ? v ^ u : v] * (1.0f / W::made);
      finish(told, beside_sums[u], i64(row), stream_column<Mates>(first + item, u));
    }
  };
  if constexpr (early) {
#pragma unroll
    for (int i = 0; i < each; ++i)
      if (here(first_sum + i * every)) give(first_sum + i * every, held[i]);
  } else {
#pragma unroll 1
    for (int e = first_sum; e < Tile::items * m; e += 2 * every) {
      Held late[2][columns];
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int u = 0; u < columns; ++u)
          if (here(e + i * every)) late[i][u] = beside(e + i * every, u);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (here(e + i * every)) give(e + i * every, late[i]);
    }
  }
  if (Tile::split > 1) cluster_barrier();  // the others have read this block's sums
}
