// Device support for generated CUDA kernels: element types, pointwise operators, and block-wide reductions, which are here. Self-contained (NVRTC
// compiles it with no include path).
#pragma once
#include "operators.cuh"

// How the function of a kernel begins whose blocks are no cluster: its name and its one parameter. Kernels that are parts of another one
// (compiler/forms/joined.h) have AOTC_KERNEL defined as AOTC_PART.
#define AOTC_GLOBAL(threads, resident, name) \
  extern "C" __global__ void __launch_bounds__(threads, resident) name(const __grid_constant__ name##_args a)
#define AOTC_PART(threads, resident, name) static __device__ void name(const name##_args& a)
#define AOTC_KERNEL AOTC_GLOBAL

// ---- reductions over a block ------------------------------------------------------------------------------------------------------------
// A reducer has a value type, an identity and an associative combine. Results are the same for every run: the tree is fixed.
template <class T> AOTC_DI T lowest();
template <class T> AOTC_DI T highest();
#define AOTC_LIMITS(T, lo, hi)                       \
  template <> AOTC_DI T lowest<T>() { return lo; }   \
  template <> AOTC_DI T highest<T>() { return hi; }
AOTC_LIMITS(f16, f16(-__int_as_float(0x7f800000)), f16(__int_as_float(0x7f800000)))
AOTC_LIMITS(bf16, bf16(-__int_as_float(0x7f800000)), bf16(__int_as_float(0x7f800000)))
AOTC_LIMITS(float, -__int_as_float(0x7f800000), __int_as_float(0x7f800000))
AOTC_LIMITS(double, -__longlong_as_double(0x7ff0000000000000ll), __longlong_as_double(0x7ff0000000000000ll))
AOTC_LIMITS(i64, static_cast<i64>(0x8000000000000000ull), 0x7fffffffffffffffll)
AOTC_LIMITS(int, static_cast<int>(0x80000000u), 0x7fffffff)
AOTC_LIMITS(short, -32768, 32767)
AOTC_LIMITS(i8, -128, 127)
AOTC_LIMITS(u8, 0, 255)
AOTC_LIMITS(bool, false, true)
#undef AOTC_LIMITS

template <class T> struct ReduceSum {
  typedef T V;
  static AOTC_DI V init() { return V(0); }
  static AOTC_DI V combine(V a, V b) { return op_add(a, b); }
};
template <class T> struct ReduceProd {
  typedef T V;
  static AOTC_DI V init() { return V(1); }
  static AOTC_DI V combine(V a, V b) { return op_mul(a, b); }
};
template <class T> struct ReduceMax {
  typedef T V;
  static AOTC_DI V init() { return lowest<T>(); }
  static AOTC_DI V combine(V a, V b) { return op_maximum(a, b); }
};
template <class T> struct ReduceMin {
  typedef T V;
  static AOTC_DI V init() { return highest<T>(); }
  static AOTC_DI V combine(V a, V b) { return op_minimum(a, b); }
};
template <class T> struct Indexed { T value; i64 index; };
// First index on ties; NaN wins. An index of -1 is the identity.
template <class T, bool Max> struct ReduceArg {
  typedef Indexed<T> V;
  static AOTC_DI V init() { return V{T(0), -1}; }
  static AOTC_DI V combine(V a, V b) {
    if (b.index < 0) return a;
    if (a.index < 0) return b;
    const bool an = op_isnan(a.value), bn = op_isnan(b.value);
    if (an != bn) return an ? a : b;
    const bool a_better = Max ? a.value > b.value : a.value < b.value, b_better = Max ? b.value > a.value : b.value < a.value;
    if (an || (!a_better && !b_better)) return a.index < b.index ? a : b;
    return a_better ? a : b;
  }
};

// Of a scan: the last index on ties; b is later than a.
template <class T, bool Max> struct LastReduceArg {
  typedef Indexed<T> V;
  static AOTC_DI V init() { return V{T(0), -1}; }
  static AOTC_DI V combine(V a, V b) {
    if (b.index < 0) return a;
    if (a.index < 0 || op_isnan(b.value)) return b;
    if (op_isnan(a.value)) return a;
    return (Max ? b.value >= a.value : b.value <= a.value) ? b : a;
  }
};
template <class T> struct ReduceLogSumExp {
  typedef T V;
  typedef typename compute<T>::type C;
  static AOTC_DI V init() { return lowest<T>(); }
  static AOTC_DI V combine(V a, V b) {
    const C x = a, y = b, most = op_maximum(x, y), least = op_minimum(x, y);
    return least == lowest<C>() || most - least != most - least ? V(most + C(0)) : V(most + op_log1p(op_exp(least - most)));  // 0.0 of -0.0
  }
};

// A value of any size as f makes it of each of its 32-bit words.
template <class V, class F> AOTC_DI V by_words(V v, F f) {
  constexpr int words = (sizeof(V) + 3) / 4;
  u32 w[words] = {};
  memcpy(w, &v, sizeof v);
#pragma unroll
  for (int i = 0; i < words; ++i) w[i] = f(w[i]);
  memcpy(&v, w, sizeof v);
  return v;
}
template <class V> AOTC_DI V shuffle_up(V v, int by) {
  return by_words(v, [&](u32 w) { return __shfl_up_sync(0xffffffffu, w, by); });
}
template <class V> AOTC_DI V shuffle_of(V v, int lane) {
  return by_words(v, [&](u32 w) { return __shfl_sync(0xffffffffu, w, lane); });
}
template <class V> AOTC_DI V shuffle_xor(V v, int lane_mask) {
  return by_words(v, [&](u32 w) { return __shfl_xor_sync(0xffffffffu, w, lane_mask); });
}
// All lanes get the result.
template <class R> AOTC_DI typename R::V of_lanes(typename R::V v) {
#pragma unroll
  for (int m = 16; m; m >>= 1) v = R::combine(v, shuffle_xor(v, m));
  return v;
}
template <class T> AOTC_DI void clear(T& x) { x = T(); }
template <class T, int N> AOTC_DI void clear(T (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) clear(x[i]);
}
// v in a warp's first lane, what changes nothing in the others.
template <class R> AOTC_DI typename R::V in_first_lane(typename R::V v) { return (threadIdx.x & 31) == 0 ? v : R::init(); }
// Every thread of the block, of Threads (a power of two, at least 32), gets the result. All threads must call it. Slot: two calls with the
// same reducer and slot need a barrier between them.
template <class R, int Threads, int Slot> AOTC_DI typename R::V block_reduce(typename R::V v) {
  constexpr int warps = Threads / 32;
  v = of_lanes<R>(v);
  if constexpr (warps > 1) {
    __shared__ __align__(16) char raw[warps * sizeof(typename R::V)];
    typename R::V* partial = reinterpret_cast<typename R::V*>(raw);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = v;
    __syncthreads();
    v = partial[threadIdx.x & (warps - 1)];
#pragma unroll
    for (int m = warps / 2; m; m >>= 1) v = R::combine(v, shuffle_xor(v, m));
  }
  return v;
}
// The running reduction of the values of the first n lanes.
template <class R> AOTC_DI typename R::V scan_of_lanes(typename R::V v, int n) {
  for (int by = 1; by < n; by *= 2) {
    const typename R::V earlier = shuffle_up(v, by);
    if ((threadIdx.x & 31) >= by) v = R::combine(earlier, v);
  }
  return v;
}
// The running reduction of the values of the threads before this one after `carry`, which becomes that of all. All threads of the block, of
// Threads, must call it.
template <class R, int Threads, int Slot> AOTC_DI typename R::V block_scan_before(typename R::V& carry, typename R::V v) {
  typedef typename R::V V;
  constexpr int warps = Threads / 32;
  __shared__ __align__(16) char raw[warps * sizeof(V)];
  V* const of_warps = reinterpret_cast<V*>(raw);
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  v = scan_of_lanes<R>(v, 32);
  const V earlier_lanes = shuffle_up(v, 1);
  __syncthreads();  // what was read of an earlier call is read
  if (lane == 31) of_warps[warp] = v;
  __syncthreads();
  const V sums = scan_of_lanes<R>(lane < warps ? of_warps[lane] : R::init(), warps);
  const V earlier = shuffle_of(sums, warp > 0 ? warp - 1 : 0), all = shuffle_of(sums, warps - 1);
  V before = carry;
  if (warp > 0) before = R::combine(before, earlier);
  carry = R::combine(carry, all);
  return lane > 0 ? R::combine(before, earlier_lanes) : before;
}
