// Random models against the interpreter of graphs, over the whole road; whatever throws on it is a failure. A failure prints its seed and
// the graph. The longer run:
//
//     AOTC_SEED=1000 AOTC_SEEDS=2000 build/release/bin/road_tests "many random models"
//
// AOTC_ISA=avx2 (or another) runs all seeds there.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>

#include "batch.h"
#include "forms/list.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "isas.h"
#include "plan/text.h"
#include "random_model.h"

using namespace aotc;
using namespace aotc::test;

namespace {

RandomOptions options_of(uint32_t seed) {
  RandomOptions o;
  o.nodes = 6 + static_cast<int>(seed % 25);
  o.symbolic = seed % 5 != 0;
  static constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::f32, DType::bf16, DType::f32, DType::f16};
  o.dtype = kTypes[seed / 2 % 8];
  return o;
}

/// Every third model is computed with choices that the cost model would not make.
plan::ChooseFn chooser_of(uint32_t seed) {
  return [seed](const forms::Site& site) {
    forms::Decision d = forms::decide(site);
    if (seed % 3 != 0) return d;
    std::vector<forms::Choice> fit;
    for (const forms::Candidate& c : d.candidates)
      if (c.fit) fit.push_back(c.choice);
    d.choice = fit.at((seed * 2654435761u >> 7) % fit.size());
    return d;
  };
}

std::vector<std::vector<plan::SymRange>> variants_of(uint32_t seed, const Graph& g) {
  if (g.syms.size() < 2 || seed % 4 != 0) return {};
  const SymId b{0}, s{1};
  return {{{b, 1, 1, 1}, {s, 1, 1, 1}}, {{b, 2, 6, 2}}, {}};
}

struct Tolerance {
  double absolute, relative_to_f32;
};
Tolerance tolerance_of(DType t) {
  switch (t) {
    case DType::f64: return {1e-9, 50};
    case DType::bf16: return {6e-2, 4};
    case DType::f16: return {1e-2, 4};
    default: return {1e-4, 20};
  }
}

/// `truth`: in f64. `plain`: in the graph's types; how far that strays is allowed several times.
void compare(const std::vector<HostTensor>& truth, const std::vector<HostTensor>& plain, const std::vector<HostTensor>& got, DType type) {
  REQUIRE(truth.size() == got.size());
  for (size_t o = 0; o < got.size(); ++o) {
    INFO("result " << o);
    REQUIRE(truth[o].dims == got[o].dims);
    const auto n = static_cast<size_t>(got[o].elems());
    const auto width = static_cast<size_t>(dtype_bytes(got[o].dtype));
    double scale = 1, stray = 0;
    auto at = [&](const HostTensor& t, size_t i) {
      double f;
      int64_t v;
      const std::byte* p = t.bytes.data() + i * static_cast<size_t>(dtype_bytes(t.dtype));
      if (is_float(t.dtype)) return load_f64(t.dtype, p, &f, 1), f;
      return load_i64(t.dtype, p, &v, 1), static_cast<double>(v);
    };
    REQUIRE(got[o].bytes.size() == n * width);
    for (size_t i = 0; i < n; ++i) {
      const double a = at(truth[o], i), b = at(plain[o], i);
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      scale = std::max(scale, std::fabs(a));
      stray = std::max(stray, std::fabs(a - b));
    }
    const Tolerance t = tolerance_of(is_float(got[o].dtype) ? type : DType::f64);
    for (size_t i = 0; i < n; ++i) {
      const double want = at(truth[o], i), is = at(got[o], i);
      if (want == is || (std::isnan(want) && std::isnan(is))) continue;
      if (!(std::fabs(want - is) <= t.absolute * scale + t.relative_to_f32 * stray))
        FAIL("element " << i << ": " << is << ", not " << want << " (scale " << scale << ", stray " << stray << ")");
    }
  }
}

void check(const RoadModel& m, const aotc_module_desc& desc, uint32_t seed) {
  const DType type = options_of(seed).dtype;
  for (int64_t size : {int64_t{1}, int64_t{4}, static_cast<int64_t>(2 + seed % 8)}) {
    RoadSession session(desc, seed % 2 ? 1 : 3);
    Graph g = m.given;
    for (int repeat = 0; repeat < 2; ++repeat) {  // the second run begins with the states of the first
      INFO("size " << size << " run " << repeat);
      const auto inputs = random_inputs(g, size, seed + static_cast<uint32_t>(repeat));
      const auto truth = interpret(g, inputs, {true}), plain = interpret(g, inputs);
      compare(truth, plain, session.run(g, inputs, repeat == 1), type);
      size_t next = g.outputs.size();
      if (next == plain.size()) break;
      for (StateInfo& s : g.states) {
        if (s.updated == kNone<ValueId>) continue;
        auto bytes = std::make_shared<std::vector<std::byte>>(plain[next++].bytes);
        s.initial = g.constants.push({"now", s.type, bytes, bytes->data(), bytes->size()});
      }
    }
  }
}

void run_batch(const std::vector<uint32_t>& seeds, Isa isa, bool quick) {
  Target target;
  target.isas = {isa};
  std::vector<RoadModel> models;
  for (uint32_t seed : seeds) {
    CAPTURE(seed, isa_name(isa));
    const Graph g = RandomModel(seed, options_of(seed)).build();
    INFO(print(g));
    try {
      verify(g, "the generator");
      plan::PlanOptions options;
      options.goal = goal_of(target);
      options.choose = chooser_of(seed);
      options.variants = variants_of(seed, g);
      models.push_back(road_model(fmt::format("m{}", seed), g, target, options));
    } catch (const std::exception& e) { FAIL(e.what()); }
  }
  std::unique_ptr<Batch> batch;
  try {
    batch = std::make_unique<Batch>(models, target, quick);
  } catch (const std::exception& e) { FAIL("seeds from " << seeds.front() << ": " << e.what()); }
  for (size_t i = 0; i < models.size(); ++i) {
    CAPTURE(seeds[i], isa_name(isa));
    INFO(print(models[i].given));
    INFO(plan::print(models[i].plans));
    try {
      check(models[i], batch->desc(i), seeds[i]);
    } catch (const std::exception& e) { FAIL(e.what()); }
  }
}

void run_seeds(uint32_t first, uint32_t count, uint32_t in_batch, bool quick) {
  const std::vector<Isa> isas = isas_of(~0u);
  const char* only = std::getenv("AOTC_ISA");
  std::vector<std::vector<uint32_t>> of_isa(isas.size());
  for (uint32_t seed = first; seed < first + count; ++seed) {
    size_t which = seed % isas.size();
    for (size_t i = 0; only && i < isas.size(); ++i)
      if (isa_name(isas[i]) == only) which = i;
    if (runs_here(isas[which])) of_isa[which].push_back(seed);
  }
  for (size_t i = 0; i < isas.size(); ++i)
    for (size_t begin = 0; begin < of_isa[i].size(); begin += in_batch) {
      const size_t end = std::min(begin + in_batch, of_isa[i].size());
      run_batch({of_isa[i].begin() + static_cast<long>(begin), of_isa[i].begin() + static_cast<long>(end)}, isas[i], quick);
    }
}

uint32_t number(const char* name, uint32_t otherwise) {
  const char* text = std::getenv(name);
  return text ? static_cast<uint32_t>(std::atoi(text)) : otherwise;
}

}  // namespace

TEST_CASE("random models") { run_seeds(1, 48, 24, true); }
TEST_CASE("many random models", "[.long]") { run_seeds(number("AOTC_SEED", 1000), number("AOTC_SEEDS", 200), 40, false); }
