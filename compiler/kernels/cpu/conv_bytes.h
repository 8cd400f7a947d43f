#pragma once
// Channels-last convolutions of unsigned bytes by signed ones as implicit products: aotc_conv_bytes_u8 of aotc/detail/bytes_abi.h. The
// pixels' rows, (tap, channel), are copied once and kept over the units with the same pixels.
#include "bytes.h"

namespace {

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

  void copy(int64_t g, int64_t p0, int64_t p1) const {
    copy_rows(g, p0, p1, rows, pitch);
    if constexpr (!ByteProducts::kInPlace)
      for (int64_t r = 0; r < p1 - p0; ++r) widen_row(widened + r * pitch, rows + r * pitch, k);
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
      if (kept != key) copy(g, p0, p1);
      kept = key;
      const char* of_group = w + g * panels * byte_panel_bytes(k);
      const int64_t step = min_of(byte_panels_at_once(count) * kPanel, ceil_div(c1 - c0, kPanel) * kPanel);
      for (int64_t j0 = c0; j0 < c1; j0 += step) {
        const int64_t j1 = min_of(j0 + step, c1);
        for (int64_t j = j0; j < j1; j += kPanel)
          byte_panel(byte_elems(rows, widened), pitch, count, k, of_group + j / kPanel * byte_panel_bytes(k), min_of(kPanel, j1 - j),
                     sums + (j - j0), step);
        finish(sums, step, g * cog + j0, j1 - j0, p0, p1);
      }
    }
    hold_key(args, kept);
  }
};

}  // namespace
