#pragma once
// Fourier transforms of lines: aotc_fourier_* of aotc/detail/fourier_abi.h.
//
// Each lane is a line, so that a point of a transform is two vectors, which lie side by side, and every factor of e^(..) one number. Lines
// are brought into the scratch (transposed where they lie along themselves), transformed there by one pass for each factor of n, the
// results of which stand in order (Stockham), and written back. Transforms of real lines of an even length are complex ones of half of it:
// neighbours are the parts of a point.
#include "any_vec.h"
#include "aotc/detail/fourier_abi.h"
#include "simd.h"

namespace {

template <int... I>
struct Places {};
template <int N, int... I>
struct PlacesUpTo : PlacesUpTo<N - 1, N - 1, I...> {};
template <int... I>
struct PlacesUpTo<0, I...> {
  typedef Places<I...> type;
};

template <class T>
struct FourierLanes {
  static constexpr int L = AnyVec<T>::kLanes;
  typedef typename AnyVec<T>::V V;
  typedef typename AnyVec<T>::U U;

  /// Swaps blocks of B rows and lanes.
  template <int B, int... I>
  static void swap_blocks(V& a, V& b, Places<I...>) {
    const V x = a, y = b;
    a = __builtin_shufflevector(x, y, ((I & B) ? L + (I ^ B) : I)...);
    b = __builtin_shufflevector(x, y, ((I & B) ? L + I : (I ^ B))...);
  }
  template <int B>
  __attribute__((always_inline)) static void transpose_from(V* r) {
#pragma GCC unroll 16
    for (int i = 0; i < L; ++i)
      if (!(i & B)) swap_blocks<B>(r[i], r[i | B], typename PlacesUpTo<L>::type());
    if constexpr (2 * B < L) transpose_from<2 * B>(r);
  }
  __attribute__((always_inline)) static void transpose(V (&r)[L]) { transpose_from<1>(r); }
};

/// Where a point lies in the scratch, in points. Eighths of a transform of 2^k points lie one more apart: the points that a pass reads
/// together would be in few sets of the L1 otherwise.
struct FourierGaps {
  int shift = 62;
  int64_t operator()(int64_t i) const { return i + (i >> shift); }
  static FourierGaps of(int64_t n) {
    FourierGaps g;
    if (n >= 128 && (n & (n - 1)) == 0) g.shift = __builtin_ctzll(static_cast<uint64_t>(n)) - 3;
    return g;
  }
};

/// Lines of a tensor [outer, n, inner] of which some lie in lanes: element i of lane l is base[at[l] + i * inner].
template <class T>
struct LaneLines {
  typedef FourierLanes<T> F;
  typedef typename F::V V;
  typedef typename F::U U;
  static constexpr int L = F::L;
  int64_t at[L], inner;
  int lanes;   ///< that count; at[] of the others is the last one's
  bool along;  ///< lanes are neighbours

  /// How vectors lie in the scratch: that of element i is the vector (i * step + part) ^ flip of points that lie apart.
  struct In {
    V* to;
    int step, part, flip;
    FourierGaps gaps;
    V& operator[](int64_t i) const {
      const int64_t v = (i * step + part) ^ flip;
      return to[2 * gaps(v >> 1) + (v & 1)];
    }
  };

  void load(const T* x, int64_t n, In to) const {
    if (along) {
      const T* p = x + at[0];
      for (int64_t i = 0; i < n; ++i, p += inner) to[i] = lanes == L ? static_cast<V>(*reinterpret_cast<const U*>(p)) : some(p);
      return;
    }
    int64_t i = 0;
    if (inner == 1)
      for (; i + L <= n; i += L) {
        V r[L];
#pragma GCC unroll 16
        for (int l = 0; l < L; ++l) r[l] = *reinterpret_cast<const U*>(x + at[l] + i);
        F::transpose(r);
#pragma GCC unroll 16
        for (int k = 0; k < L; ++k) to[i + k] = r[k];
      }
    for (; i < n; ++i) {
      V v;
      for (int l = 0; l < L; ++l) v[l] = x[at[l] + i * inner];
      to[i] = v;
    }
  }
  void store(In from, int64_t n, T scale, T* out) const {
    if (along) {
      T* p = out + at[0];
      for (int64_t i = 0; i < n; ++i, p += inner) {
        const V v = from[i] * scale;
        if (lanes == L)
          *reinterpret_cast<U*>(p) = v;
        else
          for (int l = 0; l < lanes; ++l) p[l] = v[l];
      }
      return;
    }
    int64_t i = 0;
    if (inner == 1)
      for (; i + L <= n; i += L) {
        V r[L];
#pragma GCC unroll 16
        for (int k = 0; k < L; ++k) r[k] = from[i + k] * scale;
        F::transpose(r);
        if (lanes == L) {
#pragma GCC unroll 16
          for (int l = 0; l < L; ++l) *reinterpret_cast<U*>(out + at[l] + i) = r[l];
        } else {
          for (int l = 0; l < lanes; ++l) *reinterpret_cast<U*>(out + at[l] + i) = r[l];
        }
      }
    for (; i < n; ++i) {
      const V v = from[i] * scale;
      for (int l = 0; l < lanes; ++l) out[at[l] + i * inner] = v[l];
    }
  }

 private:
  V some(const T* p) const {
    V v = {};
    for (int l = 0; l < lanes; ++l) v[l] = p[l];
    return v;
  }
};

template <class V>
struct FourierPoint {
  V re, im;
};
#define AOTC_FOURIER_INLINE __attribute__((always_inline)) inline
template <class V>
AOTC_FOURIER_INLINE FourierPoint<V> sum(const FourierPoint<V>& a, const FourierPoint<V>& b) {
  return {a.re + b.re, a.im + b.im};
}
template <class V>
AOTC_FOURIER_INLINE FourierPoint<V> less(const FourierPoint<V>& a, const FourierPoint<V>& b) {
  return {a.re - b.re, a.im - b.im};
}
/// Times -i.
template <class V>
AOTC_FOURIER_INLINE FourierPoint<V> back(const FourierPoint<V>& a) {
  return {a.im, -a.re};
}
/// Times c - i s.
template <class V, class T>
AOTC_FOURIER_INLINE FourierPoint<V> turned(const FourierPoint<V>& v, T c, T s) {
  return {v.re * c + v.im * s, v.im * c - v.re * s};
}

/// The transform of R points in place, by R's cosines and sines out of a table of `of` waves.
template <class T, int R>
struct FourierRoots {
  static constexpr int kHalf = (R - 1) / 2;
  typedef FourierPoint<typename FourierLanes<T>::V> C;
  T c[R], s[R];
  FourierRoots(const T* cosines, const T* sines, int64_t of) {
    for (int i = 0; i < R; ++i) c[i] = cosines[i * (of / R)], s[i] = sines[i * (of / R)];
  }
  AOTC_FOURIER_INLINE void operator()(C* v) const {
    C even[kHalf], odd[kHalf];
#pragma GCC unroll 8
    for (int j = 1; j <= kHalf; ++j) even[j - 1] = sum(v[j], v[R - j]), odd[j - 1] = less(v[j], v[R - j]);
    const C first = v[0];
#pragma GCC unroll 8
    for (int j = 0; j < kHalf; ++j) v[0] = sum(v[0], even[j]);
#pragma GCC unroll 8
    for (int k = 1; k <= kHalf; ++k) {
      C a = first, b = {odd[0].re * s[k], odd[0].im * s[k]};
      a.re += even[0].re * c[k], a.im += even[0].im * c[k];
#pragma GCC unroll 8
      for (int j = 2; j <= kHalf; ++j) {
        const int i = j * k % R;
        a.re += even[j - 1].re * c[i], a.im += even[j - 1].im * c[i];
        b.re += odd[j - 1].re * s[i], b.im += odd[j - 1].im * s[i];
      }
      v[k] = {a.re + b.im, a.im - b.re};
      v[R - k] = {a.re - b.im, a.im + b.re};
    }
  }
};
template <class C>
AOTC_FOURIER_INLINE void transform_two(C& a, C& b) {
  const C t = less(a, b);
  a = sum(a, b), b = t;
}
template <class C>
AOTC_FOURIER_INLINE void transform_four(C& a, C& b, C& c, C& d) {
  const C s = sum(a, c), t = less(a, c), u = sum(b, d), w = back(less(b, d));
  a = sum(s, u), b = sum(t, w), c = less(s, u), d = less(t, w);
}
template <class T>
struct FourierRoots<T, 2> {
  FourierRoots(const T*, const T*, int64_t) {}
  template <class C>
  AOTC_FOURIER_INLINE void operator()(C* v) const {
    transform_two(v[0], v[1]);
  }
};
template <class T>
struct FourierRoots<T, 4> {
  FourierRoots(const T*, const T*, int64_t) {}
  template <class C>
  AOTC_FOURIER_INLINE void operator()(C* v) const {
    transform_four(v[0], v[1], v[2], v[3]);
  }
};
template <class T>
struct FourierRoots<T, 8> {
  FourierRoots(const T*, const T*, int64_t) {}
  template <class C>
  AOTC_FOURIER_INLINE void operator()(C* v) const {
    constexpr T h = static_cast<T>(0.70710678118654752440);
    transform_four(v[0], v[2], v[4], v[6]);
    transform_four(v[1], v[3], v[5], v[7]);
    const C a = {(v[3].re + v[3].im) * h, (v[3].im - v[3].re) * h}, b = back(v[5]), c = {(v[7].im - v[7].re) * h, (v[7].re + v[7].im) * -h};
    const C e0 = v[0], e1 = v[2], e2 = v[4], e3 = v[6], o = v[1];
    v[0] = sum(e0, o), v[4] = less(e0, o);
    v[1] = sum(e1, a), v[5] = less(e1, a);
    v[2] = sum(e2, b), v[6] = less(e2, b);
    v[3] = sum(e3, c), v[7] = less(e3, c);
  }
};

/// The passes of a transform of n points; the table has `of` waves, a multiple of n.
template <class T>
struct FourierPasses {
  typedef FourierLanes<T> F;
  typedef typename F::V V;
  typedef FourierPoint<V> C;
  const T *cosines, *sines;
  int64_t of;

  /// Of e^(-..), from x to its transform in x or y; returns which.
  V* run(V* x, V* y, int64_t n) const {
    int64_t s = 1;
    const FourierGaps gaps = FourierGaps::of(n);
    for (int64_t left = n; left > 1;) {
      const int r = radix_of(left);
      pass_of(r, x, y, left, s, of / n, gaps);
      left /= r, s *= r;
      V* const t = x;
      x = y, y = t;
    }
    return x;
  }

 private:
  /// Odd factors first, then 4 until the rest is a power of 8: the last pass has no waves to multiply by. Runs of s points then lie in one
  /// eighth of what has gaps.
  static int radix_of(int64_t n) {
    for (int p = 3; p <= AOTC_FOURIER_PRIME; p += 2)
      if (n % p == 0) return p;
    int twos = 0;
    for (int64_t m = n; m > 1; m /= 2) ++twos;
    return twos % 3 == 0 ? 8 : twos == 1 ? 2 : 4;
  }

  void pass_of(int r, const V* x, V* y, int64_t n, int64_t s, int64_t apart, FourierGaps gaps) const {
    switch (r) {
      case 8: return n > r ? pass<8, true>(x, y, n, s, apart, gaps) : pass<8, false>(x, y, n, s, apart, gaps);
      case 4: return n > r ? pass<4, true>(x, y, n, s, apart, gaps) : pass<4, false>(x, y, n, s, apart, gaps);
      case 2: return pass<2, true>(x, y, n, s, apart, gaps);
      case 3: return pass<3, true>(x, y, n, s, apart, gaps);
      case 5: return pass<5, true>(x, y, n, s, apart, gaps);
      case 7: return pass<7, true>(x, y, n, s, apart, gaps);
      default: return odd_pass(r, x, y, n, s, apart);
    }
  }

  /// y[q + s (R p + k)] = e^(-2 pi i p k / n) sum_j x[q + s (p + m j)] e^(-2 pi i j k / R), for p < m = n / R and q < s. apart: table
  /// entries between neighbouring waves of s * n. Turn: not all of these factors are 1.
  template <int R, bool Turn>
  void pass(const V* x, V* y, int64_t n, int64_t s, int64_t apart, FourierGaps gaps) const {
    const int64_t m = n / R, far = 2 * gaps(s * m), step = 2 * gaps(s);
    const FourierRoots<T, R> roots(cosines, sines, of);
    for (int64_t p = 0; p < m; ++p) {
      T c[R], d[R];
      if (Turn)
#pragma GCC unroll 8
        for (int k = 1; k < R; ++k) c[k] = cosines[p * k * s * apart], d[k] = sines[p * k * s * apart];
      const V* from = x + 2 * gaps(s * p);
      V* to = y + 2 * gaps(s * R * p);
      for (int64_t q = 0; q < s; ++q, from += 2, to += 2) {
        C v[R];
#pragma GCC unroll 8
        for (int j = 0; j < R; ++j) v[j] = {from[j * far], from[j * far + 1]};
        roots(v);
#pragma GCC unroll 8
        for (int k = 0; k < R; ++k) put(to + step * k, Turn && k ? turned(v[k], c[k], d[k]) : v[k]);
      }
    }
  }
  static AOTC_FOURIER_INLINE void put(V* to, const C& v) { to[0] = v.re, to[1] = v.im; }

  /// A prime factor R, as pass.
  void odd_pass(int R, const V* x, V* y, int64_t n, int64_t s, int64_t apart) const {
    const int64_t m = n / R, far = 2 * s * m, root = of / R;
    const int half = (R - 1) / 2;
    C even[AOTC_FOURIER_PRIME / 2], odd[AOTC_FOURIER_PRIME / 2];
    for (int64_t p = 0; p < m; ++p)
      for (int64_t q = 0; q < s; ++q) {
        const V* from = x + 2 * (s * p + q);
        V* to = y + 2 * (s * R * p + q);
        const C first = {from[0], from[1]};
        C all = first;
        for (int j = 1; j <= half; ++j) {
          const C a = {from[j * far], from[j * far + 1]}, b = {from[(R - j) * far], from[(R - j) * far + 1]};
          even[j - 1] = sum(a, b), odd[j - 1] = less(a, b);
          all = sum(all, even[j - 1]);
        }
        put(to, all);
        for (int k = 1; k <= half; ++k) {
          C a = first, b = {V{}, V{}};
          for (int j = 1, i = k; j <= half; ++j, i = i + k < R ? i + k : i + k - R) {
            const T c = cosines[i * root], d = sines[i * root];
            a.re += even[j - 1].re * c, a.im += even[j - 1].im * c;
            b.re += odd[j - 1].re * d, b.im += odd[j - 1].im * d;
          }
          const auto wave = [&](const C& v, int64_t w) { return turned(v, cosines[w * s * apart], sines[w * s * apart]); };
          put(to + 2 * s * k, wave({a.re + b.im, a.im - b.re}, p * k));
          put(to + 2 * s * (R - k), wave({a.re - b.im, a.im + b.re}, p * (R - k)));
        }
      }
  }
};

/// One call: groups of lines.
template <class T>
class Fourier {
 public:
  typedef FourierLanes<T> F;
  typedef typename F::V V;
  typedef typename LaneLines<T>::In In;
  static constexpr int L = F::L;

  explicit Fourier(const aotc_kargs* args) : cfg_(*static_cast<const aotc_fourier_config*>(args->config)) {
    const int64_t* size = args->size;
    outer_ = size[0], inner_ = size[1], in_ = size[2], n_ = size[3], along_ = size[4] != 0;
    void* const* p = args->ptr;
    re_ = static_cast<const T*>(*p++);
    im_ = cfg_.im ? static_cast<const T*>(*p++) : nullptr;
    const T* waves = static_cast<const T*>(*p++);
    out_re_ = static_cast<T*>(*p++);
    out_im_ = cfg_.kind == AOTC_FOURIER_LINE ? nullptr : static_cast<T*>(*p++);
    passes_ = {waves, waves + n_, n_};
    halved_ = cfg_.kind != AOTC_FOURIER_PAIRS && n_ % 2 == 0;
    count_ = cfg_.kind == AOTC_FOURIER_HALF ? n_ / 2 + 1 : n_;
    a_ = static_cast<V*>(args->scratch), b_ = a_ + 2 * (n_ + 9);
    gaps_ = FourierGaps::of(halved_ ? n_ / 2 : n_);
  }

  void unit(int64_t u) const {
    const int64_t blocks = ceil_div(inner_, AOTC_FOURIER_LINES);
    const int64_t first = along_ ? u / blocks * inner_ + u % blocks * AOTC_FOURIER_LINES : u * AOTC_FOURIER_LINES;
    const int64_t end = min_of(first + AOTC_FOURIER_LINES, along_ ? (u / blocks + 1) * inner_ : outer_ * inner_);
    for (int64_t line = first; line < end; line += L) {
      const int lanes = static_cast<int>(min_of<int64_t>(L, end - line));
      const LaneLines<T> in = lines(line, lanes, in_), out = lines(line, lanes, count_);
      if (cfg_.kind == AOTC_FOURIER_PAIRS)
        pairs(in, out);
      else if (cfg_.kind == AOTC_FOURIER_HALF)
        half(in, out);
      else
        real_line(in, out);
    }
  }

 private:
  LaneLines<T> lines(int64_t line, int lanes, int64_t n) const {
    LaneLines<T> all;
    all.inner = inner_, all.lanes = lanes, all.along = along_;
    for (int l = 0; l < L; ++l) {
      const int64_t i = line + min_of(l, lanes - 1);
      all.at[l] = i / inner_ * n * inner_ + i % inner_;
    }
    return all;
  }
  static void clear(In to, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = V{};
  }
  void get(const LaneLines<T>& lines, const T* x, int64_t n, In to) const {
    if (x) lines.load(x, min_of(in_, n), to);
    clear(to, x ? min_of(in_, n) : 0, n);
  }

  /// An inverse is the transform of pairs that are the other way round.
  void pairs(const LaneLines<T>& in, const LaneLines<T>& out) const {
    const int flip = cfg_.inverse != 0;
    get(in, re_, n_, {a_, 2, 0, flip, gaps_});
    get(in, im_, n_, {a_, 2, 1, flip, gaps_});
    V* y = passes_.run(a_, b_, n_);
    out.store({y, 2, 0, flip, gaps_}, n_, static_cast<T>(cfg_.scale), out_re_);
    out.store({y, 2, 1, flip, gaps_}, n_, static_cast<T>(cfg_.scale), out_im_);
  }

  void half(const LaneLines<T>& in, const LaneLines<T>& out) const {
    V* y;
    if (halved_) {
      get(in, re_, n_, {a_, 1, 0, 0, gaps_});
      V* const z = passes_.run(a_, b_, n_ / 2);
      y = z == a_ ? b_ : a_;
      spread(z, y);
    } else {
      get(in, re_, n_, {a_, 2, 0, 0, gaps_});
      get(in, nullptr, n_, {a_, 2, 1, 0, gaps_});
      y = passes_.run(a_, b_, n_);
    }
    out.store({y, 2, 0, 0, {}}, count_, static_cast<T>(cfg_.scale), out_re_);
    out.store({y, 2, 1, 0, {}}, count_, static_cast<T>(cfg_.scale), out_im_);
  }
  /// The spectrum X of the line whose even numbers are the real, whose odd ones the imaginary parts of the points that z transforms: X[k] =
  /// e + w, X[h - k] = conj(e - w) with e = (z[k] + conj(z[h - k])) / 2, w = e^(-2 pi i k / n) (z[k] - conj(z[h - k])) / 2i.
  void spread(const V* z, V* x) const {
    const int64_t h = n_ / 2;
    x[0] = z[0] + z[1], x[2 * h] = z[0] - z[1];
    x[1] = x[2 * h + 1] = V{};
    for (int64_t k = 1; k <= h - k; ++k) {
      const V *const a = z + 2 * gaps_(k), *const b = z + 2 * gaps_(h - k);
      const int64_t i = 2 * k, j = 2 * (h - k);
      const T c = passes_.cosines[k] * T(0.5), s = passes_.sines[k] * T(0.5);
      const V er = (a[0] + b[0]) * T(0.5), ei = (a[1] - b[1]) * T(0.5), dr = a[0] - b[0], di = a[1] + b[1];
      const V wr = di * c - dr * s, wi = -(dr * c) - di * s;
      x[i] = er + wr, x[i + 1] = ei + wi;
      x[j] = er - wr, x[j + 1] = wi - ei;
    }
  }

  void real_line(const LaneLines<T>& in, const LaneLines<T>& out) const {
    const int64_t h = n_ / 2;
    get(in, re_, h + 1, {a_, 2, 0, 0, {}});
    get(in, im_, h + 1, {a_, 2, 1, 0, {}});
    if (halved_) {
      gather(a_, b_);
      out.store({passes_.run(b_, a_, h), 1, 0, 1, gaps_}, n_, static_cast<T>(cfg_.scale), out_re_);
      return;
    }
    // An odd length: the whole spectrum, the parts the other way round.
    b_[0] = V{}, b_[1] = a_[0];
    for (int64_t k = 1; k <= h; ++k) {
      b_[2 * k] = a_[2 * k + 1], b_[2 * k + 1] = a_[2 * k];
      b_[2 * (n_ - k)] = -a_[2 * k + 1], b_[2 * (n_ - k) + 1] = a_[2 * k];
    }
    out.store({passes_.run(b_, a_, n_), 2, 1, 0, gaps_}, n_, static_cast<T>(cfg_.scale), out_re_);
  }
  /// Points, the parts the other way round, whose inverse transform has the line's even numbers as real, the odd ones as imaginary parts:
  /// z[k] = e + i o with e = x[k] + conj(x[h - k]), o = e^(2 pi i k / n) (x[k] - conj(x[h - k])). The outer ones of x count as real.
  void gather(const V* x, V* z) const {
    const int64_t h = n_ / 2;
    z[1] = x[0] + x[2 * h], z[0] = x[0] - x[2 * h];
    for (int64_t k = 1; k <= h - k; ++k) {
      const int64_t i = 2 * k, j = 2 * (h - k);
      const T c = passes_.cosines[k], s = passes_.sines[k];
      const V er = x[i] + x[j], ei = x[i + 1] - x[j + 1], dr = x[i] - x[j], di = x[i + 1] + x[j + 1];
      const V or_ = dr * c - di * s, oi = di * c + dr * s;
      V *const a = z + 2 * gaps_(k), *const b = z + 2 * gaps_(h - k);
      a[1] = er - oi, a[0] = ei + or_;
      b[1] = er + oi, b[0] = or_ - ei;
    }
  }

  const aotc_fourier_config& cfg_;
  int64_t outer_, inner_, in_, n_, count_;
  bool along_, halved_;
  const T *re_, *im_;
  T *out_re_, *out_im_;
  FourierPasses<T> passes_;
  FourierGaps gaps_;  ///< of what is transformed
  V *a_, *b_;
};

template <class T>
void fourier(const aotc_kargs* args, int64_t begin, int64_t end) {
  if (begin >= end) return;
  const Fourier<T> f(args);
  for (int64_t u = begin; u < end; ++u) f.unit(u);
}

}  // namespace
