#pragma once
// Random graphs that have all that a model may have: convolutions of every kind, products used in slices or with computed operands,
// attention, recurrences, whole-tensor algorithms, indices given at run time, states, inputs that get new content. For tests of the whole
// road; what is checked with a tolerance stays continuous (of a sort the values are used, not the order).
#include "random_graph.h"

namespace aotc::test {

class RandomModel : public RandomGraph {
 public:
  using RandomGraph::RandomGraph;

 private:
  static constexpr int64_t kMostElems = 4000;
  int64_t elems(ValueId v) const {
    return g_.type(v).elems().eval([&](SymId s) { return g_.syms[s].max; });
  }
  /// A value that fits the interpreter's patience.
  ValueId modest(ValueId v) {
    while (elems(v) > kMostElems) v = small(b_.reduce(ReduceKind::max, v, {dim_of(v)}));
    return v;
  }
  ValueId spread(Exprs dims) {  ///< a weight, repeated where it must be
    Exprs own = dims;
    for (Expr& d : own)
      if (!d.is_const() || chance(25)) d = 1;
    return b_.expand(weight(own), dims);
  }

  void begin() override {
    Exprs dims = {chance(50) ? some_size() : Expr(3)};
    if (chance(40)) dims.push_back(2);
    run_time_index_ = g_.add_input("i", {DType::i64, dims});
    if (!chance(30)) return;
    Exprs kept = {1 + pick(4), 2 + pick(6)};
    const TensorType t{o_.dtype, kept};
    const ConstId initial = chance(50) ? kNone<ConstId> : g_.values[weight(kept)].constant;
    pool_.push_back(g_.add_state("kept", t, initial));
    state_ = pool_.back();
  }
  void end() override {
    if (state_) {
      ValueId next = chance(40) ? b_.flip(*state_, {pick(2)}) : *state_;
      if (chance(80)) next = small(b_.binary(Op::add, next, partner(*state_)));
      g_.states[g_.values[*state_].state].updated = next == *state_ ? b_.unary(Op::neg, next) : next;
    }
    if (chance(30)) {  // an input's new content
      const ValueId x = g_.inputs[0].value;
      const ValueId v = chance(30) ? b_.flip(x, {dim_of(x)}) : small(b_.binary(Op::add, x, partner(x)));
      g_.outputs.push_back({"x0.next", v, "", 0});
    }
  }

  ValueId step() override {
    using Maker = ValueId (RandomModel::*)();
    static constexpr Maker kMakers[] = {
        &RandomModel::convolution, &RandomModel::convolution, &RandomModel::segments,   &RandomModel::computed_operand,
        &RandomModel::batched,     &RandomModel::heads,       &RandomModel::sorted,     &RandomModel::scattered,
        &RandomModel::put,         &RandomModel::looked_up,   &RandomModel::recurrence,
    };
    const ValueId v = chance(35) ? (this->*kMakers[pick(std::size(kMakers))])() : RandomGraph::step();
    return modest(v);
  }

  // ---- contractions
  ValueId convolution() {
    const int spatial = 1 + pick(3);
    const ValueId v = with_rank(recent(), static_cast<size_t>(2 + spatial));
    const auto channels = b_.dims(v)[1].as_const();
    if (!channels || *channels > 12) return unary();
    const bool transposed = chance(30);
    Ints divisors;
    for (int64_t g = 1; g <= *channels; ++g)
      if (*channels % g == 0) divisors.push_back(g);
    const int64_t groups = chance(40) ? divisors[static_cast<size_t>(pick(static_cast<int>(divisors.size())))] : 1;
    const int64_t of_group = 1 + pick(groups > 2 ? 2 : chance(20) ? 40 : 5);
    Exprs w = transposed ? Exprs{*channels, of_group} : Exprs{groups * of_group, *channels / groups};
    Ints stride, dilation, padding, padding_hi, output_padding;
    for (int d = 0; d < spatial; ++d) {
      const int64_t k = 1 + pick(spatial == 3 ? 2 : 3), s = 1 + pick(2), l = 1 + pick(2), reach = l * (k - 1);
      const auto size = b_.dims(v)[static_cast<size_t>(2 + d)].as_const();
      w.push_back(k);
      stride.push_back(s);
      dilation.push_back(l);
      if (transposed) {
        padding.push_back(pick(static_cast<int>(reach / 2) + 1));
        output_padding.push_back(s > 1 ? pick(2) : 0);
      } else if (size && *size > reach && chance(30)) {
        padding.push_back(0);
        padding_hi.push_back(pick(2));
      } else {
        padding.push_back((reach + 1) / 2 + pick(2));
        padding_hi.push_back(reach / 2 + pick(2));
      }
    }
    std::map<Attr, AttrValue> attrs = {
        {Attr::stride, stride}, {Attr::dilation, dilation}, {Attr::padding, padding}, {Attr::groups, groups}};
    attrs[transposed ? Attr::output_padding : Attr::padding_hi] = transposed ? output_padding : padding_hi;
    const ValueId kernel = chance(85) ? weight(w) : small(b_.binary_scalar(Op::mul, weight(w), 0.5));
    ValueId y = b_.make1(transposed ? Op::conv_transpose : Op::conv, {v, kernel}, attrs);
    const Exprs d = b_.dims(y);
    Exprs per_channel(d.size(), Expr(1));
    per_channel[1] = d[1];
    if (chance(50)) y = b_.binary(Op::mul, y, b_.expand(weight(per_channel), d));
    if (chance(50)) y = b_.binary(Op::add, y, b_.expand(weight(per_channel), d));
    if (chance(30)) y = b_.binary(Op::add, y, partner(y));
    return chance(70) ? small(y) : b_.unary(Op::relu, small(y));
  }
  /// Rows with k columns that are a number.
  std::optional<ValueId> rows(size_t rank) {
    const ValueId v = with_rank(recent(), rank);
    const auto k = b_.dims(v).back().as_const();
    if (!k || *k > 64) return std::nullopt;
    return v;
  }
  ValueId times_weight(ValueId v, int64_t n) {
    Exprs d = b_.dims(v);
    const Expr k = d.back();
    d[d.size() - 2] = k;
    d.back() = n;
    const ValueId w = chance(50) ? weight({k, n}) : b_.permute(weight({n, k}), {1, 0});
    return b_.matmul(v, b_.expand(w, d), o_.dtype);
  }
  ValueId segments() {
    const auto v = rows(2 + static_cast<size_t>(pick(2)));
    if (!v) return unary();
    int64_t n = 0;
    std::vector<std::pair<int64_t, int64_t>> parts;
    for (int i = 2 + pick(2); i > 0; --i) {
      const int64_t size = std::array<int64_t, 6>{1, 3, 8, 16, 33, 64}[static_cast<size_t>(pick(6))];
      parts.emplace_back(n, size);
      n += size;
    }
    const ValueId y = times_weight(*v, n);
    for (const auto& [begin, size] : parts) {
      ValueId part = b_.slice(y, b_.rank(y) - 1, begin, size);
      if (chance(50)) part = b_.binary_scalar(Op::mul, part, 0.25);
      part = small(part);
      pool_.push_back(modest(chance(30) ? b_.transpose(part, -1, -2) : part));
    }
    return pool_.back();
  }
  /// So wide that the product may compute its operands.
  ValueId computed_operand() {
    const auto v = rows(2);
    if (!v) return unary();
    ValueId a = *v;
    for (int i = 1 + pick(3); i > 0; --i) {
      switch (pick(5)) {
        case 0: a = b_.binary(Op::mul, a, partner(a)); break;
        case 1: a = b_.pad(a, {0, pick(2)}, {0, pick(2)}, 0.5); break;
        case 2: a = b_.cat({a, partner(a)}, 1); break;
        case 3: a = b_.flip(a, {1}); break;
        default: a = b_.unary(chance(50) ? Op::relu : Op::abs, a); break;
      }
    }
    const Expr k = b_.dims(a).back();
    ValueId w = chance(60) ? weight({k, 200}) : b_.binary_scalar(Op::mul, small(spread({k, 200})), 0.5);
    if (chance(20)) w = b_.binary(Op::mul, w, b_.expand(small(weight({k, 1})), {k, 200}));
    const ValueId y = b_.matmul(small(a), w, o_.dtype);
    return small(b_.slice(y, 1, pick(150), 1 + pick(8)));
  }
  ValueId batched() {
    const ValueId v = with_rank(recent(), 3 + static_cast<size_t>(pick(3)));
    const ValueId w = chance(40) ? b_.permute(any_like(v), last_two_swapped(b_.rank(v))) : small(b_.transpose(any_like(v), -1, -2));
    return small(b_.matmul(chance(30) ? b_.unary(Op::abs, v) : v, w, o_.dtype));
  }
  static Ints last_two_swapped(int rank) {
    Ints p(static_cast<size_t>(rank));
    std::iota(p.begin(), p.end(), 0);
    std::swap(p[p.size() - 1], p[p.size() - 2]);
    return p;
  }
  ValueId heads() {
    const ValueId q = with_rank(recent(), 4);
    const Exprs d = b_.dims(q);
    ValueId k = any_like(q), v = any_like(q);
    const auto heads = d[1].as_const();
    if (heads && *heads % 2 == 0 && chance(50)) {
      k = b_.slice(k, 1, 0, *heads / 2);
      v = b_.slice(v, 1, *heads / 2, *heads / 2);
    }
    if (chance(30)) {
      k = b_.cat({k, small(k)}, 2);
      v = b_.cat({v, small(v)}, 2);
    }
    if (chance(30)) v = b_.cat({v, v}, 3);
    std::vector<ValueId> in = {q, k, v};
    const bool causal = chance(30);
    if (!causal && chance(50)) {
      const Exprs dims = {chance(50) ? Expr(1) : d[0], chance(50) ? Expr(1) : d[1], d[2], b_.dims(k)[2]};
      in.push_back(chance(50) ? mask(dims) : spread(dims));
    }
    const bool sinks = chance(25);
    if (sinks) {
      const ValueId x = spread({chance(50) ? Expr(1) : d[0], chance(30) ? Expr(1) : d[1], chance(70) ? Expr(1) : d[2], 1});
      in.push_back(b_.cast(x, is_half(o_.dtype) ? DType::f32 : o_.dtype));
    }
    return small(b_.make1(Op::attention, in, {{Attr::scale, 0.25 * (1 + pick(4))}, {Attr::causal, causal}, {Attr::sinks, sinks}}));
  }

  // ---- whole-tensor algorithms
  ValueId sorted() {
    const ValueId v = ranked(recent());
    const int d = dim_of(v);
    const auto n = b_.dims(v)[static_cast<size_t>(d)].as_const();
    if (n && chance(50))
      return b_.make(
          Op::topk, {v},
          {{Attr::dim, int64_t{d}}, {Attr::k, Expr(1 + pick(static_cast<int>(*n)))}, {Attr::largest, chance(50)}, {Attr::sorted, true}})[0];
    return b_.make(Op::sort, {v}, {{Attr::dim, int64_t{d}}, {Attr::descending, chance(50)}, {Attr::stable, true}})[0];
  }
  ValueId scattered() {
    static constexpr const char* kKinds[] = {"sum", "amax", "amin", "mean"};
    const ValueId x = ranked(recent());
    const int d = dim_of(x);
    Exprs at = b_.dims(x);
    if (chance(50)) at[static_cast<size_t>(d)] = some_size();
    const ValueId source = at == b_.dims(x) ? partner(x) : spread(at);
    const ValueId i = positions(at, b_.dims(x)[static_cast<size_t>(d)]);
    return small(b_.make1(Op::scatter, {x, i, source},
                          {{Attr::dim, int64_t{d}}, {Attr::reduce, std::string(kKinds[pick(4)])}, {Attr::include_self, chance(60)}}));
  }
  ValueId put() {
    const ValueId x = ranked(recent());
    const int d = dim_of(x);
    const Expr n = some_size();
    Exprs dims = b_.dims(x);
    dims[static_cast<size_t>(d)] = n;
    return small(b_.make1(Op::index_put, {x, spread(dims), positions({n}, b_.dims(x)[static_cast<size_t>(d)])},
                          {{Attr::dims, Ints{d}}, {Attr::out_pos, int64_t{d}}, {Attr::accumulate, true}}));
  }
  /// Indices that are known when the model runs: 0 and 1, which count from the end where 2 is subtracted.
  ValueId looked_up() {
    const ValueId x = ranked(any());
    const int d = dim_of(x);
    const auto n = b_.dims(x)[static_cast<size_t>(d)].as_const();
    ValueId i = run_time_index_;
    if (!n || *n < 2)
      i = b_.binary(Op::remainder, i, b_.expand(b_.sym(b_.dims(x)[static_cast<size_t>(d)]), b_.dims(i)));
    else if (chance(30))
      i = b_.binary(Op::sub, i, b_.full_int(b_.type(i), 2));
    return b_.index(x, {i}, {d}, d);
  }
  ValueId recurrence() {
    const auto v = rows(3);
    if (!v) return unary();
    static constexpr std::pair<const char*, int64_t> kCells[] = {{"lstm", 4}, {"gru", 3}, {"tanh", 1}, {"relu", 1}};
    const auto& [cell, gates] = kCells[pick(4)];
    const Exprs d = b_.dims(*v);
    const int64_t h = 1 + pick(9), p = gates == 4 && chance(30) ? 1 + pick(4) : h;
    const ValueId flat = b_.reshape(*v, {d[0] * d[1], d[2]});
    const ValueId part = b_.reshape(small(times_weight(flat, gates * h)), {d[0], d[1], gates * h});
    const bool batch_first = chance(40);
    const Expr batch = d[batch_first ? 0 : 1];
    std::vector<ValueId> in = {part, small(weight({p, gates * h})), b_.expand(weight({1, p}), {batch, p})};
    if (gates == 4) in.push_back(b_.expand(weight({1, h}), {batch, h}));
    if (gates == 3) in.push_back(weight({gates * h}));
    if (p != h) in.push_back(weight({h, p}));
    const auto out =
        b_.make(Op::recurrence, in, {{Attr::cell, std::string(cell)}, {Attr::reverse, chance(50)}, {Attr::dim, int64_t{batch_first}}});
    if (chance(50)) pool_.push_back(small(out[1]));
    return small(out[0]);
  }

  ValueId run_time_index_{};
  std::optional<ValueId> state_;
};

}  // namespace aotc::test
