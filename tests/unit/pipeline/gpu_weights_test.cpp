// Weights of few bits for GPUs: programs of 16 bits too, integers and 8-bit floats; the products are recognised, and all that reads a
// weight reads its slabs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "forms/list.h"
#include "forms/rules.h"
#include "forms/slabs.h"
#include "graph/builder.h"
#include "graph/interp.h"
#include "graph/scalar.h"
#include "graph/verify.h"
#include "loop/lower.h"
#include "loop/text.h"
#include "loop/verify.h"
#include "passes/passes.h"
#include "plan/slab_weights.h"

using namespace aotc;

namespace {

HostTensor tensor(DType t, std::vector<int64_t> dims, const std::vector<double>& values) {
  HostTensor x{t, std::move(dims), {}};
  x.bytes.resize(values.size() * static_cast<size_t>(dtype_bytes(t)));
  store_f64(t, values.data(), x.bytes.data(), static_cast<int64_t>(values.size()));
  return x;
}
std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> v(static_cast<size_t>(t.elems()));
  load_f64(t.dtype, t.bytes.data(), v.data(), t.elems());
  return v;
}
std::vector<double> random_values(size_t n, double shift) {
  std::mt19937 rng(5);
  std::normal_distribution<double> normal(shift, 0.1);
  std::vector<double> v(n);
  for (double& x : v) x = normal(rng);
  return v;
}

ConstData constant(const HostTensor& t) {
  auto data = std::make_shared<std::vector<std::byte>>(t.bytes);
  ConstData c{"w", {t.dtype, {}}, data, data->data(), data->size()};
  for (int64_t d : t.dims) c.type.dims.push_back(d);
  return c;
}

/// x [S, k] times the weight [n, k], and rows of the weight.
Graph net(const HostTensor& weight) {
  Graph g;
  Builder b(g);
  SymInfo s;
  s.name = "S", s.min = 1, s.max = 64;
  const Expr rows = Expr::symbol(g.syms.add(s));
  const ValueId x = g.add_input("x", {weight.dtype, {rows, weight.dims[1]}}), ids = g.add_input("ids", {DType::i64, {rows}});
  const ValueId w = b.constant(constant(weight));
  g.outputs.push_back({"y", b.matmul(x, b.permute(w, {1, 0}), DType::f32), "", -1});
  g.outputs.push_back({"row", b.index(w, {ids}, {0}, 0), "", -1});
  return g;
}

passes::PassContext context(const WeightStorage& storage, passes::StoredWeights& stored) {
  passes::PassContext ctx;
  ctx.target.sms = {"sm_90a"};
  ctx.weights = storage, ctx.stored = &stored;
  return ctx;
}

struct Case {
  DType type;
  int64_t n, k;
  WeightStorage storage;
  double shift, most_error;
};
const WeightStorage kFloat8 = {8, 32, false, 0, true}, kFloat8Columns = {8, 0, false, 0, true};
const Case kCases[] = {
    {DType::bf16, 48, 96, {8, 32}, 0, 0.01},  {DType::bf16, 33, 100, {8, 0}, 0.3, 0.02}, {DType::bf16, 48, 96, {4, 32}, 0, 0.15},
    {DType::bf16, 40, 257, {4, 64}, 1, 0.02}, {DType::bf16, 48, 96, kFloat8, 0, 0.04},   {DType::bf16, 50, 24, kFloat8Columns, 0, 0.04},
    {DType::f16, 48, 96, {8, 64}, 0, 0.01},   {DType::f16, 33, 100, {4, 32}, -0.2, 0.1}, {DType::f16, 64, 64, kFloat8, 0, 0.04},
    {DType::f32, 48, 96, {8, 32}, 0, 0.01},   {DType::f32, 48, 96, {4, 0}, 0, 0.2},      {DType::f32, 48, 96, kFloat8, 0, 0.04},
};

}  // namespace

TEST_CASE("weights of few bits of GPUs: the numbers, the product, the slabs") {
  for (const Case& c : kCases) {
    INFO(dtype_name(c.type) << " n " << c.n << " k " << c.k << " " << c.storage.str());
    const HostTensor weight = tensor(c.type, {c.n, c.k}, random_values(static_cast<size_t>(c.n * c.k), c.shift));
    Graph g = net(weight);
    passes::StoredWeights stored;
    passes::PassContext ctx = context(c.storage, stored);
    passes::run_pass(*passes::find_pass("round_weights"), g, ctx);
    passes::run_pass(*passes::find_pass("quantize_weights"), g, ctx);
    verify(g, "quantize_weights");
    REQUIRE((stored.rounded.size() == 1 && stored.weights.size() == 1 && stored.left.empty()));
    CHECK((stored.error() > 1e-4 && stored.error() < c.most_error));
    CHECK(stored.bytes_before() == c.n * c.k * dtype_bytes(c.type));

    // All readers see the same numbers of the program's type.
    const auto rounded = passes::round_weight(constant(weight), true, c.storage);
    const HostTensor same = {c.type, {c.n, c.k}, std::vector<std::byte>(rounded.numbers.begin(), rounded.numbers.end())};
    const Graph reference = net(same);
    HostTensor ids;
    ids.dtype = DType::i64, ids.dims = {3};
    const int64_t at_rows[] = {0, -1, 7};
    ids.bytes.resize(sizeof at_rows);
    std::memcpy(ids.bytes.data(), at_rows, sizeof at_rows);
    const std::vector<HostTensor> inputs = {tensor(c.type, {3, c.k}, random_values(static_cast<size_t>(3 * c.k), 0)), ids};
    const auto got = interpret(g, inputs), want = interpret(reference, inputs);
    for (size_t o = 0; o < want.size(); ++o) CHECK(numbers(got.at(o)) == numbers(want[o]));

    // By the definition: value * scale + offset, rounded once to the type.
    const auto wide = numbers(same);
    bool defined = true;
    for (int64_t j = 0; j < c.n; ++j)
      for (int64_t i = 0; i < c.k; ++i) {
        const auto at = static_cast<size_t>(j * c.k + i), place = static_cast<size_t>(i / rounded.group * c.n + j);
        const auto half = [&](uint16_t bits) { return c.type == DType::f16 ? half_to_float(bits) : bfloat_to_float(bits); };
        const double v = c.storage.float8 ? e4m3fn_to_float(static_cast<uint8_t>(rounded.values[at])) : rounded.values[at];
        const double exact = v * half(rounded.scales[place]) + (rounded.offsets.empty() ? 0 : half(rounded.offsets[place]));
        defined = defined && round_to(c.type, exact) == wide[at];
      }
    CHECK(defined);

    const Machine machine = machine_of(ctx.target);
    loop::Module m = loop::lower(g, forms::rules_of(machine));
    loop::verify(m, "lower");
    CHECK(loop::print(loop::parse_module(loop::print(m), "m")) == loop::print(m));
    const auto product = [&]() -> const loop::MatmulKernel* {
      for (const loop::Kernel& k : m.kernels)
        if (const auto* p = std::get_if<loop::MatmulKernel>(&k)) return p;
      return nullptr;
    };
    REQUIRE((product() && product()->b_quantised));
    const loop::QuantisedWeight& q = *product()->b_quantised;
    CHECK((q.bits == c.storage.bits && q.group == rounded.group && (q.offsets != kNone<loop::ParamId>) == (c.storage.bits == 4)));
    CHECK(q.by_column == (is_half(c.type) || rounded.groups > 1));
    CHECK(product()->params[q.values].dtype == (c.storage.float8 ? DType::f8e4m3fn : DType::i8));
    CHECK(product()->params[q.scales].dtype == rounded.scale_type());
    for (const auto& d : forms::decide({*product(), m.syms, machine, {}}).candidates)
      if (d.fit) CHECK((d.choice.form->takes_few_bits(c.type, machine) || !d.choice.form->name().starts_with("cuda_mma")));

    plan::slab_weights(m);
    loop::verify(m, "slab_weights");
    size_t in_slabs = 0;
    for (const loop::Buffer& b : m.buffers) in_slabs += b.panels;
    CHECK((in_slabs == 1 && product()->b_panels_read));
    CHECK((m.weight_notes.size() == 1 && m.weight_notes[0].why.starts_with("stored once, in slabs")));
  }
}

TEST_CASE("weights of GPUs that stay as they are, and why") {
  const auto why = [](DType t, double first, const WeightStorage& storage) {
    std::vector<double> values = random_values(64 * 64, 0);
    values[0] = first;
    Graph g = net(tensor(t, {64, 64}, values));
    passes::StoredWeights stored;
    passes::PassContext ctx = context(storage, stored);
    passes::run_pass(*passes::find_pass("round_weights"), g, ctx);
    passes::run_pass(*passes::find_pass("quantize_weights"), g, ctx);
    return stored.left.size() == 1 && stored.weights.empty() ? stored.left[0].second : "rounded";
  };
  for (const DType t : {DType::bf16, DType::f16}) {
    CHECK(why(t, 1, {8, 32}) == "rounded");
    CHECK(why(t, INFINITY, {8, 32}) == "it has infinities or numbers that are none");
    CHECK(why(t, NAN, kFloat8) == "it has infinities or numbers that are none");
    CHECK(why(t, 1, {16, 0}).ends_with("which has 16 bits"));
  }
  CHECK(why(DType::f64, 1, {8, 32}) == "it is float64, not float32");
  CHECK(why(DType::f32, 1, {16, 0}) == "rounded");
}

TEST_CASE("the largest numbers of a type stay finite, and tiny ones are taken") {
  for (const DType t : {DType::bf16, DType::f16})
    for (const WeightStorage& storage : {WeightStorage{8, 32}, {4, 32}, kFloat8})
      for (const double most : {t == DType::f16 ? 65504.0 : 3.3895313892515355e38, t == DType::f16 ? 6e-8 : 1e-40, 0.0}) {
        std::vector<double> values(64 * 64);
        for (size_t i = 0; i < values.size(); ++i) values[i] = most * (i % 3 == 0 ? 1 : i % 3 == 1 ? -1 : 0.5);
        const HostTensor weight = tensor(t, {64, 64}, values);
        const auto rounded = passes::round_weight(constant(weight), true, storage);
        const auto got = numbers({t, {64, 64}, std::vector<std::byte>(rounded.numbers.begin(), rounded.numbers.end())}),
                   want = numbers(weight);
        double worst = 0;
        for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::isfinite(got[i]) ? std::fabs(got[i] - want[i]) : INFINITY);
        INFO(dtype_name(t) << " " << storage.str() << " " << most);
        // The last of 15 steps is left out where it is not finite; those that float32 does not hold without the offset, too.
        const double part = most < 1 ? 1.01 : most > 1e38 && storage.bits == 4 ? 1.1 : 0.14;
        CHECK(worst <= part * most);
      }
}
