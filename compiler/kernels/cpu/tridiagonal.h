#pragma once
// Eigenvalues and eigenvectors of one symmetric matrix by a tridiagonal one: Householder's reflections, each applied as the next one's
// product is summed, then sweeps of rotations with Wilkinson's shifts (Golub and Van Loan, Matrix Computations, 8.3).
#include "bidiagonal.h"

namespace {

/// x = v diag(d) v^T.
struct Tridiagonal {
  double* vt;  ///< [n][ld]: x, then v's columns where vectors are asked for; lines of a cache
  int64_t n, ld;
  bool vectors;
  double *d, *e, *tau;           ///< [n]
  double *held, *next, *weight;  ///< [ld], lines: v and w of the reflection that is applied, v of the one after it
  double* rotations;             ///< [Sweeps::doubles(n)]

  static bool is_symmetric(const double* x, int64_t n) {
    bool same = true;
    for (int64_t i = 0; i < n && same; ++i)
      for (int64_t j = 0; j < i; ++j) same &= x[i * n + j] == x[j * n + i];
    return same;
  }

  /// R rows from i on lose v w^T + w v^T, in columns from `begin` on; sums: of their products with `next`.
  template <int R>
  void update(int64_t i, int64_t begin, double (&sums)[R]) const {
    constexpr int kLanes = AnyVec<double>::kLanes;
    ReflectedLanes parts[R] = {};
    double* const rows = vt + i * ld;
    for (int64_t j = begin; j < ld; j += kLanes) {
      const auto at = [&](double* p) { return reinterpret_cast<ReflectedMemory*>(p + j); };
      const ReflectedLanes v = *at(held), w = *at(weight), u = *at(next);
      for (int r = 0; r < R; ++r) {
        const ReflectedLanes row = *at(rows + r * ld) - held[i + r] * w - weight[i + r] * v;
        *at(rows + r * ld) = row;
        parts[r] += row * u;
      }
    }
    for (int r = 0; r < R; ++r) sums[r] = sum_of_lanes(parts[r]);
  }

  void reduce() const {
    constexpr int kRows = 4;
    for (int64_t j = 0; j < ld; ++j) held[j] = weight[j] = next[j] = 0;
    for (int64_t k = 0; k < n; ++k) {
      double none[1];
      update<1>(k, Bidiagonal::line_of(k), none);
      double* const row = vt + k * ld;
      d[k] = row[k], e[k] = tau[k] = 0;
      if (k + 1 == n) break;
      const Reflection turn(row + k + 1, n - k - 1);
      e[k] = turn.result, tau[k] = turn.tau;
      Bidiagonal::hold(next, row + k + 1, k + 1, n - k - 1);
      // next's product with the rest, of which the reflection before it is taken at the same time; kept behind the rows it belongs to, as
      // no row that comes reads it.
      double* const product = rotations;
      int64_t i = k + 1;
      for (; i + kRows <= n; i += kRows) {
        double sums[kRows];
        update<kRows>(i, Bidiagonal::line_of(k + 1), sums);
        for (int r = 0; r < kRows; ++r) product[i + r] = sums[r];
      }
      for (; i < n; ++i) {
        double sums[1];
        update<1>(i, Bidiagonal::line_of(k + 1), sums);
        product[i] = sums[0];
      }
      double along = 0;
      for (int64_t j = k + 1; j < n; ++j) along += product[j] * next[j];
      const double half = turn.tau * turn.tau * along / 2;
      for (int64_t j = Bidiagonal::line_of(k + 1); j < n; ++j) {
        held[j] = next[j];
        weight[j] = j > k ? turn.tau * product[j] - half * next[j] : 0;
      }
    }
  }

  void form_vectors() const {
    for (int64_t k = n - 1; k > 0; --k)  // reflections stand a row above their first numbers
      for (int64_t j = k; j < n; ++j) vt[k * ld + j] = vt[(k - 1) * ld + j];
    Bidiagonal::form(vt, ld, 1, n, n, tau - 1, held);
    for (int64_t j = 0; j < n; ++j) vt[j] = j == 0;
    for (int64_t i = 1; i < n; ++i) vt[i * ld] = 0;
  }

  /// One sweep over rows first to last of the tridiagonal matrix, as it passes them.
  void sweep(int64_t first, int64_t last, bool back, const Sweeps& seen, int number) const {
    const int64_t step = back ? -1 : 1, begin = back ? last : first, count = last - first, passed = back ? n - 1 - last : first;
    const auto diagonal = [&](int64_t i) -> double& { return d[begin + step * i]; };
    const auto beside = [&](int64_t i) -> double& { return e[back ? last - 1 - i : first + i]; };
    const double half = (diagonal(count - 1) - diagonal(count)) / 2, end = beside(count - 1);
    const double root = __builtin_sqrt(half * half + end * end);
    double x = diagonal(0) - (diagonal(count) - end * end / (half + (half < 0 ? -root : root))), z = beside(0);
    for (int64_t i = 0; i < count; ++i) {
      const Givens g(x, z);
      if (i > 0) beside(i - 1) = g.r;
      const double o = beside(i), turned = (diagonal(i + 1) - diagonal(i)) * g.s + 2 * g.c * o, moved = g.s * turned;
      diagonal(i) += moved;
      diagonal(i + 1) -= moved;
      x = beside(i) = g.c * turned - o;
      if (i + 1 < count) {
        z = g.s * beside(i + 1);
        beside(i + 1) *= g.c;
      }
      if (vectors) seen.cosines(number)[passed + i] = g.c, seen.sines(number)[passed + i] = g.s;
    }
  }

  void diagonalise() const {
    constexpr double kEps = 2.220446049250313e-16;
    double largest = 0;
    for (int64_t i = 0; i < n; ++i) largest = max_of(largest, max_of(__builtin_fabs(d[i]), __builtin_fabs(e[i])));
    const double least = kEps / 64 * largest;
    const auto is_small = [&](int64_t i) {
      const double size = __builtin_fabs(e[i]);
      return size <= least || size <= kEps * __builtin_sqrt(__builtin_fabs(d[i])) * __builtin_sqrt(__builtin_fabs(d[i + 1]));
    };
    PendingSweeps pending;
    const Sweeps seen{rotations, rotations + Sweeps::doubles(n) / 2, vt, ld, n, n};
    int64_t sweeps_left = 40 * n, last = n - 1;
    while (last > 0 && sweeps_left-- > 0) {
      if (is_small(last - 1)) {
        e[--last] = 0;
        continue;
      }
      int64_t first = last - 1;
      while (first > 0 && !is_small(first - 1)) --first;
      const bool back = __builtin_fabs(d[first]) < __builtin_fabs(d[last]);
      if (!vectors) {
        sweep(first, last, back, seen, 0);
        continue;
      }
      if (pending.full(back)) pending.apply({&seen});
      sweep(first, last, back, seen, pending.add({&seen}, n, first, last, back));
    }
    if (vectors) pending.apply({&seen});
  }
};

}  // namespace
