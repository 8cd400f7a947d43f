#pragma once
// Recurrent layers in one direction: aotc_recurrence_* of aotc/detail/library_abi.h. The only kernel of the library that is written with
// the vectors of generated code (vec/), whose elementary functions it needs.
//
// A work unit is a block of rows of the batch over all steps. A step is one small product, state [rows, width] by weights [width, gates],
// in register tiles whose lanes run along the gates, then the gates' functions vector by vector. State and gates stay in scratch.
#include "entry.h"
#include "recurrence_cells.h"

namespace {

/// W: elements of the state's weight, T or a narrower type, which is widened as it is read.
template <class T, class W = T>
class Recurrence {
 public:
  typedef reg<T> V;
  typedef typename lane_type<V>::type A;

  explicit Recurrence(const aotc_kargs* args) : cfg_(static_cast<const aotc_recurrence_config*>(args->config)) {
    const int64_t* size = args->size;
    steps_ = size[0], batch_ = size[1], hidden_ = size[2], width_ = size[3], step_rows_ = size[4], batch_rows_ = size[5];
    gates_ = hidden_ * aotc_recurrence_gates(cfg_->cell);
    const bool lstm = cfg_->cell == AOTC_CELL_LSTM;
    void* const* p = args->ptr;
    x_ = static_cast<const T*>(*p++);
    w_ = static_cast<const W*>(*p++);
    h0_ = static_cast<const T*>(*p++);
    c0_ = lstm ? static_cast<const T*>(*p++) : nullptr;
    bias_ = cfg_->cell == AOTC_CELL_GRU ? static_cast<const T*>(*p++) : nullptr;
    w_hr_ = cfg_->projected ? static_cast<const T*>(*p++) : nullptr;
    out_ = static_cast<T*>(*p++);
    h_last_ = static_cast<T*>(*p++);
    c_last_ = lstm ? static_cast<T*>(*p++) : nullptr;
    ld_g_ = gates_ + 16, ld_s_ = (hidden_ > width_ ? hidden_ : width_) + 16;
    g_ = static_cast<A*>(args->scratch);
    h_ = g_ + AOTC_RECURRENCE_ROWS * ld_g_;
    c_ = h_ + AOTC_RECURRENCE_ROWS * ld_s_;
    s_ = c_ + AOTC_RECURRENCE_ROWS * ld_s_;
  }

  void unit(int64_t u) {
    const int64_t units = (batch_ + AOTC_RECURRENCE_ROWS - 1) / AOTC_RECURRENCE_ROWS;
    b0_ = u * batch_ / units;
    rows_ = static_cast<int>((u + 1) * batch_ / units - b0_);
    copy_in(h0_, width_, h_);
    if (c0_) copy_in(c0_, hidden_, c_);
    for (int64_t k = 0; k < steps_; ++k) {
      const int64_t t = cfg_->reverse ? steps_ - 1 - k : k;
      const int64_t row = t * step_rows_ + b0_ * batch_rows_, apart = batch_rows_ * gates_;
      const T* x = x_ + row * gates_;
      // The gated unit's new value needs the state's part alone, the others add it to the input's.
      for (int r = 0; r < rows_; ++r) {
        const T* from = bias_ ? bias_ : x + r * apart;
        along(
            gates_, [&](auto w, int64_t j) __attribute__((always_inline)) { st(g_ + r * ld_g_ + j, ld(from + j, w), full()); });
      }
      product(h_, w_, width_, gates_, g_, ld_g_);
      A* const to = w_hr_ ? s_ : h_;
      for (int r = 0; r < rows_; ++r) cell(x + r * apart, g_ + r * ld_g_, h_ + r * ld_s_, c_ + r * ld_s_, to + r * ld_s_);
      if (w_hr_) {
        for (int64_t i = 0; i < rows_ * ld_s_; ++i) h_[i] = 0;
        product(s_, w_hr_, hidden_, width_, h_, ld_s_);
      }
      copy_out(h_, width_, out_ + row * width_, batch_rows_ * width_);
    }
    copy_out(h_, width_, h_last_ + b0_ * width_, width_);
    if (c_last_) copy_out(c_, hidden_, c_last_ + b0_ * hidden_, hidden_);
  }

 private:
  template <class F>
  AOTC_I_MEMBER static void along(int64_t n, const F& f) {
    int64_t j = 0;
    for (; j + AOTC_L <= n; j += AOTC_L) f(full(), j);
    if (j < n) f(part{static_cast<int>(n - j)}, j);
  }
  void copy_in(const T* src, int64_t n, A* dst) const {
    for (int r = 0; r < rows_; ++r)
      along(
          n, [&](auto w, int64_t j) __attribute__((always_inline)) { st(dst + r * ld_s_ + j, ld(src + (b0_ + r) * n + j, w), full()); });
  }
  void copy_out(const A* src, int64_t n, T* dst, int64_t apart) const {
    for (int r = 0; r < rows_; ++r)
      along(
          n, [&](auto w, int64_t j) __attribute__((always_inline)) { st(dst + r * apart + j, ld(src + r * ld_s_ + j, full()), w); });
  }

  void cell(const T* x, const A* g, const A* h, A* c, A* to) const {
    const int64_t n = hidden_;
    switch (cfg_->cell) {
      case AOTC_CELL_LSTM:
        return along(
            n, [&](auto, int64_t j) __attribute__((always_inline)) {
              const auto gates = lstm_gates(gate(g, 0, j), gate(g, 1, j), gate(g, 2, j), gate(g, 3, j));
              const V next = lstm_cell(gates, ld(c + j, full()));
              st(c + j, next, full());
              st(to + j, lstm_state(gates, next), full());
            });
      case AOTC_CELL_GRU:
        return along(
            n, [&](auto w, int64_t j) __attribute__((always_inline)) {
              const V reset = v_add(ld(x + j, w), gate(g, 0, j)), update = v_add(ld(x + n + j, w), gate(g, 1, j));
              st(to + j, gru_state(gru_gates(reset, update, ld(x + 2 * n + j, w), gate(g, 2, j)), ld(h + j, full())), full());
            });
      case AOTC_CELL_TANH:
        return along(
            n, [&](auto, int64_t j) __attribute__((always_inline)) { st(to + j, v_tanh(gate(g, 0, j)), full()); });
      default:  // ReLU
        return along(
            n, [&](auto, int64_t j) __attribute__((always_inline)) { st(to + j, relu_state(gate(g, 0, j)), full()); });
    }
  }
  AOTC_I_MEMBER V gate(const A* g, int i, int64_t j) const { return ld(g + i * hidden_ + j, full()); }

  /// out += a [rows, k] * w [k, n], a with stride ld_s_.
  template <class B>
  void product(const A* a, const B* w, int64_t k, int64_t n, A* out, int64_t ld_out) const {
    switch (rows_) {
      case 1: return columns<1>(a, w, k, n, out, ld_out);
      case 2: return columns<2>(a, w, k, n, out, ld_out);
      case 3: return columns<3>(a, w, k, n, out, ld_out);
      case 4: return columns<4>(a, w, k, n, out, ld_out);
      case 5: return columns<5>(a, w, k, n, out, ld_out);
      default: return columns<AOTC_RECURRENCE_ROWS>(a, w, k, n, out, ld_out);
    }
  }
  /// Vectors of a tile: the accumulators of six rows fill three quarters of the registers; one row takes more, to hide the latency.
  template <int R>
  static constexpr int vectors() {
    constexpr int registers = AOTC_L == 16 ? 24 : 12, each = sizeof(V) / (AOTC_L * 4);
    constexpr int n = registers / (R * each);
    return n < 1 ? 1 : n > 8 ? 8 : n;
  }
  template <int R, class B>
  void columns(const A* a, const B* w, int64_t k, int64_t n, A* out, int64_t ld_out) const {
    constexpr int NV = vectors<R>();
    int64_t j = 0;
    for (; j + NV * AOTC_L <= n; j += NV * AOTC_L) tile<R, NV>(full(), a, w + j, k, n, out + j, ld_out);
    for (; j + AOTC_L <= n; j += AOTC_L) tile<R, 1>(full(), a, w + j, k, n, out + j, ld_out);
    if (j < n) tile<R, 1>(part{static_cast<int>(n - j)}, a, w + j, k, n, out + j, ld_out);
  }
  template <int R, int NV, class Alive, class B>
  void tile(Alive alive, const A* a, const B* w, int64_t k, int64_t n, A* out, int64_t ld_out) const {
    V acc[R][NV];
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < NV; ++v) acc[r][v] = ld(out + r * ld_out + v * AOTC_L, full());
    for (int64_t i = 0; i < k; ++i) {
      V b[NV];
      for (int v = 0; v < NV; ++v) b[v] = ld(w + i * n + v * AOTC_L, alive);
      for (int r = 0; r < R; ++r) {
        const V x = ld1(a + r * ld_s_ + i);
        for (int v = 0; v < NV; ++v) acc[r][v] = mul_add(x, b[v], acc[r][v]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int v = 0; v < NV; ++v) st(out + r * ld_out + v * AOTC_L, acc[r][v], alive);
  }

  const aotc_recurrence_config* cfg_;
  int64_t steps_, batch_, hidden_, width_, step_rows_, batch_rows_, gates_, ld_g_, ld_s_, b0_ = 0;
  int rows_ = 0;
  const T *x_, *h0_, *c0_, *bias_, *w_hr_;
  const W* w_;
  T *out_, *h_last_, *c_last_;
  A *g_, *h_, *c_, *s_;  // of the unit's rows: gates, state, cell, state before its projection
};

template <class T, class W = T>
void recurrence(const aotc_kargs* args, int64_t begin, int64_t end) {
  Recurrence<T, W> r(args);
  for (int64_t u = begin; u < end; ++u) r.unit(u);
}

}  // namespace
