#pragma once
// Loads and stores of vectors of every element type: whole and in part, masked, strided, at indices.
#include "vec.h"

namespace {

// ---- memory: one row per element type ---------------------------------------------------------------------------------------------------
template <class T>
struct elem;  // reg: register type; mem: vector of L elements in memory; in, out: conversions
#define AOTC_ELEM(T, R, M, IN, OUT)                                  \
  template <>                                                        \
  struct elem<T> {                                                   \
    typedef R reg;                                                   \
    typedef M mem;                                                   \
    static __attribute__((always_inline)) R in(M x) { return IN; }   \
    static __attribute__((always_inline)) M out(R x) { return OUT; } \
  };
AOTC_ELEM(float, f32v, f32v, x, x)
AOTC_ELEM(double, f64v, f64v, x, x)
AOTC_ELEM(int64_t, i64v, i64v, x, x)
AOTC_ELEM(int32_t, i32v, i32v, x, x)
AOTC_ELEM(int16_t, i32v, i16q, ext32(x), (i16q)cut16(x))
AOTC_ELEM(int8_t, i32v, i8q, ext32(x), (i8q)cut8(x))
AOTC_ELEM(uint8_t, i32v, u8q, ext32(x), cut8(x))
AOTC_ELEM(b8, i32v, u8q, ext32(x) != 0, cut8(-x))
AOTC_ELEM(bf16, f32v, u16q, f32_of_bf16(x), bf16_of_f32(x))
AOTC_ELEM(bf16_as_is, f32v, u16q, f32_of_bf16(x), cut16((i32v)((u32v)x >> 16)))
AOTC_ELEM(f16, f32v, u16q, f32_of_f16(x), f16_of_f32(x))
AOTC_ELEM(e4m3fn, f32v, u8q, f32_of_e4m3fn(ext32(x)), cut8(e4m3fn_bits(x)))
AOTC_ELEM(e5m2, f32v, u8q, f32_of_e5m2(ext32(x)), cut8(e5m2_bits(x)))
#undef AOTC_ELEM
template <class T>
using reg = typename elem<T>::reg;
template <class T>
using mem = typename elem<T>::mem;

/// Whole vectors. Pairs go half by half: compilers copy a struct through memory in pieces that its halves cannot be forwarded from.
template <class M>
AOTC_I void copy_vector(M* to, const void* from) {
  __builtin_memcpy(to, from, sizeof *to);
}
template <class M>
AOTC_I void copy_pair(M* to, const void* from) {
  __builtin_memcpy(&to->lo, from, sizeof to->lo);
  __builtin_memcpy(&to->hi, static_cast<const char*>(from) + sizeof to->lo, sizeof to->hi);
}
AOTC_I void copy_vector(f64v* to, const void* from) { copy_pair(to, from); }
AOTC_I void copy_vector(i64v* to, const void* from) { copy_pair(to, from); }
template <class M>
AOTC_I void put_vector(void* to, const M& from) {
  __builtin_memcpy(to, &from, sizeof from);
}
template <class M>
AOTC_I void put_pair(void* to, const M& from) {
  __builtin_memcpy(to, &from.lo, sizeof from.lo);
  __builtin_memcpy(static_cast<char*>(to) + sizeof from.lo, &from.hi, sizeof from.hi);
}
AOTC_I void put_vector(void* to, const f64v& from) { put_pair(to, from); }
AOTC_I void put_vector(void* to, const i64v& from) { put_pair(to, from); }

template <class T>
AOTC_I reg<T> ld(const T* p, full) {
  mem<T> m;
  copy_vector(&m, p);
  return elem<T>::in(m);
}
template <class T>
AOTC_I void st(T* p, reg<T> x, full) {
  const mem<T> m = elem<T>::out(x);
  put_vector(p, m);
}
/// Past the caches, without reading the line first, where `far` and the address allows it. far_done() orders such stores before what other
/// threads are told next.
template <class T>
AOTC_I void st_far(T* p, reg<T> x, full w, bool far) {
  if constexpr (sizeof(mem<T>) >= 4 * AOTC_L) {
    typedef long long block __attribute__((vector_size(4 * AOTC_L)));
    if (far && (reinterpret_cast<uintptr_t>(p) & (sizeof(block) - 1)) == 0) {
      const mem<T> m = elem<T>::out(x);
      block b[sizeof m / sizeof(block)];
      __builtin_memcpy(b, &m, sizeof m);
      for (unsigned i = 0; i < sizeof m / sizeof(block); ++i)
#if defined(__clang__)
        __builtin_nontemporal_store(b[i], reinterpret_cast<block*>(p) + i);
#elif AOTC_L == 16
        __builtin_ia32_movntdq512(reinterpret_cast<block*>(p) + i, b[i]);
#else
        __builtin_ia32_movntdq256(reinterpret_cast<block*>(p) + i, b[i]);
#endif
      return;
    }
  }
  st(p, x, w);
}
/// Elements from p to the next address that st_far takes.
template <class T>
AOTC_I int64_t lanes_to_far(const T* p) {
  return static_cast<int64_t>((-reinterpret_cast<uintptr_t>(p) & (4 * AOTC_L - 1)) / sizeof(T));
}
AOTC_I void far_done() { __builtin_ia32_sfence(); }
/// Asks for the line at p, which may lie beyond the end of what there is, into the second cache.
AOTC_I void ahead(const void* p) { __builtin_prefetch(p, 0, 2); }
/// Lanes one by one: the way of last resort, right for every type.
template <class T>
AOTC_I reg<T> ld_lanes(const T* p, i32v m) {
  mem<T> t{};
  T* q = (T*)&t;
  for (int l = 0; l < AOTC_L; ++l)
    if (m[l]) q[l] = p[l];
  return elem<T>::in(t);
}
template <class T>
AOTC_I void st_lanes(T* p, reg<T> x, i32v m) {
  const mem<T> t = elem<T>::out(x);
  const T* q = (const T*)&t;
  for (int l = 0; l < AOTC_L; ++l)
    if (m[l]) p[l] = q[l];
}
/// Only lanes with a set mask touch memory; the others read as zero.
template <class T>
AOTC_I reg<T> ld_mask(const T* p, i32v m) {
  return ld_lanes(p, m);
}
template <class T>
AOTC_I void st_mask(T* p, reg<T> x, i32v m) {
  st_lanes(p, x, m);
}
template <class T>
AOTC_I reg<T> ld(const T* p, part w) {
  mem<T> t{};
  T* q = (T*)&t;
  for (int l = 0; l < w.n; ++l) q[l] = p[l];
  return elem<T>::in(t);
}
template <class T>
AOTC_I void st(T* p, reg<T> x, part w) {
  const mem<T> t = elem<T>::out(x);
  const T* q = (const T*)&t;
  for (int l = 0; l < w.n; ++l) p[l] = q[l];
}
template <class T>
AOTC_I void st_far(T* p, reg<T> x, part w, bool) {
  st(p, x, w);
}
#if !defined(__clang__) && AOTC_L == 16
AOTC_I uint16_t kmask(part w) { return static_cast<uint16_t>((1u << w.n) - 1); }
/// What a masked load gives, as a whole: where only lanes are used that a constant mask sets (the lower half of a vector that is widened),
/// GCC would read all lanes, those past the end too.
template <class V>
AOTC_I V whole(V x) {
  asm("" : "+v"(x));
  return x;
}
AOTC_I f32v ld_mask(const float* p, i32v m) { return __builtin_ia32_loadups512_mask(p, f32v{}, kmask(m)); }
AOTC_I void st_mask(float* p, f32v x, i32v m) { __builtin_ia32_storeups512_mask(p, x, kmask(m)); }
AOTC_I i32v ld_mask(const int32_t* p, i32v m) { return __builtin_ia32_loaddqusi512_mask(p, i32v{}, kmask(m)); }
AOTC_I void st_mask(int32_t* p, i32v x, i32v m) { __builtin_ia32_storedqusi512_mask(p, x, kmask(m)); }
AOTC_I f32v ld(const float* p, part w) { return whole(__builtin_ia32_loadups512_mask(p, f32v{}, kmask(w))); }
AOTC_I void st(float* p, f32v x, part w) {
  if (__builtin_constant_p(w.n) && (w.n == 4 || w.n == 8))  // a store of its own size takes less than a masked one
    __builtin_memcpy(p, &x, w.n * sizeof(float));
  else
    __builtin_ia32_storeups512_mask(p, x, kmask(w));
}
AOTC_I i32v ld(const int32_t* p, part w) { return whole((i32v)__builtin_ia32_loaddqusi512_mask(p, i32v{}, kmask(w))); }
AOTC_I void st(int32_t* p, i32v x, part w) { __builtin_ia32_storedqusi512_mask(p, x, kmask(w)); }
AOTC_I f64v ld(const double* p, part w) {
  const int k = kmask(w);
  return {whole(__builtin_ia32_loadupd512_mask(p, f64h{}, static_cast<uint8_t>(k))),
          whole(__builtin_ia32_loadupd512_mask(p + 8, f64h{}, static_cast<uint8_t>(k >> 8)))};
}
AOTC_I void st(double* p, f64v x, part w) {
  const int k = kmask(w);
  __builtin_ia32_storeupd512_mask(p, x.lo, static_cast<uint8_t>(k));
  __builtin_ia32_storeupd512_mask(p + 8, x.hi, static_cast<uint8_t>(k >> 8));
}
AOTC_I i64v ld(const int64_t* p, part w) {
  const f64v x = ld((const double*)p, w);
  return {(i64h)x.lo, (i64h)x.hi};
}
AOTC_I void st(int64_t* p, i64v x, part w) { st((double*)p, f64v{(f64h)x.lo, (f64h)x.hi}, w); }
AOTC_I f32v ld(const bf16* p, part w) {
  return f32_of_bf16(whole((u16q)__builtin_ia32_loaddquhi256_mask((const short*)p, i16q{}, kmask(w))));
}
AOTC_I void st(bf16* p, f32v x, part w) { __builtin_ia32_storedquhi256_mask((short*)p, (i16q)bf16_of_f32(x), kmask(w)); }
AOTC_I void st(bf16_as_is* p, f32v x, part w) { __builtin_ia32_storedquhi256_mask((short*)p, (i16q)elem<bf16_as_is>::out(x), kmask(w)); }
AOTC_I f32v ld(const f16* p, part w) {
  return f32_of_f16(whole((u16q)__builtin_ia32_loaddquhi256_mask((const short*)p, i16q{}, kmask(w))));
}
AOTC_I void st(f16* p, f32v x, part w) { __builtin_ia32_storedquhi256_mask((short*)p, (i16q)f16_of_f32(x), kmask(w)); }
AOTC_I i32v ld(const uint8_t* p, part w) { return ext32(whole((u8q)__builtin_ia32_loaddquqi128_mask((const char*)p, c16{}, kmask(w)))); }
AOTC_I void st(uint8_t* p, i32v x, part w) { __builtin_ia32_storedquqi128_mask((char*)p, (c16)cut8(x), kmask(w)); }
AOTC_I i32v ld(const int8_t* p, part w) { return ext32(whole((i8q)__builtin_ia32_loaddquqi128_mask((const char*)p, c16{}, kmask(w)))); }
AOTC_I void st(int8_t* p, i32v x, part w) { __builtin_ia32_storedquqi128_mask((char*)p, (c16)cut8(x), kmask(w)); }
#elif !defined(__clang__)
AOTC_I f32v ld_mask(const float* p, i32v m) { return __builtin_ia32_maskloadps256((const f32v*)p, m); }
AOTC_I void st_mask(float* p, f32v x, i32v m) { __builtin_ia32_maskstoreps256((f32v*)p, m, x); }
AOTC_I i32v ld_mask(const int32_t* p, i32v m) { return __builtin_ia32_maskloadd256((const i32v*)p, m); }
AOTC_I void st_mask(int32_t* p, i32v x, i32v m) { __builtin_ia32_maskstored256((i32v*)p, m, x); }
AOTC_I f32v ld(const float* p, part w) { return ld_mask(p, alive(w)); }
AOTC_I void st(float* p, f32v x, part w) { st_mask(p, x, alive(w)); }
AOTC_I i32v ld(const int32_t* p, part w) { return ld_mask(p, alive(w)); }
AOTC_I void st(int32_t* p, i32v x, part w) { st_mask(p, x, alive(w)); }
typedef long long m64h AOTC_VEC(AOTC_L * 4);
/// Which of the four lanes from `first` on are live.
AOTC_I m64h alive64(part w, int first) {
  const m64h lanes = {0, 1, 2, 3};
  return lanes + first < m64h{} + w.n;
}
AOTC_I f64v ld(const double* p, part w) {
  return {__builtin_ia32_maskloadpd256((const f64h*)p, alive64(w, 0)), __builtin_ia32_maskloadpd256((const f64h*)(p + 4), alive64(w, 4))};
}
AOTC_I void st(double* p, f64v x, part w) {
  __builtin_ia32_maskstorepd256((f64h*)p, alive64(w, 0), x.lo);
  __builtin_ia32_maskstorepd256((f64h*)(p + 4), alive64(w, 4), x.hi);
}
AOTC_I i64v ld(const int64_t* p, part w) {
  const f64v x = ld((const double*)p, w);
  return {(i64h)x.lo, (i64h)x.hi};
}
AOTC_I void st(int64_t* p, i64v x, part w) { st((double*)p, f64v{(f64h)x.lo, (f64h)x.hi}, w); }
#endif

/// One element in all lanes.
AOTC_I f32v ld1(const float* p) { return kf(*p); }
AOTC_I f64v ld1(const double* p) { return kd(*p); }
AOTC_I i64v ld1(const int64_t* p) { return kl(*p); }
AOTC_I i32v ld1(const int32_t* p) { return ki(*p); }
AOTC_I i32v ld1(const int16_t* p) { return ki(*p); }
AOTC_I i32v ld1(const int8_t* p) { return ki(*p); }
AOTC_I i32v ld1(const uint8_t* p) { return ki(*p); }
AOTC_I i32v ld1(const b8* p) { return kb(p->value != 0); }
/// One number first, then its copies: GCC 12 and 13 crash on halves of a vector of copies whose type was changed.
AOTC_I f32v ld1(const bf16* p) {
  const uint32_t bits = static_cast<uint32_t>(p->bits) << 16;
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return kf(x);
}
AOTC_I f32v ld1(const e4m3fn* p) { return f32_of_e4m3fn(ki(p->bits)); }
AOTC_I f32v ld1(const e5m2* p) { return f32_of_e5m2(ki(p->bits)); }
AOTC_I f32v ld1(const f16* p) { return f32_of_f16(p->bits - u16q{}); }
/// Lane 0.
template <class T>
AOTC_I void st1(T* p, reg<T> x) {
  const mem<T> m = elem<T>::out(x);
  __builtin_memcpy(p, &m, sizeof(T));
}

AOTC_I f32v reversed(f32v x) { return AOTC_REVERSED(x); }
AOTC_I i32v reversed(i32v x) { return AOTC_REVERSED(x); }
/// p[0], p[-1], p[-2] ...
template <class T>
AOTC_I reg<T> ld_back(const T* p, full) {
  mem<T> t;
  if constexpr (sizeof(T) <= 4) {
    __builtin_memcpy(&t, p - (AOTC_L - 1), sizeof t);
    t = AOTC_REVERSED(t);
  } else {
    T* q = (T*)&t;
    for (int l = 0; l < AOTC_L; ++l) q[l] = p[-l];
  }
  return elem<T>::in(t);
}
AOTC_I f32v ld_back(const float* p, full) { return reversed(ld(p - (AOTC_L - 1), full())); }
template <class T>
AOTC_I reg<T> ld_back(const T* p, part w) {
  mem<T> t{};
  T* q = (T*)&t;
  for (int l = 0; l < w.n; ++l) q[l] = p[-l];
  return elem<T>::in(t);
}
/// Lanes f(0), f(1) ... put together in registers: what is stored lane by lane has to reach the cache before it is loaded whole.
template <class V, class F>
AOTC_I V together(F f) {
#if AOTC_L == 16
  return V{f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)};
#else
  return V{f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)};
#endif
}

/// Elements p[at(l)] of live lanes l; where a mask is given, of those that it sets (the others read as zero).
template <class T, class At>
AOTC_I reg<T> gather(const T* p, full, At at) {
  mem<T> t;
  if constexpr (sizeof(T) == 4) {  // wider ones are put together no faster than they wait
    t = together<mem<T>>([&](int l) __attribute__((always_inline)) { return p[at(l)]; });
  } else {
    T* q = (T*)&t;
    for (int l = 0; l < AOTC_L; ++l) q[l] = p[at(l)];
  }
  return elem<T>::in(t);
}
template <class T, class At>
AOTC_I reg<T> gather(const T* p, part w, At at) {
  mem<T> t{};
  T* q = (T*)&t;
  for (int l = 0; l < w.n; ++l) q[l] = p[at(l)];
  return elem<T>::in(t);
}
template <class T, class W, class At>
AOTC_I reg<T> gather(const T* p, W w, i32v m, At at) {
  mem<T> t{};
  T* q = (T*)&t;
  m &= alive(w);
  for (int l = 0; l < AOTC_L; ++l)
    if (m[l]) q[l] = p[at(l)];
  return elem<T>::in(t);
}
template <class T, class At>
AOTC_I void scatter(T* p, reg<T> x, full, At at) {
  const mem<T> t = elem<T>::out(x);
  const T* q = (const T*)&t;
#pragma GCC unroll 16
  for (int l = 0; l < AOTC_L; ++l) p[at(l)] = q[l];
}
template <class T, class At>
AOTC_I void scatter(T* p, reg<T> x, part w, At at) {
  const mem<T> t = elem<T>::out(x);
  const T* q = (const T*)&t;
  for (int l = 0; l < w.n; ++l) p[at(l)] = q[l];
}
template <class T, class W, class At>
AOTC_I void scatter(T* p, reg<T> x, W w, i32v m, At at) {
  const mem<T> t = elem<T>::out(x);
  const T* q = (const T*)&t;
  m &= alive(w);
  for (int l = 0; l < AOTC_L; ++l)
    if (m[l]) p[at(l)] = q[l];
}
/// Live lanes to p[0], p[stride], p[2 * stride] ...; where a mask is given, those that it sets.
template <class T, class W>
AOTC_I void st_strided(T* p, reg<T> x, W w, int64_t stride) {
  scatter(p, x, w, [&](int l) { return l * stride; });
}
template <class T, class W>
AOTC_I void st_strided(T* p, reg<T> x, W w, i32v m, int64_t stride) {
  scatter(p, x, w, m, [&](int l) { return l * stride; });
}
#if AOTC_L == 16 && !defined(__clang__)
/// A channel of pixels of three: each byte shuffled to its place in 48, between which nothing is written.
AOTC_I void st_strided(uint8_t* p, i32v x, full w, int64_t stride) {
  if (stride != 3) return scatter(p, x, w, [&](int l) { return l * stride; });
  const c16 q = (c16)cut8(x);
  const c16 first = {0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5};
  const c16 second = {-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1};
  const c16 third = {-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1};
  __builtin_ia32_storedquqi128_mask((char*)p, __builtin_ia32_pshufb128(q, first), 0x9249);
  __builtin_ia32_storedquqi128_mask((char*)p + 16, __builtin_ia32_pshufb128(q, second), 0x4924);
  __builtin_ia32_storedquqi128_mask((char*)p + 32, __builtin_ia32_pshufb128(q, third), 0x2492);
}
/// p[0], p[2], p[4] ... of the lanes in m by one or two loads (the others read as zero); what lies between is not read.
template <class T>
AOTC_I reg<T> ld_evens(const T* p, uint16_t m) {
  static_assert(sizeof(T) == 2, "16 bits");
  typedef short i16d __attribute__((vector_size(64)));
  const i32v pairs = whole((i32v)__builtin_ia32_loaddquhi512_mask((const short*)p, i16d{}, __builtin_ia32_pdep_si(m, 0x55555555u)));
  return elem<T>::in((mem<T>)cut16(pairs));
}
AOTC_I f32v ld_evens(const float* p, uint16_t m) {
  const auto low = static_cast<uint16_t>(__builtin_ia32_pdep_si(m & 0xffu, 0x5555u)),
             high = static_cast<uint16_t>(__builtin_ia32_pdep_si(m >> 8, 0xaaaau));
  const f32v a = whole(__builtin_ia32_loadups512_mask(p, f32v{}, low)),
             b = whole(__builtin_ia32_loadups512_mask(p + AOTC_L - 1, f32v{}, high));
  return AOTC_EVENS(a, b);
}
#define AOTC_LD_EVENS 1
/// Bytes that lie 2, 3 or 4 apart, by one load: those of each quarter of 16 are shuffled to their lanes.
AOTC_I u8q ld_bytes_apart(const void* p, int stride) {
  typedef char bytes __attribute__((vector_size(64)));
  typedef long long quarter __attribute__((vector_size(16)));
  const auto all = (i64h)__builtin_ia32_loaddquqi512_mask((const char*)p, bytes{}, (2ull << (15 * stride)) - 1);
  u8q r = {};
#pragma GCC unroll 4
  for (int k = 0; k < stride; ++k) {
    c16 to = {};
#pragma GCC unroll 16
    for (int l = 0; l < 16; ++l) to[l] = static_cast<char>(l * stride / 16 == k ? l * stride % 16 : -1);
    r |= (u8q)__builtin_ia32_pshufb128((c16)quarter{all[2 * k], all[2 * k + 1]}, to);
  }
  return r;
}
#else
#define AOTC_LD_EVENS 0
#endif
/// p[0], p[stride], p[2 * stride] ... of live lanes; where a mask is given, of those that it sets (the others read as zero).
template <class T, class W>
AOTC_I reg<T> ld_strided(const T* p, int64_t stride, W w) {
#if AOTC_LD_EVENS
  if constexpr (sizeof(T) == 2 && sizeof(W) != sizeof(full)) {
    if (stride == 2) return ld_evens(p, kmask(w));
  }
#endif
  if constexpr (sizeof(T) == 2 && sizeof(W) == sizeof(full)) {
    if (stride == 2) {  // two loads, the second one short of the end
      mem<T> a, b;
      __builtin_memcpy(&a, p, sizeof a), __builtin_memcpy(&b, p + AOTC_L - 1, sizeof b);
      return elem<T>::in(AOTC_EVENS(a, b));
    }
  }
#if AOTC_LD_EVENS
  if constexpr (sizeof(T) == 1 && sizeof(W) == sizeof(full)) {
    if (stride == 2 || stride == 3 || stride == 4) return elem<T>::in((mem<T>)ld_bytes_apart(p, static_cast<int>(stride)));
  }
#endif
  return gather(p, w, [&](int l) { return l * stride; });
}
template <class T, class W>
AOTC_I reg<T> ld_strided(const T* p, int64_t stride, W w, i32v m) {
#if AOTC_LD_EVENS
  if constexpr (sizeof(T) == 2) {
    if (stride == 2) return ld_evens(p, kmask(m & alive(w)));
  }
#endif
  return gather(p, w, m, [&](int l) { return l * stride; });
}
#if !defined(__clang__)
// The machine's gather where 32-bit offsets do. Stride 2 of whole vectors: two loads, the second one short of the end.
AOTC_I bool near(int64_t stride) { return stride > -(1 << 24) && stride < (1 << 24); }
AOTC_I f32v gather32(const float* p, i32v offset, i32v m) {
#if AOTC_L == 16
  return __builtin_ia32_gathersiv16sf(f32v{}, p, offset, kmask(m), 4);
#else
  return __builtin_ia32_gathersiv8sf(f32v{}, p, offset, (f32v)m, 4);
#endif
}
AOTC_I f32v ld_strided(const float* p, int64_t stride, full w) {
  if (stride == 2) {
    const f32v a = ld(p, w), b = ld(p + AOTC_L - 1, w);
    return AOTC_EVENS(a, b);
  }
  return gather(p, w, [&](int l) { return l * stride; });
}
AOTC_I f32v ld_strided(const float* p, int64_t stride, part w) {
#if AOTC_LD_EVENS
  if (stride == 2) return ld_evens(p, kmask(w));
#endif
  if (near(stride)) return gather32(p, iota32() * static_cast<int32_t>(stride), alive(w));
  return gather(p, w, [&](int l) { return l * stride; });
}
AOTC_I f32v ld_strided(const float* p, int64_t stride, full w, i32v m) {
  if (!any(~m)) return ld_strided(p, stride, w);
#if AOTC_LD_EVENS
  if (stride == 2) return ld_evens(p, kmask(m));
#endif
  if (near(stride)) return gather32(p, iota32() * static_cast<int32_t>(stride), m);
  return gather(p, w, m, [&](int l) { return l * stride; });
}
AOTC_I f32v ld_strided(const float* p, int64_t stride, part w, i32v m) {
#if AOTC_LD_EVENS
  if (stride == 2) return ld_evens(p, kmask(m & alive(w)));
#endif
  if (near(stride)) return gather32(p, iota32() * static_cast<int32_t>(stride), m & alive(w));
  return gather(p, w, m, [&](int l) { return l * stride; });
}
#endif
/// p[offset] of each lane.
template <class W>
AOTC_I f32v gather_near(const float* p, i32v offset, W w) {
#if !defined(__clang__)
  // Neighbours in order, as resampling reads them: one load or two of what lies between the first and the last.
  if constexpr (sizeof(W) == sizeof(full)) {
    const int32_t first = offset[0], last = offset[AOTC_L - 1], behind = last - first;
    if (const i32v from = offset - first; static_cast<uint32_t>(behind) < 2 * AOTC_L && !any((from < 0) | (from > behind))) {
      const f32v low = ld_mask(p + first, iota32() <= behind);
      if (behind < AOTC_L) return __builtin_shuffle(low, from);
      return __builtin_shuffle(low, ld_mask(p + first + AOTC_L, iota32() <= behind - AOTC_L), from);
    }
  }
  return gather32(p, offset, alive(w));
#else
  return gather(p, w, [&](int l) { return offset[l]; });
#endif
}
template <class T, class W>
AOTC_I reg<T> gather_at(const T* p, i32v offset, W w) {
#if !defined(__clang__) && AOTC_L == 16
  if constexpr (sizeof(mem<T>) == 8 * AOTC_L && sizeof(W) == sizeof(full)) {
    typedef long long half __attribute__((vector_size(64)));
    typedef int near __attribute__((vector_size(32)));
    const near lo = AOTC_LANES_LO(offset), hi = AOTC_LANES_HI(offset);
    const half all[2] = {__builtin_ia32_gathersiv8di(half{}, p, lo, 255, 8), __builtin_ia32_gathersiv8di(half{}, p, hi, 255, 8)};
    mem<T> t;
    copy_vector(&t, all);
    return elem<T>::in(t);
  }
#endif
  return gather(p, w, [&](int l) { return offset[l]; });
}
/// Lanes from the first N elements of p, all of which exist.
template <int N, class T, class W>
AOTC_I reg<T> pick(const T* p, i32v place, W w) {
#if !defined(__clang__)
  if constexpr (sizeof(mem<T>) == 4 * AOTC_L && N <= AOTC_L) {
    return elem<T>::in(__builtin_shuffle(elem<T>::out(ld(p, part{N})), place));
#if AOTC_L == 16
  } else if constexpr (sizeof(mem<T>) == 8 * AOTC_L && N <= AOTC_L) {
    const reg<T> x = ld(p, part{N});
    const i64v at = to_i64(place);
    if constexpr (N <= AOTC_L / 2) return reg<T>{__builtin_shuffle(x.lo, at.lo), __builtin_shuffle(x.lo, at.hi)};
    return reg<T>{__builtin_shuffle(x.lo, x.hi, at.lo), __builtin_shuffle(x.lo, x.hi, at.hi)};
#endif
  }
#endif
  return gather_at(p, place, w);
}
/// Only of lanes with a set mask, which are among those of w; the others are zero.
template <class W>
AOTC_I f32v gather_near(const float* p, i32v offset, i32v m, W w) {
#if !defined(__clang__)
  return gather32(p, offset, m & alive(w));
#else
  return gather(p, w, m, [&](int l) { return offset[l]; });
#endif
}
template <class T, class W>
AOTC_I reg<T> gather_at(const T* p, i32v offset, i32v m, W w) {
  return gather(p, w, m, [&](int l) { return offset[l]; });
}
template <class At>
AOTC_I i64v lanes64(At at) {
  i64v r;
  int64_t* q = (int64_t*)&r;
  for (int l = 0; l < AOTC_L; ++l) q[l] = at(l);
  return r;
}
AOTC_I int64_t first(i64v x) { return x.lo[0]; }
AOTC_I bool first(i32v x) { return x[0] != 0; }
AOTC_I void unpack(i64v x, int64_t* p) { put_vector(p, x); }

}  // namespace
