// Random typed graphs without contractions: lowered, emitted, compiled and run against the interpreter. A failure prints its seed.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "emit/cpu/unit.h"
#include "graph/builder.h"
#include "harness.h"
#include "module_runner.h"

using namespace aotc;
using namespace aotc::test;

namespace {

class RandomGraph {
 public:
  Graph g;
  explicit RandomGraph(uint32_t seed) : halves_(seed % 4 == 1), rng_(seed), b_(g) {
    SymInfo s;
    s.name = "S";
    s.min = 1;
    s.max = 200;
    s_ = Expr::symbol(g.syms.add(s));
    const int inputs = pick(1, 3);
    for (int i = 0; i < inputs; ++i) {
      std::vector<Expr> dims;
      for (int r = pick(1, 3); r > 0; --r) dims.push_back(pick(0, 2) == 0 ? s_ : Expr(sizes_[rng_() % std::size(sizes_)]));
      values_.push_back(g.add_input("x" + std::to_string(i), {random_type(), dims}));
    }
    const int nodes = pick(4, seed % 3 == 0 ? 30 : 14);
    for (int n = 0; n < nodes; ++n) step();
    const int outputs = pick(1, 3);
    for (int o = 0; o < outputs && o < static_cast<int>(values_.size()); ++o) {
      const ValueId v = values_[values_.size() - 1 - static_cast<size_t>(o)];
      if (g.values[v].kind != ValueKind::node) break;
      g.outputs.push_back({"y" + std::to_string(o), v, "", -1});
    }
    if (g.outputs.empty()) g.outputs.push_back({"y", b_.unary(Op::neg, values_[0]), "", -1});
  }
  std::vector<HostTensor> inputs(int64_t s) {
    std::vector<HostTensor> in;
    for (const InputInfo& i : g.inputs) {
      std::vector<int64_t> dims;
      for (const Expr& d : g.type(i.value).dims) dims.push_back(d.eval([&](SymId) { return s; }));
      in.push_back(random_input(g.type(i.value), dims, static_cast<uint32_t>(in.size() + 1), 5));
    }
    return in;
  }

 private:
  int pick(int lo, int hi) { return lo + static_cast<int>(rng_() % static_cast<uint32_t>(hi - lo + 1)); }
  ValueId any() { return values_[values_.size() - 1 - static_cast<size_t>(pick(0, std::min(3, static_cast<int>(values_.size()) - 1)))]; }
  bool big(const TensorType& t) {
    return t.elems().eval([](SymId) { return 40; }) > 40000;
  }
  void keep(ValueId v) { values_.push_back(v); }
  DType random_type() {
    constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::bf16, DType::f16,
                                DType::i64, DType::i32, DType::i16, DType::u8,  DType::i8,   DType::boolean};
    const DType t = kTypes[rng_() % std::size(kTypes)];
    return halves_ ? (is_float(t) ? t : DType::bf16) : is_half(t) ? DType::f32 : t;
  }
  ValueId as_f32(ValueId x) { return b_.cast(x, DType::f32); }
  /// Arithmetic of integers and bools, comparisons, arg reductions, casts between all types.
  void typed_step(ValueId x) {
    const TensorType t = g.type(x);
    const bool flag = is_bool(t.dtype);
    constexpr Op kInt[] = {Op::add, Op::sub, Op::mul, Op::maximum, Op::minimum, Op::bit_xor, Op::bit_and, Op::remainder, Op::div_floor};
    constexpr Op kBool[] = {Op::bit_and, Op::bit_or, Op::bit_xor};
    switch (pick(0, 5)) {
      case 0: return keep(b_.cast(x, is_float(t.dtype) ? DType::i64 : random_type()));
      case 1:
        if (t.rank()) return keep(b_.reduce(pick(0, 1) ? ReduceKind::argmax : ReduceKind::argmin, x, {pick(0, t.rank() - 1)}));
        return;
      case 2:
        if (t.rank()) return keep(b_.reduce(pick(0, 1) ? ReduceKind::max : ReduceKind::min, x, {pick(0, t.rank() - 1)}));
        return;
      default: break;
    }
    for (ValueId y : values_) {
      if (y == x || !(g.type(y) == t)) continue;
      if (pick(0, 1)) return keep(b_.make1(pick(0, 1) ? Op::lt : Op::eq, {x, y}));
      if (flag) return keep(b_.binary(kBool[rng_() % std::size(kBool)], x, y));
      if (is_int(t.dtype)) return keep(b_.binary(kInt[rng_() % std::size(kInt)], x, y));
    }
    if (flag) return keep(b_.unary(Op::logical_not, x));
    if (is_int(t.dtype)) return keep(b_.binary(kInt[rng_() % std::size(kInt)], x, b_.full_int(t, 3)));
  }

  void step() {
    ValueId x = any();
    if (!halves_ && pick(0, 3) == 0) return typed_step(x);
    const int what = pick(0, 19);
    const bool moves = (what >= 7 && what <= 11) || what == 13 || what == 17;
    if (!moves) x = as_f32(x);
    const TensorType t = g.type(x);
    const int rank = t.rank();
    const int d = rank ? pick(0, rank - 1) : 0;
    constexpr Op kUnary[] = {Op::neg, Op::abs, Op::relu, Op::tanh, Op::sigmoid, Op::exp, Op::erf, Op::sin, Op::floor};
    constexpr Op kBinary[] = {Op::add, Op::sub, Op::mul, Op::maximum, Op::minimum};
    switch (what) {
      case 0:
      case 1: return keep(b_.unary(Op::tanh, b_.unary(kUnary[rng_() % (std::size(kUnary) - (halves_ ? 1 : 0))], x)));
      case 2:
      case 3: {  // with another value of the same dims, or a reduction of x that is broadcast again
        for (ValueId y : values_)
          if (y != x && g.type(y) == t && pick(0, 1)) return keep(b_.binary(kBinary[rng_() % std::size(kBinary)], x, y));
        return keep(b_.binary_scalar(kBinary[rng_() % std::size(kBinary)], x, 0.5));
      }
      case 4:
      case 5: {
        if (!rank) return;
        constexpr ReduceKind kKinds[] = {ReduceKind::sum, ReduceKind::max, ReduceKind::min};
        const ValueId r = b_.reduce_keep(kKinds[rng_() % 3], b_.unary(Op::tanh, x), {d});
        return keep(b_.binary(Op::sub, x, b_.expand(r, t.dims)));
      }
      case 6: {
        if (!rank) return;
        std::vector<int64_t> dims = {d};
        if (rank > 1 && pick(0, 1)) dims = {0, rank - 1};
        return keep(b_.unary(Op::tanh, b_.reduce(pick(0, 1) ? ReduceKind::sum : ReduceKind::max, x, dims)));
      }
      case 7: {
        if (rank < 2) return;
        Ints perm;
        for (int i = 0; i < rank; ++i) perm.push_back((i + 1 + d) % rank);
        return keep(b_.permute(x, perm));
      }
      case 8: {  // merge two dims
        if (rank < 2) return;
        std::vector<Expr> dims;
        const int at = pick(0, rank - 2);
        for (int i = 0; i < rank; ++i) {
          if (i == at + 1)
            dims.back() = dims.back() * t.dims[static_cast<size_t>(i)];
          else
            dims.push_back(t.dims[static_cast<size_t>(i)]);
        }
        return keep(b_.reshape(x, dims));
      }
      case 9: {  // split a dim
        if (!rank || rank > 3) return;
        const auto c = t.dims[static_cast<size_t>(d)].as_const();
        if (!c || *c % 3) return;
        std::vector<Expr> dims = t.dims;
        dims[static_cast<size_t>(d)] = *c / 3;
        dims.insert(dims.begin() + d + 1, Expr(3));
        return keep(b_.reshape(x, dims));
      }
      case 10: {
        if (!rank) return;
        const auto c = t.dims[static_cast<size_t>(d)].as_const();
        if (!c || *c < 4) return;
        return keep(pick(0, 1) ? b_.slice(x, d, Expr(1), Expr((*c - 1) / 2), 2) : b_.slice(x, d, Expr(2), Expr(*c - 3)));
      }
      case 11: return rank ? keep(b_.flip(x, {d})) : void();
      case 12: {
        if (!rank || big(t)) return;
        std::vector<Expr> lo(static_cast<size_t>(rank), Expr(0)), hi = lo;
        lo[static_cast<size_t>(d)] = 2;
        hi[static_cast<size_t>(d)] = 3;
        return keep(b_.pad(x, lo, hi, -1));
      }
      case 13: {
        if (!rank || big(t)) return;
        return keep(b_.cat({x, is_float(t.dtype) ? b_.unary(Op::neg, x) : x, x}, d));
      }
      case 14: {  // pooling
        if (rank < 2 || big(t)) return;
        std::vector<Expr> out;
        for (int i = rank - 2; i < rank; ++i) out.push_back(floordiv(t.dims[static_cast<size_t>(i)] + 2 - 3, 2) + 1);
        const ValueId w = b_.window(x, {3, 3}, {2, 2}, {1, 1}, {1, 1}, out, -5);
        return keep(b_.reduce(pick(0, 1) ? ReduceKind::max : ReduceKind::sum, w, {rank, rank + 1}));
      }
      case 15: {
        if (halves_) return;
        const ValueId c = b_.make1(pick(0, 1) ? Op::gt : Op::le, {x, b_.like(x, 0.25)});
        return keep(b_.where(c, x, b_.binary_scalar(Op::mul, x, -2)));
      }
      case 16: {
        if (!rank) return;
        return keep(b_.unary(Op::tanh, b_.scan(pick(0, 1) ? ReduceKind::sum : ReduceKind::max, x, d)));
      }
      case 17: {  // rows chosen by position: integer arithmetic, then an index
        if (!rank) return;
        const Expr n = t.dims[static_cast<size_t>(d)];
        const ValueId i = b_.iota({Expr(7)}, 0), len = b_.expand(b_.reshape(b_.sym(n), {Expr(1)}), {Expr(7)});
        const ValueId at = b_.binary(Op::remainder, b_.binary_scalar(Op::mul, i, 3), len);
        return keep(b_.index(x, {at}, {d}, d));
      }
      case 18: {
        const DType to = !halves_ || pick(0, 2) == 0 ? DType::f64 : pick(0, 1) ? DType::bf16 : DType::f16;
        return keep(b_.cast(b_.unary(Op::tanh, b_.cast(x, to)), DType::f32));
      }
      case 19: {  // triangular mask over the last two dims
        if (rank < 2) return;
        const ValueId c = b_.make1(Op::ge, {b_.iota(t.dims, rank - 2), b_.iota(t.dims, rank - 1)});
        return keep(b_.where(c, x, b_.like(x, -3)));
      }
    }
  }

  const bool halves_;  ///< 16-bit floats occur, and then nothing that jumps: fused values keep more bits than the interpreter's
  std::mt19937 rng_;
  Builder b_;
  Expr s_;
  std::vector<ValueId> values_;
  static constexpr int64_t sizes_[] = {1, 3, 5, 6, 16, 33};
};

void run_seed(uint32_t seed) {
  CAPTURE(seed);
  const std::vector<Isa> isas = loop_isas();
  const Isa isa = seed % 4 == 0 ? isas.front() : isas.back();
  if (!runs_here(isa)) return;
  RandomGraph r(seed);
  for (int64_t s : {int64_t{1}, int64_t{7}, static_cast<int64_t>(seed % 60 + 16)}) {
    CAPTURE(s);
    check_graph(r.g, r.inputs(s), isa);
  }
}

}  // namespace

TEST_CASE("random graphs") {
  for (uint32_t seed = 1; seed <= 12; ++seed) run_seed(seed);
}
TEST_CASE("many random graphs", "[.long]") {
  const char* from = std::getenv("AOTC_SEED");
  const char* count = std::getenv("AOTC_SEEDS");
  const uint32_t first = from ? static_cast<uint32_t>(std::atoi(from)) : 100;
  for (uint32_t seed = first; seed < first + (count ? static_cast<uint32_t>(std::atoi(count)) : 100); ++seed) run_seed(seed);
}
