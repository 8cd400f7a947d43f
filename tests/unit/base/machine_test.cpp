#include "base/machine.h"

#include <catch2/catch.hpp>

using namespace aotc;

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
