#include <catch2/catch.hpp>

#include "aotc/detail/cpu_features.h"
#include "base/diagnostic.h"
#include "base/machine.h"
#include "base/parts.h"
#include "base/target.h"

using namespace aotc;

TEST_CASE("cpu targets: order, duplicates, native") {
  CHECK(parse_cpu_target("avx512,avx2,avx512").str() == "avx2,avx512");
  CHECK(parse_cpu_target("portable").str() == "avx2,avx512");
  CHECK(parse_cpu_target("avx512_bf16,portable").str() == "avx2,avx512,avx512_bf16");
  CHECK(parse_cpu_target("amx").str() == "avx512_bf16,amx");
  CHECK(isas_of(~0u).back() == Isa::amx);  // a CPU with everything: the best that there are kernels for
  CHECK(isas_of(isa_features(Isa::avx512)) == std::vector<Isa>{Isa::avx2, Isa::avx512});
  CHECK(isas_of(isa_features(Isa::avx512) & ~AOTC_CPU_BMI).empty());
  const auto here = native_isas();
  if (!here.empty()) CHECK(parse_cpu_target("native").isas.back() == here.back());
  CHECK(std::is_sorted(here.begin(), here.end()));
  for (const char* bad : {"", "avx", "avx2,", "sm_90", "amx_bf16"}) {
    try {
      parse_cpu_target(bad);
      FAIL(bad);
    } catch (const Diagnostic& d) {
      CHECK(d.code() == ExitCode::usage);
      CHECK(std::string(d.what()).find("avx512_bf16") != std::string::npos);
    }
  }
}

TEST_CASE("instruction sets are sets of features: what includes no other set, and is in none, stands beside them") {
  const auto avx2 = features_of(Isa::avx2), avx512 = features_of(Isa::avx512);
  CHECK(avx512.includes(avx2));
  CHECK_FALSE(avx2.includes(avx512));
  CHECK(features_of(Isa::amx).has(Feature::AVX512_VNNI));  // implied by what it demands
  // Levels that nobody has kernels for: AVX2 with products of bytes, as small cores have, and one of another architecture.
  constexpr auto kSmall = static_cast<Isa>(100), kOther = static_cast<Isa>(101);
  constexpr auto kDots = static_cast<Feature>(60);
  std::vector<IsaLevel> levels(all_levels().begin(), all_levels().end());
  levels.push_back({kSmall, "avx2_vnni", avx2 | FeatureSet{Feature::AVX_VNNI}});
  levels.push_back({kOther, "other_dots", {kDots}});
  for (const IsaLevel& a : levels)
    for (const IsaLevel& b : levels)
      if (&a < &b) CHECK_FALSE(a.features.includes(b.features));  // the last that fits is the best
  CHECK(isas_within(avx2 | FeatureSet{Feature::AVX_VNNI}, levels) == std::vector<Isa>{Isa::avx2, kSmall});
  CHECK(isas_within(avx512, levels) == std::vector<Isa>{Isa::avx2, Isa::avx512});
  CHECK(isas_within(avx512 | FeatureSet{Feature::AVX_VNNI}, levels) == std::vector<Isa>{Isa::avx2, Isa::avx512, kSmall});
  CHECK(isas_within({kDots}, levels) == std::vector<Isa>{kOther});
  CHECK(isa_with({Feature::AVX_VNNI}, Isa::avx2, levels) == kSmall);
  CHECK(isa_with(avx512 & avx2, Isa::amx, levels) == Isa::avx2);
  CHECK(isa_with({kDots, Feature::AVX2}, Isa::avx2, levels) == Isa::avx2);  // no level has both
}

TEST_CASE("cuda targets") {
  CHECK(parse_cuda_target("sm_90a,sm_80").str() == "sm_90a,sm_80");
  CHECK(parse_cuda_target("sm_90").is_gpu());
  for (const char* bad : {"", "90", "sm_", "sm_9", "sm_x0", "sm_90b"}) CHECK_THROWS_AS(parse_cuda_target(bad), Diagnostic);
}

TEST_CASE("the parts of a target: every GPU architecture, PTX of the newest, then CPUs") {
  Target t = parse_cpu_target("avx2,avx512");
  t.sms = parse_cuda_target("sm_80,sm_90a").sms;
  t.threads = 3;
  add_ptx(t);
  std::vector<std::string> names;
  for (const Target& part : parts_of(t)) {
    names.push_back(part.str());
    CHECK(part.threads == 3);
    CHECK(part.is_gpu() == part.isas.empty());
    const Machine m = machine_of(part);
    CHECK(m.has(Feature::wgmma) == (part.str() == "sm_90a"));
  }
  CHECK(names == std::vector<std::string>{"sm_80", "sm_90a", "compute_90", "avx2,avx512"});
  CHECK(is_ptx("compute_90"));
  CHECK_FALSE(is_ptx("sm_90a"));
  CHECK_THROWS_AS(machine_of(t), InternalError);
}
