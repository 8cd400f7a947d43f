// Weights that a model stores in bytes: what products make of them stays bytes through all passes, as integers with scales, and the product
// is what it was.
#include <catch2/catch.hpp>

#include <cmath>
#include <random>

#include "../graph/host_tensors.h"
#include "graph/builder.h"
#include "graph/scalar.h"
#include "passes/passes.h"
#include "passes/stored_bytes.h"
#include "passes/strided.h"

using namespace aotc;

namespace {

struct Net {
  Graph g;
  Builder b{g};
  std::mt19937 rng{5};

  template <class S>
  ValueId constant(const char* name, DType t, Exprs dims, const S& element) {
    ConstData c;
    c.name = name, c.type = {t, std::move(dims)}, c.bytes = static_cast<size_t>(*c.type.bytes().as_const());
    const int64_t n = *c.type.elems().as_const();
    auto data = std::make_shared<std::vector<std::byte>>(c.bytes);
    for (int64_t i = 0; i < n; ++i) {
      std::byte* p = data->data() + i * dtype_bytes(t);
      if (is_float(t)) {
        const double v = element();
        store_f64(t, &v, p, 1);
      } else {
        const auto v = static_cast<int64_t>(element());
        store_i64(t, &v, p, 1);
      }
    }
    c.data = data->data(), c.keepalive = data;
    return b.constant(std::move(c));
  }
  ValueId integers(Exprs dims, int low, int high, DType t = DType::i8) {
    return constant("q", t, std::move(dims), [&] { return low + static_cast<int>(rng() % static_cast<unsigned>(high - low + 1)); });
  }
  ValueId numbers(Exprs dims, DType t = DType::f32) {
    return constant("s", t, std::move(dims), [&] { return 0.01 * (1 + static_cast<double>(rng() % 1000) / 1000); });
  }
  /// A number a group of a row, as one for each element.
  ValueId spread(ValueId v, int64_t n, int64_t groups, int64_t k) {
    return b.reshape(b.expand(b.reshape(b.cast(v, DType::f32), {n, groups, 1}), {n, groups, k / groups}), {n, k});
  }
};

struct Case {
  const char* name;
  ValueId (*weight)(Net&);  ///< [n, k] = [48, 64]
  int scales;               ///< numbers a column, at most; 0: none
  bool four = false;        ///< bits are enough
};
const Case kCases[] = {
    {"as they are",
     [](Net& n) {
       return n.b.cast(n.integers({48, 64}, -128, 127), DType::f32);
     },
     0},
    {"a scale a column",
     [](Net& n) {
       return n.b.binary(Op::mul, n.b.cast(n.integers({48, 64}, -128, 127), DType::f32), n.b.expand(n.numbers({48, 1}), {48, 64}));
     },
     1},
    {"one of all",
     [](Net& n) {
       return n.b.binary(Op::mul, n.b.full({DType::f32, {48, 64}}, 0.02), n.b.cast(n.integers({48, 64}, 0, 255, DType::u8), DType::f32));
     },
     1},
    {"groups with zero points",
     [](Net& n) {
       const ValueId q = n.b.cast(n.integers({48, 64}, -8, 7), DType::f32);
       const ValueId moved = n.b.binary(Op::sub, q, n.spread(n.integers({48, 2}, -1, 0), 48, 2, 64));
       return n.b.binary(Op::mul, moved, n.spread(n.numbers({48, 2}), 48, 2, 64));
     },
     2},
    {"four bits",
     [](Net& n) {
       return n.b.binary(Op::mul, n.b.cast(n.integers({48, 64}, -8, 7), DType::f32), n.spread(n.numbers({48, 2}), 48, 2, 64));
     },
     2, true},
    {"offsets in halves",
     [](Net& n) {
       const ValueId q = n.b.cast(n.integers({48, 2, 32}, 0, 15, DType::u8), DType::f32);
       const ValueId s = n.b.expand(n.b.cast(n.numbers({48, 2, 1}, DType::bf16), DType::f32), {48, 2, 32});
       const ValueId o = n.b.expand(n.b.cast(n.numbers({48, 2, 1}, DType::bf16), DType::f32), {48, 2, 32});
       return n.b.reshape(n.b.binary(Op::add, n.b.binary(Op::mul, q, s), o), {48, 64});
     },
     2, true},
};

int64_t constant_bytes(const Graph& g) {
  int64_t bytes = 0;
  std::vector<bool> used(g.values.size());
  for (const NodeId id : g.order)
    for (const ValueId v : g.nodes[id].inputs) used[idx(v)] = true;
  for (size_t i = 0; i < g.values.size(); ++i)
    if (const Value& v = g.values.raw()[i]; used[i] && v.kind == ValueKind::constant)
      bytes += static_cast<int64_t>(g.constants[v.constant].bytes);
  return bytes;
}

/// Of the constant of bytes.
std::pair<int64_t, int64_t> least_and_most(const Graph& g) {
  std::pair<int64_t, int64_t> ends{999, -999};
  for (const NodeId id : g.order)
    for (const ValueId v : g.nodes[id].inputs) {
      if (g.values[v].kind != ValueKind::constant || g.type(v).dtype != DType::i8) continue;
      const ConstData& c = g.constants[g.values[v].constant];
      for (size_t i = 0; i < c.bytes; ++i)
        ends = {std::min<int64_t>(ends.first, static_cast<int8_t>(c.data[i])),
                std::max<int64_t>(ends.second, static_cast<int8_t>(c.data[i]))};
    }
  return ends;
}

}  // namespace

TEST_CASE("weights of bytes stay bytes, and their products what they were") {
  for (const char* target : {"avx2", "sm_90"})
    for (const bool across : {false, true})
      for (const DType t : {DType::f32, DType::bf16})
        for (const Case& c : kCases) {
          INFO(target << " " << dtype_name(t) << " " << c.name << (across ? ", seen as [k, n]" : ""));
          Net n;
          const ValueId x = n.g.add_input("x", {t, {3, across ? 48 : 64}});
          const ValueId w = n.b.cast(c.weight(n), t);
          const ValueId y = n.b.matmul(x, across ? w : n.b.permute(w, {1, 0}), t);
          n.g.outputs.push_back({"y", y});
          passes::PassContext ctx;
          ctx.target = *target == 's' ? parse_cuda_target(target) : parse_cpu_target(target);
          std::vector<double> rows;
          for (int64_t i = 0; i < 3 * (across ? 48 : 64); ++i) rows.push_back(std::sin(static_cast<double>(i)));
          const std::vector<HostTensor> in = {test::tensor(t, {3, across ? 48 : 64}, rows)};
          const std::vector<double> want = test::values(interpret(n.g, in, {true})[0]);
          passes::run_passes(n.g, ctx);
          // Seen the other way round, scales of groups are those of neither rows nor columns.
          CHECK(constant_bytes(n.g) <= 48 * 64 * (across && c.scales > 0 ? dtype_bytes(t) : 1) + 8 * 64 * std::max(c.scales, 1));
          const std::vector<double> got = test::values(interpret(n.g, in, {true})[0]);
          for (size_t i = 0; i < want.size(); ++i)
            if (std::fabs(got[i] - want[i]) > (t == DType::bf16 ? 0.02 : 1e-5) * (1 + std::fabs(want[i])))
              FAIL("element " << i << ": " << got[i] << " and " << want[i]);
          if (c.four && !across && *target != 's') CHECK(least_and_most(n.g) == std::pair<int64_t, int64_t>(0, 15));
        }
}

TEST_CASE("weights of GPUs stay in few bits where the product multiplies the same numbers") {
  using Weight = ValueId (*)(Net&, DType);
  struct Kind {
    const char* name;
    Weight weight;          ///< [n, k] = [48, 64] of the type
    double bytes_of_value;  ///< 2: it is folded
    bool four = false;
  };
  const Kind kinds[] = {
      {"numbers from -8 to 7 with scales of the type, rounded once",
       [](Net& n, DType t) {
         const ValueId q = n.b.cast(n.b.cast(n.integers({48, 64}, -8, 7), t), DType::f32);
         return n.b.cast(n.b.binary(Op::mul, q, n.spread(n.numbers({48, 2}, t), 48, 2, 64)), t);
       },
       1, true},
      {"the same with scales of float32, which four bits from 0 on would round elsewhere",
       [](Net& n, DType t) {
         const ValueId q = n.b.cast(n.integers({48, 64}, -8, 7), DType::f32);
         return n.b.cast(n.b.binary(Op::mul, q, n.spread(n.numbers({48, 2}), 48, 2, 64)), t);
       },
       1},
      {"plain bytes",
       [](Net& n, DType t) {
         return n.b.cast(n.integers({48, 64}, -128, 127), t);
       },
       1},
      {"8-bit floats with scales of float32",
       [](Net& n, DType t) {
         const ValueId q =
             n.b.cast(n.constant("q", DType::f8e4m3fn, {48, 64}, [&] { return std::sin(static_cast<double>(n.rng() % 999)); }), DType::f32);
         return n.b.cast(n.b.binary(Op::mul, q, n.b.expand(n.numbers({48, 1}), {48, 64})), t);
       },
       1},
      {"rounded before the offset, too",
       [](Net& n, DType t) {
         const ValueId q = n.b.cast(n.integers({48, 64}, 0, 15, DType::u8), DType::f32);
         const ValueId scaled = n.b.cast(n.b.cast(n.b.binary(Op::mul, q, n.spread(n.numbers({48, 2}, t), 48, 2, 64)), t), DType::f32);
         return n.b.cast(n.b.binary(Op::add, scaled, n.spread(n.numbers({48, 2}, t), 48, 2, 64)), t);
       },
       2},
  };
  for (const DType t : {DType::bf16, DType::f16})
    for (const Kind& c : kinds) {
      INFO(dtype_name(t) << " " << c.name);
      Net n;
      const ValueId x = n.g.add_input("x", {t, {3, 64}}), ids = n.g.add_input("ids", {DType::i64, {2}}), w = c.weight(n, t);
      n.g.outputs.push_back({"y", n.b.matmul(x, n.b.permute(w, {1, 0}), t)});
      n.g.outputs.push_back({"row", n.b.index(w, {ids}, {0}, 0)});
      passes::PassContext ctx;
      ctx.target = parse_cuda_target("sm_90a");
      std::vector<double> rows;
      for (int64_t i = 0; i < 3 * 64; ++i) rows.push_back(std::sin(static_cast<double>(i)));
      const std::vector<HostTensor> in = {test::tensor(t, {3, 64}, rows), test::tensor(DType::i64, {2}, {47, 3})};
      const std::vector<HostTensor> want = interpret(n.g, in);
      passes::run_passes(n.g, ctx);
      const double bytes = static_cast<double>(constant_bytes(n.g));
      CHECK((bytes >= c.bytes_of_value * 48 * 64 && bytes <= c.bytes_of_value * 48 * 64 + 8 * 48 * 2));
      const std::vector<HostTensor> got = interpret(n.g, in);
      for (size_t o = 0; o < want.size(); ++o) CHECK(test::values(got[o]) == test::values(want[o]));
      if (c.four) CHECK(least_and_most(n.g) == std::pair<int64_t, int64_t>(0, 15));
    }
}

TEST_CASE("numbers seen through views") {
  using passes::Strided;
  std::vector<float> v(24);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
  const auto x = Strided<float>::dense(v, {2, 3, 4});
  const auto all = [](const Strided<float>& s) {
    std::vector<float> out;
    s.each([&](float f) { out.push_back(f); });
    return out;
  };
  CHECK(all(x.reshaped({6, 4})) == v);
  CHECK(x.reshaped({6, 2, 2}).data == x.data);
  const auto turned = x.permuted({1, 0, 2});
  CHECK(all(turned.reshaped({3, 8})) ==
        std::vector<float>{0, 1, 2, 3, 12, 13, 14, 15, 4, 5, 6, 7, 16, 17, 18, 19, 8, 9, 10, 11, 20, 21, 22, 23});
  CHECK(all(x.sliced(2, 1, 2, 2).reshaped({3, 4})) == std::vector<float>{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23});
  const auto wide = Strided<float>::dense({1, 2}, {2, 1}).expanded({2, 3});
  CHECK(all(wide.reshaped({6})) == std::vector<float>{1, 1, 1, 2, 2, 2});
  CHECK(wide.reshaped({2, 3, 1}).data == wide.data);
  const auto sum = wide.with(Strided<float>::one(10, {2, 3}), [](float a, float b) { return a + b; });
  CHECK(sum.data->size() == 2);
  CHECK(all(sum) == std::vector<float>{11, 11, 11, 12, 12, 12});
  CHECK(all(wide.with(Strided<float>::dense({0, 1, 2}, {1, 3}).expanded({2, 3}), [](float a, float b) { return a * 10 + b; })) ==
        std::vector<float>{10, 11, 12, 20, 21, 22});
}
