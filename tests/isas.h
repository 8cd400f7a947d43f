#pragma once
// Instruction sets that there is code for. A test that is made for several says here which of them it is about to run; test_main prints
// when the tests have ended how many cases each had, and how many were not run because this machine lacks it.
// AOTC_TEST_WITHOUT=avx512_bf16 (or several with commas) takes from the machine what it has.
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/target.h"

namespace aotc::test {

/// Notes a case of the instruction set as run or as left out (test_main.cpp).
void count_case(std::string_view isa, bool run);

inline bool machine_has(Isa isa) {
  static const std::vector<Isa> here = native_isas();
  static const char* without = std::getenv("AOTC_TEST_WITHOUT");
  static const std::vector<Isa> taken = without && *without ? parse_cpu_target(without).isas : std::vector<Isa>{};
  const auto in = [isa](const std::vector<Isa>& isas) { return std::find(isas.begin(), isas.end(), isa) != isas.end(); };
  return in(here) && !in(taken);
}
/// Whether a case of the instruction set runs here. Asked once a case: the answer is counted.
inline bool runs_here(Isa isa) {
  count_case(isa_name(isa), machine_has(isa));
  return machine_has(isa);
}
inline bool runs_here(std::string_view isa) { return runs_here(parse_cpu_target(isa).isas.front()); }

}  // namespace aotc::test
