#include "base/uarch.h"

#include <catch2/catch.hpp>
#include <string>

#include "base/diagnostic.h"

using namespace aotc;

namespace {
std::string refusal(const std::string& text) {
  try {
    parse_uarch(text, "mine.uarch");
  } catch (const Diagnostic& d) { return d.what(); }
  return "taken";
}
}  // namespace

TEST_CASE("every microarchitecture that aotc carries is whole, and each machine has its own") {
  CHECK(uarch_names().size() >= 12);
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx}) {
    const Machine m = machine_of(isa, 2);
    CHECK(m.uarch == &uarch_of(isa));
    CHECK_FALSE(m.uarch->is_gpu);
    CHECK(cpu_costs(m).tile_call > 0);
    CHECK(cpu_costs(m).halves_vectors == (isa == Isa::avx512_bf16));
    CHECK(m.l1_bytes == (isa == Isa::amx ? 48 << 10 : 32 << 10));
    CHECK(m.l2_bytes == (isa == Isa::amx ? 2 << 20 : 1 << 20));
  }
  CHECK(uarch_of(parse_cpu_target("portable")).name == "skylake");
  const struct {
    int sm;
    const char* name;
    int64_t processors;
  } kGpus[] = {{70, "sm_75", 72}, {80, "sm_80", 108}, {88, "sm_87", 16}, {90, "sm_90", 132}, {103, "sm_100", 148}, {121, "sm_120", 170}};
  for (const auto& row : kGpus) {
    INFO(row.sm);
    const Uarch& u = uarch_of_sm(row.sm);
    CHECK(u.is_gpu);
    CHECK(u.name == row.name);
    CHECK(u.gpu.processors == row.processors);
    CHECK(u.gpu.wg_start == uarch_of_sm(90).gpu.wg_start);
  }
  CHECK(uarch_of(parse_cuda_target("sm_90a")).name == "sm_90");
}

TEST_CASE("a file of a microarchitecture says what differs, and is refused with its line where it is wrong") {
  const Uarch mine = parse_uarch("# mine\nlike zen4  # but\n\ntile_call 41.5\nl2_bytes 2097152\n", "mine.uarch");
  CHECK(mine.cpu.tile_call == 41.5);
  CHECK(mine.l2_bytes == 2 << 20);
  CHECK(mine.cpu.halves_vectors == 1);
  CHECK(mine.cpu.byte_macs == uarch_of(Isa::avx512_bf16).cpu.byte_macs);
  using Catch::Contains;
  CHECK_THAT(refusal(""), Contains("empty"));
  CHECK_THAT(refusal("tile_call 4\n"), Contains("line 1") && Contains("like NAME"));
  CHECK_THAT(refusal("like zen9\n"), Contains("zen9") && Contains("sapphire_rapids"));
  CHECK_THAT(refusal("like zen4\ntile_cal 4\n"), Contains("line 2") && Contains("tile_cal"));
  CHECK_THAT(refusal("like zen4\nclock 4\n"), Contains("of a cpu"));
  CHECK_THAT(refusal("like zen4\n\ntile_call four\n"), Contains("line 3") && Contains("four"));
  CHECK_THAT(refusal("like zen4\ntile_call -1\n"), Contains("-1"));
  CHECK_THAT(refusal("like zen4\ntile_call nan\n"), Contains("nan"));
  CHECK_THAT(refusal("like zen4\nl2_bytes 1.5\n"), Contains("1.5"));
  CHECK_THAT(refusal("like zen4\ntile_call 4 5\n"), Contains("3 words"));
  CHECK_THAT(refusal("like zen4\ntile_call 4\ntile_call 5\n"), Contains("twice"));
  CHECK_THAT(refusal("kind cpu\ntile_call 4\n"), Contains("missing"));
}
