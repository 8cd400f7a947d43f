#pragma once
// The tile registers of AMX for products of bf16 with sums in f32, and of bytes with sums in int32: the instructions themselves, or
// where the translation unit is compiled without them a plain emulation that gives the same bits, for tests on any machine. Tiles 0 to 3
// hold sums, 4 and 5 rows of A, 6 and 7 columns of B in pairs, or in fours.
#include <stdint.h>

namespace {

/// A tile: at most 16 rows of 64 bytes. Tiles of sums and of A have the rows of their Shape; those of A have its bytes, and those of B a
/// row for every four of them.
constexpr int64_t kTileRows = 16, kTileCols = 16, kTileK = 32, kTileBytes = 1024;
constexpr int64_t kTileByteK = 64;  ///< of bytes

struct alignas(64) TileShape {
  uint8_t palette = 1, start = 0, zero[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
  TileShape(int64_t height, int64_t bytes) {
    for (int i = 0; i < 8; ++i)
      row_bytes[i] = static_cast<uint16_t>(i == 4 || i == 5 ? bytes : 64), rows[i] = static_cast<uint8_t>(i < 6 ? height : bytes / 4);
  }
};
static_assert(sizeof(TileShape) == 64);

#if defined(__AMX_BF16__)

/// The tiles of this thread, from shape() to the end of the object's life. Pre: the process may use them (ARCH_REQ_XCOMP_PERM).
class Tiles {
 public:
  ~Tiles() { __asm__ volatile("tilerelease"); }
  /// Sets the height of the tiles of sums and of A, 1 to 16, and the bytes of a row of A, a multiple of 4 up to 64. All tiles become zeros.
  void shape(int64_t height, int64_t bytes = 64) {
    const TileShape s(height, bytes);
    __asm__ volatile("ldtilecfg %0" ::"m"(s));
  }
  template <int T>
  void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  template <int T>
  void load(const void* p, int64_t stride_bytes) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride_bytes), "i"(T) : "memory");
  }
  /// For what is not read again soon: it leaves L1 to the rest.
  template <int T>
  void load_past(const void* p, int64_t stride_bytes) {
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride_bytes), "i"(T) : "memory");
  }
  template <int T>
  void store(void* p, int64_t stride_bytes) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride_bytes), "i"(T) : "memory");
  }
  /// C += A * B
  template <int C, int A, int B>
  void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  template <int C, int A, int B>
  void multiply_bytes() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
  /// A's are unsigned.
  template <int C, int A, int B>
  void multiply_unsigned() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

#else

class Tiles {
 public:
  void shape(int64_t height, int64_t bytes = 64) {
    shape_ = TileShape(height, bytes);
    __builtin_memset(tile_, 0, sizeof tile_);
  }
  template <int T>
  void zero() {
    __builtin_memset(tile_[T], 0, kTileBytes);
  }
  template <int T>
  void load(const void* p, int64_t stride_bytes) {
    zero<T>();
    for (int r = 0; r < shape_.rows[T]; ++r)
      __builtin_memcpy(tile_[T][r], static_cast<const char*>(p) + r * stride_bytes, shape_.row_bytes[T]);
  }
  template <int T>
  void load_past(const void* p, int64_t stride_bytes) {
    load<T>(p, stride_bytes);
  }
  template <int T>
  void store(void* p, int64_t stride_bytes) {
    for (int r = 0; r < shape_.rows[T]; ++r) __builtin_memcpy(static_cast<char*>(p) + r * stride_bytes, tile_[T][r], shape_.row_bytes[T]);
  }
  /// The even and the odd k of a row are summed apart by fma, then together, then to C, each rounded to nearest even; denormals are zeros.
  template <int C, int A, int B>
  void multiply() {
    for (int m = 0; m < shape_.rows[C]; ++m)
      for (int n = 0; n < kTileCols; ++n) {
        float even = 0, odd = 0, c;
        for (int k = 0; k < kTileRows; ++k) {
          even = flush(__builtin_fmaf(value(A, m, 2 * k), value(B, k, 2 * n), even));
          odd = flush(__builtin_fmaf(value(A, m, 2 * k + 1), value(B, k, 2 * n + 1), odd));
        }
        __builtin_memcpy(&c, &tile_[C][m][4 * n], 4);
        c = flush(flush(c) + flush(even + odd));
        __builtin_memcpy(&tile_[C][m][4 * n], &c, 4);
      }
  }
  template <int C, int A, int B>
  void multiply_bytes() {
    sum_bytes<C, B>([&](int m, int k) -> int { return static_cast<int8_t>(tile_[A][m][k]); });
  }
  template <int C, int A, int B>
  void multiply_unsigned() {
    sum_bytes<C, B>([&](int m, int k) -> int { return tile_[A][m][k]; });
  }

 private:
  template <int C, int B, class Left>
  void sum_bytes(Left left) {
    for (int m = 0; m < shape_.rows[C]; ++m)
      for (int n = 0; n < kTileCols; ++n) {
        int32_t c;
        __builtin_memcpy(&c, &tile_[C][m][4 * n], 4);
        for (int k = 0; k < kTileByteK; ++k) c += left(m, k) * static_cast<int8_t>(tile_[B][k / 4][4 * n + k % 4]);
        __builtin_memcpy(&tile_[C][m][4 * n], &c, 4);
      }
  }
  static float flush(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
  float value(int t, int row, int element) const {
    uint16_t half;
    __builtin_memcpy(&half, &tile_[t][row][2 * element], 2);
    const uint32_t bits = uint32_t{half} << 16;
    float f;
    __builtin_memcpy(&f, &bits, 4);
    return flush(f);
  }

  TileShape shape_{kTileRows, 64};
  alignas(64) uint8_t tile_[8][kTileRows][64];
};

#endif

}  // namespace
