// What each operator gives of a tensor whose first dim is a size found in data, at its bound: the same as of a tensor of just that size,
// whatever lies behind the elements that there are.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "decompose/found_sizes.h"
#include "decompose/indexing.h"
#include "decompose/tensor.h"
#include "graph/interp.h"
#include "graph/verify.h"

using namespace aotc;
using namespace aotc::decompose;

namespace {

constexpr int64_t kRows = 6, kColumns = 4;

HostTensor numbers(DType t, std::vector<int64_t> dims, int seed) {
  HostTensor h{t, std::move(dims), {}};
  h.bytes.resize(static_cast<size_t>(h.elems()) * static_cast<size_t>(dtype_bytes(t)));
  for (int64_t i = 0; i < h.elems(); ++i) {
    const int64_t n = (i * 7 + seed * 5) % 11 - 5;  // with equal ones among them
    const auto f = static_cast<float>(n) / 2;
    if (t == DType::f32)
      std::memcpy(h.bytes.data() + i * 4, &f, 4);
    else
      std::memcpy(h.bytes.data() + i * 8, &n, 8);
  }
  return h;
}

/// Rows of a table: what is made of y [n, 4], whose first n of 6 rows are x's, and of i [n], places within n.
struct Case {
  const char* name;
  std::function<std::vector<ValueId>(Builder& b, const T& y, const T& i, const Expr& n)> make;
};

T matrix_of(const T& y) {
  Builder& b = y.b();
  const T transposed(b, b.transpose(y, 0, 1));
  const T product(b, b.matmul(y, transposed, DType::f32));
  const Expr n = y.dim(0);
  return product + (iota(b, {n, n}, 0) == iota(b, {n, n}, 1)).to(DType::f32) * 9.0;
}

const Case kCases[] = {
    {"a number",
     [](Builder& b, const T&, const T&, const Expr& n) {
       return std::vector{b.sym(n * 2 + 1), b.sym(max(n - 3, 0)), b.sym(mod(n, 4))};
     }},
    {"reshapes",
     [](Builder& b, const T& y, const T&, const Expr& n) {
       return std::vector<ValueId>{y.reshape({n * 4}), y.reshape({n, 2, 2}), y.reshape({2, n * 2}),
                                   T(b, b.transpose(y, 0, 1)).reshape({n * 4})};
     }},
    {"flips",
     [](Builder& b, const T& y, const T&, const Expr&) {
       return std::vector{b.flip(y, {0}), b.flip(y, {0, 1})};
     }},
    {"slices",
     [](Builder&, const T& y, const T&, const Expr& n) {
       return std::vector<ValueId>{y.slice(0, floordiv(n, 2), n - floordiv(n, 2)), y.slice(0, 0, floordiv(n + 1, 2), 2),
                                   y.slice(0, mod(n, 2), n - mod(n, 2))};
     }},
    {"windows of memory",
     [](Builder& b, const T& y, const T&, const Expr& n) {
       return std::vector{b.strided(y, {n, 2}, {4, 2}, 1), b.strided(y, {n, 2, 2}, {4, 1, 2}, 0),
                          b.strided(b.transpose(y, 0, 1), {4, n}, {n, 1}, 0)};
     }},
    {"pads",
     [](Builder& b, const T& y, const T&, const Expr& n) {
       return std::vector{b.pad(y, {1, 0}, {2, 1}, 7.0), b.pad(y, {n, 0}, {1, 0}, 3.0), b.pad(y, {max(n - 2, 0), n}, {0, 1}, -1.0)};
     }},
    {"windows", [](Builder& b, const T& y, const T&,
                   const Expr& n) { return std::vector{b.window(b.transpose(y, 0, 1), {2}, {1}, {1}, {1}, {n + 1}, -4.0)}; }},
    {"joined",
     [](Builder& b, const T& y, const T&, const Expr&) {
       return std::vector{b.cat({y, y}, 0), b.cat({b.transpose(y, 0, 1), full(b, DType::f32, {4, 2}, 8.0), b.transpose(y, 0, 1)}, 1)};
     }},
    {"picks",
     [](Builder& b, const T& y, const T& i, const Expr& n) {
       const T wide = i.reshape({n, 1}).expand({n, 4});
       return std::vector<ValueId>{take_index(y, i, 0), b.gather(y, wide, 0), take_index(y, i - scalar_of(b, n, DType::i64), 0)};
     }},
    {"sums and ends",
     [](Builder& b, const T& y, const T&, const Expr&) {
       return std::vector{b.reduce(ReduceKind::sum, y, {0}), b.reduce(ReduceKind::prod, y, {0, 1}), b.reduce(ReduceKind::sum, y, {1}),
                          b.scan(ReduceKind::sum, y, 0),     b.scan(ReduceKind::logsumexp, y, 0),   b.reduce(ReduceKind::argmin, y, {0}),
                          b.reduce(ReduceKind::max, y, {1})};
     }},
    {"sorts",
     [](Builder& b, const T& y, const T&, const Expr&) {
       std::vector<ValueId> out;
       for (const bool falls : {false, true})
         for (const ValueId v : b.make(Op::sort, {y}, {{Attr::dim, int64_t{0}}, {Attr::descending, falls}, {Attr::stable, true}}))
           out.push_back(v);
       return out;
     }},
    {"products",
     [](Builder& b, const T& y, const T&, const Expr&) {
       return std::vector{b.matmul(y, b.transpose(y, 0, 1), DType::f32), b.matmul(b.transpose(y, 0, 1), y, DType::f32)};
     }},
    {"factors",
     [](Builder& b, const T& y, const T&, const Expr&) {
       const T a = matrix_of(y);
       const std::vector<ValueId> cholesky = b.make(Op::cholesky, {a}), lu = b.make(Op::lu, {a.to(DType::f64)});
       const ValueId solved = b.make1(Op::solve_triangular, {cholesky[0], y}, {{Attr::upper, false}, {Attr::unit, false}});
       return std::vector{cholesky[0], solved, lu[0], lu[1]};
     }},
};

/// Outputs where y has this many rows, found or known.
std::vector<HostTensor> outputs(const Case& c, int64_t rows, bool found) {
  Graph g;
  Builder b(g);
  const T x(b, g.add_input("x", {DType::f32, {Expr(kRows), Expr(kColumns)}})), places(b, g.add_input("i", {DType::i64, {Expr(kRows)}}));
  const ValueId count = g.add_input("n", {DType::i64, {}});
  Expr n = rows;
  FoundSizes sizes;
  if (found) {
    const SymId s = g.syms.add({.name = "u0"});
    n = Expr::symbol(s);
    g.syms.edit(s).extent = kRows + 1;
    sizes.emplace(s, FoundSize{count, kRows});
  }
  const T y = x.slice(0, 0, n);
  const T wrapped = binary(Op::remainder, places.slice(0, 0, n), maximum(scalar_of(b, n, DType::i64), 1.0));
  for (const ValueId v : c.make(b, y, wrapped, n)) g.outputs.push_back({"o" + std::to_string(g.outputs.size()), v, "", -1});
  take_bounds(g, sizes, {}, "test");
  verify(g, "test");
  HostTensor own{DType::i64, {}, std::vector<std::byte>(8)};
  std::memcpy(own.bytes.data(), &rows, 8);
  return interpret(g, {numbers(DType::f32, {kRows, kColumns}, 1), numbers(DType::i64, {kRows}, 2), own});
}

}  // namespace

TEST_CASE("operators give at a size's bound what they give of just that size") {
  for (const Case& c : kCases)
    for (int64_t rows = 0; rows <= kRows; ++rows) {
      INFO(c.name << ", " << rows << " rows");
      const std::vector<HostTensor> want = outputs(c, rows, false), got = outputs(c, rows, true);
      REQUIRE(want.size() == got.size());
      for (size_t k = 0; k < want.size(); ++k) {
        INFO("result " << k);
        REQUIRE(want[k].dims.size() == got[k].dims.size());
        const HostTensor begins = beginning(got[k], want[k].dims);
        if (want[k].elems() > 0) CHECK(begins.bytes == want[k].bytes);
      }
    }
}

TEST_CASE("what means nothing at a size's bound is refused") {
  const auto refuses = [](const std::function<void(Builder&, const T&)>& make) {
    Graph g;
    Builder b(g);
    const T x(b, g.add_input("x", {DType::f64, {Expr(6), Expr(4)}}));
    const ValueId count = g.add_input("n", {DType::i64, {}});
    const SymId s = g.syms.add({.name = "u0"});
    g.syms.edit(s).extent = 7;
    make(b, x.slice(0, 0, Expr::symbol(s)));
    g.outputs.push_back({"o", static_cast<ValueId>(g.values.size() - 1), "", -1});
    CHECK_THROWS_AS(take_bounds(g, {{s, {count, 6}}}, {}, "test"), Diagnostic);
  };
  refuses([](Builder& b, const T& y) { b.make(Op::svd, {y}); });
  refuses([](Builder& b, const T& y) { b.make(Op::qr, {y}); });
  refuses([](Builder& b, const T& y) { b.make(Op::qr, {T(b, b.transpose(y, 0, 1))}); });
  refuses([](Builder& b, const T& y) { b.reduce(ReduceKind::argmax, b.transpose(y, 0, 1), {0, 1}); });
}
