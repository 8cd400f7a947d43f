#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "emit/cpu/loop_call.h"
#include "emit/cpu/loop_emitter.h"
#include "harness.h"

using namespace aotc;
using namespace aotc::test;

namespace {
const std::vector<std::map<std::string, int64_t>> kRowSizes = {{{"n", 1}, {"m", 1}},   {{"n", 3}, {"m", 16}}, {{"n", 5}, {"m", 7}},
                                                               {{"n", 2}, {"m", 257}}, {{"n", 0}, {"m", 5}},  {{"n", 4}, {"m", 0}}};
}

TEST_CASE("pointwise along outer lanes") {
  for (DType t : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i8, DType::u8}) {
    KernelBuilder b("pointwise");
    b.k.lanes = LaneAxis::outer;
    const Expr n = b.shape("n"), m = b.shape("m");
    const Expr i = b.outer("i", n), j = b.outer("j", m);
    const ParamId x = b.param("x", ParamRole::input, t, {n, m}), y = b.param("y", ParamRole::input, t, {m}),
                  z = b.param("z", ParamRole::output, t, {n, m});
    b.block(false);
    const InstId v = b.load(x, i * m + j), r = b.op(Op::relu, t, {v}), w = b.load(y, j);
    b.store(z, i * m + j, b.op(Op::add, t, {r, b.op(Op::mul, t, {w, b.constant(t, 2)})}));
    CAPTURE(dtype_name(t));
    RunOptions o;
    o.int_range = 20;
    check_kernel(b.k, {{{"n", 3}, {"m", 1}}, {{"n", 2}, {"m", 1500}}, {{"n", 1}, {"m", 33}}, {{"n", 0}, {"m", 3}}, {{"n", 2}, {"m", 0}}},
                 o);
  }
}

TEST_CASE("rows that are read along strides are turned in registers") {
  for (DType t : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i8, DType::u8, DType::boolean}) {
    KernelBuilder b("turned");
    const Expr h = b.shape("h"), n = b.shape("n"), m = b.shape("m");
    const Expr k = b.outer("k", h), i = b.outer("i", n), l = b.outer("l", Expr(2)), j = b.inner("j", m);
    const ParamId x = b.param("x", ParamRole::input, t, {h, m, Expr(2), n}), y = b.param("y", ParamRole::input, t, {n}),
                  z = b.param("z", ParamRole::output, t, {h, n, Expr(2), m}), u = b.param("u", ParamRole::input, t, {h, n, Expr(2), m});
    b.block(true);
    const Expr at = ((k * n + i) * 2 + l) * m + j;
    const InstId v = b.load(x, ((k * m + j) * 2 + l) * n + i);
    if (t == DType::boolean)
      b.store(z, at, b.op(Op::bit_and, t, {v, b.load(y, i)}));
    else
      b.store(z, at, b.op(Op::add, t, {b.op(Op::mul, t, {v, b.load(y, i)}), b.load(u, at)}));
    REQUIRE(emit::cpu::turning(b.k).has_value());
    CHECK(emit::cpu::turning(b.k)->outer == 1);
    CAPTURE(dtype_name(t));
    RunOptions o;
    o.int_range = 5;
    if (dtype_bytes(t) == 2) o.tolerance = 0.02;  // the product is not rounded by itself
    const std::vector<std::array<int64_t, 3>> shapes = {{1, 1, 1},   {2, 3, 16},  {1, 16, 16}, {2, 17, 33},
                                                        {1, 64, 70}, {1, 130, 9}, {2, 0, 5},   {2, 5, 0}};
    std::vector<std::map<std::string, int64_t>> sizes;
    for (const auto& s : shapes) sizes.push_back({{"h", s[0]}, {"n", s[1]}, {"m", s[2]}});
    check_kernel(b.k, sizes, o);
  }
}

TEST_CASE("softmax and layer norm in one row pass, with row scratch") {
  for (LaneAxis axis : {LaneAxis::inner, LaneAxis::outer, LaneAxis::none}) {
    KernelBuilder b("softmax_ln");
    b.k.lanes = axis;
    const Expr n = b.shape("n"), m = b.shape("m");
    const Expr i = b.outer("i", n), j = b.inner("j", m);
    const DType f = DType::f32;
    const ParamId x = b.param("x", ParamRole::input, f, {n, m}), y = b.param("y", ParamRole::output, f, {n, m}),
                  s = b.param("mean", ParamRole::output, f, {n}), row = b.param("row", ParamRole::local, f, {m});
    b.block(true);
    const InstId top = b.reduce(ReduceKind::max, f, b.load(x, i * m + j));
    b.block(true);
    const InstId e = b.op(Op::exp, f, {b.op(Op::sub, f, {b.load(x, i * m + j), top})});
    b.store(row, j, e);
    const InstId sum = b.reduce(ReduceKind::sum, f, e);
    b.block(false);
    const InstId inv = b.op(Op::div, f, {b.constant(f, 1), sum});
    b.store(s, i, inv);
    b.block(true);
    b.store(y, i * m + j, b.op(Op::mul, f, {b.load(row, j), inv}));
    auto sizes = kRowSizes;
    sizes.pop_back();  // 1 / 0
    check_kernel(b.k, sizes);
  }
}

TEST_CASE("columns side by side, in stages") {
  for (DType t : {DType::f32, DType::f64, DType::bf16}) {
    KernelBuilder b("columns");
    b.k.lanes = LaneAxis::outer;
    const DType f = t == DType::f64 ? DType::f64 : DType::f32;
    const Expr n = b.shape("n"), m = b.shape("m", 1);
    const Expr k = b.outer("k", Expr(2)), i = b.outer("i", n), p = b.inner("p", Expr(3)), j = b.inner("j", m);
    const ParamId x = b.param("x", ParamRole::input, t, {Expr(2), Expr(3), m, n}), y = b.param("y", ParamRole::input, f, {n}),
                  w = b.param("w", ParamRole::input, f, {Expr(3), n}), z = b.param("z", ParamRole::output, t, {Expr(2), Expr(3), m, n}),
                  s = b.param("s", ParamRole::output, f, {Expr(2), n});
    const Expr at = ((k * 3 + p) * m + j) * n + i;
    const auto wide = [&](InstId v) { return t == f ? v : b.op(Op::cast, f, {v}); };
    b.block(false);
    const InstId bias = b.op(Op::relu, f, {b.load(y, i)});
    b.block(true);
    const InstId top = b.reduce(ReduceKind::max, f, b.op(Op::add, f, {wide(b.load(x, at)), bias}));
    b.block(true);
    const InstId scaled = b.op(Op::mul, f, {b.op(Op::sub, f, {wide(b.load(x, at)), top}), b.load(w, p * n + i)});
    const InstId sum = b.reduce(ReduceKind::sum, f, scaled);
    b.block(false);
    b.store(s, k * n + i, sum);
    const InstId half = b.op(Op::mul, f, {sum, b.constant(f, 0.5)});
    b.block(true);
    const InstId r = b.op(Op::sub, f, {wide(b.load(x, at)), half});
    b.store(z, at, t == f ? r : b.op(Op::cast, t, {r}));
    RunOptions o;
    if (t == DType::bf16) o.tolerance = 0.02;
    CAPTURE(dtype_name(t));
    check_kernel(b.k, {{{"n", 1}, {"m", 1}}, {{"n", 16}, {"m", 3}}, {{"n", 339}, {"m", 2}}, {{"n", 130}, {"m", 40}}, {{"n", 0}, {"m", 2}}},
                 o);
  }
}

TEST_CASE("columns of what indices pick go side by side") {
  for (const bool each_term : {false, true}) {
    KernelBuilder b("picked");
    b.k.lanes = LaneAxis::outer;
    const DType f = DType::f32, bo = DType::boolean, l = DType::i64;
    const Expr n = b.shape("n"), m = b.shape("m", 1), rows = b.shape("rows", 1), terms = b.shape("terms", 1);
    const Expr i = b.outer("i", n), j = b.outer("j", m), k = b.inner("k", terms);
    const ParamId ids = b.param("ids", ParamRole::input, l, {n, terms}), x = b.param("x", ParamRole::input, f, {n, terms}),
                  table = b.param("table", ParamRole::input, f, {rows, terms, m}), z = b.param("z", ParamRole::output, f, {n, m});
    b.block(each_term);
    const InstId id = b.op(Op::remainder, l, {b.load(ids, i * terms + (each_term ? k : Expr(0))), b.index(rows)});
    b.check(b.op(Op::lt, bo, {id, b.index(rows)}));
    const Expr r = b.bind(id, "r", rows);
    if (!each_term) b.block(true);
    const InstId sum = b.reduce(ReduceKind::sum, f, b.op(Op::mul, f, {b.load(x, i * terms + k), b.load(table, (r * terms + k) * m + j)}));
    b.block(false);
    b.store(z, i * m + j, sum);
    CAPTURE(each_term);
    CHECK(emit::cpu::emit_function(b.k, emit::cpu::kernel_spec(b.k, "picked")).find("[n.value]") != std::string::npos);
    check_kernel(b.k, {{{"n", 3}, {"m", 1}, {"rows", 2}, {"terms", 1}}, {{"n", 5}, {"m", 133}, {"rows", 7}, {"terms", 9}}});
  }
}

TEST_CASE("reductions of every kind") {
  struct Row {
    ReduceKind kind;
    DType t;
  };
  const Row rows[] = {{ReduceKind::sum, DType::f64},     {ReduceKind::sum, DType::i64},    {ReduceKind::prod, DType::f32},
                      {ReduceKind::max, DType::f32},     {ReduceKind::min, DType::f32},    {ReduceKind::max, DType::i64},
                      {ReduceKind::min, DType::u8},      {ReduceKind::argmax, DType::f32}, {ReduceKind::argmin, DType::i32},
                      {ReduceKind::max, DType::boolean}, {ReduceKind::min, DType::boolean}};
  for (const Row& r : rows)
    for (LaneAxis axis : {LaneAxis::inner, LaneAxis::outer}) {
      KernelBuilder b("reduce");
      b.k.lanes = axis;
      const Expr n = b.shape("n"), m = b.shape("m", 1);
      const Expr i = b.outer("i", n), p = b.inner("p", Expr(2)), j = b.inner("j", m);
      const bool arg = r.kind == ReduceKind::argmax || r.kind == ReduceKind::argmin;
      const DType out = arg ? DType::i64 : r.t;
      const ParamId x = b.param("x", ParamRole::input, r.t, {n, Expr(2), m}), y = b.param("y", ParamRole::output, out, {n});
      b.block(true);
      const InstId v = b.reduce(r.kind, out, b.load(x, i * m * 2 + p * m + j));
      b.block(false);
      b.store(y, i, v);
      CAPTURE(reduce_name(r.kind), dtype_name(r.t), static_cast<int>(axis));
      RunOptions o;
      o.int_range = 4;
      o.specials = r.kind != ReduceKind::prod && r.kind != ReduceKind::sum;
      check_kernel(b.k,
                   {{{"n", 1}, {"m", 1}}, {{"n", 3}, {"m", 16}}, {{"n", 70}, {"m", 7}}, {{"n", 2}, {"m", 257}}, {{"n", 339}, {"m", 2}}}, o);
    }
}

TEST_CASE("indices of extremes where 32 bits count the points") {
  for (ReduceKind kind : {ReduceKind::argmax, ReduceKind::argmin})
    for (DType t : {DType::f32, DType::f64, DType::bf16, DType::i64, DType::u8, DType::boolean})
      for (int64_t points : {1, 5, 200})
        for (LaneAxis axis : {LaneAxis::inner, LaneAxis::outer}) {
          KernelBuilder b("argument");
          b.k.lanes = axis;
          const Expr n = b.shape("n"), m = points;
          const Expr i = b.outer("i", n), p = b.inner("p", Expr(2)), j = b.inner("j", m);
          const ParamId x = b.param("x", ParamRole::input, t, {n, Expr(2), m}), y = b.param("y", ParamRole::output, DType::i64, {n});
          b.block(true);
          const InstId v = b.reduce(kind, DType::i64, b.load(x, i * m * 2 + p * m + j));
          b.block(false);
          b.store(y, i, v);
          CAPTURE(reduce_name(kind), dtype_name(t), points, static_cast<int>(axis));
          RunOptions o;
          o.int_range = 4;
          o.specials = true;
          check_kernel(b.k, {{{"n", 1}}, {{"n", 7}}, {{"n", 150}}}, o);
        }
}

TEST_CASE("scans") {
  for (ReduceKind kind : {ReduceKind::sum, ReduceKind::max, ReduceKind::argmax, ReduceKind::argmin, ReduceKind::logsumexp})
    for (LaneAxis axis : {LaneAxis::inner, LaneAxis::outer}) {
      KernelBuilder b("scan");
      b.k.lanes = axis;
      const Expr n = b.shape("n"), m = b.shape("m");
      const Expr i = b.outer("i", n), p = b.inner("p", Expr(2)), j = b.inner("j", m);
      const bool arg = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
      const DType out = arg ? DType::i64 : DType::f32;
      const ParamId x = b.param("x", ParamRole::input, DType::f32, {n, Expr(2), m}),
                    y = b.param("y", ParamRole::output, out, {n, Expr(2), m});
      b.block(true);
      const Expr at = i * m * 2 + p * m + j;
      b.store(y, at, b.reduce(kind, out, b.load(x, at), true));
      CAPTURE(reduce_name(kind), static_cast<int>(axis));
      RunOptions o;
      o.specials = arg;
      auto sizes = kRowSizes;
      sizes.push_back({{"n", 339}, {"m", 2}});
      check_kernel(b.k, sizes, o);
    }
}

TEST_CASE("divided indices, masks along lanes, flips, gathers") {
  for (LaneAxis axis : {LaneAxis::inner, LaneAxis::outer}) {
    CAPTURE(static_cast<int>(axis));
    const auto make = [&](KernelBuilder& b, const Expr& n, const Expr& m) {
      b.k.lanes = axis;
      const Expr i = b.outer("i", n);
      const Expr j = axis == LaneAxis::inner ? b.inner("j", m) : b.outer("j", m);
      return std::pair(i, j);
    };
    SECTION("per-channel bias over flattened pixels, and a permuted store") {
      KernelBuilder b("flat");
      const Expr n = b.shape("n"), hw = b.shape("hw", 1);
      const auto [i, j] = make(b, n, hw * 5);
      const ParamId x = b.param("x", ParamRole::input, DType::f32, {n, Expr(5), hw}),
                    c = b.param("c", ParamRole::input, DType::f32, {Expr(5)}), y = b.param("y", ParamRole::output, DType::f32, {n, hw * 5}),
                    t = b.param("t", ParamRole::output, DType::f32, {n, hw, Expr(5)});
      b.block(axis == LaneAxis::inner);
      const InstId s = b.op(Op::add, DType::f32, {b.load(x, i * hw * 5 + j), b.load(c, floordiv(j, hw))});
      b.store(y, i * hw * 5 + j, s);
      b.store(t, i * hw * 5 + mod(j, hw) * 5 + floordiv(j, hw), s);
      check_kernel(b.k, {{{"n", 2}, {"hw", 1}}, {{"n", 2}, {"hw", 13}}, {{"n", 1}, {"hw", 300}}});
    }
    SECTION("cat and pad") {
      KernelBuilder b("cat_pad");
      const Expr n = b.shape("n"), m = b.shape("m");
      const auto [i, j] = make(b, n, m * 2 + 3);
      const DType f = DType::f32, bo = DType::boolean;
      const ParamId x = b.param("x", ParamRole::input, f, {n, m}), y = b.param("y", ParamRole::input, f, {n, m}),
                    z = b.param("z", ParamRole::output, f, {n, m * 2 + 3});
      b.block(axis == LaneAxis::inner);
      const InstId at = b.index(j), first = b.op(Op::lt, bo, {at, b.index(m)}),
                   second = b.op(Op::bit_and, bo, {b.op(Op::logical_not, bo, {first}), b.op(Op::lt, bo, {at, b.index(m * 2)})});
      const InstId lx = b.load(x, i * m + j, first, 7), ly = b.load(y, i * m + (m - 1 - (j - m)), second, -3);
      b.store(z, i * (m * 2 + 3) + j, b.op(Op::where, f, {first, lx, ly}));
      check_kernel(b.k, kRowSizes);
    }
    SECTION("embedding with a check, one-hot and data-dependent masks") {
      KernelBuilder b("embed");
      const Expr n = b.shape("n"), m = b.shape("m"), rows = b.shape("rows", 1);
      const auto [i, j] = make(b, n, m);
      const DType f = DType::f32, bo = DType::boolean, l = DType::i64;
      const ParamId ids = b.param("ids", ParamRole::input, l, {n}), cols = b.param("cols", ParamRole::input, l, {m}),
                    table = b.param("table", ParamRole::input, f, {rows, m}), z = b.param("z", ParamRole::output, f, {n, m}),
                    h = b.param("h", ParamRole::output, l, {n, m}), g = b.param("g", ParamRole::output, f, {n, m});
      b.block(false);
      const InstId id = b.op(Op::remainder, l, {b.load(ids, i), b.index(rows)});
      b.check(b.op(Op::bit_and, bo, {b.op(Op::ge, bo, {id, b.constant(l, 0)}), b.op(Op::lt, bo, {id, b.index(rows)})}));
      const Expr r = b.bind(id, "r", rows);
      if (axis == LaneAxis::inner) b.block(true);
      const InstId v = b.load(table, r * m + j);
      b.store(z, i * m + j, v);
      b.store(h, i * m + j, b.op(Op::cast, l, {b.op(Op::eq, bo, {b.index(j), id})}));
      const InstId c = b.op(Op::remainder, l, {b.load(cols, j), b.index(m)});
      const Expr col = b.bind(c, "c", m);
      const InstId keep = b.op(Op::gt, bo, {v, b.constant(f, 0)});
      b.store(g, i * m + j, b.op(Op::add, f, {b.load(table, r * m + col, keep, 9), b.load(table, r * m + j, keep, 1)}));
      check_kernel(b.k, {{{"n", 4}, {"m", 1}, {"rows", 3}}, {{"n", 3}, {"m", 37}, {"rows", 11}}});
    }
    SECTION("columns that lie beside each other, mostly in order") {
      for (int64_t step : {1, 2, 5}) {
        KernelBuilder b("beside");
        const Expr n = b.shape("n"), m = 75;
        const auto [i, j] = make(b, n, m);
        const DType f = DType::f32, l = DType::i64;
        const ParamId by = b.param("by", ParamRole::input, l, {m}), table = b.param("table", ParamRole::input, f, {n, m}),
                      z = b.param("z", ParamRole::output, f, {n, m});
        b.block(axis == LaneAxis::inner);
        const InstId at = b.op(Op::add, l, {b.index(floordiv(j, step)), b.op(Op::remainder, l, {b.load(by, j), b.constant(l, 4)})});
        const Expr col = b.bind(b.op(Op::remainder, l, {at, b.index(m)}), "c", m);
        b.store(z, i * m + j, b.load(table, i * m + col));
        check_kernel(b.k, {{{"n", 1}}, {{"n", 40}}});
      }
    }
    SECTION("rows and columns that are looked up, at places of small windows") {
      for (DType t : {DType::f32, DType::f64, DType::i64, DType::bf16}) {
        CAPTURE(dtype_name(t));
        KernelBuilder b("windows");
        const Expr n = b.shape("n"), m = 3 * 49;
        const auto [i, j] = make(b, n, m);
        const DType l = DType::i64;
        const ParamId rows = b.param("rows", ParamRole::input, l, {n, Expr(7)}),
                      columns = b.param("columns", ParamRole::input, l, {n, Expr(7)}),
                      x = b.param("x", ParamRole::input, t, {Expr(3), Expr(11), Expr(13)}), z = b.param("z", ParamRole::output, t, {n, m});
        b.block(axis == LaneAxis::inner);
        const auto looked_up = [&](ParamId from, const Expr& at, const char* name, int64_t size) {
          return b.bind(b.op(Op::remainder, l, {b.load(from, i * 7 + at), b.constant(l, static_cast<double>(size))}), name, Expr(size));
        };
        const Expr row = looked_up(rows, mod(floordiv(j, 7), 7), "row", 11), column = looked_up(columns, mod(j, 7), "column", 13);
        b.store(z, i * m + j, b.load(x, floordiv(j, 49) * 143 + row * 13 + column));
        check_kernel(b.k, {{{"n", 1}}, {{"n", 40}}});
      }
    }
    SECTION("an index out of range is reported and not followed") {
      KernelBuilder b("fault");
      const Expr n = b.shape("n"), m = b.shape("m");
      const auto [i, j] = make(b, n, m);
      const ParamId ids = b.param("ids", ParamRole::input, DType::i64, {m}), x = b.param("x", ParamRole::input, DType::f32, {m}),
                    z = b.param("z", ParamRole::output, DType::f32, {n, m});
      b.block(axis == LaneAxis::inner);
      const InstId id = b.load(ids, j);
      b.check(b.op(Op::lt, DType::boolean, {id, b.index(m)}));
      const Expr r = b.bind(id, "r", m);
      b.store(z, i * m + j, b.load(x, r));
      RunOptions o;
      o.expect_fault = true;
      o.int_range = 1000000;
      check_kernel(b.k, {{{"n", 2}, {"m", 40}}}, o);
    }
  }
}

TEST_CASE("pooling windows with masks that depend on lane and window") {
  KernelBuilder b("maxpool");
  b.k.lanes = LaneAxis::outer;
  const Expr n = b.shape("n"), w = b.shape("w", 1);
  const Expr i = b.outer("i", n), o = b.outer("o", floordiv(w + 1, 2)), k = b.inner("k", Expr(3));
  const DType f = DType::f32, bo = DType::boolean;
  const ParamId x = b.param("x", ParamRole::input, f, {n, w}), y = b.param("y", ParamRole::output, f, {n, floordiv(w + 1, 2)});
  b.block(true);
  const Expr at = o * 2 + k - 1;
  const InstId pos = b.index(at),
               in = b.op(Op::bit_and, bo, {b.op(Op::ge, bo, {pos, b.constant(DType::i64, 0)}), b.op(Op::lt, bo, {pos, b.index(w)})});
  const InstId m = b.reduce(ReduceKind::max, f, b.load(x, i * w + at, in, -INFINITY));
  b.block(false);
  b.store(y, i * floordiv(w + 1, 2) + o, m);
  check_kernel(b.k, {{{"n", 2}, {"w", 1}}, {{"n", 3}, {"w", 31}}, {{"n", 2}, {"w", 200}}});
}

TEST_CASE("channels are stored between those of other pixels") {
  for (DType t : {DType::u8, DType::i8, DType::boolean, DType::bf16, DType::f32})
    for (int64_t channels : {2, 3, 5}) {
      KernelBuilder b("channels");
      const Expr n = b.shape("n");
      const Expr i = b.outer("i", Expr(channels)), j = b.inner("j", n);
      const ParamId x = b.param("x", ParamRole::input, t, {Expr(channels), n}), z = b.param("z", ParamRole::output, t, {n, Expr(channels)});
      b.block(true);
      b.store(z, j * channels + i, b.load(x, i * n + j));
      CAPTURE(dtype_name(t), channels);
      check_kernel(b.k, {{{"n", 1}}, {{"n", 16}}, {{"n", 47}}, {{"n", 100}}});
    }
}

TEST_CASE("casts") {
  const DType types[] = {DType::boolean, DType::u8, DType::i8, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
  for (DType from : types) {
    KernelBuilder b("casts");
    b.k.lanes = LaneAxis::outer;
    const Expr n = b.shape("n");
    const Expr i = b.outer("i", n);
    const ParamId x = b.param("x", ParamRole::input, from, {n});
    std::vector<ParamId> out;
    for (DType to : types) out.push_back(b.param("y", ParamRole::output, to, {n}));
    b.block(false);
    const InstId v = b.load(x, i);
    for (size_t t = 0; t < std::size(types); ++t)
      if (!(is_float(from) && types[t] == DType::u8)) b.store(out[t], i, b.op(Op::cast, types[t], {v}));
    CAPTURE(dtype_name(from));
    check_kernel(b.k, {{{"n", 45}}});
  }
}

TEST_CASE("bf16 is rounded to nearest even, bit for bit, and limits known to the compiler keep NaNs") {
  const std::string source = R"(#include "vec/vec_reduce.h"
extern "C" void lanes_of(const float* x, bf16* half, float* rounded, float* limited) {
  const f32v v = ld(x, full());
  st(half, v, full());
  st(rounded, round_bf16(v), full());
  st(limited, v_maximum(v_minimum(v, kf(6.0f)), kf(-2.5f)), full());
})";
  const auto bits_of = [](float x) {
    uint32_t u;
    std::memcpy(&u, &x, 4);
    return u;
  };
  std::vector<float> values = {0.0f,    -0.0f,    NAN,       -NAN,           INFINITY, -INFINITY, 1e-40f,
                               -1e-40f, 1.5e-45f, 9.18e-41f, 1.1754944e-38f, 6.0f,     -2.5f,     3.4028235e38f};
  for (uint32_t i = 0; i < 50; ++i) {
    const uint32_t u = 0x3f7f7f80u + i * 0x08007fffu;  // ties among them, of many exponents
    values.push_back(0);
    std::memcpy(&values.back(), &u, 4);
  }
  for (Isa isa : loop_isas()) {
    if (!runs_here(isa)) continue;
    CompiledUnit unit(source, isa);
    const auto run = reinterpret_cast<void (*)(const float*, uint16_t*, float*, float*)>(unit.symbol("lanes_of"));
    REQUIRE(run);
    for (float x : values) {  // each in the middle of others: what one lane needs is done for all of them
      std::vector<float> in(16, 1.0f), rounded(16), limited(16);
      in[3] = x;
      std::vector<uint16_t> half(16);
      run(in.data(), half.data(), rounded.data(), limited.data());
      const uint32_t u = bits_of(x);
      CAPTURE(x, u, isa_name(isa));
      CHECK(half[2] == 0x3f80);
      if (std::isnan(x)) {
        CHECK(((half[3] & 0x7f80) == 0x7f80 && (half[3] & 0x7f) != 0));
        CHECK((std::isnan(rounded[3]) && std::isnan(limited[3])));
        continue;
      }
      const uint32_t want = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
      CHECK(half[3] == want);
      CHECK(bits_of(rounded[3]) == want << 16);
      CHECK(bits_of(limited[3]) == bits_of(x > 6 ? 6.0f : x < -2.5f ? -2.5f : x));
    }
  }
}

TEST_CASE("nothing behind the last element is read where half a vector is used of it") {
  const std::string source = R"(#include "vec/vec_reduce.h"
#define AOTC_WIDER(name, T, TO, S) \
  extern "C" void name(const T* x, S* y) { s_prod<decltype(TO(ld(x, full())))> r; st(y, r.along(part{8}, TO(ld(x, part{8}))), part{8}); }
AOTC_WIDER(of_f32, float, to_f64, double)
AOTC_WIDER(of_i32, int32_t, to_i64, int64_t)
AOTC_WIDER(of_bf16, bf16, to_f64, double)
AOTC_WIDER(of_i8, int8_t, to_i64, int64_t)
)";
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(mprotect(static_cast<std::byte*>(pages) + page, page, PROT_NONE) == 0);
  for (Isa isa : loop_isas()) {
    if (!runs_here(isa)) continue;
    CompiledUnit unit(source, isa);
    for (const auto& [name, bytes] : {std::pair("of_f32", size_t{4}), {"of_i32", 4}, {"of_bf16", 2}, {"of_i8", 1}}) {
      CAPTURE(name);
      const auto run = reinterpret_cast<void (*)(const void*, int64_t*)>(unit.symbol(name));
      REQUIRE(run);
      int64_t out[16] = {1, 1, 1, 1, 1, 1, 1, 1};
      run(static_cast<std::byte*>(pages) + page - 8 * bytes, out);
      CHECK(std::count(out, out + 8, 0) == 8);  // products of zeros
    }
  }
  munmap(pages, 2 * page);
}
