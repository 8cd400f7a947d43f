#pragma once
// Instruction sets that there is code for. A test that is made for several says here which of them it is about to run; test_main prints
// when the tests have ended how many cases each had, and how many were not run because this machine lacks it.
// AOTC_TEST_WITHOUT=avx512_bf16 (or several with commas) takes from the machine what it has.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/target.h"

namespace aotc::test {

/// Notes a case of the instruction set as run or as left out (test_main.cpp).
void count_case(std::string_view isa, bool run);

/// Whether this process may use tile registers; asks for it, as a runtime does.
inline bool tiles_permitted() {
  constexpr long kRequest = 0x1023 /*ARCH_REQ_XCOMP_PERM*/, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

/// The instruction sets of this machine that AOTC_TEST_WITHOUT leaves it.
inline std::vector<Isa> isas_here() {
  std::vector<Isa> here = native_isas();
  const char* without = std::getenv("AOTC_TEST_WITHOUT");
  const std::string taken = "," + std::string(without ? without : "") + ",";
  if (without && *without) parse_cpu_target(without);  // refuses names that it does not know
  const auto gone = [&](Isa isa) { return taken.find("," + std::string(isa_name(isa)) + ",") != std::string::npos; };
  here.erase(std::remove_if(here.begin(), here.end(), [&](Isa isa) { return gone(isa) || (isa == Isa::amx && !tiles_permitted()); }),
             here.end());
  return here;
}

inline bool machine_has(Isa isa) {
  static const std::vector<Isa> here = isas_here();
  return std::find(here.begin(), here.end(), isa) != here.end();
}
/// Whether a case of the instruction set runs here. Asked once a case: the answer is counted.
inline bool runs_here(Isa isa) {
  count_case(isa_name(isa), machine_has(isa));
  return machine_has(isa);
}
inline bool runs_here(std::string_view isa) { return runs_here(parse_cpu_target(isa).isas.back()); }

}  // namespace aotc::test
