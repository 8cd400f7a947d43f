// What CUDA and kernels/cuda/ptx.cuh give to device code, as host C++. Included once where device code is compiled for the host, after the
// headers of the standard library and before kernels/cuda/device.cuh, if need be inside a namespace:
//
//     namespace device {
//     #include "cuda/host.h"
//     #include "kernels/cuda/device.cuh"
//     }
//
// As it stands it serves one thread: scalar code. cuda/emulator.h adds blocks, warps and clusters.
#define AOTC_PTX  // instead of kernels/cuda/ptx.cuh

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define AOTC_DI inline
#define AOTC_APART static

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

template <class To, class From>
To bits_as(From v) {
  static_assert(sizeof(To) == sizeof(From));
  To r;
  std::memcpy(&r, &v, sizeof r);
  return r;
}
inline float __uint_as_float(u32 v) { return bits_as<float>(v); }
inline u32 __float_as_uint(float v) { return bits_as<u32>(v); }
inline float __int_as_float(int v) { return bits_as<float>(v); }
inline double __longlong_as_double(i64 v) { return bits_as<double>(v); }
inline i64 __double_as_longlong(double v) { return bits_as<i64>(v); }

inline u16 f16_bits(float f) { return bits_as<u16>(static_cast<_Float16>(f)); }
inline float f16_value(u16 bits) { return static_cast<float>(bits_as<_Float16>(bits)); }
inline u16 bf16_bits(float f) {
  const u32 u = bits_as<u32>(f);
  return static_cast<u16>(f != f ? 0x7fff : (u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
inline u32 f16_pair(float low, float high) { return f16_bits(low) | static_cast<u32>(f16_bits(high)) << 16; }
inline u32 bf16_pair(float low, float high) { return bf16_bits(low) | static_cast<u32>(bf16_bits(high)) << 16; }
inline u16 f16_add(u16 a, u16 b) { return f16_bits(f16_value(a) + f16_value(b)); }
inline u16 f16_sub(u16 a, u16 b) { return f16_bits(f16_value(a) - f16_value(b)); }
inline u16 f16_mul(u16 a, u16 b) { return f16_bits(f16_value(a) * f16_value(b)); }
/// a * b + c, rounded once: both factors have 11 bits at most, so their product and, but for what lies far below, the sum are exact in
/// double; an odd last bit keeps what the float loses away from halves.
inline float fma_to_round(float a, float b, float c) {
  const double product = static_cast<double>(a) * b, sum = product + c;
  auto near = static_cast<float>(sum);
  if (!std::isfinite(near) || static_cast<double>(near) == sum) return near;
  if (std::fabs(static_cast<double>(near)) > std::fabs(sum)) near = std::nextafter(near, 0.0f);
  return bits_as<float>(bits_as<u32>(near) | 1);
}
inline float pair_value_f16(u32 v, int e) { return f16_value(static_cast<u16>(v >> 16 * e)); }
inline float pair_value_bf16(u32 v, int e) { return bits_as<float>(e ? v & 0xffff0000u : v << 16); }
inline u32 f16_fma_pair(u32 a, u32 b, u32 c) {
  const auto at = [&](int e) { return fma_to_round(pair_value_f16(a, e), pair_value_f16(b, e), pair_value_f16(c, e)); };
  return f16_pair(at(0), at(1));
}
inline u32 bf16_fma_pair(u32 a, u32 b, u32 c) {
  const auto at = [&](int e) { return fma_to_round(pair_value_bf16(a, e), pair_value_bf16(b, e), pair_value_bf16(c, e)); };
  return bf16_pair(at(0), at(1));
}
inline u32 f16_pair_of_e4m3(u32 two) {
  const auto at = [&](u32 b) {
    const float magnitude = (b & 0x7f) == 0x7f ? NAN : bits_as<float>((b & 0x7f) << 20) * 0x1p120f;
    return b & 0x80 ? -magnitude : magnitude;
  };
  return f16_pair(at(two & 0xff), at(two >> 8 & 0xff));
}
inline u32 __byte_perm(u32 a, u32 b, u32 which) {
  const u64 all = static_cast<u64>(b) << 32 | a;
  u32 r = 0;
  for (int i = 0; i < 4; ++i) r |= static_cast<u32>(all >> 8 * (which >> 4 * i & 7) & 0xff) << 8 * i;
  return r;
}
inline float min_nan(float a, float b) { return a != a || b != b ? NAN : a < b ? a : b; }
inline float max_nan(float a, float b) { return a != a || b != b ? NAN : a > b ? a : b; }

inline float exp2_fast(float x) { return std::exp2(x); }
inline float reciprocal_fast(float x) { return 1.0f / x; }
inline float rsqrt_fast(float x) { return 1.0f / std::sqrt(x); }
// Never part of a multiply-add.
inline float __fmul_rn(float a, float b) {
  volatile float r = a * b;
  return r;
}
inline double __dmul_rn(double a, double b) {
  volatile double r = a * b;
  return r;
}

/// The inverse of erf, which libm lacks: bisection.
inline double erfinv(double y) {
  if (y != y || y < -1 || y > 1) return NAN;
  if (y == 1 || y == -1) return y * INFINITY;
  const double want = std::fabs(y);
  if (want < 1e-8) return y * 0.88622692545275801;  // sqrt(pi) / 2
  double lo = 0, hi = 6;
  for (int i = 0; i < 200 && lo < hi; ++i) {
    const double mid = (lo + hi) / 2;
    const bool below = want < 0.5 ? std::erf(mid) < want : std::erfc(mid) > 1 - want;
    (below ? lo : hi) = mid;
  }
  return std::copysign((lo + hi) / 2, y);
}
inline float erfinvf(float y) { return static_cast<float>(erfinv(static_cast<double>(y))); }

struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  u32 x, y, z, w;
};
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline void load_words_if(u32 (&w)[4], const void* from, bool on) {
  w[0] = w[1] = w[2] = w[3] = 0;
  if (on) memcpy(w, from, sizeof w);
}
template <bool Constant>
void load_words_once(u32 (&w)[4], const void* from) {
  memcpy(w, from, sizeof w);
}
template <bool Streams, int N>
void store_words(void* to, const u32 (&w)[N]) {
  memcpy(to, w, sizeof w);
}

inline void next_step_may_start() {}
inline void prefetch_line(const void*) {}
inline void wait_for_step_before() {}

struct Dim3 {
  unsigned x = 0, y = 0, z = 0;
};
static Dim3 threadIdx, blockIdx, blockDim, gridDim;

#ifndef AOTC_EMULATOR
inline u32 __shfl_xor_sync(u32, u32 v, int) { return v; }
inline u32 __shfl_up_sync(u32, u32 v, int) { return v; }
inline u32 __shfl_sync(u32, u32 v, int) { return v; }
inline void __syncthreads() {}
inline int __syncthreads_or(int v) { return v; }
#endif
