// Weights of few bits from the graph to the kernels: the numbers that rounding may make, every reader of a weight sees the same ones, the
// fusion keeps them in the product, and the product is recognised.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "aotc/detail/library_abi.h"
#include "forms/list.h"
#include "graph/builder.h"
#include "graph/interp.h"
#include "graph/scalar.h"
#include "graph/verify.h"
#include "loop/lower.h"
#include "loop/text.h"
#include "loop/verify.h"
#include "passes/passes.h"

using namespace aotc;

namespace {

ConstData constant(const std::string& name, std::vector<int64_t> dims, const std::vector<float>& values) {
  auto data = std::make_shared<std::vector<float>>(values);
  ConstData c;
  c.name = name;
  c.type.dtype = DType::f32;
  for (int64_t d : dims) c.type.dims.push_back(d);
  c.data = reinterpret_cast<const std::byte*>(data->data());
  c.bytes = data->size() * sizeof(float);
  c.keepalive = data;
  return c;
}

std::vector<float> random_values(size_t n, float shift) {
  std::mt19937 rng(5);
  std::normal_distribution<float> normal(shift, 0.1f);
  std::vector<float> v(n);
  for (float& x : v) x = normal(rng);
  return v;
}

HostTensor floats(std::vector<int64_t> dims, std::vector<float> values) {
  HostTensor t;
  t.dtype = DType::f32, t.dims = std::move(dims);
  t.bytes.resize(values.size() * sizeof(float));
  std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

/// A product of x [S, k] with one weight, [n, k] (transposed) or [k, n]; a table of it, too, where `looked_up`; a sum of it where `read`.
struct Net {
  Graph g;
  ValueId weight;
};
Net net(int64_t n, int64_t k, bool transposed, bool looked_up, bool read, const std::vector<float>& values) {
  Net out;
  Graph& g = out.g;
  Builder b(g);
  SymInfo s;
  s.name = "S", s.min = 1, s.max = 64;
  const Expr rows = Expr::symbol(g.syms.add(s));
  const ValueId x = g.add_input("x", {DType::f32, {rows, k}}), ids = g.add_input("ids", {DType::i64, {rows}});
  const ValueId w = out.weight = b.constant(constant("w", transposed ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n}, values));
  const auto output = [&](const char* name, ValueId v) { g.outputs.push_back({name, v, "", -1}); };
  output("y", b.matmul(x, transposed ? b.permute(w, {1, 0}) : w, DType::f32));
  if (looked_up) output("row", b.index(w, {ids}, {0}, 0));
  if (read) output("sum", b.reduce(ReduceKind::sum, w, {0}));
  return out;
}

std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> v;
  for (size_t i = 0; i < t.bytes.size(); i += sizeof(float)) {
    float x;
    std::memcpy(&x, t.bytes.data() + i, sizeof x);
    v.push_back(x);
  }
  return v;
}

struct Case {
  int64_t n, k;
  bool transposed;
  WeightStorage storage;
  float shift;  ///< of the weight's values
};
const Case kCases[] = {
    {48, 96, true, {8, 0}, 0},    {48, 96, true, {8, 32}, 0},   {48, 96, false, {8, 64}, 0.3f},  {33, 100, true, {4, 32}, 0},
    {48, 96, false, {4, 32}, 0},  {48, 96, true, {4, 128}, 0},  {40, 257, true, {4, 64}, -0.2f}, {40, 257, false, {8, 128}, 0},
    {2048, 32, true, {4, 32}, 0}, {64, 64, true, {4, 0}, 0.5f}, {48, 96, true, {16, 0}, 0},      {40, 257, false, {16, 0}, 0.3f},
};

}  // namespace

TEST_CASE("a weight becomes integers with scales, and its products are recognised") {
  for (const Case& c : kCases)
    for (const bool looked_up : {false, true})
      for (const bool read : {false, true}) {
        INFO("n " << c.n << " k " << c.k << " transposed " << c.transposed << " bits " << c.storage.bits << " group " << c.storage.group
                  << " looked up " << looked_up << " read " << read);
        const std::vector<float> values = random_values(static_cast<size_t>(c.n * c.k), c.shift);
        Net before = net(c.n, c.k, c.transposed, looked_up, read, values);
        passes::PassContext ctx;
        passes::StoredWeights stored;
        ctx.weights = c.storage, ctx.stored = &stored;
        passes::run_pass(*passes::find_pass("round_weights"), before.g, ctx);
        passes::run_pass(*passes::find_pass("quantize_weights"), before.g, ctx);
        verify(before.g, "quantize_weights");
        REQUIRE(stored.rounded.size() == 1);
        CHECK((stored.rounded[0].name == "w" && stored.rounded[0].columns_first == c.transposed));
        const ConstData archive = constant("w", c.transposed ? std::vector<int64_t>{c.n, c.k} : std::vector<int64_t>{c.k, c.n}, values);
        const auto bytes = passes::round_weight(archive, c.transposed, c.storage).numbers;
        std::vector<float> rounded(values.size());
        std::memcpy(rounded.data(), bytes.data(), bytes.size());
        REQUIRE(stored.weights.size() == 1);
        CHECK(stored.left.empty());
        CHECK(stored.error() < (c.storage.bits == 8 ? 0.02 : 0.2));
        CHECK(stored.bytes() * (c.storage.bits == 16 ? 2 : 3) <= stored.bytes_before());

        // Nearest: half a step of a group's range, and what the rounding of scale and offset to 8 bits adds.
        const int64_t group = c.storage.group ? c.storage.group : c.k;
        const auto at = [&](int64_t j, int64_t i) { return static_cast<size_t>(c.transposed ? j * c.k + i : i * c.n + j); };
        for (int64_t j = 0; j < c.n; ++j)
          for (int64_t i0 = 0; i0 < c.k; i0 += group) {
            double least = 1e9, most = -1e9;
            for (int64_t i = i0; i < std::min(c.k, i0 + group); ++i)
              least = std::min<double>(least, values[at(j, i)]), most = std::max<double>(most, values[at(j, i)]);
            const double step = c.storage.bits == 16  ? std::max(most, -least) / 128
                                : c.storage.bits == 8 ? std::max(most, -least) / 127
                                                      : (most - least + std::fabs(least) / 128) / 15;
            for (int64_t i = i0; i < std::min(c.k, i0 + group); ++i)
              REQUIRE(std::fabs(values[at(j, i)] - rounded[at(j, i)]) <= 0.51 * step * (1 + 1 / 64.0) + 1e-7);
          }

        // Whatever reads the weight reads the rounded one.
        const Net same = net(c.n, c.k, c.transposed, looked_up, read, rounded);
        HostTensor ids;
        ids.dtype = DType::i64, ids.dims = {3};
        const int64_t at_rows[] = {0, -1, 7};
        ids.bytes.resize(sizeof at_rows);
        std::memcpy(ids.bytes.data(), at_rows, sizeof at_rows);
        const std::vector<HostTensor> inputs = {floats({3, c.k}, random_values(static_cast<size_t>(3 * c.k), 0)), ids};
        const auto got = interpret(before.g, inputs), want = interpret(same.g, inputs);
        REQUIRE(got.size() == want.size());
        for (size_t o = 0; o < got.size(); ++o) {
          const auto a = numbers(got[o]), b = numbers(want[o]);
          REQUIRE(a.size() == b.size());
          for (size_t i = 0; i < a.size(); ++i) REQUIRE(std::fabs(a[i] - b[i]) <= 1e-4 * (1 + std::fabs(b[i])));
        }

        const loop::Module m = loop::lower(before.g);
        loop::verify(m, "lower");
        CHECK(loop::print(loop::parse_module(loop::print(m), "m")) == loop::print(m));
        const loop::MatmulKernel* product = nullptr;
        for (const loop::Kernel& k : m.kernels)
          if (const auto* p = std::get_if<loop::MatmulKernel>(&k)) product = p;
        REQUIRE(product);
        REQUIRE(product->b_quantised);
        CHECK(product->b_quantised->bits == c.storage.bits);
        CHECK(product->b_quantised->group == std::min(c.k, group));
        CHECK((product->b_quantised->offsets != kNone<loop::ParamId>) == (c.storage.bits == 4));
        for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
          const forms::Decision d = forms::decide({*product, m.syms, machine_of(isa, 2), {}});
          const auto reads_bits = [&](const forms::Candidate& x) {
            const std::string_view name = x.choice.form->name();
            return c.storage.bits == 16 ? name == "gemm_bf16w" || name == "gemm_bf16w_parts"
                                        : name == "gemm_quant" || name == "gemm_unpack" || name == "gemm_unpack_parts";
          };
          if (c.n % 32 == 0) CHECK(reads_bits({d.choice, Fit::yes(), 0, 0}));  // padding costs a small one more than making its elements
          CHECK(std::any_of(d.candidates.begin(), d.candidates.end(), [&](const forms::Candidate& x) { return x.fit && reads_bits(x); }));
          // Bytes on both sides only where the build allows that, and a column has one scale.
          Goal allowed = {machine_of(isa, 2), {}};
          allowed.numerics.int8_rows = true;
          const bool one_scale = c.storage.bits == 8 && group >= c.k;
          const auto has = [](const forms::Decision& x, std::string_view name) {
            return std::any_of(x.candidates.begin(), x.candidates.end(),
                               [&](const forms::Candidate& y) { return y.fit && y.choice.form->name() == name; });
          };
          const forms::Decision with_int8 = forms::decide({*product, m.syms, allowed.machine, allowed.numerics});
          CHECK(!has(d, "gemm_int8"));
          CHECK(!has(d, "gemm_int8_tiles"));
          CHECK(has(with_int8, "gemm_int8") == one_scale);
          CHECK(has(with_int8, "gemm_int8_tiles") == (one_scale && isa == Isa::amx));
          for (const forms::Candidate& x : with_int8.candidates) {
            if (!x.fit || x.choice.form->name() != "gemm_int8_tiles") continue;
            // gemm_int8 stands in where a process may not use the tiles.
            const int64_t scratch =
                *x.choice.form->step({*product, m.syms, allowed.machine, allowed.numerics}, x.choice).scratch_bytes.as_const();
            aotc_gemm_quant_config g{};
            g.mc = x.choice.values[0], g.nc = x.choice.values[1];
            CHECK(scratch >= aotc_gemm_int8_tiles_scratch_bytes(&g, c.k));
            CHECK(scratch >= aotc_gemm_int8_scratch_bytes(&g, c.k));
          }
          if (one_scale && isa == Isa::amx && c.n >= 32 && c.k >= 64) {
            loop::MatmulKernel many = *product;
            many.m = 128;
            CHECK(forms::decide({many, m.syms, allowed.machine, allowed.numerics}).choice.form->name() == "gemm_int8_tiles");
          }
          CHECK(allowed.str() == machine_of(isa, 2).str() + ", int8 rows");
          // The forms of few bits read what the weight is made of; the others make it.
          for (const forms::Candidate& x : d.candidates) {
            if (!x.fit) continue;
            const std::string config = x.choice.form->config(*product, x.choice, isa, "config");
            CHECK((config.find(".b_prologue = ") != std::string::npos) == !reads_bits(x));
          }
        }
      }
}

TEST_CASE("weights of 16-bit floats are multiplied as float32") {
  for (const DType t : {DType::bf16, DType::f16})
    for (const int bits : {8, 4}) {
      INFO(dtype_name(t) << ", " << bits << " bits");
      const std::vector<float> values = random_values(48 * 96, 0);
      std::vector<std::byte> halves(values.size() * 2);
      for (size_t i = 0; i < values.size(); ++i) {
        const double v = values[i];
        store_f64(t, &v, halves.data() + 2 * i, 1);
      }
      Graph g;
      Builder b(g);
      ConstData w = constant("w", {48, 96}, {});
      auto data = std::make_shared<std::vector<std::byte>>(halves);
      w.type.dtype = t, w.data = data->data(), w.bytes = data->size(), w.keepalive = data;
      const ValueId x = g.add_input("x", {t, {3, 96}}), weight = b.constant(w);
      g.outputs.push_back({"y", b.matmul(x, b.permute(weight, {1, 0}), t), "", -1});
      passes::PassContext ctx;
      passes::StoredWeights stored;
      ctx.weights = {bits, 32}, ctx.stored = &stored;
      passes::run_pass(*passes::find_pass("round_weights"), g, ctx);
      const Graph rounded = g;
      passes::run_pass(*passes::find_pass("quantize_weights"), g, ctx);
      verify(g, "quantize_weights");
      CHECK(stored.left.empty());

      HostTensor rows;
      rows.dtype = t, rows.dims = {3, 96}, rows.bytes.assign(halves.begin(), halves.begin() + 3 * 96 * 2);
      const HostTensor got = interpret(g, {rows})[0], want = interpret(rounded, {rows})[0];
      for (int64_t i = 0; i < got.elems(); ++i) {
        double is = 0, was = 0;
        load_f64(t, got.bytes.data() + 2 * i, &is, 1), load_f64(t, want.bytes.data() + 2 * i, &was, 1);
        REQUIRE(std::fabs(is - was) <= 0.01 * (1 + std::fabs(was)));
      }
      const loop::Module m = loop::lower(g);
      const loop::MatmulKernel* product = nullptr;
      for (const loop::Kernel& k : m.kernels)
        if (const auto* p = std::get_if<loop::MatmulKernel>(&k)) product = p;
      REQUIRE((product && product->b_quantised && product->in == DType::f32));
      CHECK(product->b_quantised->bits == bits);
      CHECK(product->params[product->b_quantised->scales].dtype == (t == DType::f16 ? DType::f32 : DType::bf16));
    }
}

TEST_CASE("weights that stay as they are, and why") {
  const auto why = [](std::vector<int64_t> dims, float first) {
    size_t n = 1;
    for (int64_t d : dims) n *= static_cast<size_t>(d);
    std::vector<float> values = random_values(n, 0);
    values[0] = first;
    Net x = net(dims[0], dims[1], true, false, false, values);
    passes::PassContext ctx;
    passes::StoredWeights stored;
    ctx.weights = {8, 0}, ctx.stored = &stored;
    passes::run_pass(*passes::find_pass("round_weights"), x.g, ctx);
    passes::run_pass(*passes::find_pass("quantize_weights"), x.g, ctx);
    return stored.left.size() == 1 && stored.weights.empty() ? stored.left[0].second : "rounded";
  };
  CHECK(why({8, 16}, 1) == "it is small");
  CHECK(why({64, 64}, INFINITY) == "it has infinities or numbers that are none");
  CHECK(why({64, 64}, 1) == "rounded");
}

TEST_CASE("what --weights and --weight-group take") {
  CHECK(parse_weight_storage("", "").bits == 0);
  CHECK(parse_weight_storage("int8", "") == WeightStorage{8, 32});
  CHECK(parse_weight_storage("int8", "0") == WeightStorage{8, 0});
  CHECK(parse_weight_storage("int4", "") == WeightStorage{4, 32});
  CHECK(parse_weight_storage("int4", "0") == WeightStorage{4, 0});
  CHECK(parse_weight_storage("int8", "128").str() == "int8, groups of 128");
  CHECK_THROWS_AS(parse_weight_storage("int5", ""), Diagnostic);
  CHECK_THROWS_AS(parse_weight_storage("int8", "48"), Diagnostic);
  CHECK_THROWS_AS(parse_weight_storage("", "32"), Diagnostic);
  CHECK(parse_weight_storage("bf16", "") == WeightStorage{16, 0});
  CHECK_THROWS_AS(parse_weight_storage("bf16", "32"), Diagnostic);
  CHECK(parse_weight_storage("int8", "", "int8") == WeightStorage{8, 0, true});
  CHECK(parse_weight_storage("int8", "0", "int8").str() == "int8, one scale a column, times rows of int8");
  CHECK_THROWS_AS(parse_weight_storage("", "", "int8"), Diagnostic);
  CHECK_THROWS_AS(parse_weight_storage("int8", "32", "int8"), Diagnostic);
  CHECK_THROWS_AS(parse_weight_storage("int4", "", "int8"), Diagnostic);
  CHECK_THROWS_AS(parse_weight_storage("bf16", "", "int8"), Diagnostic);
  CHECK_THROWS_AS(parse_weight_storage("int8", "", "int4"), Diagnostic);
}

TEST_CASE("the worst weight is named where rounding costs more than is allowed") {
  passes::StoredWeights stored;
  stored.storage = {8, 0};
  stored.rounded = {{"good", true, 0.004}, {"bad", true, 0.03}};
  CHECK_THROWS_WITH(stored.check_error(), Catch::Contains("weight 'bad'") && Catch::Contains("0.03") && Catch::Contains("at most 0.01"));
  stored.storage.max_error = 0.03;
  CHECK_NOTHROW(stored.check_error());
}
