#pragma once
// Convolutions one after another over strips of rows: aotc_strips of aotc/detail/strips_abi.h. The stages are entries of the library,
// called with sizes, paddings and pointers of some of their rows.
#include "aotc/detail/strips_abi.h"
#include "entry.h"

namespace {

class Strips {
 public:
  explicit Strips(const aotc_kargs* args) : args_(args), cfg_(static_cast<const aotc_strips_config*>(args->config)) {
    char* next = static_cast<char*>(args->scratch) + cfg_->scratch_bytes;
    const int64_t* sizes = args->size + 1 + 2 * (cfg_->n_stages + 1);
    int64_t needed[AOTC_STRIP_MAX_STAGES];
    needed[cfg_->n_stages - 1] = cfg_->rows;
    for (int k = cfg_->n_stages - 1; k > 0; --k) {
      const aotc_strip_stage& s = cfg_->stages[k];
      needed[k - 1] = aotc_strip_rows(s.kernel, s.stride, s.dilation, needed[k]);
    }
    for (int k = 0; k < cfg_->n_stages; ++k) {
      sizes_[k] = sizes;
      sizes += cfg_->stages[k].n_sizes;
      kept_[k] = {next, 0, 0};
      if (k + 1 < cfg_->n_stages) next += (needed[k] * row_bytes(k) + 63) / 64 * 64;
    }
  }

  void run(int64_t begin, int64_t end) {
    const int64_t last = cfg_->n_stages - 1, rows = height(last + 1), strips = (rows + cfg_->rows - 1) / cfg_->rows;
    int64_t image = -1;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t n = u / strips, s = u % strips;
      if (n != image)
        for (int k = 0; k < last; ++k) kept_[k].begin = kept_[k].end = 0;
      image = n;
      strip(n, {s * rows / strips, (s + 1) * rows / strips});
    }
  }

 private:
  struct Rows {
    int64_t begin, end;
    bool empty() const { return begin >= end; }
  };
  /// Rows [begin, end) of a stage's result, the first one at `at`.
  struct Kept {
    char* at;
    int64_t begin, end;
  };

  /// Of grid g: 0 is the first stage's input, g + 1 the result of stage g.
  int64_t height(int64_t g) const { return args_->size[1 + 2 * g]; }
  int64_t width(int64_t g) const { return args_->size[2 + 2 * g]; }
  int64_t row_bytes(int k) const { return width(k + 1) * cfg_->stages[k].pixel_bytes; }

  static int64_t clip(int64_t x, int64_t most) { return x < 0 ? 0 : x > most ? most : x; }
  /// The input's rows that rows `r` of the result of stage k meet.
  Rows met(int k, Rows r) const {
    const aotc_strip_stage& s = cfg_->stages[k];
    const int64_t first = r.begin * s.stride - s.padding, count = aotc_strip_rows(s.kernel, s.stride, s.dilation, r.end - r.begin);
    return {clip(first, height(k)), clip(first + count, height(k))};
  }

  /// Rows `r` of the last result, of image n.
  void strip(int64_t n, Rows r) {
    Rows wanted[AOTC_STRIP_MAX_STAGES], fresh[AOTC_STRIP_MAX_STAGES];
    for (int k = cfg_->n_stages - 1; k >= 0; --k) {
      const Kept& have = kept_[k];
      wanted[k] = fresh[k] = r;
      if (k + 1 < cfg_->n_stages && have.begin <= r.begin && r.begin < have.end) fresh[k].begin = have.end < r.end ? have.end : r.end;
      r = fresh[k].empty() ? Rows{0, 0} : met(k, fresh[k]);
    }
    for (int k = 0; k < cfg_->n_stages; ++k) {
      if (fresh[k].empty()) continue;
      if (k + 1 < cfg_->n_stages) keep(k, wanted[k], fresh[k].begin);
      stage(k, n, fresh[k]);
    }
  }

  /// Makes room for rows r of stage k's result, of which those before `fresh` are there.
  void keep(int k, Rows r, int64_t fresh) {
    Kept& have = kept_[k];
    if (r.begin > have.begin && r.begin < fresh)
      __builtin_memmove(have.at, have.at + (r.begin - have.begin) * row_bytes(k), (fresh - r.begin) * row_bytes(k));
    have.begin = r.begin, have.end = r.end;
  }

  /// Where argument a of stage k begins, seen from row `row` of image n on grid g.
  void* moved(const aotc_strip_arg& a, int k, int64_t n, int64_t g, int64_t row) const {
    if (a.ptr < 0) {
      const int of = a.ptr == AOTC_STRIP_OWN ? k : k - 1;
      return kept_[of].at + (row - kept_[of].begin) * row_bytes(of);
    }
    const int64_t pixels = (n * height(g) + row) * width(g);
    return static_cast<char*>(args_->ptr[a.ptr]) + pixels * a.pixel_bytes + n * a.image_bytes;
  }

  /// Rows r of stage k's result, of image n.
  void stage(int k, int64_t n, Rows r) const {
    const aotc_strip_stage& s = cfg_->stages[k];
    const Rows in = met(k, r);
    void* ptr[AOTC_STRIP_MAX_ARGS];
    for (int i = 0; i < s.n_args; ++i) ptr[i] = i == s.x ? moved(s.args[i], k, n, k, in.begin) : moved(s.args[i], k, n, k + 1, r.begin);
    int64_t size[AOTC_STRIP_MAX_SIZES];
    for (int i = 0; i < s.n_sizes; ++i) size[i] = sizes_[k][i];
    aotc_kargs args = *args_;
    args.ptr = ptr, args.size = size, args.config = s.config, args.held = nullptr;
    if (s.product) {
      size[AOTC_GEMM_M] = (r.end - r.begin) * width(k + 1);
      s.fn(&args, 0, product_units(*static_cast<const aotc_gemm_config*>(s.config), size));
      return;
    }
    aotc_conv_config c = *static_cast<const aotc_conv_config*>(s.config);
    c.pad[1] = static_cast<int32_t>(in.begin - (r.begin * s.stride - s.padding));
    args.config = &c;
    size[AOTC_CONV_N] = 1, size[AOTC_CONV_H] = in.end - in.begin, size[AOTC_CONV_OH] = r.end - r.begin;
    s.fn(&args, 0, conv_units(c, size));
  }

  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
  static int64_t product_units(const aotc_gemm_config& c, const int64_t* size) {
    return ceil_div(size[AOTC_GEMM_M], c.mc) * ceil_div(size[AOTC_GEMM_N], c.nc);
  }
  static int64_t conv_units(const aotc_conv_config& c, const int64_t* size) {
    const int64_t rows = size[AOTC_CONV_OH], columns = size[AOTC_CONV_OW];
    if (c.algo == AOTC_CONV_LAST_DEPTHWISE) return ceil_div(rows, c.kp) * ceil_div(columns, c.nc);
    return c.groups * ceil_div(size[AOTC_CONV_CO] / c.groups, c.mc) * ceil_div(rows * columns, c.nc);
  }

  const aotc_kargs* args_;
  const aotc_strips_config* cfg_;
  const int64_t* sizes_[AOTC_STRIP_MAX_STAGES];
  Kept kept_[AOTC_STRIP_MAX_STAGES];
};

}  // namespace
