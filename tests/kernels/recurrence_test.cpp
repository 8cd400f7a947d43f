// Recurrent layers of every cell, dtype and instruction set against plain loops over doubles.
#include <catch2/catch.hpp>

#include "support.h"

namespace kernel_test {
namespace {

const std::vector<Entry> kEntries = entries("recurrence");

constexpr int64_t kGuard = 32;  ///< elements after each result that must stay as they were

struct Sizes {
  int64_t steps, batch, hidden, width;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void check(const Entry& e, int32_t cell, const Sizes& z, bool reverse, std::mt19937& rng) {
  if (!runs_here(e.isa)) return;
  INFO(e.isa << " " << aotc::dtype_name(e.dtype) << " cell " << cell << " steps " << z.steps << " batch " << z.batch << " hidden "
             << z.hidden << " width " << z.width << " reverse " << reverse);
  const int64_t n = z.hidden * aotc_recurrence_gates(cell);
  const bool lstm = cell == AOTC_CELL_LSTM, gru = cell == AOTC_CELL_GRU, projected = z.width != z.hidden;
  Buffer x(z.steps * z.batch * n, e.dtype), w(z.width * n, e.dtype), h0(z.batch * z.width, e.dtype), c0(z.batch * z.hidden, e.dtype),
      bias(n, e.dtype), w_hr(z.hidden * z.width, e.dtype), out(z.steps * z.batch * z.width + kGuard, e.dtype),
      h(z.batch * z.width + kGuard, e.dtype), c(z.batch * z.hidden + kGuard, e.dtype);
  for (Buffer* b : {&out, &h, &c})
    for (int64_t i = 0; i < b->size; ++i) b->put(i, 7);
  for (Buffer* b : {&x, &w, &h0, &c0, &bias, &w_hr}) b->fill(rng);
  for (Buffer* b : {&w, &w_hr})  // states that neither vanish nor saturate
    for (int64_t i = 0; i < b->size; ++i) b->put(i, b->get(i) / std::sqrt(static_cast<double>(z.hidden)));
  std::vector<void*> ptr = {x.ptr(), w.ptr(), h0.ptr()};
  if (lstm) ptr.push_back(c0.ptr());
  if (gru) ptr.push_back(bias.ptr());
  if (projected) ptr.push_back(w_hr.ptr());
  ptr.insert(ptr.end(), {out.ptr(), h.ptr(), c.ptr()});
  int64_t size[] = {z.steps, z.batch, z.hidden, z.width};
  const aotc_recurrence_config cfg = {cell, reverse, projected};
  Scratch scratch(aotc_recurrence_scratch_bytes(cell, z.hidden, z.width, e.dtype == DType::f64 ? 8 : 4));
  volatile int32_t fault = 0;
  aotc_kargs args = {ptr.data(), size, &cfg, scratch.ptr(), 0, 1, &fault};
  const int64_t units = (z.batch + AOTC_RECURRENCE_ROWS - 1) / AOTC_RECURRENCE_ROWS;
  for (int64_t u = units; u-- > 0;) e.fn(&args, u, u + 1);

  const double eps = e.dtype == DType::f64 ? 1e-13 : e.dtype == DType::f32 ? 3e-5 : e.dtype == DType::f16 ? 4e-3 : 3e-2;
  std::vector<double> hs, cs, g(static_cast<size_t>(n)), s(static_cast<size_t>(z.hidden));
  for (int64_t i = 0; i < h0.size; ++i) hs.push_back(h0.get(i));
  for (int64_t i = 0; i < c0.size; ++i) cs.push_back(c0.get(i));
  double worst = 0;
  for (int64_t k = 0; k < z.steps; ++k) {
    const int64_t t = reverse ? z.steps - 1 - k : k;
    for (int64_t b = 0; b < z.batch; ++b) {
      const auto in = [&](int64_t j) { return x.get((t * z.batch + b) * n + j); };
      for (int64_t j = 0; j < n; ++j) {
        g[j] = gru ? bias.get(j) : in(j);
        for (int64_t i = 0; i < z.width; ++i) g[j] += hs[b * z.width + i] * w.get(i * n + j);
      }
      for (int64_t j = 0; j < z.hidden; ++j) {
        if (lstm) {
          double& cell_state = cs[b * z.hidden + j];
          cell_state = sigmoid(g[z.hidden + j]) * cell_state + sigmoid(g[j]) * std::tanh(g[2 * z.hidden + j]);
          s[j] = sigmoid(g[3 * z.hidden + j]) * std::tanh(cell_state);
        } else if (gru) {
          const double update = sigmoid(in(z.hidden + j) + g[z.hidden + j]);
          s[j] =
              (1 - update) * std::tanh(in(2 * z.hidden + j) + sigmoid(in(j) + g[j]) * g[2 * z.hidden + j]) + update * hs[b * z.width + j];
        } else {
          s[j] = cell == AOTC_CELL_TANH ? std::tanh(g[j]) : std::max(g[j], 0.0);
        }
      }
      for (int64_t i = 0; i < z.width; ++i) {
        double y = projected ? 0 : s[i];
        for (int64_t j = 0; projected && j < z.hidden; ++j) y += s[j] * w_hr.get(j * z.width + i);
        hs[b * z.width + i] = y;
        worst = std::max(worst, std::abs(out.get((t * z.batch + b) * z.width + i) - y) / (1 + std::abs(y)));
      }
    }
  }
  for (int64_t i = 0; i < h.size - kGuard; ++i) worst = std::max(worst, std::abs(h.get(i) - hs[i]) / (1 + std::abs(hs[i])));
  for (int64_t i = 0; lstm && i < c.size - kGuard; ++i) worst = std::max(worst, std::abs(c.get(i) - cs[i]) / (1 + std::abs(cs[i])));
  CHECK(worst < eps);
  for (Buffer* b : {&out, &h, &c})
    for (int64_t i = 1; i <= kGuard; ++i) CHECK(b->get(b->size - i) == 7);
}

TEST_CASE("recurrence: every cell, dtype and size") {
  std::mt19937 rng(5);
  const Sizes sizes[] = {{1, 1, 1, 1}, {3, 1, 16, 16}, {5, 2, 17, 17}, {4, 6, 33, 33}, {3, 7, 70, 70}, {2, 13, 129, 129}, {0, 2, 5, 5}};
  for (const Entry& e : kEntries) {
    for (int32_t cell : {AOTC_CELL_LSTM, AOTC_CELL_GRU, AOTC_CELL_TANH, AOTC_CELL_RELU})
      for (const Sizes& z : sizes)
        for (bool reverse : {false, true}) check(e, cell, z, reverse, rng);
    for (const Sizes& z : {Sizes{4, 3, 20, 9}, Sizes{3, 8, 65, 33}}) check(e, AOTC_CELL_LSTM, z, false, rng);
  }
}

}  // namespace
}  // namespace kernel_test
