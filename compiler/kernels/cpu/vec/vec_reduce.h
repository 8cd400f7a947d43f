#pragma once
// Accumulators of reductions and scans. r_<kind><V>: add() takes one vector (its live lanes), merge() another accumulator, across()
// combines the lanes and gives the result in all of them, lanes() the result lane by lane (lanes that run along an outer loop). Of two
// numbers that are as good (zeros of both signs, NaN), which one stays depends on the order; it has to be the same for AOTC_SAME_BITS, too.
#include "vec_math_libm.h"

namespace {

template <class V>
struct lane_type;
template <>
struct lane_type<f32v> {
  typedef float type;
};
template <>
struct lane_type<f64v> {
  typedef double type;
};
template <>
struct lane_type<i32v> {
  typedef int32_t type;
};
template <>
struct lane_type<i64v> {
  typedef int64_t type;
};
AOTC_I f32v splat(float x) { return kf(x); }
AOTC_I f64v splat(double x) { return kd(x); }
AOTC_I i32v splat(int32_t x) { return ki(x); }
AOTC_I i64v splat(int64_t x) { return kl(x); }

// across_with: all lanes combined pairwise by f, the result in every lane.
#if AOTC_L == 16
template <class V, class F>
AOTC_I V across_32(V v, F f) {
  v = f(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
#if defined(AOTC_SAME_BITS)
  v = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7);
#endif
  v = f(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  return f(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
}
template <class V, class H, class F>
AOTC_I V across_64(V v, F f) {
  v = f(v, V{v.hi, v.lo});
#if defined(AOTC_SAME_BITS)
  v.hi = v.lo;
#endif
  const H a = __builtin_shufflevector(v.lo, v.lo, 4, 5, 6, 7, 0, 1, 2, 3);
  v = f(v, V{a, a});
  const H b = __builtin_shufflevector(v.lo, v.lo, 2, 3, 0, 1, 6, 7, 4, 5);
  v = f(v, V{b, b});
  const H c = __builtin_shufflevector(v.lo, v.lo, 1, 0, 3, 2, 5, 4, 7, 6);
  return f(v, V{c, c});
}
#else
template <class V, class F>
AOTC_I V across_32(V v, F f) {
  v = f(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = f(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
  return f(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
}
template <class V, class H, class F>
AOTC_I V across_64(V v, F f) {
  v = f(v, V{v.hi, v.lo});
  const H a = __builtin_shufflevector(v.lo, v.lo, 2, 3, 0, 1);
  v = f(v, V{a, a});
  const H b = __builtin_shufflevector(v.lo, v.lo, 1, 0, 3, 2);
  return f(v, V{b, b});
}
#endif
template <class F>
AOTC_I f32v across_with(f32v v, F f) {
  return across_32(v, f);
}
template <class F>
AOTC_I i32v across_with(i32v v, F f) {
  return across_32(v, f);
}
template <class F>
AOTC_I f64v across_with(f64v v, F f) {
  return across_64<f64v, f64h>(v, f);
}
template <class F>
AOTC_I i64v across_with(i64v v, F f) {
  return across_64<i64v, i64h>(v, f);
}

/// All of a nest's accumulators in one: set after set, then the vectors of a set.
template <class R, int N>
AOTC_I R& merged(R (&r)[N]) {
#pragma GCC unroll 8
  for (int u = AOTC_SUM_VECTORS; u < N; ++u) r[u % AOTC_SUM_VECTORS].merge(r[u]);
#if AOTC_SUM_VECTORS == 2
  r[0].merge(r[1]);
#endif
  return r[0];
}
/// Adds the sums of a piece to those of the whole, and begins the next one.
template <class R, int N>
AOTC_I void add_piece(R (&r)[N], R (&piece)[N]) {
#pragma GCC unroll 8
  for (int u = 0; u < N; ++u) r[u].merge(piece[u]), piece[u] = {};
}

template <class V>
struct r_sum {
  V a = like(V(), 0);
  template <class W>
  AOTC_I_MEMBER void add(W w, V x) {
    a = v_add(a, keep(w, x, like(x, 0)));
  }
  AOTC_I_MEMBER void merge(const r_sum& o) { a = v_add(a, o.a); }
  AOTC_I_MEMBER V across() const {
    return across_with(a, [](V x, V y) AOTC_I_MEMBER -> V { return v_add(x, y); });
  }
  AOTC_I_MEMBER V lanes() const { return a; }
};
template <class V>
struct r_prod {
  V a = like(V(), 1);
  template <class W>
  AOTC_I_MEMBER void add(W w, V x) {
    a = v_mul(a, keep(w, x, like(x, 1)));
  }
  AOTC_I_MEMBER void merge(const r_prod& o) { a = v_mul(a, o.a); }
  AOTC_I_MEMBER V across() const {
    return across_with(a, [](V x, V y) AOTC_I_MEMBER -> V { return v_mul(x, y); });
  }
  AOTC_I_MEMBER V lanes() const { return a; }
};

AOTC_I f32v lowest(f32v) { return kf(-__builtin_inff()); }
AOTC_I f64v lowest(f64v) { return kd(-__builtin_inf()); }
AOTC_I i32v lowest(i32v) { return ki(INT32_MIN); }
AOTC_I i64v lowest(i64v) { return kl(INT64_MIN); }
AOTC_I f32v highest(f32v) { return kf(__builtin_inff()); }
AOTC_I f64v highest(f64v) { return kd(__builtin_inf()); }
AOTC_I i32v highest(i32v) { return ki(INT32_MAX); }
AOTC_I i64v highest(i64v) { return kl(INT64_MAX); }
/// The running extreme `a` once it has seen x; a NaN stays.
template <class V>
AOTC_I V grow(V a, V x) {
  return sel(v_ne(x, x), x, sel(v_gt(x, a), x, a));
}
AOTC_I f32v grow(f32v a, f32v x) { return x != x ? x : greatest_or_b(x, a); }
AOTC_I i32v grow(i32v a, i32v x) { return x > a ? x : a; }
template <class V>
AOTC_I V shrink(V a, V x) {
  return sel(v_ne(x, x), x, sel(v_lt(x, a), x, a));
}
AOTC_I f32v shrink(f32v a, f32v x) { return x != x ? x : least_or_b(x, a); }
AOTC_I i32v shrink(i32v a, i32v x) { return x < a ? x : a; }
#define AOTC_EXTREME(name, step, start)                                              \
  template <class V>                                                                 \
  struct name {                                                                      \
    V a = start(V());                                                                \
    template <class W>                                                               \
    AOTC_I_MEMBER void add(W w, V x) {                                               \
      a = step(a, keep(w, x, start(x)));                                             \
    }                                                                                \
    AOTC_I_MEMBER void merge(const name& o) { a = step(a, o.a); }                    \
    AOTC_I_MEMBER V across() const {                                                 \
      return across_with(a, [](V x, V y) AOTC_I_MEMBER -> V { return step(x, y); }); \
    }                                                                                \
    AOTC_I_MEMBER V lanes() const { return a; }                                      \
  };
AOTC_EXTREME(r_max, grow, lowest)
AOTC_EXTREME(r_min, shrink, highest)
#undef AOTC_EXTREME

// Index of the extreme: the first on ties, NaN wins. I: vectors of indices, i32v where they fit. Nothing but the start's own value leaves
// the index at none, which stands for the first point.
AOTC_I i32v no_index(i32v) { return ki(INT32_MAX); }
AOTC_I i64v no_index(i64v) { return kl(INT64_MAX); }
AOTC_I i64v as_index(i32v x) { return to_i64(x); }
AOTC_I i64v as_index(i64v x) { return x; }
#define AOTC_ARG(name, step, start, cmp)                                                                                  \
  template <class V, class I>                                                                                             \
  struct name {                                                                                                           \
    V a = start(V());                                                                                                     \
    I at = no_index(I());                                                                                                 \
    AOTC_I_MEMBER void take(i32v m, V x, I i) {                                                                           \
      a = sel(m, x, a);                                                                                                   \
      at = sel(m, i, at);                                                                                                 \
    }                                                                                                                     \
    template <class W>                                                                                                    \
    AOTC_I_MEMBER void add(W w, V x, I i) {                                                                               \
      take((cmp(x, a) | (v_ne(x, x) & v_eq(a, a))) & alive(w), x, i);                                                     \
    }                                                                                                                     \
    AOTC_I_MEMBER void merge(const name& o) {                                                                             \
      const i32v tie = v_eq(o.a, a) | (v_ne(o.a, o.a) & v_ne(a, a));                                                      \
      take(cmp(o.a, a) | (v_ne(o.a, o.a) & v_eq(a, a)) | (tie & v_lt(o.at, at)), o.a, o.at);                              \
    }                                                                                                                     \
    AOTC_I_MEMBER i64v across() const {                                                                                   \
      const V best = across_with(a, [](V x, V y) AOTC_I_MEMBER -> V { return step(x, y); });                              \
      const i32v hit = v_eq(a, best) | (v_ne(a, a) & v_ne(best, best));                                                   \
      const I least = across_with(sel(hit, at, no_index(I())), [](I x, I y) AOTC_I_MEMBER -> I { return shrink(x, y); }); \
      return as_index(sel(v_eq(least, no_index(I())), like(I(), 0), least));                                              \
    }                                                                                                                     \
    AOTC_I_MEMBER i64v lanes() const { return as_index(sel(v_eq(at, no_index(I())), like(I(), 0), at)); }                 \
  };
AOTC_ARG(r_argmax, grow, lowest, v_gt)
AOTC_ARG(r_argmin, shrink, highest, v_lt)
#undef AOTC_ARG

// ---- scans: add() takes one point per lane (lanes along another loop), along() the points of one vector in order. f32 sums and
// products run in f64, as PyTorch's do.
template <class V>
struct scan_type {
  typedef V type;
};
template <>
struct scan_type<f32v> {
  typedef f64v type;
};
AOTC_I f64v scan_in(f32v x) { return to_f64(x); }
AOTC_I f64v scan_in(f64v x) { return x; }
AOTC_I i32v scan_in(i32v x) { return x; }
AOTC_I i64v scan_in(i64v x) { return x; }
AOTC_I void scan_out(f64v x, f32v* y) { *y = to_f32(x); }
template <class V>
AOTC_I void scan_out(V x, V* y) {
  *y = x;
}
template <class V>
AOTC_I V lane_splat(V x, int l) {
  typename lane_type<V>::type t[AOTC_L];
  __builtin_memcpy(t, &x, sizeof t);
  return splat(t[l]);
}
// Lanes moved up by D, those of `in`, which are alike, before them.
constexpr int up_all(int lane, int d) { return AOTC_L - d + lane; }
constexpr int up_half(int lane, int d) { return AOTC_L / 2 - d + lane; }
template <int D>
AOTC_I i32v moved_up(i32v in, i32v x) {
  return __builtin_shufflevector(in, x, AOTC_LANES(up_all, D));
}
template <int D, class V>
AOTC_I V moved_up(V in, V x) {
  if constexpr (D == AOTC_L / 2)
    return {in.lo, x.lo};
  else
    return {__builtin_shufflevector(in.lo, x.lo, AOTC_HALF_LANES(up_half, D)),
            __builtin_shufflevector(x.lo, x.hi, AOTC_HALF_LANES(up_half, D))};
}
/// Whether scans of V go by halves of a vector, as by the vectors of eight lanes that other machines have.
template <class V>
constexpr bool by_halves = false;
#if AOTC_L == 16 && defined(AOTC_SAME_BITS)
template <>
constexpr bool by_halves<f64v> = true;
template <int D>
AOTC_I f64v moved_up_in_halves(f64v in, f64v x) {
  return {__builtin_shufflevector(in.lo, x.lo, AOTC_HALF_LANES(up_half, D)),
          __builtin_shufflevector(in.lo, x.hi, AOTC_HALF_LANES(up_half, D))};
}
/// Each lane with all before it in its half.
template <class F>
AOTC_I f64v through(f64v x, f64v none, F step) {
  x = step(moved_up_in_halves<1>(none, x), x);
  x = step(moved_up_in_halves<2>(none, x), x);
  return step(moved_up_in_halves<4>(none, x), x);
}
#endif
/// Each lane with all before it; `none` changes nothing.
template <class V, class F>
AOTC_I V through(V x, V none, F step) {
  x = step(moved_up<1>(none, x), x);
  x = step(moved_up<2>(none, x), x);
  x = step(moved_up<4>(none, x), x);
#if AOTC_L == 16
  x = step(moved_up<8>(none, x), x);
#endif
  return x;
}
AOTC_I i32v last_lane(i32v x) { return ki(x[AOTC_L - 1]); }
AOTC_I f64v last_lane(f64v x) { return kd(x.hi[AOTC_L / 2 - 1]); }
AOTC_I i64v last_lane(i64v x) { return kl(x.hi[AOTC_L / 2 - 1]); }
AOTC_I f64v last_of_first_half(f64v x) { return kd(x.lo[AOTC_L / 2 - 1]); }
#define AOTC_SCAN(name, start, STEP)                                                                    \
  template <class V>                                                                                    \
  struct name {                                                                                         \
    typedef typename scan_type<V>::type S;                                                              \
    S a = start;                                                                                        \
    AOTC_I_MEMBER V add(V v) {                                                                          \
      const S x = scan_in(v);                                                                           \
      a = STEP;                                                                                         \
      V y;                                                                                              \
      scan_out(a, &y);                                                                                  \
      return y;                                                                                         \
    }                                                                                                   \
    template <class W>                                                                                  \
    AOTC_I_MEMBER V along(W w, V v) {                                                                   \
      const S none = start;                                                                             \
      S r = through(keep(w, scan_in(v), none), none, [](S a, S x) AOTC_I_MEMBER -> S { return STEP; }); \
      const S x = r;                                                                                    \
      r = STEP;                                                                                         \
      if constexpr (by_halves<S>) {                                                                     \
        a = last_of_first_half(r);                                                                      \
        const S second = STEP;                                                                          \
        r.hi = second.hi;                                                                               \
      }                                                                                                 \
      a = last_lane(r);                                                                                 \
      V y;                                                                                              \
      scan_out(r, &y);                                                                                  \
      return y;                                                                                         \
    }                                                                                                   \
  };
AOTC_I int count(full) { return AOTC_L; }
AOTC_I int count(part w) { return w.n; }
AOTC_I float lane0(f32v x) { return x[0]; }
AOTC_I double lane0(f64v x) { return x.lo[0]; }
AOTC_I int32_t lane0(i32v x) { return x[0]; }
AOTC_I int64_t lane0(i64v x) { return x.lo[0]; }
AOTC_SCAN(s_sum, like(S(), 0), v_add(a, x))
AOTC_SCAN(s_prod, like(S(), 1), v_mul(a, x))
AOTC_SCAN(s_max, lowest(S()), grow(a, x))
AOTC_SCAN(s_min, highest(S()), shrink(a, x))
#undef AOTC_SCAN

/// Of f32 and f64. Along a vector, sums of exponentials beside the largest of all: one exponential and one logarithm a lane. Where the
/// first sum is so far below that it would keep too few digits, and where numbers are no finite ones, by pairs.
template <class V>
struct s_logsumexp {
  static constexpr double kFar = sizeof(typename lane_type<V>::type) == 8 ? 1 : 600;
  f64v a = lowest(f64v());
  AOTC_I_MEMBER V add(V v) {
    a = v_logaddexp(a, scan_in(v));
    V y;
    scan_out(a, &y);
    return y;
  }
  AOTC_I_MEMBER f64v after(f64v x) {
    const f64v none = lowest(f64v());
    const f64v most = grow(last_lane(through(x, none, [](f64v p, f64v q) AOTC_I_MEMBER -> f64v { return grow(p, q); })), a);
    f64v r;
    if (lane0(v_sub(most, grow(x, a))) < kFar) {
      const f64v sums = through(v_exp(v_sub(x, most)), kd(0), [](f64v p, f64v q) AOTC_I_MEMBER -> f64v { return v_add(p, q); });
      r = v_add(most, v_log(v_add(sums, v_exp(v_sub(a, most)))));
    } else {
      r = v_logaddexp(through(x, none, [](f64v p, f64v q) AOTC_I_MEMBER -> f64v { return v_logaddexp(p, q); }), a);
    }
    a = last_lane(r);
    return r;
  }
  template <class W>
  AOTC_I_MEMBER V along(W w, V v) {
    const f64v x = keep(w, scan_in(v), lowest(f64v()));
    f64v r;
    if constexpr (by_halves<f64v>)
      r.lo = after(f64v{x.lo, x.lo}).lo, r.hi = after(f64v{x.hi, x.hi}).hi;
    else
      r = after(x);
    V y;
    scan_out(r, &y);
    return y;
  }
};

// Index of the running extreme: the last on ties, NaN wins. `i` counts the points of the scanned row.
#define AOTC_SCAN_ARG(name, cmp)                                                 \
  template <class V>                                                             \
  struct name {                                                                  \
    V a = like(V(), 0);                                                          \
    i64v at = kl(-1);                                                            \
    AOTC_I_MEMBER i64v add(V x, i64v i) {                                        \
      const i32v m = v_eq(at, kl(-1)) | cmp(x, a) | v_ne(x, x);                  \
      a = sel(m, x, a);                                                          \
      at = sel(m, i, at);                                                        \
      return at;                                                                 \
    }                                                                            \
    template <class W>                                                           \
    AOTC_I_MEMBER i64v along(W w, V v, i64v i) {                                 \
      int64_t t[AOTC_L];                                                         \
      unpack(i, t);                                                              \
      const int n = count(w);                                                    \
      for (int l = 0; l < n; ++l) t[l] = lane0(add(lane_splat(v, l), kl(t[l]))); \
      i64v r;                                                                    \
      __builtin_memcpy(&r, t, sizeof t);                                         \
      return r;                                                                  \
    }                                                                            \
  };
AOTC_SCAN_ARG(s_argmax, v_ge)
AOTC_SCAN_ARG(s_argmin, v_le)
#undef AOTC_SCAN_ARG

}  // namespace
