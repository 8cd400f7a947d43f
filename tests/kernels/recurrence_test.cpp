// Recurrent layers of every cell, dtype and instruction set against plain loops over doubles.
#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "aotc/detail/team_abi.h"
#include "kernels/cpu/pack.h"
#include "support.h"

extern "C" void aotc_recurrence_tiles_bf16_amx_emulated(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_recurrence_tiles_bf16w_f32_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

/// Those of an algorithm and of the one with the same bits on all machines.
std::vector<Entry> with_same(const std::string& algorithm) {
  std::vector<Entry> all = entries(algorithm), same = entries(algorithm + "_same");
  all.insert(all.end(), same.begin(), same.end());
  return all;
}
const std::vector<Entry> kEntries = with_same("recurrence"), kPanelEntries = [] {
  std::vector<Entry> all = with_same("recurrence_panels");
  all.push_back(entry("recurrence_tiles", DType::bf16, "amx"));
  all.push_back({"avx512", DType::bf16, aotc_recurrence_tiles_bf16_amx_emulated});
  return all;
}();
/// Of float32 with the state's weight of bf16.
const std::vector<Entry> kHalfEntries = with_same("recurrence_bf16w"), kHalfPanelEntries = [] {
  std::vector<Entry> all = with_same("recurrence_panels_bf16w");
  all.push_back(entry("recurrence_tiles_bf16w", DType::f32, "amx"));
  all.push_back({"avx512", DType::f32, aotc_recurrence_tiles_bf16w_f32_amx_emulated});
  return all;
}();

constexpr int64_t kGuard = 32;  ///< elements after each result that must stay as they were

struct Sizes {
  int64_t steps, batch, hidden, width;
};

/// How an entry is called. Panels: of weights in panels, by one thread, by threads at the same time, or by the calls of threads one after
/// another, the first of which finds no other.
enum class Calls { rows, panels, together, in_turn };

/// [width, gates * hidden] as the panels of each gate after each other.
Buffer in_panels(Buffer& w, const Sizes& z, int64_t gates) {
  const int64_t each = aotc::kernels::panel_elems(z.width, z.hidden, w.type), bytes = aotc::dtype_bytes(w.type);
  Buffer out(gates * each, w.type);
  for (int64_t g = 0; g < gates; ++g)
    aotc::kernels::pack_panels(static_cast<char*>(w.ptr()) + g * z.hidden * bytes, gates * z.hidden, 1, z.width, z.hidden, w.type,
                               static_cast<char*>(out.ptr()) + g * each * bytes);
  return out;
}

void call(const Entry& e, aotc_team_kargs team, int64_t units, Calls calls) {
  if (calls == Calls::rows) {
    for (int64_t u = units; u-- > 0;) e.fn(&team.args, u, u + 1);
    return;
  }
  if (calls == Calls::panels) return e.fn(&team.args, 0, units);
  run_team(e, team, units, calls == Calls::together, 0);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// The bytes of the results.
std::string check(const Entry& e, int32_t cell, const Sizes& z, bool reverse, std::mt19937& rng, Calls calls = Calls::rows,
                  bool batch_first = false, bool half_weight = false) {
  if (!runs_here(e.isa)) return {};
  INFO(e.isa << " " << aotc::dtype_name(e.dtype) << " cell " << cell << " steps " << z.steps << " batch " << z.batch << " hidden "
             << z.hidden << " width " << z.width << " reverse " << reverse << " calls " << static_cast<int>(calls) << " batch first "
             << batch_first);
  const int64_t n = z.hidden * aotc_recurrence_gates(cell);
  const bool lstm = cell == AOTC_CELL_LSTM, gru = cell == AOTC_CELL_GRU, projected = z.width != z.hidden;
  Buffer x(z.steps * z.batch * n, e.dtype), w(z.width * n, half_weight ? DType::bf16 : e.dtype), h0(z.batch * z.width, e.dtype),
      c0(z.batch * z.hidden, e.dtype), bias(n, e.dtype), w_hr(z.hidden * z.width, e.dtype),
      out(z.steps * z.batch * z.width + kGuard, e.dtype), h(z.batch * z.width + kGuard, e.dtype), c(z.batch * z.hidden + kGuard, e.dtype);
  for (Buffer* b : {&out, &h, &c})
    for (int64_t i = 0; i < b->size; ++i) b->put(i, 7);
  for (Buffer* b : {&x, &w, &h0, &c0, &bias, &w_hr}) b->fill(rng);
  for (Buffer* b : {&w, &w_hr})  // states that neither vanish nor saturate
    for (int64_t i = 0; i < b->size; ++i) b->put(i, b->get(i) / std::sqrt(static_cast<double>(z.hidden)));
  Buffer panels = in_panels(w, z, aotc_recurrence_gates(cell));
  std::vector<void*> ptr = {x.ptr(), calls == Calls::rows ? w.ptr() : panels.ptr(), h0.ptr()};
  if (lstm) ptr.push_back(c0.ptr());
  if (gru) ptr.push_back(bias.ptr());
  if (projected) ptr.push_back(w_hr.ptr());
  ptr.insert(ptr.end(), {out.ptr(), h.ptr(), c.ptr()});
  const int64_t step_rows = batch_first ? 1 : z.batch, batch_rows = batch_first ? z.steps : 1;
  int64_t size[] = {z.steps, z.batch, z.hidden, z.width, step_rows, batch_rows};
  const aotc_recurrence_config cfg = {cell, reverse, projected};
  const int64_t acc_bytes = e.dtype == DType::f64 ? 8 : 4;
  Scratch scratch(calls == Calls::rows ? aotc_recurrence_scratch_bytes(cell, z.hidden, z.width, acc_bytes)
                                       : aotc_recurrence_panels_scratch_bytes(z.batch, z.hidden, acc_bytes));
  volatile int32_t fault = 0;
  const aotc_team_kargs args = {{ptr.data(), size, &cfg, scratch.ptr(), 0, 1, &fault}, scratch.ptr(), nullptr};
  const int64_t units =
      calls == Calls::rows ? (z.batch + AOTC_RECURRENCE_ROWS - 1) / AOTC_RECURRENCE_ROWS
                           : (z.hidden + AOTC_PANEL_N - 1) / AOTC_PANEL_N * ((z.batch + AOTC_RECURRENCE_GROUP - 1) / AOTC_RECURRENCE_GROUP);
  call(e, args, units, calls);

  const double eps = half_weight             ? (calls == Calls::rows ? 3e-5 : 1e-2)
                     : e.dtype == DType::f64 ? 1e-13
                     : e.dtype == DType::f32 ? 3e-5
                     : e.dtype == DType::f16 ? 4e-3
                                             : 3e-2;
  const std::vector<double> ws = values_of(w);
  std::vector<double> hs, cs, g(static_cast<size_t>(n)), s(static_cast<size_t>(z.hidden));
  for (int64_t i = 0; i < h0.size; ++i) hs.push_back(h0.get(i));
  for (int64_t i = 0; i < c0.size; ++i) cs.push_back(c0.get(i));
  double worst = 0;
  for (int64_t k = 0; k < z.steps; ++k) {
    const int64_t t = reverse ? z.steps - 1 - k : k;
    for (int64_t b = 0; b < z.batch; ++b) {
      const auto in = [&](int64_t j) { return x.get((t * step_rows + b * batch_rows) * n + j); };
      for (int64_t j = 0; j < n; ++j) g[j] = gru ? bias.get(j) : in(j);
      for (int64_t i = 0; i < z.width; ++i)
        for (int64_t j = 0; j < n; ++j) g[j] += hs[b * z.width + i] * ws[i * n + j];
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
        worst = std::max(worst, std::abs(out.get((t * step_rows + b * batch_rows) * z.width + i) - y) / (1 + std::abs(y)));
      }
    }
  }
  for (int64_t i = 0; i < h.size - kGuard; ++i) worst = std::max(worst, std::abs(h.get(i) - hs[i]) / (1 + std::abs(hs[i])));
  for (int64_t i = 0; lstm && i < c.size - kGuard; ++i) worst = std::max(worst, std::abs(c.get(i) - cs[i]) / (1 + std::abs(cs[i])));
  CHECK(worst < eps);
  for (Buffer* b : {&out, &h, &c})
    for (int64_t i = 1; i <= kGuard; ++i) CHECK(b->get(b->size - i) == 7);
  std::string bytes;
  for (Buffer* b : {&out, &h, &c})
    bytes.append(static_cast<const char*>(b->ptr()), static_cast<size_t>(b->size * aotc::dtype_bytes(b->type)));
  return bytes;
}

TEST_CASE("recurrence: every cell, dtype and size") {
  std::mt19937 rng(5);
  const Sizes sizes[] = {{1, 1, 1, 1}, {3, 1, 16, 16}, {5, 2, 17, 17}, {4, 6, 33, 33}, {3, 7, 70, 70}, {2, 13, 129, 129}, {0, 2, 5, 5}};
  for (const Entry& e : kEntries) {
    for (int32_t cell : {AOTC_CELL_LSTM, AOTC_CELL_GRU, AOTC_CELL_TANH, AOTC_CELL_RELU})
      for (const Sizes& z : sizes)
        for (bool reverse : {false, true}) check(e, cell, z, reverse, rng);
    for (const Sizes& z : {Sizes{4, 3, 20, 9}, Sizes{3, 8, 65, 33}}) check(e, AOTC_CELL_LSTM, z, false, rng);
    for (const Sizes& z : {Sizes{4, 3, 20, 9}, Sizes{3, 8, 65, 65}}) check(e, AOTC_CELL_LSTM, z, true, rng, Calls::rows, true);
    for (const Sizes& z : sizes) check(e, AOTC_CELL_GRU, z, false, rng, Calls::rows, true);
  }
}

TEST_CASE("recurrence: weights in panels, alone and by threads that help each other") {
  std::mt19937 rng(6);
  const Sizes sizes[] = {{1, 1, 1, 1}, {3, 1, 16, 16},  {5, 2, 17, 17},    {4, 6, 33, 33},  {3, 7, 70, 70}, {2, 13, 49, 49},
                         {0, 2, 5, 5}, {2, 50, 65, 65}, {3, 26, 128, 128}, {2, 60, 33, 33}, {2, 17, 96, 96}};
  for (const Entry& e : kPanelEntries)
    for (int32_t cell : {AOTC_CELL_LSTM, AOTC_CELL_GRU, AOTC_CELL_TANH, AOTC_CELL_RELU}) {
      for (const Sizes& z : sizes)
        for (Calls calls : {Calls::panels, Calls::together, Calls::in_turn}) check(e, cell, z, false, rng, calls);
      for (int64_t batch = 1; batch <= 13; ++batch) check(e, cell, {2, batch, 35, 35}, true, rng, Calls::panels);
      for (Calls calls : {Calls::panels, Calls::together, Calls::in_turn})
        for (const Sizes& z : sizes) check(e, cell, z, calls == Calls::panels, rng, calls, true);
    }
}

TEST_CASE("recurrence: the same bits with every instruction set") {
  const struct {
    const char* algorithm;
    Calls calls;
    bool half_weight;
  } kRows[] = {{"recurrence_same", Calls::rows, false},
               {"recurrence_bf16w_same", Calls::rows, true},
               {"recurrence_panels_same", Calls::panels, false},
               {"recurrence_panels_bf16w_same", Calls::panels, true}};
  for (const auto& row : kRows)
    for (int32_t cell : {AOTC_CELL_LSTM, AOTC_CELL_GRU, AOTC_CELL_TANH, AOTC_CELL_RELU})
      for (const Sizes& z : {Sizes{5, 1, 72, 72}, Sizes{4, 2, 41, 41}, Sizes{4, 3, 89, 89}, Sizes{3, 13, 33, 33}, Sizes{2, 30, 20, 20}}) {
        std::map<DType, std::string> first;
        for (const Entry& e : entries(row.algorithm)) {
          std::mt19937 same(8);
          const std::string got = check(e, cell, z, false, same, row.calls, false, row.half_weight);
          INFO(row.algorithm << " " << e.isa << " " << aotc::dtype_name(e.dtype) << " cell " << cell << " batch " << z.batch);
          CHECK((got.empty() || got == first.try_emplace(e.dtype, got).first->second));
        }
      }
}

TEST_CASE("recurrence: weights of bf16 beside states of float32") {
  std::mt19937 rng(7);
  const Sizes sizes[] = {{1, 1, 1, 1}, {3, 1, 16, 16}, {5, 2, 17, 17}, {6, 7, 70, 70}, {2, 13, 129, 129}, {2, 50, 65, 65}, {0, 2, 5, 5}};
  for (int32_t cell : {AOTC_CELL_LSTM, AOTC_CELL_GRU, AOTC_CELL_TANH, AOTC_CELL_RELU})
    for (const Sizes& z : sizes)
      for (const bool batch_first : {false, true}) {
        for (const Entry& e : kHalfEntries) check(e, cell, z, batch_first, rng, Calls::rows, batch_first, true);
        for (const Entry& e : kHalfPanelEntries)
          for (Calls calls : {Calls::panels, Calls::together, Calls::in_turn})
            check(e, cell, z, !batch_first, rng, calls, batch_first, true);
      }
}

}  // namespace
}  // namespace kernel_test
