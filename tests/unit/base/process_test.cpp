// Child processes: what they print, how they end, and that none is left.
#include "base/process.h"

#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <string>

using namespace aotc;

namespace {

double seconds_of(const std::function<void()>& f) {
  const auto from = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

bool runs(pid_t pid) {
  int status = 0;
  return waitpid(pid, &status, WNOHANG) == 0 && kill(pid, 0) == 0;
}

}  // namespace

TEST_CASE("a process's output and exit code") {
  const ProcessResult r = run_process({"sh", "-c", "echo out; echo err >&2; read line || echo no input; exit 3"});
  CHECK(r.exit_code == 3);
  CHECK(r.output == "out\nerr\nno input\n");
  CHECK(run_process({"sh", "-c", "kill -9 $$"}).exit_code == 128 + 9);
  CHECK(run_process({"/nowhere/at/all"}).exit_code == 127);
}

TEST_CASE("when one command's end is a fault the others are ended") {
  const double took = seconds_of([] {
    CHECK_THROWS(run_processes({{"sh", "-c", "sleep 60"}, {"sh", "-c", "exit 1"}}, 2, [](size_t, const ProcessResult& r) {
      if (!r.ok()) throw std::runtime_error("one failed");
    }));
  });
  CHECK(took < 10);
}

TEST_CASE("children and their children are ended, even those that ignore being asked") {
  pid_t polite = -1, deaf = -1;
  REQUIRE(spawn({"sh", "-c", "sleep 60 & sleep 60"}, -1, -1, -1, &polite) == 0);
  REQUIRE(spawn({"sh", "-c", "trap '' TERM; while :; do sleep 60; done"}, -1, -1, -1, &deaf) == 0);
  CHECK(getpgid(polite) == polite);
  const double took = seconds_of([] { end_children(0.3); });
  CHECK(took < 10);
  CHECK_FALSE(runs(polite));
  CHECK_FALSE(runs(deaf));
}
