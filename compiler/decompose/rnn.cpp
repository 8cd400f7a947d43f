// Recurrent networks: sequences of a few steps unrolled, others as one recurrence a layer and direction.
#include "decompose/rnn.h"

#include <algorithm>

#include "decompose/families.h"
#include "decompose/linalg.h"

namespace aotc::decompose {
namespace {

/// Steps that are unrolled: they fuse with what is around them, and targets without a recurrence kernel have them at all. More make graphs
/// that compile slowly.
constexpr int64_t kUnrolled = 8;

/// Weights of one layer in one direction.
struct Cell {
  T w_ih, w_hh;
  std::optional<T> b_ih, b_hh, w_hr;
};

struct Step {
  T h;
  std::optional<T> c;
};

/// One step: from the input's part (bias included) and the state.
using StepFn = Step (*)(const T& x_part, const Step& state, const Cell& cell);
/// A kind of cell: its name as Op::recurrence has it, and its step.
struct Kind {
  const char* cell;
  StepFn step;
  bool with_cell;  ///< the state has a cell beside the output
};

T gate(const T& all, int i, int count) {
  const Expr n = floordiv(all.dim(-1), count);
  return all.slice(-1, n * i, n);
}

T recurrent(const T& h, const Cell& cell) {
  const T wt(h.b(), h.b().transpose(cell.w_hh, 0, 1));
  const T y = matmul(h, wt, product_type(h.dtype()));
  return (cell.b_hh ? y + cell.b_hh->to(y.dtype()) : y).to(h.dtype());
}

Step lstm_step(const T& x, const Step& s, const Cell& cell) {
  const T all = (x + recurrent(s.h, cell)).up();
  const T i = sigmoid(gate(all, 0, 4)), f = sigmoid(gate(all, 1, 4)), g = tanh(gate(all, 2, 4)), o = sigmoid(gate(all, 3, 4));
  const T c = f * s.c->up() + i * g;
  T h = (o * tanh(c)).to(x.dtype());
  if (cell.w_hr) h = matmul(h, T(h.b(), h.b().transpose(*cell.w_hr, 0, 1)), h.dtype());
  return {h, c.to(x.dtype())};
}

Step gru_step(const T& x, const Step& s, const Cell& cell) {
  const T in = x.up(), hid = recurrent(s.h, cell).up();
  const T reset = sigmoid(gate(in, 0, 3) + gate(hid, 0, 3)), update = sigmoid(gate(in, 1, 3) + gate(hid, 1, 3));
  const T fresh = tanh(gate(in, 2, 3) + reset * gate(hid, 2, 3));
  return {((1.0 - update) * fresh + update * s.h.up()).to(x.dtype()), std::nullopt};
}

template <Op activation>
Step rnn_step(const T& x, const Step& s, const Cell& cell) {
  return {unary(activation, x + recurrent(s.h, cell)), std::nullopt};
}

struct Sequence {
  T out;  ///< [T, B, P]
  Step last;
};

/// part [T, B, gates]: the input's part of all steps, b_ih included.
Sequence unrolled(const Kind& kind, const T& part, Step s, const Cell& cell, int64_t steps, bool reverse) {
  Builder& b = part.b();
  std::vector<ValueId> out(static_cast<size_t>(steps), ValueId{});
  for (int64_t k = 0; k < steps; ++k) {
    const int64_t t = reverse ? steps - 1 - k : k;
    s = kind.step(part.select(0, t), s, cell);
    out[static_cast<size_t>(t)] = s.h.unsqueeze(0);
  }
  return {T(b, b.cat(out, 0)), s};
}

/// part [T, B, gates], or [B, T, gates] with batch_first; the outputs in the same order.
Sequence recurrence(const Kind& kind, T part, const Step& s, const Cell& cell, bool reverse, bool batch_first) {
  Builder& b = part.b();
  const bool gru = std::string_view(kind.cell) == "gru";
  const auto transposed = [&](const T& w) { return T(b, b.transpose(w, 0, 1)); };
  // The gated unit multiplies a part of the state's product, so its bias cannot be added beforehand.
  if (cell.b_hh && !gru) part = (part + *cell.b_hh).to(s.h.dtype());
  std::vector<ValueId> in = {part, transposed(cell.w_hh), s.h};
  if (kind.with_cell) in.push_back(*s.c);
  if (gru) in.push_back(cell.b_hh ? *cell.b_hh : T(b, b.full({s.h.dtype(), {part.dim(-1)}}, 0.0)));
  if (cell.w_hr) in.push_back(transposed(*cell.w_hr));
  const std::vector<ValueId> out =
      b.make(Op::recurrence, in, {{Attr::cell, std::string(kind.cell)}, {Attr::reverse, reverse}, {Attr::dim, int64_t{batch_first}}});
  Step last{T(b, out.at(1)), std::nullopt};
  if (kind.with_cell) last.c = T(b, out.at(2));
  return {T(b, out.at(0)), last};
}

constexpr Kind kKinds[] = {
    {"lstm", lstm_step, true}, {"gru", gru_step, false}, {"tanh", rnn_step<Op::tanh>, false}, {"relu", rnn_step<Op::relu>, false}};

/// input [T, B, I] (or [B, T, I] with batch_first), all layers and directions.
void run_layers(Rule& r, const Kind& kind) {
  const bool with_cell = kind.with_cell;
  if (!r.has("input") || r.has("batch_sizes")) r.refuse("packed sequences are not supported", "pad the sequences");
  if (r.boolean("train") && r.number("dropout") != 0.0) r.refuse("dropout between layers is random", "call model.eval() before exporting");
  const bool batch_first = r.boolean("batch_first"), both = r.boolean("bidirectional"), biases = r.boolean("has_biases");
  const int64_t layers = r.integer("num_layers");
  T x = tensor(r, "input");
  const int directions = both ? 2 : 1;
  const bool batched = x.rank() == 3;
  if (!batched) x = x.unsqueeze(1);
  const std::optional<int64_t> steps = x.dim(batched && batch_first ? 1 : 0).as_const();
  const bool unroll = steps && *steps <= kUnrolled;
  // Steps that are unrolled have the steps first, whatever the layer has.
  const bool turned = batched && batch_first && unroll, rows_first = batched && batch_first && !unroll;
  if (turned) x = {r.b, r.b.transpose(x, 0, 1)};
  std::vector<ValueId> states = with_cell ? r.tensors("hx") : std::vector<ValueId>{r.tensor("hx")};
  const auto state_of = [&](size_t which, int64_t i) {
    const T s(r.b, states.at(which));
    return (s.rank() == 2 ? s.unsqueeze(1) : s).select(0, i);
  };
  const std::vector<ValueId> params = r.tensors("params");
  size_t at = 0;
  const bool projected = with_cell && !r.b.syms().proves_eq(state_of(0, 0).dim(-1), state_of(1, 0).dim(-1));
  const auto next = [&] { return T(r.b, params.at(at++)); };
  std::vector<ValueId> last_h, last_c;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<ValueId> outputs;
    for (int d = 0; d < directions; ++d) {
      const T w_ih = next(), w_hh = next();
      Cell cell{w_ih, w_hh, std::nullopt, std::nullopt, std::nullopt};
      if (biases) cell.b_ih = next(), cell.b_hh = next();
      if (projected) cell.w_hr = next();
      // The input's part of all steps is one product.
      const T flat = x.reshape({x.dim(0) * x.dim(1), x.dim(2)});
      T part = matmul(flat, T(r.b, r.b.transpose(cell.w_ih, 0, 1)), product_type(x.dtype()));
      if (cell.b_ih) part = part + cell.b_ih->to(part.dtype());
      part = part.to(x.dtype()).reshape({x.dim(0), x.dim(1), cell.w_ih.dim(0)});
      Step s{state_of(0, layer * directions + d), std::nullopt};
      if (with_cell) s.c = state_of(1, layer * directions + d);
      const Sequence y = unroll ? unrolled(kind, part, s, cell, *steps, d == 1) : recurrence(kind, part, s, cell, d == 1, rows_first);
      outputs.push_back(y.out);
      last_h.push_back(y.last.h.unsqueeze(0));
      if (with_cell) last_c.push_back(y.last.c->unsqueeze(0));
    }
    x = {r.b, r.b.cat(outputs, 2)};
  }
  if (turned) x = {r.b, r.b.transpose(x, 0, 1)};
  const auto put = [&](size_t i, ValueId v) {
    if (r.wants(i)) r.set(i, batched ? v : r.b.reshape(v, r.meta_result(i).dims));
  };
  put(0, x);
  put(1, r.b.cat(last_h, 0));
  if (with_cell) put(2, r.b.cat(last_c, 0));
}

void lstm(Rule& r) { run_layers(r, kKinds[0]); }
void gru(Rule& r) { run_layers(r, kKinds[1]); }
void rnn_tanh(Rule& r) { run_layers(r, kKinds[2]); }
void rnn_relu(Rule& r) { run_layers(r, kKinds[3]); }

/// One step of a cell.
void run_cell(Rule& r, StepFn step, bool with_cell) {
  const T x = tensor(r, "input"), w_ih = tensor(r, "w_ih"), w_hh = tensor(r, "w_hh");
  const Cell cell{w_ih, w_hh, opt_tensor(r, "b_ih"), opt_tensor(r, "b_hh"), std::nullopt};
  T part = matmul(x, T(r.b, r.b.transpose(w_ih, 0, 1)), product_type(x.dtype()));
  if (cell.b_ih) part = part + cell.b_ih->to(part.dtype());
  const std::vector<ValueId> hx = with_cell ? r.tensors("hx") : std::vector<ValueId>{r.tensor("hx")};
  Step s{T(r.b, hx.at(0)), std::nullopt};
  if (with_cell) s.c = T(r.b, hx.at(1));
  s = step(part.to(x.dtype()), s, cell);
  r.set(0, s.h);
  if (with_cell) r.set(1, *s.c);
}
void lstm_cell(Rule& r) { run_cell(r, lstm_step, true); }
void gru_cell(Rule& r) { run_cell(r, gru_step, false); }
void rnn_tanh_cell(Rule& r) { run_cell(r, rnn_step<Op::tanh>, false); }
void rnn_relu_cell(Rule& r) { run_cell(r, rnn_step<Op::relu>, false); }

constexpr RuleRow kRows[] = {
    {"aten.lstm.input", lstm},
    {"aten.gru.input", gru},
    {"aten.rnn_tanh.input", rnn_tanh},
    {"aten.rnn_relu.input", rnn_relu},
    {"aten.lstm_cell.default", lstm_cell},
    {"aten.gru_cell.default", gru_cell},
    {"aten.rnn_tanh_cell.default", rnn_tanh_cell},
    {"aten.rnn_relu_cell.default", rnn_relu_cell},
};
}  // namespace

std::vector<ValueId> recurrence_by_steps(Builder& b, const Node& n) {
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return n.get<std::string>(Attr::cell) == k.cell; });
  AOTC_CHECK(kind != std::end(kKinds), "a recurrence of unknown cells");
  const auto turned = [&](const T& x) { return T(b, b.transpose(x, 0, 1)); };
  size_t at = 0;
  const auto next = [&] { return T(b, n.inputs.at(at++)); };
  const bool rows_first = n.get<int64_t>(Attr::dim) == 1;
  T part = next();
  if (rows_first) part = turned(part);
  const T w = turned(next());
  Cell cell{w, w, std::nullopt, std::nullopt, std::nullopt};
  Step s{next(), std::nullopt};
  if (kind->with_cell) s.c = next();
  if (kind->step == gru_step) cell.b_hh = next();
  if (at < n.inputs.size()) cell.w_hr = turned(next());
  const Sequence y = unrolled(*kind, part, s, cell, part.dim(0).as_const().value(), n.get<bool>(Attr::reverse));
  std::vector<ValueId> out = {rows_first ? turned(y.out) : y.out, y.last.h};
  if (y.last.c) out.push_back(*y.last.c);
  return out;
}

RuleTable rnn_rules() { return kRows; }

}  // namespace aotc::decompose
