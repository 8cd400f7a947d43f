#pragma once
// Numbers of A next to nothing. Processors take some 150 cycles for a vector of products with a denormal operand, or of sums that are
// denormal: decays and Gaussians far out make whole products several times as slow. Their flags tell that it has happened in a unit's
// tiles; in those of its tiles that follow such numbers, 2^64 times as large, are summed apart, and these sums are added to those of the
// others by one multiply-add, which rounds what float32 holds of them once. A unit begins anew, so that results depend on neither threads
// nor order. Where aotc_kargs::free_denormals says that nothing is to be gained, they stay with the others.
#include "micro.h"

namespace {

constexpr uint32_t kTinyBits = (127 - 96) << 23;  ///< numbers below 2^-96: times what float32 can hold they stay finite 2^64 times as large
constexpr float kTinyScale = 0x1p-64f;

/// A number of a magnitude below kTinyBits, 2^64 times as large; exact, and nothing denormal is computed with.
inline float scaled_tiny(u32 bits) {
  constexpr u32 kLeast = (127 - 62) << 23;  // its last bit is that of the least number, 2^64 times as large
  const u32 magnitude = bits & 0x7fffffff, normal = magnitude + (u32{64} << 23), large = magnitude + kLeast;
  float x, y, least;
  __builtin_memcpy(&x, &normal, 4);
  __builtin_memcpy(&y, &large, 4);
  __builtin_memcpy(&least, &kLeast, 4);
  y -= least;
  const float z = magnitude < (1u << 23) ? y : x;
  return bits >> 31 ? -z : z;
}

/// Whether a thread has computed with denormal numbers since `begin` or `clear`; the thread's flags are after `end` what they would have
/// been.
class DenormalFlags {
  static constexpr u32 kFlags = _MM_EXCEPT_DENORM | _MM_EXCEPT_UNDERFLOW;
  u32 before_ = 0;

 public:
  void begin() {
    before_ = 0;
    clear();
  }
  void clear() {
    const u32 state = _mm_getcsr();
    if (!(state & kFlags)) return;
    before_ |= state & kFlags;
    _mm_setcsr(state & ~kFlags);
  }
  bool raised() const { return _mm_getcsr() & kFlags; }
  void end() const {
    if (before_) _mm_setcsr(_mm_getcsr() | before_);
  }
};

/// Some values of k of a register tile's rows, the tiny ones apart from the others.
struct TinyRows {
  static constexpr int64_t kSteps = 64;
  alignas(64) float others[kMaxMr * kSteps], tiny[kMaxMr * kSteps], sums[kMaxMr * kMaxNv * Vec<float>::kLanes];

  static bool any_tiny(const float* src, int64_t n) {
    u32 any = 0;
    for (int64_t i = 0; i < n; ++i) {
      u32 x;
      __builtin_memcpy(&x, src + i, 4);
      x &= 0x7fffffff;
      any |= x - 1 < kTinyBits - 1;  // zeros are none
    }
    return any != 0;
  }
  static void part(const float* src, int64_t n, float* others, float* tiny) {
    for (int64_t i = 0; i < n; ++i) {
      u32 x;
      __builtin_memcpy(&x, src + i, 4);
      const bool is = (x & 0x7fffffff) < kTinyBits;
      const float scaled = scaled_tiny(x & (is ? ~u32{0} : 0));
      x = is ? 0 : x;
      __builtin_memcpy(others + i, &x, 4);
      tiny[i] = scaled;
    }
  }
  /// Whether any of `steps` <= kSteps values of k of `rows` rows is tiny: they are in `others` and `tiny` then, in the order of micro's
  /// operand. kRowA and stride, in floats, as micro has them.
  template <bool kRowA>
  bool split(const float* a, int64_t stride, int64_t rows, int64_t steps) {
    const int64_t lines = kRowA ? rows : 1, length = kRowA ? steps : rows * steps, apart = kRowA ? stride : 0;
    bool any = false;
    for (int64_t i = 0; i < lines; ++i) any |= any_tiny(a + i * apart, length);
    if (any)
      for (int64_t i = 0; i < lines; ++i) part(a + i * apart, length, others + i * kSteps, tiny + i * kSteps);
    return any;
  }
  /// Whether `rows` rows of `cols` sums of tiny numbers are numbers: where B is infinite they are not, nor are zeros' products with it.
  bool finite(int64_t rows, int64_t cols) const {
    u32 most = 0;
    for (int64_t i = 0; i < rows * cols; ++i) {
      u32 x;
      __builtin_memcpy(&x, sums + i, 4);
      most = max_of(most, x & 0x7fffffff);
    }
    return most < 0x7f800000;
  }
  void add_to(float* c, int64_t ldc, int64_t rows, int64_t cols) const {
    using V = Vec<float>;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; j += V::kLanes)
        V::store(c + i * ldc + j, V::fma(V::load(sums + i * cols + j), V::set1(kTinyScale), V::load(c + i * ldc + j)));
  }
};

/// micro over `steps` steps of MulPlain<float> whose operand `a` may have tiny numbers.
template <bool kRowA>
void micro_of_tiny(TinyRows& rows, int64_t n_rows, int64_t nv, int64_t last, int64_t steps, const char* a, int64_t a_stride, const char* b,
                   int64_t b_stride, float* c, int64_t ldc, bool first, const char* pf, int64_t pf_step, const TileFinish* fin) {
  using P = MulPlain<float>;
  constexpr int W = Vec<float>::kLanes;
  const MicroFn fn = micro_of<P, kRowA, true>(n_rows, nv, last);
  for (int64_t s = 0; s < steps; s += TinyRows::kSteps) {
    const int64_t n = min_of(TinyRows::kSteps, steps - s), cols = nv * W;
    const char *as = a + s * (kRowA ? int64_t{4} : a_stride), *bs = b + s * b_stride, *ps = pf + s * pf_step;
    const TileFinish* now = s + n == steps ? fin : nullptr;
    bool apart = rows.split<kRowA>(reinterpret_cast<const float*>(as), a_stride / 4, n_rows, n);
    const int64_t stride = kRowA ? TinyRows::kSteps * 4 : n_rows * 4;
    if (apart) {
      fn(n, reinterpret_cast<const char*>(rows.tiny), stride, bs, b_stride, rows.sums, cols, true, ps, pf_step, nullptr);
      apart = rows.finite(n_rows, cols);
    }
    if (!apart) {
      fn(n, as, a_stride, bs, b_stride, c, ldc, first && s == 0, ps, pf_step, now);
      continue;
    }
    fn(n, reinterpret_cast<const char*>(rows.others), stride, bs, b_stride, c, ldc, first && s == 0, ps, pf_step, nullptr);
    rows.add_to(c, ldc, n_rows, cols);
    if (now) fn(0, as, a_stride, bs, b_stride, c, ldc, false, ps, pf_step, now);
  }
}

}  // namespace
