// Products by weights of few bits on GPUs: what is taken, how weights are stored, tiles by the number of rows, their text through NVRTC.
// What the kernels compute: tests/cuda/quantised.py.
#include "cuda/quantised.h"

#include "cuda_support.h"
#include "plan/size_classes.h"
#include "plan/verify.h"

using namespace aotc;
using namespace aotc::test;
using namespace aotc::emit::cuda;

namespace {

constexpr std::string_view kForm = "cuda_wgmma_quant";

QuantisedProduct some(DType type, DType values, int bits, int64_t group, int64_t m = 512, int64_t n = 4096, int64_t k = 4096) {
  return {type, values, bits, group, false, m, n, k, false, {}};
}

/// Why the form refuses, or "taken".
std::string reason(const loop::MatmulKernel& mm, const char* sms = "sm_90a") {
  const Machine machine = machine_of(std::string(sms));
  const forms::Form* form = forms::find_form(kForm);
  REQUIRE(form);
  const loop::Kernel kernel = mm;
  const Fit fit = form->fits({kernel, mm.syms, machine, {}});
  return fit ? "taken" : fit.why;
}

std::vector<forms::Candidate> candidates(const loop::MatmulKernel& mm) {
  std::vector<forms::Candidate> out;
  for (const forms::Candidate& c : decide(mm).candidates)
    if (c.choice.form->name() == kForm) out.push_back(c);
  return out;
}
forms::Choice best(const loop::MatmulKernel& mm) {
  const auto all = candidates(mm);
  REQUIRE(!all.empty());
  return std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.cost_ns < b.cost_ns; })->choice;
}

}  // namespace

TEST_CASE("weights of few bits: Hopper's products take them in 16-bit programs, with the reason where they do not") {
  for (const DType t : {DType::bf16, DType::f16}) {
    CHECK(reason(quantised_product(some(t, DType::i8, 8, 32), "f")) == "taken");
    CHECK(reason(quantised_product(some(t, DType::u8, 4, 128), "f")) == "taken");
    CHECK(reason(quantised_product(some(t, DType::f8e4m3fn, 8, 0), "f")) == "taken");
  }
  const loop::MatmulKernel mm = quantised_product(some(DType::bf16, DType::i8, 8, 128), "f");
  CHECK_THAT(reason(mm, "sm_90"), Catch::Contains("sm_90a"));
  CHECK_THAT(reason(quantised_product(some(DType::f32, DType::i8, 8, 128), "f")), Catch::Contains("not float32"));
  CHECK_THAT(reason(quantised_product(some(DType::bf16, DType::i8, 8, 96), "f")), Catch::Contains("groups of 96 rows, slabs of 64"));
  CHECK(reason(quantised_product(some(DType::bf16, DType::i8, 8, 192), "f")) == "taken");
  CHECK_THAT(reason(quantised_product(some(DType::bf16, DType::u8, 4, 192), "f")), Catch::Contains("slabs of 128"));
  CHECK_THAT(reason(quantised_product(some(DType::bf16, DType::i8, 8, 16), "f")), Catch::Contains("groups of 16"));
  CHECK_THAT(reason(quantised_product(some(DType::bf16, DType::i8, 8, 32, 64, 64, 36), "f")), Catch::Contains("16 bytes apart"));
  loop::MatmulKernel other = mm;
  other.b_quantised->by_column = false;
  CHECK(reason(other).empty());
  other = mm;
  other.params[other.b_quantised->scales].dtype = DType::f64;
  CHECK_THAT(reason(other), Catch::Contains("another type"));
  other = mm;
  other.a.param = other.b_quantised->values;
  CHECK_THAT(reason(other), Catch::Contains("both operands"));
  QuantisedProduct parts = some(DType::bf16, DType::i8, 8, 128);
  parts.segments = {48};
  CHECK(reason(quantised_product(parts, "f")) == "taken");
  parts.segments = {40};
  CHECK_THAT(reason(quantised_product(parts, "f")), Catch::Contains("strip"));
  parts = some(DType::bf16, DType::f8e4m3fn, 8, 128);
  parts.offsets = parts.wide_scales = true;
  CHECK(reason(quantised_product(parts, "f")) == "taken");
  other = quantised_product(parts, "f");
  other.params[other.b_quantised->offsets].dtype = DType::bf16;
  CHECK_THAT(reason(other), Catch::Contains("offsets of another type"));
}

TEST_CASE("weights of few bits: every tile reads one stored form, by maps of the strips' slabs and of the rows") {
  const loop::MatmulKernel mm = quantised_product(some(DType::f16, DType::u8, 4, 32, 300, 1000, 200), "f");
  const loop::Kernel kernel = mm;
  const auto all = candidates(mm);
  REQUIRE(all.size() > 10);
  for (const forms::Candidate& c : all) {
    INFO(forms::str(c.choice));
    CHECK(forms::check(c.choice));
    CHECK(*forms::parse_choice(forms::str(c.choice)) == c.choice);
    const auto stored = c.choice.form->weight(kernel, c.choice);
    REQUIRE(stored);
    CHECK(stored->first == mm.b_quantised->values);
    CHECK(
        (stored->second.slabs && stored->second.bits == 4 && stored->second == all[0].choice.form->weight(kernel, all[0].choice)->second));
    const forms::StepSpec s = c.choice.form->step({kernel, mm.syms, h200(), {}}, c.choice);
    CHECK((s.overlaps && s.max_smem_bytes <= 227 * 1024));
    const int groups = field_of(c.choice, "ping_pong") ? 1 : field_of(c.choice, "groups"), cols = field_of(c.choice, "cols");
    REQUIRE(s.maps.size() == 2);  // 2 slabs of 128 rows, 63 strips
    CHECK((s.maps[0].arg == 1 && s.maps[0].dims == Exprs{256, 8, 63} && s.maps[0].stride_bytes == Exprs{256, 2048} &&
           s.maps[0].box == std::vector<int32_t>{256, 4, 4 * groups}));
    CHECK((s.maps[1].arg == 0 && s.maps[1].dims == Exprs{200, 300} && s.maps[1].box == std::vector<int32_t>{64, cols}));
  }
}

TEST_CASE("weights of few bits: many rows go by large tiles, few share k, and rows are cut into equal tiles") {
  for (const auto& [values, bits] : {std::pair(DType::i8, 8), std::pair(DType::u8, 4), std::pair(DType::f8e4m3fn, 8)}) {
    const auto at = [&](int64_t m) { return best(quantised_product(some(DType::bf16, values, bits, 128, m), "f")); };
    CHECK(field_of(at(4096), "cols") >= 160);
    CHECK(field_of(at(4096), "split") == 1);
    CHECK(field_of(at(20), "cols") <= 32);
    CHECK(field_of(at(20), "split") > 1);
    CHECK(300 <= 2 * field_of(at(300), "cols") * 2);
    // The best tile of a range's hint is not what serves all of it.
    CHECK(forms::str(at(24)) != forms::str(at(2047)));
  }
}

TEST_CASE("weights of few bits: a range of rows is cut into classes with tiles of their own, which read one stored weight") {
  loop::Module m;
  const SymId sym = m.syms.add({"rows", SymKind::shape, 2, 2047, 1, {}, {}});
  m.kernels.push(quantised_product(some(DType::bf16, DType::i8, 8, 128), "f", Expr::symbol(sym), m.syms));
  const loop::KernelId id{0};
  m.calls.push_back({id, {}, "f", {}});
  const loop::Kernel& kernel = m.kernels[id];
  const Goal goal{h200(), {}};
  const std::vector<plan::SymRange> all = {{sym, 2, 2047, 1}};
  const auto whole = plan::decide_all(m, m.syms, goal, {});
  REQUIRE(whole.at(id).choice.form->name() == kForm);
  const auto classes = plan::size_classes(m, all, goal, whole, {});
  REQUIRE(classes.size() >= 3);
  std::set<std::string> choices;
  for (const std::vector<plan::SymRange>& of : classes) {
    const SymTable syms = plan::narrowed(m.syms, of);
    const forms::Decision d =
        plan::with_stored_form(forms::decide({kernel, syms, goal.machine, goal.numerics}), kernel, whole.at(id).choice);
    CHECK(d.choice.form->weight(kernel, d.choice) == whole.at(id).choice.form->weight(kernel, whole.at(id).choice));
    choices.insert(forms::str(d.choice));
  }
  CHECK(choices.size() + 1 >= classes.size());  // two classes of few rows may have one tile
}

TEST_CASE("weights of few bits compile in every format and shape of tile") {
  const Result<Nvrtc> nvrtc = Nvrtc::load();
  if (!nvrtc) {
    WARN("not compiled: " << nvrtc.why());
    return;
  }
  const char* choices[] = {"cols=256 groups=2 ping_pong=0 stages=4 split=1", "cols=192 groups=2 ping_pong=0 stages=4 split=1",
                           "cols=64 groups=1 ping_pong=0 stages=4 split=4", "cols=24 groups=1 ping_pong=0 stages=8 split=1"};
  std::string source = "#include \"gemm.cuh\"\n";
  size_t number = 0;
  for (const DType t : {DType::bf16, DType::f16})
    for (const auto& [values, bits] : {std::pair(DType::i8, 8), std::pair(DType::u8, 4), std::pair(DType::f8e4m3fn, 8)})
      for (const int64_t group : {32, 128}) {
        QuantisedProduct c = some(t, values, bits, group);
        c.offsets = values != DType::f8e4m3fn && group == 32;
        c.residual = number % 2 != 0;
        const loop::MatmulKernel mm = quantised_product(c, fmt::format("f{}", number));
        const auto choice =
            forms::parse_choice(fmt::format("{} warp_m=64 {} swap=1 resident=1", kForm, choices[number++ % std::size(choices)]));
        REQUIRE(choice);
        source += choice->form->source({loop::Kernel(mm), mm.syms, h200(), {}}, *choice, mm.name);
      }
  CHECK(becomes_code(*nvrtc, source, "sm_90a"));
}
