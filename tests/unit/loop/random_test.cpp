// Random graphs: whatever the partition decides, the module computes what the graph says.
#include <random>

#include "check.h"
#include "graph/builder.h"
#include "graph/verify.h"

using namespace aotc;

namespace {

class Maker {
 public:
  explicit Maker(uint32_t seed) : rng_(seed), b_(g_) {
    SymInfo s;
    s.name = "S";
    s.min = 1;
    s.max = 9;
    s_ = Expr::symbol(g_.syms.add(s));
    for (int i = 0; i < 3; ++i) pool_.push_back(g_.add_input("x" + std::to_string(i), {DType::f32, dims()}));
    // S is bound by an input's dim.
    pool_.push_back(g_.add_input("bind", {DType::f32, {s_, 4}}));
    for (int i = 0; i < 2; ++i) pool_.push_back(constant({4, 6}, i));
  }

  Graph make(int nodes) {
    for (int i = 0; i < nodes; ++i) {
      b_.at("n" + std::to_string(i), "");
      step();
    }
    const int outputs = 1 + pick(3);
    g_.outputs.push_back({"y", pool_.back(), ""});
    for (int i = 1; i < outputs; ++i) g_.outputs.push_back({"y" + std::to_string(i), any(), ""});
    verify(g_, "random");
    return std::move(g_);
  }

 private:
  int pick(int n) { return static_cast<int>(rng_() % static_cast<uint32_t>(n)); }
  Expr dim() {
    const Expr sizes[] = {1, 2, 3, 4, 6, s_};
    return sizes[pick(6)];
  }
  Exprs dims() {
    Exprs d;
    for (int r = 1 + pick(3); r > 0; --r) d.push_back(dim());
    return d;
  }
  ValueId constant(Exprs dims, int which) {
    ConstData c;
    c.name = "c" + std::to_string(which);
    c.type = {DType::f32, std::move(dims)};
    const int64_t n = *c.type.elems().as_const();
    auto data = std::make_shared<std::vector<float>>();
    for (int64_t i = 0; i < n; ++i) data->push_back(static_cast<float>((i * 7 + which) % 11) / 11 - 0.4f);
    c.data = reinterpret_cast<const std::byte*>(data->data());
    c.bytes = data->size() * 4;
    c.keepalive = data;
    return g_.add_constant(std::move(c));
  }
  /// Recent values more often.
  ValueId any() {
    return pool_[pool_.size() - 1 - static_cast<size_t>(pick(static_cast<int>(std::min<size_t>(pool_.size(), pick(2) ? 4 : 20))))];
  }
  void add(ValueId v) { pool_.push_back(v); }

  /// A value of the same dims as x, made of another one when there is one.
  ValueId partner(ValueId x) {
    for (int t = 0; t < 12; ++t)
      if (ValueId y = any(); b_.dims(y) == b_.dims(x)) return y;
    return b_.like(x, 0.5);
  }
  /// Dims of a weight [k, 200] for every batch element of x.
  Exprs wide_of(ValueId x, const Expr& k) {
    Exprs d = b_.dims(x);
    d[d.size() - 2] = k;
    d.back() = 200;
    return d;
  }
  ValueId sane(ValueId x) { return b_.unary(Op::tanh, x); }

  void step() {
    const ValueId x = any();
    const Exprs d = b_.dims(x);
    const int rank = static_cast<int>(d.size());
    switch (pick(17)) {
      case 0: return add(b_.unary(Op::relu, x));
      case 1: return add(sane(x));
      case 2:
      case 3: return add(b_.binary(Op::add, x, partner(x)));
      case 4: return add(b_.binary(Op::mul, x, partner(x)));
      case 5: {
        if (rank == 0) return;
        Ints perm;
        for (int i = 0; i < rank; ++i) perm.push_back(i);
        std::shuffle(perm.begin(), perm.end(), rng_);
        return add(b_.permute(x, perm));
      }
      case 6: {  // merge two dims, or split one
        if (rank >= 2 && pick(2)) {
          const int i = pick(rank - 1);
          Exprs to = d;
          to[static_cast<size_t>(i)] = d[static_cast<size_t>(i)] * d[static_cast<size_t>(i) + 1];
          to.erase(to.begin() + i + 1);
          return add(b_.reshape(x, to));
        }
        for (int i = 0; i < rank; ++i)
          if (d[static_cast<size_t>(i)].is(6) || d[static_cast<size_t>(i)].is(4)) {
            Exprs to = d;
            to[static_cast<size_t>(i)] = 2;
            to.insert(to.begin() + i + 1, d[static_cast<size_t>(i)].is(6) ? 3 : 2);
            return add(b_.reshape(x, to));
          }
        return add(b_.unsqueeze(x, pick(rank + 1)));
      }
      case 7: {
        if (rank == 0 || rank > 4) return;
        const int i = pick(rank);
        const ValueId r = b_.reduce(pick(3) ? ReduceKind::sum : ReduceKind::max, x, {i});
        if (pick(2)) return add(r);
        Exprs keep = d;
        keep[static_cast<size_t>(i)] = 1;
        return add(sane(b_.binary(Op::sub, x, b_.expand(b_.reshape(r, keep), d))));
      }
      case 8: {
        if (rank == 0) return;
        const ValueId m = b_.reduce_keep(ReduceKind::max, x, {rank - 1});
        const ValueId e = b_.unary(Op::exp, b_.binary(Op::sub, x, b_.expand(m, d)));
        return add(b_.binary(Op::div, e, b_.expand(b_.reduce_keep(ReduceKind::sum, e, {rank - 1}), d)));
      }
      case 9: {
        for (int i = 0; i < rank; ++i)
          if (const auto c = d[static_cast<size_t>(i)].as_const(); c && *c >= 2) return add(b_.slice(x, i, pick(2), *c - 1 - pick(1), 1));
        return;
      }
      case 10: {
        if (rank == 0 || rank > 4) return;
        const int i = pick(rank);
        const ValueId y = partner(x);
        const ValueId c = pick(2) ? b_.cat({x, y}, i) : b_.cat({b_.unary(Op::neg, x), y, x}, i);
        return add(c);
      }
      case 11: {
        if (rank == 0) return;
        return add(b_.flip(x, {pick(rank)}));
      }
      case 12: {
        if (rank == 0) return;
        Exprs lo(d.size(), Expr(0)), hi = lo;
        lo[static_cast<size_t>(pick(rank))] = 1;
        hi[static_cast<size_t>(pick(rank))] = 2;
        return add(b_.pad(x, lo, hi, 0.25));
      }
      case 13:
      case 14: {  // product with a weight or with itself
        if (rank < 1 || rank > 3) return;
        const Expr k = d.back();
        if (k.is(4) || k.is(6)) {
          const ValueId x2 = rank == 1 ? b_.unsqueeze(x, 0) : x;
          Exprs bd = b_.dims(x2);
          ValueId w = constant(k.is(4) ? Exprs{4, 6} : Exprs{6, 4}, pick(5));
          bd[bd.size() - 2] = k;
          bd.back() = k.is(4) ? 6 : 4;
          if (pick(2)) {  // so wide that it may compute its operand
            const ValueId y = b_.matmul(x2, b_.expand(constant({k, 200}, 7), wide_of(x2, k)), DType::f32);
            return add(sane(b_.slice(y, static_cast<int>(bd.size()) - 1, pick(100), bd.back(), 1)));
          }
          return add(b_.matmul(x2, b_.expand(w, bd), DType::f32));
        }
        if (rank < 2) return;
        return add(sane(b_.matmul(x, b_.transpose(x, rank - 1, rank - 2), DType::f32)));
      }
      case 15: {
        if (rank == 0 || rank > 3) return;
        return add(sane(b_.scan(ReduceKind::sum, x, pick(rank))));
      }
      default: {
        if (rank == 0) return;
        Exprs to = d;
        for (Expr& e : to)
          if (e.is(1)) e = 3;
        if (to != d) return add(b_.expand(x, to));
        const ValueId i = b_.iota({d[0]}, 0);
        return add(b_.index(x, {i}, {0}, 0));
      }
    }
  }

  std::mt19937 rng_;
  Graph g_;
  Builder b_;
  Expr s_;
  std::vector<ValueId> pool_;
};

}  // namespace

TEST_CASE("random graphs") {
  const char* first = std::getenv("AOTC_SEED");  // one seed, or where a longer run of AOTC_SEEDS starts
  const char* count = std::getenv("AOTC_SEEDS");
  const uint32_t begin = first ? static_cast<uint32_t>(std::atoi(first)) : 1, n = count   ? static_cast<uint32_t>(std::atoi(count))
                                                                                  : first ? 1
                                                                                          : 80;
  for (uint32_t seed = begin; seed < begin + n; ++seed) {
    INFO("seed " << seed);
    loop::test::check_graph(Maker(seed).make(4 + static_cast<int>(seed % (count ? 60 : 30))), {{3}, {1}});
  }
}
