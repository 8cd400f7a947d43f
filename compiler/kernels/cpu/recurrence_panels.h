#pragma once
// Recurrent layers whose state's weight lies in panels: aotc_recurrence_panels_* of aotc/detail/library_abi.h.
//
// An item of a step is a panel's columns of the state, of all gates, and a group of rows: small products whose lanes run along the columns,
// then the gates' functions on sums that are hot. Threads that share the columns of a step read the same panels in every step, each from
// its begin to its end.
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "entry.h"
#include "recurrence_cells.h"
#include "team.h"

namespace {

/// How elements of panels are multiplied by the state. State: as a step reads it. kGroup: values of k that lie together in a panel.
/// kWhole: sums() makes those of all rows of an item at once (recurrence_tiles.h).
template <class T>
struct PanelMul {
  static constexpr bool kWhole = false;
  typedef reg<T> V;
  typedef typename lane_type<V>::type State;
  static constexpr int kGroup = 1;
  struct B {
    V v;
  };
  AOTC_I_MEMBER static B load(const T* w) { return {ld(w, full())}; }
  AOTC_I_MEMBER static V mul(V acc, const State* h, B b) { return mul_add(ld1(h), b.v, acc); }
};
#if defined(__AVX512BF16__)
template <>
struct PanelMul<bf16> {
  static constexpr bool kWhole = false;
  typedef f32v V;
  typedef bf16 State;
  static constexpr int kGroup = 2;
  struct B {
    __m512i v;
  };
  AOTC_I_MEMBER static B load(const bf16* w) { return {_mm512_loadu_si512(w)}; }
  AOTC_I_MEMBER static V mul(V acc, const State* h, B b) {
    int32_t pair;
    __builtin_memcpy(&pair, h, 4);
    return (V)_mm512_dpbf16_ps((__m512)acc, (__m512bh)_mm512_set1_epi32(pair), (__m512bh)b.v);
  }
};
#else
template <>
struct PanelMul<bf16> {
  static constexpr bool kWhole = false;
  typedef f32v V;
  typedef float State;
  static constexpr int kGroup = 2;
  struct B {
    V even, odd;
  };
  AOTC_I_MEMBER static B load(const bf16* w) {
    i32v x;
    __builtin_memcpy(&x, w, sizeof x);
    return {(V)(x << 16), (V)(x & -65536)};
  }
  AOTC_I_MEMBER static V mul(V acc, const State* h, B b) { return mul_add(ld1(h + 1), b.odd, mul_add(ld1(h), b.even, acc)); }
};
#endif

/// T: of x, the states that are given and the results; W: of the state's weight.
template <class T, class W, class Mul>
class RecurrencePanels {
 public:
  typedef reg<T> V;
  typedef typename lane_type<V>::type A;
  typedef typename Mul::State S;

  explicit RecurrencePanels(const aotc_team_kargs& team) : cfg_(static_cast<const aotc_recurrence_config*>(team.args.config)), team_(team) {
    const int64_t* size = team.args.size;
    steps_ = size[0], batch_ = size[1], hidden_ = size[2], step_rows_ = size[4], batch_rows_ = size[5];
    lstm_ = cfg_->cell == AOTC_CELL_LSTM;
    void* const* p = team.args.ptr;
    x_ = static_cast<const T*>(*p++);
    w_ = static_cast<const W*>(*p++);
    h0_ = static_cast<const T*>(*p++);
    c0_ = lstm_ ? static_cast<const T*>(*p++) : nullptr;
    bias_ = cfg_->cell == AOTC_CELL_GRU ? static_cast<const T*>(*p++) : nullptr;
    out_ = static_cast<T*>(*p++);
    h_last_ = static_cast<T*>(*p++);
    c_last_ = lstm_ ? static_cast<T*>(*p++) : nullptr;
    panels_ = (hidden_ + kPanel - 1) / kPanel, groups_ = (batch_ + AOTC_RECURRENCE_GROUP - 1) / AOTC_RECURRENCE_GROUP;
    pairs_ = (hidden_ + Mul::kGroup - 1) / Mul::kGroup;
    gate_w_ = panels_ * kPanel * pairs_ * Mul::kGroup;
    row_ = aotc_recurrence_row(hidden_);
    c_ = static_cast<A*>(team.shared);
    h_[0] = reinterpret_cast<S*>(c_ + batch_ * row_), h_[1] = h_[0] + batch_ * row_;
  }

  /// Threads share the groups of rows, which need nothing of each other, where that leaves none without; else the columns of each step, so
  /// that each keeps its part of the weights.
  void run() const {
    const int threads = team_.args.threads;
    if (threads > 1 && (groups_ % threads == 0 || groups_ >= 4 * threads)) {
      const Team team(team_, groups_);
      return team.phase(0, [&](int64_t g) {
        for (int64_t p = 0; p < panels_; ++p) begin(item(p, g));
        for (int64_t k = 0; k < steps_; ++k)
          for (int64_t p = 0; p < panels_; ++p) step(k, item(p, g));
      });
    }
    const Team team(team_, panels_ * groups_);
    if (team.over(steps_ + 1)) return;
    team.phase(0, [&](int64_t i) { begin(item(i / groups_, i % groups_)); });
    for (int64_t k = 0; k < steps_; ++k) team.phase(k + 1, [&](int64_t i) { step(k, item(i / groups_, i % groups_)); });
  }

 private:
  static constexpr int kPanel = AOTC_PANEL_N;
  static constexpr int kRegs = sizeof(V) / (AOTC_L * 4);          ///< of a vector
  static constexpr int kSums = (AOTC_L == 16 ? 24 : 12) / kRegs;  ///< vectors of sums that a tile keeps
  /// Sets of a tile's sums, to hide the latency; as many of every tile where bits are to be the same.
  static constexpr int sets(int rows, int gates, int vectors) {
    if (kSameBits) return gates == 1 ? 2 : 1;
    const int chains = rows * gates * vectors * kRegs;
    return chains > 6 ? 1 : chains > 2 ? 2 : 4;
  }
  /// Rows of tiles that are one or two vectors of every gate wide.
  static constexpr int rows_of(int gates, int vectors) {
    const int n = kSums / (gates * vectors * sets(kSums, gates, vectors));
    return n > 12 ? 12 : n;
  }
  static constexpr int kMostSums = 24;

  struct Item {
    int64_t panel, row, rows;
  };
  Item item(int64_t panel, int64_t g) const {
    const int64_t row = g * batch_ / groups_;
    return {panel, row, (g + 1) * batch_ / groups_ - row};
  }
  /// f(lanes, column) of the vectors of a panel that have columns.
  template <class F>
  AOTC_I_MEMBER void columns(int64_t panel, const F& f) const {
    const int64_t end = panel * kPanel + kPanel < hidden_ ? panel * kPanel + kPanel : hidden_;
    int64_t j = panel * kPanel;
    for (; j + AOTC_L <= end; j += AOTC_L) f(full(), j);
    if (j < end) f(part{static_cast<int>(end - j)}, j);
  }

  int64_t row_of(int64_t t, int64_t b) const { return t * step_rows_ + b * batch_rows_; }  ///< in x and out

  /// The state before the first step; also the last one, where there is no step.
  void begin(const Item& at) const {
    for (int64_t b = at.row; b < at.row + at.rows; ++b)
      columns(
          at.panel, [&](auto w, int64_t j) __attribute__((always_inline)) {
            const V h = ld(h0_ + b * hidden_ + j, w);
            st(h_[0] + b * row_ + j, h, full());
            if (!steps_) st(h_last_ + b * hidden_ + j, h, w);
            if (!lstm_) return;
            const V c = ld(c0_ + b * hidden_ + j, w);
            st(c_ + b * row_ + j, c, full());
            if (!steps_) st(c_last_ + b * hidden_ + j, c, w);
          });
  }

  void step(int64_t k, const Item& at) const {
    switch (cfg_->cell) {
      case AOTC_CELL_LSTM: return step_of<AOTC_CELL_LSTM>(k, at);
      case AOTC_CELL_GRU: return step_of<AOTC_CELL_GRU>(k, at);
      case AOTC_CELL_TANH: return step_of<AOTC_CELL_TANH>(k, at);
      default: return step_of<AOTC_CELL_RELU>(k, at);
    }
  }
  template <int Cell>
  void step_of(int64_t k, const Item& at) const {
    constexpr int G = Cell == AOTC_CELL_LSTM ? 4 : Cell == AOTC_CELL_GRU ? 3 : 1;
    const int64_t left = hidden_ - at.panel * kPanel, vectors = ((left < kPanel ? left : kPanel) + AOTC_L - 1) / AOTC_L;
    if constexpr (Mul::kWhole)
      vectors > 1 ? whole<Cell, G, 2>(k, at) : whole<Cell, G, 1>(k, at);
    else
      in_blocks<Cell, G>(k, at, vectors);
  }
  template <int Cell, int G>
  void in_blocks(int64_t k, const Item& at, int64_t vectors) const {
    constexpr int kWide = rows_of(G, 2), kNarrow = rows_of(G, 1) < 1 ? 1 : rows_of(G, 1);
    const bool wide = at.rows <= kWide && vectors > 1;
    const int64_t most = wide ? kWide : kNarrow, blocks = (at.rows + most - 1) / most;
    for (int64_t v = 0; v < vectors; v += wide ? 2 : 1) {
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t from = at.row + b * at.rows / blocks, to = at.row + (b + 1) * at.rows / blocks;
        if (wide)
          block<Cell, G, 2, kWide>(k, at.panel, v, from, to - from);
        else
          block<Cell, G, 1, kNarrow>(k, at.panel, v, from, to - from);
      }
    }
  }

  /// Rows [row, row + rows) of NV vectors of columns, from vector v of the panel on.
  template <int Cell, int G, int NV, int Most>
  void block(int64_t k, int64_t panel, int64_t v, int64_t row, int64_t rows) const {
    alignas(64) A sums[kMostSums * AOTC_L];
    const S* h = h_[k & 1] + row * row_;
    const W* w = w_ + panel * kPanel * pairs_ * Mul::kGroup + v * AOTC_L * Mul::kGroup;
    const int64_t first = panel * kPanel + v * AOTC_L;
    expect<G, NV>(k, first, row, rows);
    tile_of<G, NV, Most>(rows, h, w, sums);
    consume<Cell, G, NV>(k, first, row, rows, sums);
  }
  /// All of an item, of NV vectors.
  template <int Cell, int G, int NV>
  void whole(int64_t k, const Item& at) const {
    alignas(64) A sums[AOTC_RECURRENCE_GROUP * G * NV * AOTC_L];
    expect<G, NV>(k, at.panel * kPanel, at.row, at.rows);
    mul_.template sums<G, NV>(h_[k & 1] + at.row * row_, row_, at.rows, w_ + at.panel * kPanel * pairs_ * Mul::kGroup, gate_w_, hidden_,
                              sums);
    consume<Cell, G, NV>(k, at.panel * kPanel, at.row, at.rows, sums);
  }

  int64_t time(int64_t k) const { return cfg_->reverse ? steps_ - 1 - k : k; }

  /// The input's part comes while the sums are made.
  template <int G, int NV>
  void expect(int64_t k, int64_t first, int64_t row, int64_t rows) const {
    for (int64_t r = 0; r < rows; ++r)
      for (int g = 0; g < G; ++g)
        for (int u = 0; u < NV; ++u) __builtin_prefetch(x_ + (row_of(time(k), row + r) * G + g) * hidden_ + first + u * AOTC_L);
  }

  /// From sums [rows, G, NV vectors] of columns from `first` on to the state.
  template <int Cell, int G, int NV>
  AOTC_I_MEMBER void consume(int64_t k, int64_t first, int64_t row, int64_t rows, A* sums) const {
    const int64_t t = time(k);
    // The gates of all rows before the first state, so that more of them are computed at a time.
    const auto each = [&](const auto& f) __attribute__((always_inline)) {
      for (int64_t r = 0; r < rows; ++r)
        for (int u = 0; u < NV; ++u) {
          const int64_t j = first + u * AOTC_L, left = hidden_ - j;
          A* const at = sums + (r * G * NV + u) * AOTC_L;
          if (left >= AOTC_L)
            f(full(), row + r, j, at);
          else if (left > 0)
            f(part{static_cast<int>(left)}, row + r, j, at);
        }
    };
    each([&](auto w, int64_t b, int64_t j, A* at)
             __attribute__((always_inline)) { gates<Cell, G, NV>(w, x_ + row_of(t, b) * G * hidden_ + j, j, at); });
    each([&](auto w, int64_t b, int64_t j, A* at) __attribute__((always_inline)) { state<Cell, NV>(w, k, t, b, j, at); });
  }

  /// From sums of gates to what the state is made of, in their place.
  template <int Cell, int G, int NV, class Lanes>
  AOTC_I_MEMBER void gates(Lanes w, const T* x, int64_t j, A* sums) const {
    const auto sum = [&](int g) __attribute__((always_inline)) { return ld(sums + g * NV * AOTC_L, full()); };
    const auto in = [&](int g) __attribute__((always_inline)) { return ld(x + g * hidden_, w); };
    const auto put = [&](int g, V y) __attribute__((always_inline)) { st(sums + g * NV * AOTC_L, y, full()); };
    const auto both = [&](int g) __attribute__((always_inline)) { return v_add(in(g), sum(g)); };
    if constexpr (Cell == AOTC_CELL_LSTM) {
      const auto y = lstm_gates(both(0), both(1), both(2), both(3));
      put(0, y.fresh), put(1, y.keep), put(2, y.out);
    } else if constexpr (Cell == AOTC_CELL_GRU) {
      const auto bias = [&](int g) __attribute__((always_inline)) { return ld(bias_ + g * hidden_ + j, w); };
      const auto y = gru_gates(v_add(both(0), bias(0)), v_add(both(1), bias(1)), in(2), v_add(sum(2), bias(2)));
      put(0, y.fresh), put(1, y.keep);
    } else {
      put(0, both(0));
    }
  }
  /// The state before a step, as it was given out: what a step multiplies may be rounded more.
  template <class Lanes>
  AOTC_I_MEMBER V before(Lanes w, int64_t k, int64_t b, int64_t j) const {
    if constexpr (sizeof(S) >= sizeof(T)) return ld(h_[k & 1] + b * row_ + j, full());
    return ld(k ? out_ + row_of(time(k - 1), b) * hidden_ + j : h0_ + b * hidden_ + j, w);
  }
  template <int Cell, int NV, class Lanes>
  AOTC_I_MEMBER void state(Lanes w, int64_t k, int64_t t, int64_t b, int64_t j, const A* sums) const {
    const auto got = [&](int g) __attribute__((always_inline)) { return ld(sums + g * NV * AOTC_L, full()); };
    const bool last = k + 1 == steps_;
    V h;
    if constexpr (Cell == AOTC_CELL_LSTM) {
      A* const at = c_ + b * row_ + j;
      const LstmGates<V> y = {got(0), got(1), got(2)};
      const V c = lstm_cell(y, ld(at, full()));
      st(at, c, full());
      if (last) st(c_last_ + b * hidden_ + j, c, w);
      h = lstm_state(y, c);
    } else if constexpr (Cell == AOTC_CELL_GRU) {
      h = gru_state(GruGates<V>{got(0), got(1)}, before(w, k, b, j));
    } else if constexpr (Cell == AOTC_CELL_TANH) {
      h = v_tanh(got(0));
    } else {
      h = relu_state(got(0));
    }
    st(h_[(k + 1) & 1] + b * row_ + j, h, full());
    st(out_ + row_of(t, b) * hidden_ + j, h, w);
    if (last) st(h_last_ + b * hidden_ + j, h, w);
  }

  template <int G, int NV, int R>
  AOTC_I_MEMBER void tile_of(int64_t rows, const S* h, const W* w, A* sums) const {
    if constexpr (R > 1) {
      if (rows < R) return tile_of<G, NV, R - 1>(rows, h, w, sums);
    }
    if constexpr (R > 0) tile<G, NV, R>(h, w, sums);
  }

  /// sums [R, G, NV vectors] = the state's R rows times the columns at w of every gate.
  template <int G, int NV, int R>
  __attribute__((noinline)) void tile(const S* h, const W* w, A* sums) const {
    constexpr int kSets = sets(R, G, NV);
    constexpr int kStep = kPanel * Mul::kGroup;
    V acc[kSets][R][G][NV];
#pragma GCC unroll 4
    for (int s = 0; s < kSets; ++s)
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g)
#pragma GCC unroll 2
          for (int v = 0; v < NV; ++v) acc[s][r][g][v] = like(V{}, 0);
    const int64_t gate = gate_w_, ld_h = row_;
    const auto one = [&](V(&sum)[R][G][NV]) __attribute__((always_inline)) {
      typename Mul::B b[G][NV];
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g)
#pragma GCC unroll 2
        for (int v = 0; v < NV; ++v) b[g][v] = Mul::load(w + g * gate + v * AOTC_L * Mul::kGroup);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g)
#pragma GCC unroll 2
          for (int v = 0; v < NV; ++v) sum[r][g][v] = Mul::mul(sum[r][g][v], h + r * ld_h, b[g][v]);
      w += kStep, h += Mul::kGroup;
    };
    int64_t i = 0;
    for (; i + kSets <= pairs_; i += kSets)
#pragma GCC unroll 4
      for (int s = 0; s < kSets; ++s) one(acc[s]);
    for (; i < pairs_; ++i) one(acc[0]);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g)
#pragma GCC unroll 2
        for (int v = 0; v < NV; ++v) {
#pragma GCC unroll 4
          for (int s = 1; s < kSets; ++s) acc[0][r][g][v] = v_add(acc[0][r][g][v], acc[s][r][g][v]);
          st(sums + ((r * G + g) * NV + v) * AOTC_L, acc[0][r][g][v], full());
        }
  }

  const aotc_recurrence_config* cfg_;
  const aotc_team_kargs& team_;
  int64_t steps_, batch_, hidden_, step_rows_, batch_rows_, panels_, groups_, pairs_, gate_w_, row_;
  bool lstm_;
  const T *x_, *h0_, *c0_, *bias_;
  const W* w_;
  T *out_, *h_last_, *c_last_;
  A* c_;     // of all rows: the cell,
  S* h_[2];  // the state before and after a step
  mutable Mul mul_;
};

template <class T, class W = T, class Mul = PanelMul<W>>
void recurrence_panels(const aotc_kargs* args, int64_t begin, int64_t end) {
  if (begin < end) RecurrencePanels<T, W, Mul>(*reinterpret_cast<const aotc_team_kargs*>(args)).run();
}

}  // namespace
