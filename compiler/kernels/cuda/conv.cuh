// Convolutions of any rank, grouped, dilated, transposed: what one output takes from where, as operands of a product of one group and image
// set: rows are the group's output channels, columns the pixels of all images, k the (channel, tap) pairs in the order of the weights.
//
// Shape (generated) has the constants of the convolution: rank, taps, transposed, channels_last (of the input), and kernel(d), stride(d),
// padding(d), dilation(d).
#pragma once
#include "gemm.cuh"
#include "simt.cuh"

// Sizes of one run. Spatial dims are below 2^31.
template <class Shape> struct ConvSizes {
  i64 images, channels, out_channels;  // of one group the latter two
  i64 groups, pixels, points;          // points: of one channel of the input
  int in[Shape::rank], out[Shape::rank];
  AOTC_DI i64 k() const { return channels * Shape::taps; }
  // Of the input: from a channel to the next, from a point to the next of the last dim.
  AOTC_DI i64 channel_step() const { return Shape::channels_last ? 1 : points; }
  AOTC_DI i64 point_step() const { return Shape::channels_last ? groups * channels : 1; }
  // Of a column: a pixel of one of the images.
  AOTC_DI i64 image_of(i64 column) const {
    return images * pixels <= 0xffffffffll ? static_cast<u32>(column) / static_cast<u32>(pixels) : column / pixels;
  }
};

// Where the taps of a window lie behind its place in a channel: in shared memory, for windows of so few taps that a line knows by a bit each
// which of them are inside. All threads call fill; a barrier follows.
template <class Shape> struct ConvTaps {
  static constexpr bool few = Shape::taps <= 64;
  typedef typename choose<(Shape::taps <= 32), u32, u64>::type Mask;
  int offset[few ? Shape::taps : 1];
  AOTC_DI void fill(const ConvSizes<Shape>& z) {
    if (!few) return;
    for (int i = threadIdx.x; i < Shape::taps; i += blockDim.x) {
      int tap = i, at = 0, step = static_cast<int>(z.point_step());
#pragma unroll
      for (int d = Shape::rank - 1; d >= 0; --d) {
        const int t = tap % Shape::kernel(d) * Shape::dilation(d);
        tap /= Shape::kernel(d);
        at += (Shape::transposed ? -(t / Shape::stride(d)) : t) * step;
        step *= z.in[d];
      }
      offset[i] = at;
    }
  }
};

// The windows of the input. A line is an output pixel of one of the images.
template <class T, class Acc, class Shape> struct ConvWindows {
  typedef ConvTaps<Shape> Taps;
  const ConvSizes<Shape>& z;
  const Taps& taps;
  const T* x;  // the group's first channel of the first image
  struct Line {
    const T* x;                  // of few taps: at the window's place
    int at[Shape::rank];         // where tap 0 lies; transposed: times the stride
    typename Taps::Mask inside;  // of few taps: which of them are in the input
  };
  // Where tap t of dim d lies, or -1.
  AOTC_DI int along(const Line& l, int d, int t) const {
    int i = Shape::transposed ? l.at[d] - t * Shape::dilation(d) : l.at[d] + t * Shape::dilation(d);
    if (Shape::transposed && Shape::stride(d) > 1) {
      if (i < 0 || i % Shape::stride(d) != 0) return -1;
      i /= Shape::stride(d);
    }
    return static_cast<u32>(i) < static_cast<u32>(z.in[d]) ? i : -1;
  }
  AOTC_DI Line line(i64 column) const {
    Line l;
    const i64 image = z.image_of(column);
    u32 pixel = static_cast<u32>(column - image * z.pixels);
    l.x = x + image * z.groups * z.channels * z.points;
#pragma unroll
    for (int d = Shape::rank - 1; d >= 0; --d) {
      const int o = static_cast<int>(pixel % static_cast<u32>(z.out[d]));
      pixel /= static_cast<u32>(z.out[d]);
      l.at[d] = Shape::transposed ? o + Shape::padding(d) : o * Shape::stride(d) - Shape::padding(d);
    }
    l.inside = 1;
    if (Taps::few) {
      i64 step = z.point_step(), place = 0;
      int bits = 1;  // of the dims behind
#pragma unroll
      for (int d = Shape::rank - 1; d >= 0; --d) {
        place += (Shape::transposed ? floordiv(l.at[d], Shape::stride(d)) : l.at[d]) * step;
        step *= z.in[d];
        typename Taps::Mask all = 0;
#pragma unroll
        for (int t = 0; t < Shape::kernel(d); ++t)
          if (along(l, d, t) >= 0) all |= l.inside << (t * bits);
        l.inside = all;
        bits *= Shape::kernel(d);
      }
      l.x += place;
    }
    return l;
  }
  // A tap of a channel; channel: of the line.
  AOTC_DI T at_tap(const Line& l, const T* channel, int tap) const {
    if (Taps::few) return l.inside >> tap & 1 ? channel[Shape::taps == 1 ? 0 : taps.offset[tap]] : T(0.0f);
    i64 at = 0, step = z.point_step();
    bool inside = true;
#pragma unroll
    for (int d = Shape::rank - 1; d >= 0; --d) {
      const int i = along(l, d, tap % Shape::kernel(d));
      tap /= Shape::kernel(d);
      inside = inside && i >= 0;
      at += i * step;
      step *= z.in[d];
    }
    return inside ? channel[at] : T(0.0f);
  }
  AOTC_DI Acc at(const Line& l, i64 k) const {
    const int c = static_cast<int>(k) / Shape::taps;
    return static_cast<Acc>(at_tap(l, l.x + c * z.channel_step(), static_cast<int>(k) - c * Shape::taps));
  }
  // Elements k .. k + N - 1, those from `end` on zeros.
  template <int N> AOTC_DI void several(const Line& l, int k, int end, T (&to)[N]) const {
    int c = k / Shape::taps, tap = k - c * Shape::taps;
    const T* channel = l.x + c * z.channel_step();
#pragma unroll
    for (int e = 0; e < N; ++e) {
      to[e] = k + e < end ? at_tap(l, channel, tap) : T(0.0f);
      if (++tap == Shape::taps) tap = 0, channel += z.channel_step();
    }
  }
};

// The weights of a group. A line is an output channel.
template <class T, class Acc, class Shape> struct ConvWeights {
  const ConvSizes<Shape>& z;
  const T* w;  // of the group
  struct Line {
    const T* w;
  };
  AOTC_DI Line line(i64 channel) const { return {w + channel * (Shape::transposed ? i64(Shape::taps) : z.k())}; }
  AOTC_DI i64 place(i64 k) const {
    if (!Shape::transposed) return k;
    const i64 c = static_cast<int>(k) / Shape::taps;
    return c * z.out_channels * Shape::taps + (k - c * Shape::taps);
  }
  AOTC_DI Acc at(const Line& l, i64 k) const { return static_cast<Acc>(l.w[place(k)]); }
  template <int N> AOTC_DI void several(const Line& l, int k, int end, T (&to)[N]) const {
    if (!Shape::transposed && k + N <= end && (reinterpret_cast<u64>(l.w + k) & 15) == 0) {
      const Wide<T, N> all = load_wide<T, N>(l.w + k);
#pragma unroll
      for (int e = 0; e < N; ++e) to[e] = all.v[e];
      return;
    }
#pragma unroll
    for (int e = 0; e < N; ++e) to[e] = k + e < end ? l.w[place(k + e)] : T(0.0f);
  }
};

// Outputs [first, last) of one channel and image set, a thread each: for few channels in a group. Out: void operator()(Acc, i64 image,
// i64 channel, i64 pixel), channel of all groups.
template <class T, class Acc, class Shape, class Out>
AOTC_DI void conv_points(const ConvSizes<Shape>& z, const ConvTaps<Shape>& all_taps, const T* x, const T* w, Out out) {
  const i64 out_channels = z.groups * z.out_channels, total = z.images * out_channels * z.pixels;
  for (i64 point = blockIdx.x * i64(blockDim.x) + threadIdx.x; point < total; point += i64(gridDim.x) * blockDim.x) {
    const i64 plane = point / z.pixels, pixel = point - plane * z.pixels, image = plane / out_channels, channel = plane - image * out_channels;
    const i64 group = channel / z.out_channels;
    const ConvWindows<T, Acc, Shape> windows{z, all_taps, x + group * z.channels * z.channel_step()};
    const ConvWeights<T, Acc, Shape> weights{z, w + group * z.out_channels * z.k()};
    const typename ConvWindows<T, Acc, Shape>::Line line = windows.line(image * z.pixels + pixel);
    const typename ConvWeights<T, Acc, Shape>::Line taps = weights.line(channel - group * z.out_channels);
    Acc sum = Acc(0);
    for (i64 c = 0; c < z.channels; ++c) {
#pragma unroll 4
      for (int tap = 0; tap < Shape::taps; ++tap)
        sum += static_cast<Acc>(windows.at_tap(line, line.x + c * z.channel_step(), tap)) * weights.at(taps, c * Shape::taps + tap);
    }
    out(sum, image, channel, pixel);
  }
}

// An operand's share of a staged tile [Lines][bk] of tensor-core products: a thread brings chunks of 16 bytes along k.
// KFast: neighbours in a warp take neighbouring k.
template <class T, class Tile, int Lines, bool KFast, class Operand> struct ChunkStage {
  static constexpr int per_line = Tile::bk / Tile::chunk, chunks = Lines * per_line, each = (chunks + Tile::threads - 1) / Tile::threads;
  typename Operand::Line lines[each];
  bool inside[each];
  Wide<T, Tile::chunk> held[each];

  static AOTC_DI int place(int e) { return threadIdx.x + e * Tile::threads; }
  static AOTC_DI int line_of(int e) { return KFast ? place(e) / per_line : place(e) % Lines; }
  static AOTC_DI int k_of(int e) { return (KFast ? place(e) % per_line : place(e) / Lines) * Tile::chunk; }

  AOTC_DI void start(const Operand& o, i64 first, i64 end) {
#pragma unroll
    for (int e = 0; e < each; ++e) {
      inside[e] = place(e) < chunks && first + line_of(e) < end;
      lines[e] = o.line(inside[e] ? first + line_of(e) : first);
    }
  }
  AOTC_DI void load(const Operand& o, int k0, int k) {
#pragma unroll
    for (int e = 0; e < each; ++e) {
      if (inside[e]) {
        o.template several<Tile::chunk>(lines[e], k0 + k_of(e), k, held[e].v);
      } else {
#pragma unroll
        for (int i = 0; i < Tile::chunk; ++i) held[e].v[i] = T(0.0f);
      }
    }
  }
  AOTC_DI void put(T* to) const {
#pragma unroll
    for (int e = 0; e < each; ++e)
      if (chunks % Tile::threads == 0 || place(e) < chunks)
        *reinterpret_cast<Wide<T, Tile::chunk>*>(to + line_of(e) * Tile::ld + k_of(e)) = held[e];
  }
};

// One block computes output channels [m0, m0 + bm) of a group x columns [n0, n0 + bn) on tensor cores (Tile: GemmTile of two stages); with
// split > 1 the blocks of a cluster share k. Out: void operator()(float, i64 channel, i64 column). All threads call it; m0 < m, n0 < n.
template <class T, class Tile, bool AKFast, class OpA, class OpB, class Out>
AOTC_DI void chunked_block(const OpA& a, const OpB& b, i64 m0, i64 n0, i64 m, i64 n, int k, Out out) {
  extern __shared__ __align__(16) char shared[];
  constexpr int a_elems = Tile::bm * Tile::ld, stage_elems = a_elems + Tile::bn * Tile::ld;
  T* const ring = reinterpret_cast<T*>(shared);
  const GemmPlace<Tile> place;
  ChunkStage<T, Tile, Tile::bm, AKFast, OpA> sa;
  ChunkStage<T, Tile, Tile::bn, false, OpB> sb;
  sa.start(a, m0, m), sb.start(b, n0, n);
  float acc[Tile::mt][Tile::nt][4];
  const int rank = Tile::split > 1 ? blockIdx.x % Tile::split : 0, tiles = (k + Tile::bk - 1) / Tile::bk;
  const int first = static_cast<int>(i64(tiles) * rank / Tile::split), last = static_cast<int>(i64(tiles) * (rank + 1) / Tile::split);
  auto sums = [&](auto numbers) {
    bool odd = false;
    clear(acc);
    if (first < last) sa.load(a, first * Tile::bk, k), sb.load(b, first * Tile::bk, k);
    __syncthreads();  // what used the memory before is done
    for (int tile = first; tile < last; ++tile) {
      T* const stage = ring + (tile - first) % 2 * stage_elems;
      sa.put(stage), sb.put(stage + a_elems);
      __syncthreads();
      if (tile + 1 < last) sa.load(a, (tile + 1) * Tile::bk, k), sb.load(b, (tile + 1) * Tile::bk, k);
      gemm_multiply<T, Tile>(numbers, stage + place.warp_m * Tile::ld, stage + a_elems + place.warp_n * Tile::ld, acc, place.k_warp, odd);
    }
    return odd;
  };
  const bool odd = sums(PlainNumbers());
  if constexpr (same<T, float>::value && Tile::products > 1)
    if (__syncthreads_or(odd)) sums(OddNumbers());
  gemm_finish<Tile>(acc, place, m0, n0, m, n, out);
}
