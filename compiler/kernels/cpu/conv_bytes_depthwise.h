#pragma once
// Channels-last convolutions of unsigned bytes by signed ones with a channel a group: aotc_conv_bytes_depthwise_u8 of
// aotc/detail/bytes_abi.h. Channels as lanes; a few neighbouring pixels share what they load, or columns of four lines of taps
// (conv_bytes_quads.h).
#include "conv_bytes.h"
#include "conv_bytes_quads.h"

namespace {

#if defined(__AVX512VNNI__)
inline Ints add_product(Ints sum, Ints x, Ints w) { return _mm512_dpwssd_epi32(sum, x, w); }
#else
inline Ints add_product(Ints sum, Ints x, Ints w) { return add_ints(sum, multiply_pairs(x, w)); }
#endif

/// The first `lanes` channels as 32 bits; nothing is read beyond them. kWhole: all of a vector's.
template <bool kWhole>
Ints load_channels(const uint8_t* p, int64_t lanes) {
#if defined(__AVX512F__)
  if constexpr (kWhole) return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const auto some = static_cast<__mmask16>((1u << lanes) - 1);
  return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, p));
#else
  if constexpr (kWhole) return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  uint8_t some[8] = {};
  for (int64_t i = 0; i < lanes; ++i) some[i] = p[i];
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(some)));
#endif
}

struct ConvBytesDepthwise : ByteConvShape {
  static constexpr int kPixels = 4;  // that share what they load
  int32_t *sums, *weights;           // weights: [vector of channels][tap][lane]
  uint8_t* outside;                  // a pixel of what lies around

  explicit ConvBytesDepthwise(const aotc_kargs* a) : ByteConvShape(a) {
    sums = static_cast<int32_t*>(a->scratch);
    weights = sums + int64_t{1} * cfg->nc * cfg->mc;
    outside = reinterpret_cast<uint8_t*>(weights + taps * cfg->mc);
  }

  void widen_weights(int64_t c0, int64_t c1) const {
    const int64_t run = byte_run(taps);
    for (int64_t j = c0; j < c1; ++j)
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t lane = j % AOTC_QUANT_LANES;
        const auto v = static_cast<int8_t>(w[j / AOTC_QUANT_LANES * run + t / 4 * kByteQuad + lane * 4 + t % 4]);
        // The upper half multiplies the zeros above a byte.
        weights[((j - c0) / kLanes * taps + t) * kLanes + (j - c0) % kLanes] = v;
      }
  }

  /// kCount neighbouring pixels of vectors of channels; kWidth, kStride: of the kernel's lines, whose taps lie side by side.
  /// at: for each line of taps, where the columns that the pixels meet begin.
  template <int kWidth, int kStride, int kCount>
  void pixels(const uint8_t* const* at, int64_t lines, int64_t channels, int32_t* to) const {
    int64_t j = 0;
    for (; j + kLanes <= channels; j += kLanes) vector_of_pixels<kWidth, kStride, kCount, true>(at, lines, j, channels, to);
    if (j < channels) vector_of_pixels<kWidth, kStride, kCount, false>(at, lines, j, channels, to);
  }
  template <int kWidth, int kStride, int kCount, bool kWhole>
  void vector_of_pixels(const uint8_t* const* at, int64_t lines, int64_t j, int64_t channels, int32_t* to) const {
    constexpr int kColumns = (kCount - 1) * kStride + kWidth;
    Ints acc[kCount];
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) acc[i] = set_ints(0);
    const int32_t* wv = weights + j * taps;
    for (int64_t l = 0; l < lines; ++l) {
      const uint8_t* const* columns = at + l * kColumns;
      Ints wl[kWidth];
#pragma GCC unroll 8
      for (int t = 0; t < kWidth; ++t) wl[t] = load_ints(wv + (l * kWidth + t) * kLanes);
#pragma GCC unroll 16
      for (int col = 0; col < kColumns; ++col) {
        const Ints v = load_channels<kWhole>(columns[col] + j, channels - j);
#pragma GCC unroll 4
        for (int i = 0; i < kCount; ++i)
          if (col - i * kStride >= 0 && col - i * kStride < kWidth) acc[i] = add_product(acc[i], v, wl[col - i * kStride]);
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) store_ints(to + i * cfg->mc + j, acc[i]);
  }

  /// One pixel of any kernel. at: a place for each tap.
  void pixel(const uint8_t* const* at, int64_t channels, int32_t* to) const {
    for (int64_t j = 0; j < channels; j += kLanes) {
      Ints acc = set_ints(0);
      for (int64_t t = 0; t < taps; ++t)
        acc = add_product(acc,
                          channels - j >= kLanes ? load_channels<true>(at[t] + j, kLanes) : load_channels<false>(at[t] + j, channels - j),
                          load_ints(weights + (j * taps + t * kLanes)));
      store_ints(to + j, acc);
    }
  }

  /// Pixels [ow, ow + count) of an output row; lines: of taps, null outside.
  template <int kWidth, int kStride>
  int64_t some_pixels(const uint8_t* const* lines_at, int64_t c0, int64_t channels, int64_t ow, int64_t count, int32_t* to) const {
    const uint8_t* at[AOTC_BYTES_DEPTHWISE_TAPS * 4];
    const int64_t lines = int64_t{1} * cfg->kernel[0] * cfg->kernel[1], many = count >= kPixels ? kPixels : 1;
    const int64_t columns = (many - 1) * kStride + kWidth, first = ow * kStride - cfg->pad[2];
    for (int64_t l = 0; l < lines; ++l)
      for (int64_t i = 0; i < columns; ++i) {
        const int64_t column = first + i;
        at[l * columns + i] = lines_at[l] && column >= 0 && column < in[2] ? lines_at[l] + column * c + c0 : outside;
      }
    if (many == kPixels)
      pixels<kWidth, kStride, kPixels>(at, lines, channels, to);
    else
      pixels<kWidth, kStride, 1>(at, lines, channels, to);
    return many;
  }

#if defined(__AVX512VNNI__)
  static constexpr int64_t kQuadChannels = 4 * kLanes;
  int64_t lines() const { return int64_t{1} * cfg->kernel[0] * cfg->kernel[1]; }
  bool by_quads() const { return cfg->dilation[2] == 1 && serves_quads(lines(), cfg->kernel[2], cfg->stride[2]); }
  static int quad_vectors(int64_t channels) { return channels > 2 * kLanes ? 4 : 2; }

  /// As QuadRow wants them, for each block of kQuadChannels.
  void pack_quads(int64_t c0, int64_t c1) const {
    const int64_t run = byte_run(taps), width = cfg->kernel[2], quads = ceil_div(lines(), int64_t{4});
    char* to = reinterpret_cast<char*>(weights);
    for (int64_t b0 = c0; b0 < c1; b0 += kQuadChannels)
      for (int64_t t = 0; t < width; ++t)
        for (int64_t q = 0; q < quads; ++q)
          for (int64_t j = b0; j < b0 + quad_vectors(c1 - b0) * kLanes; ++j)
            for (int64_t i = 0; i < 4; ++i, ++to) {
              const int64_t tap = (4 * q + i) * width + t;
              *to = 4 * q + i < lines() && j < c1 ? w[j / AOTC_QUANT_LANES * run + tap / 4 * kByteQuad + j % AOTC_QUANT_LANES * 4 + tap % 4]
                                                  : char{0};
            }
  }
  void row_of_quads(const uint8_t* const* lines_at, int64_t c0, int64_t channels, int64_t o0, int64_t o1) const {
    const int64_t width = cfg->kernel[2], stride = cfg->stride[2], quads = ceil_div(lines(), int64_t{4});
    const int32_t* of_block = weights;
    for (int64_t j = 0; j < channels; j += kQuadChannels) {
      const int64_t left = min_of(channels - j, kQuadChannels), vectors = quad_vectors(left);
      QuadRow r{{}, {}, in[2], cfg->around, of_block};
      for (int64_t l = 0; l < 4 * quads; ++l) {
        const uint8_t* at = l < lines() ? lines_at[l] : nullptr;
        r.at[l] = at ? at + c0 + j : outside, r.apart[l] = at ? c : 0;
      }
      quads_of(width, stride, quads, static_cast<int>(vectors))(r, left, o0 * stride - cfg->pad[2], o1 - o0, sums + j, cfg->mc);
      of_block += width * quads * vectors * kLanes;
    }
  }
#endif

  void pack_weights(int64_t c0, int64_t c1) const {
#if defined(__AVX512VNNI__)
    if (by_quads()) return pack_quads(c0, c1);
#endif
    widen_weights(c0, c1);
  }

  void row(const uint8_t* const* lines_at, int64_t c0, int64_t channels, int64_t o0, int64_t o1) const {
#if defined(__AVX512VNNI__)
    if (by_quads()) return row_of_quads(lines_at, c0, channels, o0, o1);
#endif
    const int64_t stride = cfg->stride[2], width = cfg->kernel[2];
    const bool beside = cfg->dilation[2] == 1;
    for (int64_t ow = o0; ow < o1;) {
      int32_t* to = sums + (ow - o0) * cfg->mc;
      const int64_t left = o1 - ow;
      if (beside && width == 3 && stride == 1) {
        ow += some_pixels<3, 1>(lines_at, c0, channels, ow, left, to);
      } else if (beside && width == 3 && stride == 2) {
        ow += some_pixels<3, 2>(lines_at, c0, channels, ow, left, to);
      } else if (beside && width == 5 && stride == 1) {
        ow += some_pixels<5, 1>(lines_at, c0, channels, ow, left, to);
      } else if (beside && width == 5 && stride == 2) {
        ow += some_pixels<5, 2>(lines_at, c0, channels, ow, left, to);
      } else {
        const uint8_t* at[AOTC_BYTES_DEPTHWISE_TAPS];
        for (int64_t t = 0; t < taps; ++t) {
          int64_t column;
          const bool inside = source(2, ow, t % width, &column) && lines_at[t / width];
          at[t] = inside ? lines_at[t / width] + column * c + c0 : outside;
        }
        pixel(at, channels, to);
        ++ow;
      }
    }
  }

  void run(int64_t begin, int64_t end) {
    const int64_t bands = ceil_div(out[1], int64_t{cfg->kp}), kh = cfg->kernel[1], lines = cfg->kernel[0] * kh;
    fill_bytes(outside, cfg->around, cfg->mc);
    for (int64_t u = begin; u < end; ++u) {
      const int64_t band = u % bands, od = u / bands % out[0], image = u / bands / out[0];
      const int64_t h0 = band * out[1] / bands, h1 = (band + 1) * out[1] / bands;
      for (int64_t c0 = 0; c0 < c; c0 += cfg->mc) {
        const int64_t channels = min_of<int64_t>(cfg->mc, c - c0);
        pack_weights(c0, c0 + channels);
        for (int64_t oh = h0; oh < h1; ++oh) {
          const uint8_t* lines_at[AOTC_BYTES_DEPTHWISE_TAPS];
          for (int64_t t = 0; t < lines; ++t) lines_at[t] = line(image, od, oh, t / kh, t % kh);
          for (int64_t o0 = 0; o0 < out[2]; o0 += cfg->nc) {
            const int64_t o1 = min_of<int64_t>(o0 + cfg->nc, out[2]);
            row(lines_at, c0, channels, o0, o1);
            const int64_t first = image * out_plane + (od * out[1] + oh) * out[2];
            finish(sums, cfg->mc, c0, channels, first + o0, first + o1);
          }
        }
      }
    }
  }
};

}  // namespace
