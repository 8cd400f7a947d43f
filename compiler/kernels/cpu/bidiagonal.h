#pragma once
// Singular values and vectors of one matrix by a bidiagonal one: Householder's reflections (Golub and Kahan), then sweeps of rotations with
// shifts, or without one where it would cost small values their digits (Demmel and Kahan, Accurate singular values of bidiagonal matrices,
// 1990). The sweeps know d and e alone; their rotations are then applied to the vectors, a few columns of these at a time.
#include "any_vec.h"
#include "simd.h"

namespace {

using ReflectedLanes = AnyVec<double>::V;
using ReflectedMemory = AnyVec<double>::U;

inline double sum_of_lanes(ReflectedLanes x) {
  for (int half = AnyVec<double>::kLanes / 2; half; half /= 2)
    for (int l = 0; l < half; ++l) x[l] += x[l + half];
  return x[0];
}

/// sums[r] = x[r * ld] . y of n elements each.
template <int R>
void reflected_dots(const double* x, int64_t ld, const double* y, int64_t n, double (&sums)[R]) {
  constexpr int kLanes = AnyVec<double>::kLanes, kParts = R == 1 ? 4 : 1;
  ReflectedLanes part[R][kParts] = {};
  int64_t i = 0;
  for (; i + kLanes * kParts <= n; i += kLanes * kParts)
    for (int p = 0; p < kParts; ++p) {
      const ReflectedLanes b = *reinterpret_cast<const ReflectedMemory*>(y + i + p * kLanes);
      for (int r = 0; r < R; ++r) part[r][p] += *reinterpret_cast<const ReflectedMemory*>(x + r * ld + i + p * kLanes) * b;
    }
  for (int r = 0; r < R; ++r) {
    for (int p = 1; p < kParts; ++p) part[r][0] += part[r][p];
    sums[r] = sum_of_lanes(part[r][0]);
    for (int64_t k = i; k < n; ++k) sums[r] += x[r * ld + k] * y[k];
  }
}

/// x[r * ld] += factors[r] * y of n elements each.
template <int R>
void add_multiples(double* x, int64_t ld, const double* y, int64_t n, const double (&factors)[R]) {
  constexpr int kLanes = AnyVec<double>::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const ReflectedLanes b = *reinterpret_cast<const ReflectedMemory*>(y + i);
    for (int r = 0; r < R; ++r) *reinterpret_cast<ReflectedMemory*>(x + r * ld + i) += factors[r] * b;
  }
  for (; i < n; ++i)
    for (int r = 0; r < R; ++r) x[r * ld + i] += factors[r] * y[i];
}

/// y += factors[r] * x[r * ld] of n elements each, together.
template <int R>
void add_rows_to(double* y, const double* x, int64_t ld, int64_t n, const double (&factors)[R]) {
  constexpr int kLanes = AnyVec<double>::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    ReflectedLanes sum = *reinterpret_cast<const ReflectedMemory*>(y + i);
    for (int r = 0; r < R; ++r) sum += factors[r] * *reinterpret_cast<const ReflectedMemory*>(x + r * ld + i);
    *reinterpret_cast<ReflectedMemory*>(y + i) = sum;
  }
  for (; i < n; ++i)
    for (int r = 0; r < R; ++r) y[i] += factors[r] * x[r * ld + i];
}

/// I - tau v v^T with v[0] = 1 that makes (x[0], ..) to (result, 0, ..); v takes x's place.
struct Reflection {
  static constexpr double kSmallestSum = 1e-280;  ///< of squares, which are exact above it; the matrix's largest value is from 1 to 2
  double tau, result;
  Reflection(double* x, int64_t n) : tau(0), result(n > 0 ? x[0] : 0) {
    double rest[1] = {0};
    if (n > 1) reflected_dots<1>(x + 1, 0, x + 1, n - 1, rest);
    if (n > 0) x[0] = 1;
    if (rest[0] < kSmallestSum) return;
    const double length = __builtin_sqrt(result * result + rest[0]), beta = result > 0 ? -length : length;
    const double scale = 1 / (result - beta);
    tau = (beta - result) / beta;
    for (int64_t i = 1; i < n; ++i) x[i] *= scale;
    result = beta;
  }
};

/// Rows of a matrix lose their parts along v: each row x becomes x - tau (x . v) v.
inline void reflect_rows(double* x, int64_t ld, int64_t rows, const double* v, int64_t n, double tau) {
  constexpr int kRows = 4;
  if (tau == 0) return;
  int64_t r = 0;
  for (; r + kRows <= rows; r += kRows) {
    double factors[kRows];
    reflected_dots<kRows>(x + r * ld, ld, v, n, factors);
    for (double& f : factors) f *= -tau;
    add_multiples<kRows>(x + r * ld, ld, v, n, factors);
  }
  for (; r < rows; ++r) {
    double factor[1];
    reflected_dots<1>(x + r * ld, ld, v, n, factor);
    factor[0] *= -tau;
    add_multiples<1>(x + r * ld, ld, v, n, factor);
  }
}

/// (f, g) becomes (r, 0) by (c f + s g, c g - s f). Numbers whose squares are not too large.
struct Givens {
  double c, s, r;
  Givens(double f, double g) {
    if (g == 0) {
      c = 1, s = 0, r = f;
      return;
    }
    const double scale = max_of(__builtin_fabs(f), __builtin_fabs(g)) < 0x1p-480 ? 0x1p+520 : 1;
    f *= scale, g *= scale;
    const double length = __builtin_sqrt(f * f + g * g), turned = f < 0 ? -length : length;
    c = f / turned, s = g / turned, r = turned / scale;
  }
};

/// Rotations of neighbouring rows of x, sweep after sweep, each from the first pair to the last: of a pair the former becomes c former + s
/// latter, the latter c latter - s former. They are kept until there are kMost sweeps, since rows come from memory once for all of them.
struct Sweeps {
  static constexpr int kMost = 4;
  double* c;  ///< [kMost][n + 2 kMost], kMost identities on both sides
  double* s;
  double* x;  ///< [n][ld]
  int64_t ld, n, columns;

  static int64_t doubles(int64_t n) { return 2 * kMost * (n + 2 * kMost); }
  double* cosines(int sweep) const { return c + sweep * (n + 2 * kMost) + kMost; }
  double* sines(int sweep) const { return s + sweep * (n + 2 * kMost) + kMost; }
  void clear(int sweep) const {
    for (int64_t i = -kMost; i < n + kMost; ++i) cosines(sweep)[i] = 1, sines(sweep)[i] = 0;
  }

  /// One step of K sweeps, each one pair behind the one before it: `row` is the next row, `rows` the sweeps' former ones; returns the row
  /// that all have passed.
  template <int K, class Value>
  Value step(int64_t t, Value row, Value (&former)[K]) const {
    for (int k = 0; k < K; ++k) {
      const double cosine = cosines(k)[t - k], sine = sines(k)[t - k];
      const Value done = cosine * former[k] + sine * row;
      former[k] = cosine * row - sine * former[k];
      row = done;
    }
    return row;
  }
  /// Rows first to last, `to` from each to the next; B vectors of columns.
  template <int K, int B, class Value, class Memory>
  void pass(double* row0, int64_t to, int64_t first, int64_t last) const {
    constexpr int64_t kWidth = static_cast<int64_t>(sizeof(Value) / sizeof(double));
    const auto at = [&](int64_t row, int b) { return reinterpret_cast<Memory*>(row0 + row * to + b * kWidth); };
    Value former[B][K] = {};
    for (int b = 0; b < B; ++b) former[b][0] = *at(first, b);
    for (int64_t t = first; t < last + K; ++t)
      for (int b = 0; b < B; ++b) {
        const Value done = step<K>(t, t < last ? Value(*at(t + 1, b)) : Value{}, former[b]);
        if (t >= first + K - 1) *at(t - (K - 1), b) = done;
      }
  }
  template <int K>
  void apply(bool back, int64_t first, int64_t last) const {
    constexpr int kLanes = AnyVec<double>::kLanes, kVecs = kLanes == 8 ? 4 : 2;
    double* const begin = back ? x + (n - 1) * ld : x;
    const int64_t to = back ? -ld : ld;
    int64_t j = 0;
    for (; j + kVecs * kLanes <= columns; j += kVecs * kLanes) pass<K, kVecs, ReflectedLanes, ReflectedMemory>(begin + j, to, first, last);
    for (; j + kLanes <= columns; j += kLanes) pass<K, 1, ReflectedLanes, ReflectedMemory>(begin + j, to, first, last);
    for (; j < columns; ++j) pass<K, 1, double, double>(begin + j, to, first, last);
  }
  void apply(int count, bool back, int64_t first, int64_t last) const {
    switch (count) {
      case 1: return apply<1>(back, first, last);
      case 2: return apply<2>(back, first, last);
      case 3: return apply<3>(back, first, last);
      case kMost: return apply<kMost>(back, first, last);
      default: return;
    }
  }
};

/// Sweeps of one direction whose rotations no vector has seen yet.
struct PendingSweeps {
  int count = 0;
  bool back = false;
  int64_t first = 0, last = 0;  ///< rows of all of them, as they pass them

  bool full(bool next_back) const { return count == Sweeps::kMost || (count > 0 && back != next_back); }
  /// The number of one more, over rows `from` to `to` of n, whose rotations are identities yet.
  template <int K>
  int add(const Sweeps* const (&all)[K], int64_t n, int64_t from, int64_t to, bool next_back) {
    const int64_t passed = next_back ? n - 1 - to : from, end = passed + to - from;
    first = count ? min_of(first, passed) : passed, last = count ? max_of(last, end) : end;
    back = next_back;
    for (const Sweeps* s : all) s->clear(count);
    return count++;
  }
  template <int K>
  void apply(const Sweeps* const (&all)[K]) {
    for (const Sweeps* s : all) s->apply(count, back, first, last);
    count = 0;
  }
};

/// x = u b v^T, b with diagonal d and e above it; then x = u diag(d) v^T, d of any sign and order.
struct Bidiagonal {
  double *ut, *vt;  ///< [n][uld]: x's columns, then u's; [n][vld]: v's columns, where vectors are asked for
  int64_t m, n, uld, vld;
  bool vectors;
  double *d, *e, *tau, *row_tau;  ///< [n]
  double *held, *sum;             ///< [m], lines of a cache as ut and vt
  double* rotations;              ///< [2 Sweeps::doubles(n)]

  /// From a row of m numbers to the next, so that rows do not lie in the same places of a cache.
  static int64_t ld_of(int64_t m) {
    const int64_t lines = ceil_div(m, 8);
    return 8 * (lines + (lines % 2 == 0));
  }

  /// Where the line of number i of a row begins: what is read from there on reads whole lines.
  static int64_t line_of(int64_t i) { return i & ~int64_t{7}; }
  /// v, of `length` numbers from number k of a row on, to the same places of `copy`, with zeros before it in its line.
  static void hold(double* copy, const double* v, int64_t k, int64_t length) {
    for (int64_t i = line_of(k); i < k; ++i) copy[i] = 0;
    for (int64_t i = 0; i < length; ++i) copy[k + i] = v[i];
  }

  void reduce() const {
    for (int64_t k = 0; k < n; ++k) {
      const Reflection left(ut + k * uld + k, m - k);
      d[k] = left.result, tau[k] = left.tau;
      const int64_t after = n - k - 1, line = line_of(k);
      hold(held, ut + k * uld + k, k, m - k);
      reflect_rows(ut + (k + 1) * uld + line, uld, after, held + line, m - line, left.tau);
      e[k] = row_tau[k] = 0;
      if (after == 0) break;
      double* const v = vt + (k + 1) * vld + k + 1;
      for (int64_t j = 0; j < after; ++j) v[j] = ut[(k + 1 + j) * uld + k];
      const Reflection right(v, after);
      e[k] = right.result, row_tau[k] = right.tau;
      if (right.tau == 0) continue;
      // The rest, columns after k from row k + 1 on, loses tau (rest v) v^T.
      const int64_t begin = line_of(k + 1), rows = m - begin;
      double* const rest = ut + (k + 1) * uld + begin;
      double* const sums = sum + begin;
      for (int64_t i = 0; i < rows; ++i) sums[i] = 0;
      int64_t j = 0;
      for (; j + 8 <= after; j += 8) {
        double factors[8];
        for (int r = 0; r < 8; ++r) factors[r] = v[j + r] * right.tau;
        add_rows_to<8>(sums, rest + j * uld, uld, rows, factors);
      }
      for (; j < after; ++j) {
        const double factor[1] = {v[j] * right.tau};
        add_rows_to<1>(sums, rest + j * uld, uld, rows, factor);
      }
      for (int64_t i = begin; i <= k; ++i) sum[i] = 0;
      for (j = 0; j + 4 <= after; j += 4) {
        const double factors[4] = {-v[j], -v[j + 1], -v[j + 2], -v[j + 3]};
        add_multiples<4>(rest + j * uld, uld, sums, rows, factors);
      }
      for (; j < after; ++j) {
        const double factor[1] = {-v[j]};
        add_multiples<1>(rest + j * uld, uld, sums, rows, factor);
      }
    }
  }

  /// The product of reflections whose v stand in rows `from` to count - 1 of x [count][ld], from column `row` on in row `row`, takes their
  /// place.
  static void form(double* x, int64_t ld, int64_t from, int64_t count, int64_t length, const double* factor, double* copy) {
    for (int64_t k = count - 1; k >= from; --k) {
      double* const v = x + k * ld + k;
      const int64_t line = line_of(k);
      hold(copy, v, k, length - k);
      reflect_rows(x + (k + 1) * ld + line, ld, count - k - 1, copy + line, length - line, factor[k]);
      for (int64_t i = 1; i < length - k; ++i) v[i] *= -factor[k];
      v[0] = 1 - factor[k];
      for (int64_t i = 0; i < k; ++i) x[k * ld + i] = 0;
    }
  }

  void form_vectors() const {
    form(ut, uld, 0, n, m, tau, held);
    for (int64_t i = 0; i < n; ++i) vt[i] = i == 0;
    for (int64_t j = 1; j < n; ++j) vt[j * vld] = 0;
    form(vt, vld, 1, n, n, row_tau - 1, held);
  }

  /// The smaller singular value of ((f, g), (0, h)).
  static double shift_of(double f, double g, double h) {
    const double a = __builtin_fabs(f), b = __builtin_fabs(g), c = __builtin_fabs(h), low = min_of(a, c), high = max_of(a, c);
    if (low == 0) return 0;
    const double as = 1 + low / high;
    if (b < high) {
      const double at = (high - low) / high, au = b / high * (b / high);
      return low * (2 / (__builtin_sqrt(as * as + au) + __builtin_sqrt(at * at + au)));
    }
    const double au = high / b;
    if (au == 0) return low * high / b;
    const double at = (high - low) / high, left = as * au, right = at * au;
    return 2 * (low * (1 / (__builtin_sqrt(1 + left * left) + __builtin_sqrt(1 + right * right)))) * au;
  }

  /// One sweep over rows first to last of b, with a shift or (0) without. The rotations go to sweep `number` of `near` and `far`: those
  /// that the sweep begins with and those that answer them, by rows as the sweep passes them.
  void sweep(int64_t first, int64_t last, bool back, double shift, const Sweeps& near, const Sweeps& far, int number) const {
    const int64_t step = back ? -1 : 1, begin = back ? last : first, count = last - first;
    const auto diagonal = [&](int64_t i) -> double& { return d[begin + step * i]; };
    const auto beside = [&](int64_t i) -> double& { return e[back ? last - 1 - i : first + i]; };
    const int64_t passed = back ? n - 1 - last : first;
    const auto note = [&](int64_t i, const Givens& a, const Givens& b) {
      near.cosines(number)[passed + i] = a.c, near.sines(number)[passed + i] = a.s;
      far.cosines(number)[passed + i] = b.c, far.sines(number)[passed + i] = b.s;
    };
    if (shift == 0) {
      double c = 1, far_c = 1, far_s = 0;
      for (int64_t i = 0; i < count; ++i) {
        const Givens a(diagonal(i) * c, beside(i));
        if (i > 0) beside(i - 1) = far_s * a.r;
        const Givens b(far_c * a.r, diagonal(i + 1) * a.s);
        diagonal(i) = b.r;
        c = a.c, far_c = b.c, far_s = b.s;
        note(i, a, b);
      }
      const double h = diagonal(count) * c;
      diagonal(count) = h * far_c;
      beside(count - 1) = h * far_s;
      return;
    }
    const double top = diagonal(0);
    double f = (__builtin_fabs(top) - shift) * ((top < 0 ? -1 : 1) + shift / top), g = beside(0);
    for (int64_t i = 0; i < count; ++i) {
      const Givens a(f, g);
      if (i > 0) beside(i - 1) = a.r;
      f = a.c * diagonal(i) + a.s * beside(i);
      beside(i) = a.c * beside(i) - a.s * diagonal(i);
      g = a.s * diagonal(i + 1);
      diagonal(i + 1) *= a.c;
      const Givens b(f, g);
      diagonal(i) = b.r;
      f = b.c * beside(i) + b.s * diagonal(i + 1);
      diagonal(i + 1) = b.c * diagonal(i + 1) - b.s * beside(i);
      if (i + 1 < count) {
        g = b.s * beside(i + 1);
        beside(i + 1) *= b.c;
      }
      note(i, a, b);
    }
    beside(count - 1) = f;
  }

  /// e becomes zeros. Its parts below `tolerance` of their neighbours are zeros from the start.
  void diagonalise() const {
    constexpr double kTolerance = 20 * 2.220446049250313e-16;
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = max_of(largest, max_of(__builtin_fabs(d[i]), __builtin_fabs(e[i])));
    const double least = kTolerance * largest * 1e-3;  // of what counts beside the largest
    int64_t sweeps_left = 40 * n;
    const int64_t half = Sweeps::doubles(n) / 2;
    const Sweeps of_u{rotations, rotations + half, ut, uld, n, m}, of_v{rotations + 2 * half, rotations + 3 * half, vt, vld, n, n};
    PendingSweeps pending;
    int64_t last = n - 1, block_first = -1, block_last = -1;
    bool back = false;
    while (last > 0 && sweeps_left-- > 0) {
      for (int64_t i = 0; i <= last; ++i)
        if (__builtin_fabs(d[i]) <= least) d[i] = 0;
      if (__builtin_fabs(e[last - 1]) <= least) {
        e[--last] = 0;
        continue;
      }
      int64_t first = last - 1;
      while (first > 0 && __builtin_fabs(e[first - 1]) > least) --first;
      if (first > 0) e[first - 1] = 0;
      if (first != block_first || last != block_last) back = __builtin_fabs(d[first]) < __builtin_fabs(d[last]);
      block_first = first, block_last = last;
      // Small beside what is on both sides of them: the convergence tests of Demmel and Kahan, whose `part` is at most the smallest value.
      bool split = false;
      double block_largest = 0;
      for (int64_t i = first; i <= last; ++i)
        block_largest = max_of(block_largest, max_of(__builtin_fabs(d[i]), i < last ? __builtin_fabs(e[i]) : 0.0));
      double part = __builtin_fabs(d[back ? last : first]), smallest = part;
      if (const int64_t i = back ? first : last - 1; __builtin_fabs(e[i]) <= kTolerance * __builtin_fabs(d[back ? first : last])) {
        e[i] = 0;
        split = true;
      }
      for (int64_t step = 0; step < last - first && !split; ++step) {
        const int64_t i = back ? last - 1 - step : first + step, next = back ? i : i + 1;
        const double size = __builtin_fabs(e[i]);
        if (size <= kTolerance * part) {
          e[i] = 0;
          split = true;
        }
        part = __builtin_fabs(d[next]) * (part / (part + size));
        smallest = min_of(smallest, part);
      }
      if (split) continue;
      const double start = __builtin_fabs(d[back ? last : first]);
      double shift = back ? shift_of(d[first], e[first], d[first + 1]) : shift_of(d[last - 1], e[last - 1], d[last]);
      const bool precise = static_cast<double>(n) * kTolerance * (smallest / block_largest) <= 2.2e-16;
      if (start == 0 || precise || shift / start * (shift / start) < 2.2e-16) shift = 0;
      if (!vectors) {
        sweep(first, last, back, shift, of_v, of_u, 0);
        continue;
      }
      if (pending.full(back)) pending.apply({&of_u, &of_v});
      // Read back, rows of b are those of its transpose: u and v change places.
      sweep(first, last, back, shift, back ? of_u : of_v, back ? of_v : of_u, pending.add({&of_u, &of_v}, n, first, last, back));
    }
    if (vectors) pending.apply({&of_u, &of_v});
  }
};

}  // namespace
