#define CATCH_CONFIG_MAIN
#include <errno.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

namespace {

/// By instruction set: the cases that were run, and those that were not (isas.h).
struct Cases {
  int run = 0, left_out = 0;
};
std::map<std::string, Cases, std::less<>>& cases_by_isa() {
  static std::map<std::string, Cases, std::less<>> cases;
  return cases;
}

struct IsaReport : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
  void testRunEnded(const Catch::TestRunStats& stats) override {
    for (const auto& [isa, n] : cases_by_isa()) {
      if (n.run) std::printf("%s: %s: %d cases\n", program_invocation_short_name, isa.c_str(), n.run);
      if (n.left_out) std::printf("%s: %s not run here: %d cases\n", program_invocation_short_name, isa.c_str(), n.left_out);
    }
    TestEventListenerBase::testRunEnded(stats);
  }
};
CATCH_REGISTER_LISTENER(IsaReport)

}  // namespace

namespace aotc::test {
void count_case(std::string_view isa, bool run);
void count_case(std::string_view isa, bool run) {
  Cases& n = cases_by_isa()[std::string(isa)];
  ++(run ? n.run : n.left_out);
}
}  // namespace aotc::test
