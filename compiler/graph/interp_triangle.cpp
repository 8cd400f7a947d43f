// Factorisations and what is solved with them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/interp_detail.h"
#include "graph/singular.h"

namespace aotc::interp {

void cholesky(Eval& e) {
  const std::vector<double> x = as_f64(*e.in[0]);
  const int64_t n = e.in_dims(0).back(), count = e.out[1].elems();
  std::vector<double> out(x.size(), 0);
  std::vector<int64_t> info(static_cast<size_t>(count), 0);
  const bool nan_below_infinite = e.in[0]->dtype == DType::f32 && n <= kCholeskyNanRows;
  for (int64_t m = 0; m < count; ++m) {
    const double* a = x.data() + m * n * n;
    double* l = out.data() + m * n * n;
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = j; i < n; ++i) {
        double rest = a[i * n + j];
        for (int64_t k = 0; k < j; ++k) rest -= l[i * n + k] * l[j * n + k];
        if (i > j) {
          const double root = l[j * n + j];
          l[i * n + j] = nan_below_infinite && std::isinf(root) ? std::numeric_limits<double>::quiet_NaN() : rest / root;
        } else if (rest > 0) {
          l[j * n + j] = std::sqrt(rest);
        } else {
          l[j * n + j] = std::numeric_limits<double>::quiet_NaN();
          if (info[m] == 0) info[m] = j + 1;
        }
      }
  }
  set_f64(e.out[0], out);
  set_i64(e.out[1], info);
}

void exclude(Eval& e) {
  const std::vector<int64_t> x = as_i64(*e.in[0]);
  const int64_t n = e.in_dims(0).back(), lines = e.out[0].elems();
  std::vector<int64_t> stays(static_cast<size_t>(lines), 1);
  for (int64_t i = 0; i < lines; ++i)
    for (int64_t j = i % n + 1; stays[i] && j < n; ++j)
      if (x[i * n + j]) stays[i - i % n + j] = 0;
  set_i64(e.out[0], stays);
}

void lu(Eval& e) {
  std::vector<double> x = as_f64(*e.in[0]);
  const int64_t m = e.out[1].dims.back(), n = e.in_dims(0).back(), steps = std::min(m, n),
                count = count_of({e.out[1].dims.begin(), e.out[1].dims.end() - 1});
  std::vector<int64_t> order(static_cast<size_t>(count * m)), swaps(static_cast<size_t>(count * steps));
  for (int64_t c = 0; c < count; ++c) {
    double* a = x.data() + c * m * n;
    int64_t* place = order.data() + c * m;
    std::iota(place, place + m, int64_t{0});
    for (int64_t k = 0; k < steps; ++k) {
      int64_t p = k;
      double best = std::fabs(a[k * n + k]);  // a NaN here stays the pivot, elsewhere it is none
      for (int64_t i = k; i < m; ++i)
        if (std::fabs(a[i * n + k]) > best) best = std::fabs(a[i * n + k]), p = i;
      swaps[static_cast<size_t>(c * steps + k)] = p;
      std::swap(place[k], place[p]);
      if (p != k) std::swap_ranges(a + k * n, a + k * n + n, a + p * n);
      const double pivot = a[k * n + k];
      for (int64_t i = k + 1; i < m; ++i) {
        double* row = a + i * n;
        if (pivot != 0) row[k] /= pivot;
        for (int64_t j = k + 1; j < n; ++j) row[j] -= row[k] * a[k * n + j];
      }
    }
  }
  set_f64(e.out[0], x);
  set_i64(e.out[1], order);
  set_i64(e.out[2], swaps);
}

void qr(Eval& e) {
  std::vector<double> x = as_f64(*e.in[0]);
  const std::vector<int64_t>& dims = e.in_dims(0);
  const int64_t m = dims[dims.size() - 2], n = dims.back(), steps = std::min(m, n), count = count_of({dims.begin(), dims.end() - 2});
  std::vector<double> tau(static_cast<size_t>(count * steps));
  for (int64_t c = 0; c < count; ++c) {
    double* a = x.data() + c * m * n;
    for (int64_t k = 0; k < steps; ++k) {
      double tail = 0;  // the length of the column below its diagonal
      for (int64_t i = k + 1; i < m; ++i) tail = std::hypot(tail, a[i * n + k]);
      const double alpha = a[k * n + k];
      if (tail == 0) continue;
      const double beta = -std::copysign(std::hypot(alpha, tail), alpha), factor = (beta - alpha) / beta;
      tau[static_cast<size_t>(c * steps + k)] = factor;
      for (int64_t i = k + 1; i < m; ++i) a[i * n + k] /= alpha - beta;
      a[k * n + k] = beta;
      for (int64_t j = k + 1; j < n; ++j) {
        double sum = a[k * n + j];
        for (int64_t i = k + 1; i < m; ++i) sum += a[i * n + k] * a[i * n + j];
        a[k * n + j] -= factor * sum;
        for (int64_t i = k + 1; i < m; ++i) a[i * n + j] -= factor * sum * a[i * n + k];
      }
    }
  }
  set_f64(e.out[0], x);
  set_f64(e.out[1], tau);
}

void solve_triangular(Eval& e) {
  const std::vector<double> a = as_f64(*e.in[0]);
  std::vector<double> x = as_f64(*e.in[1]);
  const std::vector<int64_t>& dims = e.in_dims(1);
  const int64_t n = dims[dims.size() - 2], k = dims.back(), count = count_of({dims.begin(), dims.end() - 2});
  const bool upper = e.n.get<bool>(Attr::upper), unit = e.n.get<bool>(Attr::unit), below = e.n.get<bool>(Attr::below);
  for (int64_t m = 0; m < count; ++m)
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = upper ? n - 1 - step : step, from = upper ? i + 1 : 0, to = upper ? n : i;
      const double* row = a.data() + (m * n + i) * n;
      for (int64_t c = 0; c < (below ? i : k); ++c) {
        double rest = x[(m * n + i) * k + c];
        for (int64_t j = from; j < to; ++j) rest -= row[j] * x[(m * n + j) * k + c];
        x[(m * n + i) * k + c] = unit ? rest : rest / row[i];
      }
    }
  set_f64(e.out[0], x);
}

}  // namespace aotc::interp
