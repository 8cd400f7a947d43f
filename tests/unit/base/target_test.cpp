#include <catch2/catch.hpp>

#include "aotc/detail/cpu_features.h"
#include "base/diagnostic.h"
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

TEST_CASE("cuda targets") {
  CHECK(parse_cuda_target("sm_90a,sm_80").str() == "sm_90a,sm_80");
  CHECK(parse_cuda_target("sm_90").is_gpu());
  for (const char* bad : {"", "90", "sm_", "sm_9", "sm_x0", "sm_90b"}) CHECK_THROWS_AS(parse_cuda_target(bad), Diagnostic);
}
