#pragma once
// Rows of unsigned bytes for products with signed ones (aotc/detail/bytes_abi.h): copies, the units of products, what convolutions read.
#include "byte_finish.h"

namespace {

/// Bytes of a run of AOTC_QUANT_LANES columns of a weight.
inline int64_t byte_run(int64_t k) { return aotc_bytes_depth(k) * AOTC_QUANT_LANES; }
inline int64_t byte_panel_bytes(int64_t k) { return aotc_bytes_depth(k) * AOTC_PANEL_N; }

/// Bytes from row to row of copied rows: an odd number of cache lines, for rows a multiple of 512 bytes apart share cache sets.
inline int64_t byte_pitch(int64_t k) { return (ceil_div(k, int64_t{64}) | 1) * 64; }

inline void copy_bytes(uint8_t* to, const uint8_t* from, int64_t n) {
#if defined(__AVX512BW__)
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 some = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
    _mm512_mask_storeu_epi8(to + i, some, _mm512_maskz_loadu_epi8(some, from + i));
  }
#else
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
#endif
}
/// The same where `room` bytes from `to` on may be written: whole vectors are stored sooner than some lanes.
inline void copy_bytes_into(uint8_t* to, const uint8_t* from, int64_t n, [[maybe_unused]] int64_t room) {
#if defined(__AVX512BW__)
  int64_t i = 0;
  for (; n - i >= 64; i += 64) _mm512_storeu_si512(to + i, _mm512_loadu_si512(from + i));
  if (i == n) return;
  const __mmask64 some = (__mmask64{1} << (n - i)) - 1;
  const __m512i last = _mm512_maskz_loadu_epi8(some, from + i);
  if (i + 64 <= room)
    _mm512_storeu_si512(to + i, last);
  else
    _mm512_mask_storeu_epi8(to + i, some, last);
#else
  copy_bytes(to, from, n);
#endif
}
inline void fill_bytes(uint8_t* to, int value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(value);
}

/// The work units of a product of bytes.
struct ByteUnits {
  const aotc_kargs* args;
  const aotc_gemm_bytes_config* cfg;
  const int64_t* size;
  int64_t m, k, m_blocks, n_blocks = 0, rs, cs;
  const uint8_t* a;
  const char* w;

  struct Unit {
    int64_t batch, segment, m0, rows, n0, n1;  // columns from the segment's begin
    int64_t key;                               // equal for units with the same rows
    const char* panels;                        // of the segment
    const uint8_t* from;                       // its first row
  };

  explicit ByteUnits(const aotc_kargs* x)
      : args(x), cfg(static_cast<const aotc_gemm_bytes_config*>(x->config)), size(x->size), m(size[AOTC_GEMM_M]), k(size[AOTC_GEMM_K]) {
    m_blocks = ceil_div(m, cfg->mc);
    for (int s = 0; s < cfg->n_segments; ++s) n_blocks += ceil_div(segment_len(s), cfg->nc);
    rs = size[AOTC_GEMM_A_RS], cs = size[AOTC_GEMM_A_CS];
    a = static_cast<const uint8_t*>(x->ptr[cfg->a_ptr]) + size[AOTC_GEMM_A_BASE];
    w = static_cast<const char*>(x->ptr[cfg->b_ptr]);
  }

  int64_t segment_len(int64_t s) const { return size[AOTC_GEMM_SIZES + 2 * s + 1] - size[AOTC_GEMM_SIZES + 2 * s]; }

  Unit at(int64_t u) const {
    Unit r{};
    int64_t nb = u % n_blocks;
    r.key = u / n_blocks, r.batch = r.key / m_blocks;
    const int64_t m_block = r.key % m_blocks;
    r.m0 = m_block * m / m_blocks, r.rows = (m_block + 1) * m / m_blocks - r.m0;
    r.panels = w;
    for (; nb >= ceil_div(segment_len(r.segment), cfg->nc); ++r.segment) {
      nb -= ceil_div(segment_len(r.segment), cfg->nc);
      r.panels += ceil_div(segment_len(r.segment), int64_t{AOTC_PANEL_N}) * byte_panel_bytes(k);
    }
    r.n0 = nb * cfg->nc, r.n1 = min_of<int64_t>(r.n0 + cfg->nc, segment_len(r.segment));
    const int64_t b1 = size[AOTC_GEMM_B1];
    r.from = a + r.batch / b1 * size[AOTC_GEMM_A_B0] + r.batch % b1 * size[AOTC_GEMM_A_B1] + r.m0 * rs;
    return r;
  }

  /// Finished sums of some rows, m0 the first, and columns of a segment.
  void finish(int64_t segment, const int32_t* sums, int64_t ld, int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t cols) const {
    const ByteFinish f(args, cfg->finish ? cfg->finish + segment : nullptr);
    if (f.is()) return f.finish(sums, ld, m0, rows, n0, cols);
    cfg->epilogues[segment](args, sums, ld, batch, m0, rows, n0, cols);
  }

  void copy_rows(uint8_t* to, int64_t pitch, const uint8_t* from, int64_t count) const {
    for (int64_t r = 0; r < count; ++r, to += pitch) {
      if (cs == 1)
        copy_bytes(to, from + r * rs, k);
      else
        for (int64_t i = 0; i < k; ++i) to[i] = from[r * rs + i * cs];
    }
  }
};

struct ByteConvShape {
  const aotc_kargs* args;
  const aotc_conv_bytes_config* cfg;
  int64_t n, c, co, groups, cg, cog;  // cg, cog: channels of one group
  int64_t in[3], out[3], in_plane, out_plane, taps;
  int64_t k;  // of a row, its lines of taps as long as they are stored
  const uint8_t* x;
  const char* w;
  ByteFinish as_data;

  explicit ByteConvShape(const aotc_kargs* a)
      : args(a), cfg(static_cast<const aotc_conv_bytes_config*>(a->config)), as_data(a, cfg->finish) {
    const int64_t* size = a->size;
    n = size[AOTC_CONV_N], c = size[AOTC_CONV_C], co = size[AOTC_CONV_CO];
    groups = cfg->groups, cg = c / groups, cog = co / groups;
    for (int i = 0; i < 3; ++i) in[i] = size[AOTC_CONV_D + i], out[i] = size[AOTC_CONV_OD + i];
    in_plane = in[0] * in[1] * in[2], out_plane = out[0] * out[1] * out[2];
    taps = int64_t{1} * cfg->kernel[0] * cfg->kernel[1] * cfg->kernel[2];
    k = int64_t{1} * cfg->kernel[0] * cfg->kernel[1] * cfg->line;
    x = static_cast<const uint8_t*>(a->ptr[cfg->x_ptr]);
    w = static_cast<const char*>(a->ptr[cfg->w_ptr]);
  }

  /// Where output position o meets tap t along a dim; false: outside.
  bool source(int dim, int64_t o, int64_t t, int64_t* at) const {
    *at = o * cfg->stride[dim] - cfg->pad[dim] + t * cfg->dilation[dim];
    return *at >= 0 && *at < in[dim];
  }
  /// The line of an image that a tap of depth and height meets; null: outside.
  const uint8_t* line(int64_t image, int64_t od, int64_t oh, int64_t kd, int64_t kh) const {
    int64_t id, ih;
    if (!source(0, od, kd, &id) || !source(1, oh, kh, &ih)) return nullptr;
    return x + (image * in_plane + (id * in[1] + ih) * in[2]) * c;
  }

  /// A line of taps for the output column whose first tap reads column `first`; `room` bytes may be written.
  void copy_line(uint8_t* to, const uint8_t* from, int64_t first, int64_t room) const {
    const int64_t kw = cfg->kernel[2], dilation = cfg->dilation[2];
    if (!from) return fill_bytes(to, cfg->around, kw * cg);
    const bool inside = first >= 0 && first + (kw - 1) * dilation < in[2];
    if (inside && groups == 1 && dilation == 1) return copy_bytes_into(to, from + first * c, kw * c, room);
    for (int64_t t = 0; t < kw; ++t, to += cg) {
      const int64_t at = first + t * dilation;
      if (at >= 0 && at < in[2])
        copy_bytes_into(to, from + at * c, cg, room - t * cg);
      else
        fill_bytes(to, cfg->around, cg);
    }
  }

  /// The rows of pixels [p0, p1) of a group; what follows a line of taps where it is stored longer is left as it is.
  void copy_rows(int64_t g, int64_t p0, int64_t p1, uint8_t* rows, int64_t pitch) const {
    const int64_t kh = cfg->kernel[1], lines = cfg->kernel[0] * kh;
    for (int64_t p = p0; p < p1;) {  // an output row, or what is wanted of it
      const int64_t ow = p % out[2], row = p / out[2], count = min_of(out[2] - ow, p1 - p);
      const int64_t oh = row % out[1], od = row / out[1] % out[0], image = row / out[1] / out[0];
      for (int64_t t = 0; t < lines; ++t) {
        const uint8_t* from = line(image, od, oh, t / kh, t % kh);
        if (from) from += g * cg;
        uint8_t* to = rows + (p - p0) * pitch + t * cfg->line;
        for (int64_t i = 0; i < count; ++i) copy_line(to + i * pitch, from, (ow + i) * cfg->stride[2] - cfg->pad[2], pitch - t * cfg->line);
      }
      p += count;
    }
  }

  /// Finished sums of pixels [p0, p1), images merged.
  void finish(const int32_t* from, int64_t ldc, int64_t channel, int64_t cols, int64_t p0, int64_t p1) const {
    if (as_data.is()) return as_data.finish(from, ldc, p0, p1 - p0, channel, cols);
    for (int64_t p = p0; p < p1;) {
      const int64_t at = p % out_plane, count = min_of(out_plane - at, p1 - p);
      cfg->epilogue(args, from, ldc, p / out_plane, at, count, channel, cols);
      from += count * ldc, p += count;
    }
  }
};

}  // namespace
