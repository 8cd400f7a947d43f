#pragma once
// Random well-typed graphs by seed, for tests that compare two ways of computing the same (passes, lowering, generated code).
// Values stay of moderate size and no float operator is discontinuous, so that results may be compared with a tolerance.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "graph/builder.h"
#include "graph/interp.h"
#include "graph/scalar.h"

namespace aotc::test {

struct RandomOptions {
  int nodes = 25;            ///< building steps
  bool symbolic = true;      ///< dims b and s are symbols
  bool contractions = true;  ///< matmul, conv, attention
  bool constants = true;     ///< some operands are weights
  DType dtype = DType::f32;
};

class RandomGraph {
 public:
  RandomGraph(uint32_t seed, RandomOptions options) : rng_(seed), o_(options), b_(g_) {}
  virtual ~RandomGraph() = default;

  Graph build() {
    if (o_.symbolic) {
      sizes_.push_back(Expr::symbol(g_.syms.add({"b", SymKind::shape, 1, 6})));
      sizes_.push_back(Expr::symbol(g_.syms.add({"s", SymKind::shape, 1, 9})));
    }
    for (int64_t n : {1, 2, 3, 4, 6}) sizes_.push_back(n);
    for (int i = 0; i < 2 + pick(2); ++i)
      pool_.push_back(g_.add_input("x" + std::to_string(i), {o_.dtype, i == 0 && o_.symbolic ? both_symbols() : some_dims()}));
    begin();
    while (static_cast<int>(g_.order.size()) < o_.nodes) pool_.push_back(step());
    for (int i = 0; i < 3; ++i) {
      const ValueId v = i == 0 ? pool_.back() : any();
      g_.outputs.push_back({"y" + std::to_string(i), v, "", -1});
    }
    end();
    return std::move(g_);
  }

 protected:
  virtual void begin() {}  ///< more inputs
  virtual void end() {}    ///< more outputs
  int pick(int n) { return static_cast<int>(rng_() % static_cast<uint32_t>(n)); }
  bool chance(int percent) { return pick(100) < percent; }
  Expr some_size() { return sizes_[pick(static_cast<int>(sizes_.size()))]; }
  Exprs both_symbols() { return {sizes_[0], 2 + pick(3), sizes_[1]}; }  ///< the first input gives every symbol its value
  Exprs some_dims() {
    Exprs d;
    for (int i = 1 + pick(4); i > 0; --i) d.push_back(some_size());
    return d;
  }
  ValueId any() { return pool_[pool_.size() - 1 - static_cast<size_t>(std::min(pick(8), static_cast<int>(pool_.size()) - 1))]; }
  ValueId recent() { return pool_[pool_.size() - 1 - static_cast<size_t>(std::min(pick(3), static_cast<int>(pool_.size()) - 1))]; }
  int dim_of(ValueId v) { return pick(b_.rank(v)); }
  ValueId ranked(ValueId v) { return b_.rank(v) ? v : b_.reshape(v, {1}); }
  bool fixed(ValueId v) const {
    for (const Expr& d : g_.type(v).dims)
      if (!d.is_const()) return false;
    return true;
  }

  ValueId weight(Exprs dims) {
    const TensorType t{o_.dtype, std::move(dims)};
    const int64_t count = *t.elems().as_const();
    auto bytes = std::make_shared<std::vector<std::byte>>(count * dtype_bytes(t.dtype));
    const bool uniform = chance(10);
    double v = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (i == 0 || !uniform) v = (pick(2001) - 1000) / 1000.0;
      store_f64(t.dtype, &v, bytes->data() + i * dtype_bytes(t.dtype), 1);
    }
    return b_.constant({"w" + std::to_string(g_.constants.size()), t, bytes, bytes->data(), bytes->size()});
  }

  /// Another value that broadcasts to v's dims, expanded.
  ValueId partner(ValueId v) {
    const Exprs dims = b_.dims(v);
    if (chance(20)) return b_.full(b_.type(v), std::array{0.0, 1.0, 2.0, 0.5, -1.0}[pick(5)]);
    for (int tries = 0; tries < 6; ++tries) {
      const ValueId w = any();
      if (b_.dims(w) == dims) return w;
    }
    Exprs small = dims;
    for (Expr& d : small)
      if (!d.is_const() || chance(40)) d = 1;
    if (o_.constants && chance(60)) return b_.expand(weight(small), dims);
    Ints over;
    for (int i = 0; i < static_cast<int>(dims.size()); ++i)
      if (small[i].is(1) && !dims[i].is(1)) over.push_back(i);
    return b_.expand(b_.reduce_keep(chance(50) ? ReduceKind::max : ReduceKind::min, v, over), dims);
  }

  virtual ValueId step() {
    using Maker = ValueId (RandomGraph::*)();
    static constexpr Maker kMakers[] = {
        &RandomGraph::unary,   &RandomGraph::unary,   &RandomGraph::binary,  &RandomGraph::binary,   &RandomGraph::binary,
        &RandomGraph::select,  &RandomGraph::regroup, &RandomGraph::permute, &RandomGraph::slice,    &RandomGraph::pad,
        &RandomGraph::cat,     &RandomGraph::flip,    &RandomGraph::repeat,  &RandomGraph::reduce,   &RandomGraph::scan,
        &RandomGraph::softmax, &RandomGraph::norm,    &RandomGraph::lookup,  &RandomGraph::casts,    &RandomGraph::window,
        &RandomGraph::masked,  &RandomGraph::masked,  &RandomGraph::indexed, &RandomGraph::gathered,
    };
    static constexpr Maker kContractions[] = {&RandomGraph::matmul, &RandomGraph::linear, &RandomGraph::conv, &RandomGraph::attention};
    if (o_.contractions && chance(20)) return (this->*kContractions[pick(4)])();
    return (this->*kMakers[pick(std::size(kMakers))])();
  }

  ValueId unary() {
    static constexpr Op kOps[] = {Op::neg, Op::abs, Op::tanh, Op::sigmoid, Op::relu, Op::sin, Op::cos, Op::erf, Op::atan};
    return b_.unary(kOps[pick(std::size(kOps))], recent());
  }
  ValueId binary() {
    static constexpr Op kOps[] = {Op::add, Op::sub, Op::mul, Op::minimum, Op::maximum, Op::add, Op::mul};
    const ValueId a = recent(), c = partner(a);
    const Op op = kOps[pick(std::size(kOps))];
    const ValueId y = chance(50) ? b_.binary(op, a, c) : b_.binary(op, c, a);
    return op == Op::mul && chance(50) ? b_.unary(Op::tanh, y) : y;
  }
  ValueId select() {
    const ValueId a = recent(), rank1 = ranked(a);
    const ValueId at = b_.iota(b_.dims(rank1), dim_of(rank1));
    const ValueId limit = b_.full_int(b_.type(at), pick(4));
    return b_.where(b_.binary(chance(50) ? Op::lt : Op::ge, at, limit), rank1, partner(rank1));
  }
  ValueId regroup() {
    const ValueId v = ranked(recent());
    Exprs d = b_.dims(v);
    const int i = dim_of(v);
    const auto c = d[i].as_const();
    if (static_cast<int>(d.size()) > 1 && i + 1 < static_cast<int>(d.size()) && chance(50)) {
      d[i] *= d[i + 1];
      d.erase(d.begin() + i + 1);
    } else if (c && *c % 2 == 0 && d.size() < 5) {
      d[i] = *c / 2;
      d.insert(d.begin() + i + pick(2), Expr(2));
    } else if (d.size() < 5) {
      d.insert(d.begin() + pick(static_cast<int>(d.size()) + 1), Expr(1));
    }
    return b_.reshape(v, d);
  }
  ValueId permute() {
    const ValueId v = ranked(recent());
    Ints perm(b_.rank(v));
    std::iota(perm.begin(), perm.end(), 0);
    std::shuffle(perm.begin(), perm.end(), rng_);
    return b_.permute(v, perm);
  }
  ValueId slice() {
    const ValueId v = ranked(any());
    const int d = dim_of(v);
    const auto c = b_.dims(v)[d].as_const();
    if (!c) return b_.slice(v, d, b_.dims(v)[d] - 1, 1);
    const int64_t start = pick(static_cast<int>(*c)), step = 1 + pick(2), room = (*c - start + step - 1) / step;
    return b_.slice(v, d, start, 1 + pick(static_cast<int>(room)), step);
  }
  ValueId pad() {
    const ValueId v = ranked(recent());
    Exprs lo(b_.rank(v), Expr(0)), hi = lo;
    const int d = dim_of(v);
    lo[d] = pick(2);
    hi[d] = pick(3);
    return b_.pad(v, lo, hi, 0.25);
  }
  ValueId cat() {
    const ValueId v = ranked(recent());
    std::vector<ValueId> parts = {v, partner(v)};
    if (chance(30)) parts.push_back(b_.unary(Op::neg, v));
    return b_.cat(parts, dim_of(v));
  }
  ValueId flip() {
    const ValueId v = ranked(recent());
    return b_.flip(v, {dim_of(v)});
  }
  ValueId repeat() {
    const ValueId v = any();
    if (b_.rank(v) > 3) return v;
    Exprs d = b_.dims(v);
    d.insert(d.begin(), some_size());
    return b_.expand(v, d);
  }
  Ints some_of(ValueId v) {
    Ints over;
    for (int i = 0; i < b_.rank(v); ++i)
      if (chance(40)) over.push_back(i);
    if (over.empty()) over.push_back(dim_of(v));
    return over;
  }
  ValueId reduce() {
    const ValueId v = ranked(recent());
    static constexpr ReduceKind kKinds[] = {ReduceKind::sum, ReduceKind::max, ReduceKind::min};
    const ValueId r = b_.reduce(kKinds[pick(3)], v, some_of(v));
    return b_.unary(Op::tanh, r);
  }
  ValueId scan() {
    const ValueId v = ranked(recent());
    return b_.unary(Op::sin, b_.scan(chance(70) ? ReduceKind::sum : ReduceKind::max, v, dim_of(v)));
  }
  ValueId softmax_of(ValueId v) {
    const Ints last = {b_.rank(v) - 1};
    const Exprs d = b_.dims(v);
    const ValueId e = b_.unary(Op::exp, b_.binary(Op::sub, v, b_.expand(b_.reduce_keep(ReduceKind::max, v, last), d)));
    return b_.binary(Op::div, e, b_.expand(b_.reduce_keep(ReduceKind::sum, e, last), d));
  }
  ValueId softmax() { return softmax_of(ranked(recent())); }
  ValueId norm() {
    const ValueId v = ranked(recent());
    const Ints over = some_of(v);
    const Exprs d = b_.dims(v);
    const ValueId centered = b_.binary(Op::sub, v, b_.expand(b_.reduce_keep(ReduceKind::max, v, over), d));
    const ValueId sq = b_.reduce_keep(ReduceKind::sum, b_.binary(Op::mul, centered, centered), over);
    return b_.binary(Op::mul, centered, b_.expand(b_.unary(Op::rsqrt, b_.binary_scalar(Op::add, sq, 0.5)), d));
  }
  ValueId lookup() {
    const ValueId v = ranked(any());
    const int d = dim_of(v);
    const Expr size = b_.dims(v)[d];
    Exprs at = {size};
    ValueId i = b_.iota(at, 0);
    if (chance(50)) i = b_.flip(i, {0});
    if (chance(40)) {
      i = b_.reshape(i, {1, size});
      if (b_.rank(v) < 4) i = b_.expand(i, {2, size});
    }
    return b_.index(v, {i}, {d}, d);
  }
  ValueId casts() {
    const ValueId v = recent();
    if (o_.dtype != DType::f32) return b_.cast(b_.cast(v, DType::f32), o_.dtype);
    return b_.cast(b_.cast(v, DType::f64), DType::f32);
  }
  ValueId window() {
    const ValueId v = ranked(recent());
    if (b_.rank(v) > 3 || !b_.dims(v).back().is_const() || *b_.dims(v).back().as_const() < 2) return unary();
    const int64_t n = *b_.dims(v).back().as_const();
    const ValueId w = b_.window(v, {2}, {1}, {1}, {1}, {Expr(n + 1)}, 0.0);
    return b_.reduce(ReduceKind::max, w, {b_.rank(w) - 1});
  }

  // ---- integers: positions, constants and arithmetic on them
  ValueId int_leaf(const Exprs& dims) {
    Exprs small = dims;
    for (Expr& d : small)
      if (!d.is_const() || chance(30)) d = 1;
    const TensorType t{DType::i64, dims};
    switch (pick(4)) {
      case 0: return b_.full_int(t, pick(5) - 1);
      case 1: return b_.expand(int_weight(small), dims);
      case 2: {  // positions along one dim, made small and repeated
        const int d = pick(static_cast<int>(dims.size()));
        Exprs line(dims.size(), Expr(1));
        line[d] = dims[d];
        return b_.expand(b_.reshape(b_.iota({dims[d]}, 0), line), dims);
      }
      default: return b_.iota(dims, pick(static_cast<int>(dims.size())));
    }
  }
  ValueId int_weight(Exprs dims) {
    const TensorType t{DType::i64, std::move(dims)};
    const int64_t count = *t.elems().as_const(), start = pick(4) - 1, step = pick(2);
    auto bytes = std::make_shared<std::vector<std::byte>>(count * sizeof(int64_t));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t v = chance(90) ? start + i * step : pick(6) - 2;
      std::memcpy(bytes->data() + i * sizeof(int64_t), &v, sizeof v);
    }
    return b_.constant({"i" + std::to_string(g_.constants.size()), t, bytes, bytes->data(), bytes->size()});
  }
  ValueId ints(const Exprs& dims, int depth = 2) {
    if (depth == 0 || chance(30)) return int_leaf(dims);
    const ValueId a = ints(dims, depth - 1);
    static constexpr Op kOps[] = {Op::add, Op::sub, Op::mul, Op::minimum, Op::maximum, Op::add, Op::add};
    switch (pick(6)) {
      case 0: return b_.unary(chance(50) ? Op::neg : Op::relu, a);
      case 1: return b_.binary(chance(50) ? Op::remainder : Op::div_floor, a, b_.full_int({DType::i64, dims}, 1 + pick(4)));
      case 2: return b_.cast(b_.cast(a, DType::i32), DType::i64);
      case 3: return b_.flip(a, {pick(static_cast<int>(dims.size()))});
      default: return b_.binary(kOps[pick(std::size(kOps))], a, ints(dims, depth - 1));
    }
  }
  ValueId mask(const Exprs& dims) {
    static constexpr Op kOps[] = {Op::lt, Op::le, Op::gt, Op::ge, Op::eq, Op::ne};
    ValueId m = b_.binary(kOps[pick(6)], ints(dims), ints(dims, 1));
    if (chance(30)) m = b_.unary(Op::logical_not, m);
    if (chance(30)) m = b_.binary(chance(50) ? Op::bit_and : Op::bit_or, m, mask(dims));
    return m;
  }
  ValueId masked() {
    const ValueId v = ranked(recent());
    return b_.where(mask(Exprs(b_.dims(v))), v, partner(v));
  }
  /// Any integers, brought within [0, size).
  ValueId positions(const Exprs& dims, const Expr size) {  // by value: building nodes moves types
    if (chance(40)) {                                      // consecutive positions as they are
      const int j = pick(static_cast<int>(dims.size()));
      const auto have = dims[j].as_const(), room = size.as_const();
      if (have && room && *have <= *room) {
        const ValueId from = b_.full_int({DType::i64, {*have}}, pick(static_cast<int>(*room - *have) + 1));
        Exprs line(dims.size(), Expr(1));
        line[j] = dims[j];
        return b_.expand(b_.reshape(b_.binary(Op::add, from, b_.iota({*have}, 0)), line), dims);
      }
      if (dims[j] == size) return b_.iota(dims, j);
    }
    const ValueId n = b_.sym(size);
    ValueId i = ints(dims);
    if (chance(60)) return b_.binary(Op::remainder, i, b_.expand(n, dims));
    const ValueId top = b_.expand(b_.binary(Op::sub, n, b_.full_int({DType::i64, {}}, 1)), dims);
    return b_.binary(Op::minimum, b_.unary(Op::relu, i), top);
  }
  ValueId indexed() {
    const ValueId v = ranked(any());
    const int d = dim_of(v);
    Exprs at = {chance(50) ? b_.dims(v)[d] : some_size()};
    if (chance(30) && b_.rank(v) < 4) at.push_back(some_size());
    std::vector<ValueId> indices = {positions(at, b_.dims(v)[d])};
    Ints over = {d};
    if (d + 1 < b_.rank(v) && chance(40)) {
      indices.push_back(positions(at, b_.dims(v)[d + 1]));
      over.push_back(d + 1);
    }
    return b_.index(v, indices, over, pick(b_.rank(v) - static_cast<int>(over.size()) + 1));
  }
  ValueId gathered() {
    const ValueId v = ranked(any());
    const int d = dim_of(v);
    Exprs at = b_.dims(v);
    for (Expr& e : at)
      if (chance(20)) e = 1;
    return b_.gather(v, positions(at, b_.dims(v)[d]), d);
  }

  /// v with the given number of dims: leading ones merged or added.
  ValueId with_rank(ValueId v, size_t rank) {
    Exprs d = b_.dims(v);
    while (d.size() > rank) {
      d[0] *= d[1];
      d.erase(d.begin() + 1);
    }
    while (d.size() < rank) d.insert(d.begin(), Expr(1));
    return b_.reshape(v, d);
  }
  ValueId small(ValueId v) { return b_.unary(Op::tanh, v); }
  ValueId linear() {
    const ValueId v = with_rank(recent(), 2);
    if (!b_.dims(v)[1].is_const()) return unary();
    const int64_t k = *b_.dims(v)[1].as_const(), n = 1 + pick(6);
    const ValueId w = chance(50) ? b_.permute(weight({n, k}), {1, 0}) : weight({k, n});
    ValueId y = b_.matmul(v, w, o_.dtype);
    if (chance(60)) y = b_.binary(Op::add, y, b_.expand(weight({1, n}), b_.dims(y)));
    if (chance(30)) y = b_.binary(Op::mul, y, b_.expand(weight({1, n}), b_.dims(y)));
    return small(y);
  }
  ValueId matmul() {
    const ValueId v = with_rank(recent(), 2 + pick(2));
    const ValueId w = small(b_.transpose(any_like(v), -1, -2));
    return small(b_.matmul(v, w, o_.dtype));
  }
  ValueId any_like(ValueId v) { return chance(50) ? v : partner(v); }
  ValueId conv() {
    ValueId v = with_rank(recent(), 4);
    if (!b_.dims(v)[1].is_const()) return unary();
    const int64_t c = *b_.dims(v)[1].as_const(), co = 1 + pick(4);
    ValueId y = b_.make1(Op::conv, {v, weight({co, c, 3, 3})}, {{Attr::padding, Ints{1, 1}}, {Attr::stride, Ints{1, 1 + pick(2)}}});
    const Exprs d = b_.dims(y);
    if (chance(50)) y = b_.binary(Op::mul, y, b_.expand(weight({1, co, 1, 1}), d));
    if (chance(50)) y = b_.binary(Op::add, y, b_.expand(weight({1, co, 1, 1}), d));
    return small(y);
  }
  ValueId attention() {
    const ValueId q = with_rank(recent(), 2 + pick(3)), k = any_like(q);
    ValueId s = b_.matmul(q, b_.transpose(k, -1, -2), o_.dtype);
    if (chance(70)) s = b_.binary_scalar(Op::mul, s, 0.25);
    if (chance(40)) s = b_.binary(Op::add, s, partner(s));
    return b_.matmul(softmax_of(s), any_like(k), o_.dtype);
  }

  std::mt19937 rng_;
  RandomOptions o_;
  Graph g_;
  Builder b_;
  Exprs sizes_;
  std::vector<ValueId> pool_;
};

/// Inputs for the graph with every symbol at the given size (clamped to its range).
inline std::vector<HostTensor> random_inputs(const Graph& g, int64_t size, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<HostTensor> inputs;
  for (const InputInfo& i : g.inputs) {
    HostTensor h{g.type(i.value).dtype, {}, {}};
    for (const Expr& d : g.type(i.value).dims)
      h.dims.push_back(d.eval([&](SymId s) { return std::clamp(size, g.syms[s].min, g.syms[s].max); }));
    h.bytes.resize(h.elems() * dtype_bytes(h.dtype));
    for (int64_t e = 0; e < h.elems(); ++e) {
      const double v = (static_cast<double>(rng() % 2001) - 1000) / 1000;
      const int64_t n = static_cast<int64_t>(rng() % 2);
      std::byte* p = h.bytes.data() + e * dtype_bytes(h.dtype);
      if (is_float(h.dtype)) {
        store_f64(h.dtype, &v, p, 1);
      } else {
        store_i64(h.dtype, &n, p, 1);
      }
    }
    inputs.push_back(std::move(h));
  }
  return inputs;
}

}  // namespace aotc::test
