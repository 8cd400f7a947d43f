#include "base/machine.h"

#include <sched.h>

#include <catch2/catch.hpp>

#include "base/named_threads.h"

using namespace aotc;

TEST_CASE("of a named target nothing is decided by the machine that builds it") {
  cpu_set_t all, one;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  for (const char* named : {"portable", "avx2", "avx512", "avx512_bf16", "amx"}) {
    INFO(named);
    const Target t = parse_cpu_target(named);
    CHECK(machine_of(t).cores == kNamedThreads);
    CHECK(machine_of(t).model.empty());
    const std::string with_all = machine_of(t).str();
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(machine_of(t).str() == with_all);
    CHECK(usable_processors() == 1);
    REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
  }
  Target t = parse_cpu_target("portable");
  t.threads = 7;
  CHECK(machine_of(t).cores == 7);
}

TEST_CASE("measurements are keyed by the machine and by what results may lose, in the words of stored databases") {
  Target t = parse_cpu_target("avx512");
  t.threads = 2;
  CHECK(goal_of(t).str() == "avx512 2 threads L1 32K L2 1024K L3 32M");
  t.numerics.winograd4 = t.numerics.strassen = t.numerics.int8_rows = true;
  t.numerics.bf16_rounds_once = true;  // of what --precision auto has measured, which is keyed by itself
  CHECK(goal_of(t).str() == "avx512 2 threads L1 32K L2 1024K L3 32M, int8 rows, F(4x4), Strassen");
  Target gpu = parse_cuda_target("sm_90a");
  CHECK(goal_of(gpu).str() == "sm_90a 132 processors, 200 KB shared, L2 50 MB, 3000 bytes a ns");
  gpu.numerics.f32_matmul = F32Matmul::high;
  CHECK(goal_of(gpu).str() == "sm_90a 132 processors, 200 KB shared, L2 50 MB, 3000 bytes a ns, float32 products high");
}

TEST_CASE("what is reproducible is decided alike for all CPUs") {
  const auto goal = [](const char* cpu) {
    Target t = parse_cpu_target(cpu);
    t.threads = 2, t.numerics.reproducible = true;
    return goal_of(t).str();
  };
  for (const char* cpu : {"avx512", "avx512_bf16", "amx", "portable", "native"}) CHECK(goal(cpu) == goal("avx2"));
}

TEST_CASE("every GPU architecture has all that estimates ask for") {
  for (const char* sm : {"sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"}) {
    INFO(sm);
    const Machine m = machine_of(std::string(sm));
    CHECK(m.is_gpu());
    CHECK(m.cores > 0);
    CHECK(m.shared_bytes > 0);
    CHECK(m.l2_bytes > 0);
    CHECK(m.bytes_per_ns > 0);
    CHECK(m.str().find(m.name()) == 0);
  }
  CHECK(machine_of(std::string("sm_90")).bytes_per_ns > machine_of(std::string("sm_89")).bytes_per_ns);
  CHECK(machine_of(std::string("sm_89")).str() != machine_of(std::string("sm_90")).str());
}
