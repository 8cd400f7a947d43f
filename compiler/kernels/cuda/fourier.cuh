// Fourier transforms of lines in shared memory (fourier_abi.h of the runtime says what is computed). `Lines` lines a block, `Team` threads a line; one pass for each factor of the number of
// points, the results of which stand in order (Stockham). The first pass reads global memory, the last one of a transform of points writes
// it. Transforms of real lines of an even length are complex ones of half of it: neighbours are the parts of a point.
#pragma once
#include "device.cuh"

enum { kFourierPairs, kFourierHalf, kFourierLine };

template <class T> struct Point { T re, im; };
template <class T> AOTC_DI Point<T> sum(const Point<T>& a, const Point<T>& b) { return {a.re + b.re, a.im + b.im}; }
template <class T> AOTC_DI Point<T> less(const Point<T>& a, const Point<T>& b) { return {a.re - b.re, a.im - b.im}; }
template <class T> AOTC_DI Point<T> back(const Point<T>& a) { return {a.im, -a.re}; }  // times -i
// Times w.re - i w.im.
template <class T> AOTC_DI Point<T> turned(const Point<T>& v, const Point<T>& w) { return {v.re * w.re + v.im * w.im, v.im * w.re - v.re * w.im}; }
// The waves of the sum of two angles.
template <class T> AOTC_DI Point<T> both(const Point<T>& a, const Point<T>& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
template <class T> AOTC_DI void transform_two(Point<T>& a, Point<T>& b) {
  const Point<T> t = less(a, b);
  a = sum(a, b), b = t;
}
template <class T> AOTC_DI void transform_four(Point<T>& a, Point<T>& b, Point<T>& c, Point<T>& d) {
  const Point<T> s = sum(a, c), t = less(a, c), u = sum(b, d), w = back(less(b, d));
  a = sum(s, u), b = sum(t, w), c = less(s, u), d = less(t, w);
}
// The transform of R points in place; waves: a table of 2 * `of` cosines and sines, of which `of` / R lie between those of a root.
template <int R, class T> AOTC_DI void transform_points(Point<T> (&v)[R], const T* waves, int of) {
  if constexpr (R == 2) {
    transform_two(v[0], v[1]);
  } else if constexpr (R == 4) {
    transform_four(v[0], v[1], v[2], v[3]);
  } else if constexpr (R == 8) {
    constexpr T h = static_cast<T>(0.70710678118654752440);
    transform_four(v[0], v[2], v[4], v[6]);
    transform_four(v[1], v[3], v[5], v[7]);
    const Point<T> a = {(v[3].re + v[3].im) * h, (v[3].im - v[3].re) * h}, b = back(v[5]), c = {(v[7].im - v[7].re) * h, (v[7].re + v[7].im) * -h};
    const Point<T> e0 = v[0], e1 = v[2], e2 = v[4], e3 = v[6], o = v[1];
    v[0] = sum(e0, o), v[4] = less(e0, o);
    v[1] = sum(e1, a), v[5] = less(e1, a);
    v[2] = sum(e2, b), v[6] = less(e2, b);
    v[3] = sum(e3, c), v[7] = less(e3, c);
  } else {
    constexpr int half = (R - 1) / 2;
    Point<T> even[half], odd[half];
    const Point<T> first = v[0];
#pragma unroll
    for (int j = 1; j <= half; ++j) even[j - 1] = sum(v[j], v[R - j]), odd[j - 1] = less(v[j], v[R - j]), v[0] = sum(v[0], even[j - 1]);
#pragma unroll
    for (int k = 1; k <= half; ++k) {
      Point<T> a = first, b = {T(0), T(0)};
#pragma unroll
      for (int j = 1; j <= half; ++j) {
        const T c = waves[j * k % R * (of / R)], s = waves[of + j * k % R * (of / R)];
        a.re += even[j - 1].re * c, a.im += even[j - 1].im * c;
        b.re += odd[j - 1].re * s, b.im += odd[j - 1].im * s;
      }
      v[k] = {a.re + b.im, a.im - b.re};
      v[R - k] = {a.re - b.im, a.im + b.re};
    }
  }
}

// Odd factors first, then 4 until the rest is a power of 8: the last pass has no waves to multiply by.
constexpr int fourier_radix(int n) {
  for (int p = 3; p <= 31; p += 2)
    if (n % p == 0) return p;
  int twos = 0;
  for (int m = n; m > 1; m /= 2) ++twos;
  return twos % 3 == 0 ? 8 : twos == 1 ? 2 : 4;
}

// Length: of the transform. Im: x has an imaginary part. Along: the lines of a block are neighbours in memory.
template <class T, int Kind, bool Im, bool Inverse, int Length, int Lines, int Team, bool Along> struct FourierLines {
  typedef Point<T> C;
  static constexpr bool halved = Kind != kFourierPairs && Length % 2 == 0;
  static constexpr int points = halved ? Length / 2 : Length, apart = Length / points;  // entries of waves between those of points
  static constexpr int count = Kind == kFourierHalf ? Length / 2 + 1 : Length;          // of results
  static constexpr int gaps = points + points / 32 + 1;                                 // one of the numbers' parts in shared memory
  static constexpr int line_numbers = 2 * gaps + (Along ? 1 : 0), shared_bytes = 2 * Lines * line_numbers * static_cast<int>(sizeof(T));
  const T *re, *im, *waves;
  T *out_re, *out_im;
  i64 outer, inner, in;
  T scale;

  int line, thread;  // of the block, of the line
  bool on;
  i64 in_at, out_at;

  AOTC_DI static int place(int i) { return i + i / 32; }
  AOTC_DI T* buffer(int which) const {
    extern __shared__ __align__(16) char shared[];
    return reinterpret_cast<T*>(shared) + (which * Lines + line) * line_numbers;
  }
  AOTC_DI C wave(int i) const { return {waves[i], waves[Length + i]}; }
  AOTC_DI T given(const T* x, int i) const { return on && i < in ? x[in_at + i * inner] : T(0); }

  // What is transformed.
  AOTC_DI C read(int i) const {
    if constexpr (Kind == kFourierPairs) {
      const T a = given(re, i), b = Im ? given(im, i) : T(0);
      return Inverse ? C{b, a} : C{a, b};
    } else if constexpr (Kind == kFourierHalf) {
      if constexpr (halved) return {given(re, 2 * i), given(re, 2 * i + 1)};
      else return {given(re, i), T(0)};
    } else if constexpr (halved) {
      // The parts the other way round, of which the inverse transform has the line's even numbers as real, the odd ones as imaginary parts.
      const int j = points - i;
      const C a = {given(re, i), i == 0 ? T(0) : given(im, i)}, b = {given(re, j), i == 0 ? T(0) : given(im, j)}, w = wave(i);
      const T er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
      return {ei + (dr * w.re - di * w.im), er - (di * w.re + dr * w.im)};
    } else {
      const int j = i > Length / 2 ? Length - i : i;
      const T a = given(re, j), b = i == 0 ? T(0) : given(im, j);
      return {i > Length / 2 ? -b : b, a};
    }
  }
  AOTC_DI void put(T* out, int i, T v) const {
    if (on) out[out_at + i * inner] = v * scale;
  }
  AOTC_DI void write(int i, const C& v) const {
    if constexpr (Kind == kFourierPairs) {
      put(out_re, i, Inverse ? v.im : v.re), put(out_im, i, Inverse ? v.re : v.im);
    } else if constexpr (Kind == kFourierHalf) {
      if (i < count) put(out_re, i, v.re), put(out_im, i, i == 0 ? T(0) : v.im);
    } else if constexpr (halved) {
      put(out_re, 2 * i, v.im), put(out_re, 2 * i + 1, v.re);
    } else {
      put(out_re, i, v.im);
    }
  }
  // The spectrum of the line whose even numbers are the real, whose odd ones the imaginary parts of the points that z transforms.
  AOTC_DI void spread(const T* z) const {
    for (int k = thread; k < count; k += Team) {
      const int i = k == points ? 0 : k, j = k == 0 ? 0 : points - k;
      const C a = {z[place(i)], z[gaps + place(i)]}, b = {z[place(j)], z[gaps + place(j)]}, w = wave(k);
      const T er = a.re + b.re, ei = a.im - b.im, dr = a.re - b.re, di = a.im + b.im;
      put(out_re, k, T(0.5) * (er + (di * w.re - dr * w.im)));
      put(out_im, k, k == 0 || k == points ? T(0) : T(0.5) * (ei - (dr * w.re + di * w.im)));
    }
  }

  // y[q + s (R p + k)] = e^(-2 pi i p k / left) sum_j x[q + s (p + m j)] e^(-2 pi i j k / R), for p < m = left / R and q < s.
  template <int Left, int S, int From> AOTC_DI void passes() const {
    constexpr int R = fourier_radix(Left), far = points / R, each = (far + Team - 1) / Team;
    constexpr bool first = Left == points, last = Left == R;
    const T* const x = buffer(From);
    T* const y = buffer(From ^ 1);
    C turn[each];
    if constexpr (!last) {
#pragma unroll
      for (int i = 0; i < each; ++i) {
        const int b = thread + i * Team;
        turn[i] = wave(b < far ? b / S * (S * apart) : 0);
      }
    }
    if constexpr (!first) __syncthreads();
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int b = thread + i * Team;
      if (each * Team != far && b >= far) break;
      C v[R];
#pragma unroll
      for (int j = 0; j < R; ++j) v[j] = first ? read(b + far * j) : C{x[place(b + far * j)], x[gaps + place(b + far * j)]};
      transform_points<R>(v, waves, Length);
      if constexpr (!last) turn_points<R>(v, turn[i]);
      const int to = b % S + b / S * (S * R);
#pragma unroll
      for (int k = 0; k < R; ++k) {
        const int at = to + S * k;
        if (last && !(Kind == kFourierHalf && halved)) write(at, v[k]);
        else y[place(at)] = v[k].re, y[gaps + place(at)] = v[k].im;
      }
    }
    if constexpr (!last) {
      passes<Left / R, S * R, From ^ 1>();
    } else if constexpr (Kind == kFourierHalf && halved) {
      __syncthreads();
      spread(y);
    }
  }
  // v[k] times w^k.
  template <int R> AOTC_DI static void turn_points(C (&v)[R], const C& w) {
    C power[R];
    power[1] = w;
#pragma unroll
    for (int k = 2; k < R; ++k) power[k] = both(power[k / 2], power[k - k / 2]);
#pragma unroll
    for (int k = 1; k < R; ++k) v[k] = turned(v[k], power[k]);
  }

  AOTC_DI void run() {
    line = Along ? threadIdx.x % Lines : threadIdx.x / Team, thread = Along ? threadIdx.x / Lines : threadIdx.x % Team;
    const i64 number = i64(blockIdx.x) * Lines + line;
    on = number < outer * inner && threadIdx.x < Lines * Team;
    in_at = number / inner * in * inner + number % inner, out_at = number / inner * count * inner + number % inner;
    passes<points, 1, 1>();
  }
};
