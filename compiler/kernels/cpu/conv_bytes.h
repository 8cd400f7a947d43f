#pragma once
// Channels-last convolutions of unsigned bytes by signed ones as implicit products: aotc_conv_bytes_u8 of aotc/detail/bytes_abi.h. The
// pixels' rows, (tap, channel), are copied once and kept over the units with the same pixels.
#include "bytes.h"

namespace {

struct ByteConvShape {
  const aotc_kargs* args;
  const aotc_conv_bytes_config* cfg;
  int64_t n, c, co, groups, cg, cog;  // cg, cog: channels of one group
  int64_t in[3], out[3], in_plane, out_plane, taps, k;
  const uint8_t* x;
  const char* w;

  explicit ByteConvShape(const aotc_kargs* a) : args(a), cfg(static_cast<const aotc_conv_bytes_config*>(a->config)) {
    const int64_t* size = a->size;
    n = size[AOTC_CONV_N], c = size[AOTC_CONV_C], co = size[AOTC_CONV_CO];
    groups = cfg->groups, cg = c / groups, cog = co / groups;
    for (int i = 0; i < 3; ++i) in[i] = size[AOTC_CONV_D + i], out[i] = size[AOTC_CONV_OD + i];
    in_plane = in[0] * in[1] * in[2], out_plane = out[0] * out[1] * out[2];
    taps = int64_t{1} * cfg->kernel[0] * cfg->kernel[1] * cfg->kernel[2];
    k = cg * taps;
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
};

struct ConvBytes : ByteConvShape {
  int64_t pitch;
  int32_t* sums;
  uint8_t* rows;
  int16_t* widened;

  explicit ConvBytes(const aotc_kargs* a) : ByteConvShape(a) {
    pitch = byte_pitch(k);
    sums = static_cast<int32_t*>(a->scratch);
    rows = reinterpret_cast<uint8_t*>(sums) + aotc_bytes_sums_bytes(cfg->nc);
    widened = reinterpret_cast<int16_t*>(rows + cfg->nc * pitch);
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

  void copy_rows(int64_t g, int64_t p0, int64_t p1) const {
    const int64_t kh = cfg->kernel[1], run = cfg->kernel[2] * cg, lines = cfg->kernel[0] * kh;
    for (int64_t p = p0; p < p1;) {  // an output row, or what is wanted of it
      const int64_t ow = p % out[2], row = p / out[2], count = min_of(out[2] - ow, p1 - p);
      const int64_t oh = row % out[1], od = row / out[1] % out[0], image = row / out[1] / out[0];
      for (int64_t t = 0; t < lines; ++t) {
        const uint8_t* from = line(image, od, oh, t / kh, t % kh);
        if (from) from += g * cg;
        uint8_t* to = rows + (p - p0) * pitch + t * run;
        for (int64_t i = 0; i < count; ++i) copy_line(to + i * pitch, from, (ow + i) * cfg->stride[2] - cfg->pad[2], pitch - t * run);
      }
      p += count;
    }
    if constexpr (!ByteProducts::kInPlace)
      for (int64_t r = 0; r < p1 - p0; ++r) widen_row(widened + r * pitch, rows + r * pitch, k);
  }

  /// Finished sums, cut where an image ends.
  void finish(int64_t ldc, int64_t channel, int64_t cols, int64_t p0, int64_t p1) const {
    const int32_t* from = sums;
    for (int64_t p = p0; p < p1;) {
      const int64_t at = p % out_plane, count = min_of(out_plane - at, p1 - p);
      cfg->epilogue(args, from, ldc, p / out_plane, at, count, channel, cols);
      from += count * ldc, p += count;
    }
  }

  void run(int64_t begin, int64_t end) {
    constexpr int64_t kPanel = AOTC_PANEL_N;
    const int64_t pixels = n * out_plane, co_blocks = ceil_div(cog, int64_t{cfg->mc}), px_blocks = ceil_div(pixels, int64_t{cfg->nc}),
                  panels = ceil_div(cog, kPanel);
    int64_t kept = held_key(args);
    for (int64_t u = begin; u < end; ++u) {
      const int64_t cb = u % co_blocks, key = u / co_blocks, pb = key % px_blocks, g = key / px_blocks;
      const int64_t p0 = pb * pixels / px_blocks, p1 = (pb + 1) * pixels / px_blocks, count = p1 - p0;
      const int64_t c0 = min_of(cb * panels / co_blocks * kPanel, cog), c1 = min_of((cb + 1) * panels / co_blocks * kPanel, cog);
      if (c0 >= c1 || count == 0) continue;
      if (kept != key) copy_rows(g, p0, p1);
      kept = key;
      const char* of_group = w + g * panels * 2 * byte_run(k);
      const int64_t step = min_of(byte_panels_at_once(count) * kPanel, ceil_div(c1 - c0, kPanel) * kPanel);
      for (int64_t j0 = c0; j0 < c1; j0 += step) {
        const int64_t j1 = min_of(j0 + step, c1);
        for (int64_t j = j0; j < j1; j += kPanel)
          byte_panel(byte_elems(rows, widened), pitch, count, k, of_group + j / kPanel * 2 * byte_run(k), min_of(kPanel, j1 - j),
                     sums + (j - j0), step);
        finish(step, g * cog + j0, j1 - j0, p0, p1);
      }
    }
    hold_key(args, kept);
  }
};

}  // namespace
