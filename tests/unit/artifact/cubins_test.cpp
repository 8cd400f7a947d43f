// Cubins are made by workers: what a stand-in for NVRTC does on some kernels is lost, and nothing else.
#ifdef AOTC_PROGRAM  // not in builds with sanitizers, which take signals for themselves
#include "artifact/cubins.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"

using namespace aotc;
using namespace aotc::artifact;

namespace {

namespace fs = std::filesystem;

/// A folder, and the environment in which workers load the stand-in.
struct Fake {
  fs::path root = fs::temp_directory_path() / ("aotc_cubins_" + std::to_string(getpid()));
  explicit Fake(const std::string& faults) {
    fs::create_directories(root);
    setenv("AOTC_NVRTC", AOTC_FAKE_NVRTC, 1);
    setenv("FAKE_NVRTC", faults.c_str(), 1);
  }
  ~Fake() {
    unsetenv("AOTC_NVRTC");
    unsetenv("FAKE_NVRTC");
    fs::remove_all(root);
  }
  Cubins make(const std::vector<std::string>& sources, double limit_s = 60, int jobs = 2, const CubinOptions& others = {}) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < sources.size(); ++i) names.push_back("k" + std::to_string(i));
    CubinOptions options = others;
    options.work_dir = root.string(), options.cache.folder = (root / "cache").string(), options.jobs = jobs;
    options.limit_s = limit_s;
    options.worker = {{AOTC_PROGRAM, "cubin-worker"}, "", false};
    return compile_cubins(sources, names, {"sm_80", "sm_90a"}, options);
  }
};

std::string cubin(const std::string& source, const std::string& sm) {
  std::string text = fmt::format("cubin of {} bytes for --gpu-architecture={}", (cuda_prelude() + source).size(), sm);
  text.push_back('\0');
  return text;
}

}  // namespace

TEST_CASE("every kernel is compiled for every architecture, whatever the number of workers, and kept") {
  const Fake fake("");
  std::vector<std::string> sources;
  for (int i = 0; i < 7; ++i) sources.push_back("// " + std::string(static_cast<size_t>(1) << (3 * i), 'x') + "\n");
  for (const int jobs : {3, 1}) {
    fs::remove_all(fake.root / "cache");
    for (const size_t cached : {size_t{0}, 2 * sources.size()}) {
      const Cubins made = fake.make(sources, 60, jobs);
      CHECK(made.cached == cached);
      CHECK(made.lost.empty());
      for (size_t k = 0; k < sources.size(); ++k) {
        CHECK(made.of[0][k] == cubin(sources[k], "sm_80"));
        CHECK(made.of[1][k] == cubin(sources[k], "sm_90a"));
      }
    }
  }
}

TEST_CASE("a kernel on which NVRTC crashes is lost, the others are not, and its source is left") {
  for (const auto& [fault, why] : {std::pair{"crash", "NVRTC 12.99 crashed (Segmentation fault)"},
                                   {"abort", "NVRTC 12.99 crashed (Aborted)"},
                                   {"exit", "NVRTC 12.99 ended its process"}}) {
    const Fake fake(std::string(fault) + ":bad");
    const Cubins made = fake.make({"// good\n", "// bad\n", "// fine\n"});
    REQUIRE(made.lost.size() == 2);
    for (size_t i = 0; i < 2; ++i) {
      CHECK(made.lost[i].kernel == 1);
      CHECK(made.lost[i].sm == (i ? "sm_90a" : "sm_80"));
      CHECK(made.lost[i].why == why);
      CHECK(read_file(made.lost[i].source) == cuda_prelude() + "// bad\n");
    }
    CHECK(made.of[0][0] == cubin("// good\n", "sm_80"));
    CHECK(made.of[1][2] == cubin("// fine\n", "sm_90a"));
    CHECK(made.of[0][1].empty());
  }
}

TEST_CASE("a kernel that takes longer than the limit is lost") {
  const Fake fake("hang:bad");
  const auto from = std::chrono::steady_clock::now();
  const Cubins made = fake.make({"// bad\n", "// good\n"}, 5);
  CHECK(std::chrono::steady_clock::now() - from < std::chrono::seconds(30));
  REQUIRE(made.lost.size() == 2);
  CHECK(made.lost[0].why == "NVRTC 12.99 took longer than 5 s");
  CHECK(made.of[1][1] == cubin("// good\n", "sm_90a"));
}

TEST_CASE("a kernel on which NVRTC works for longer than others would take is given up, unless it is told to be patient") {
  const Fake fake("spin:bad,work:long");
  CubinOptions options;
  options.slow_s = 1;
  const Cubins made = fake.make({"// bad\n", "// long\n", "// good\n"}, 60, 2, options);
  REQUIRE(made.lost.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(made.lost[i].late);
    CHECK(made.lost[i].kernel == i % 2);
    CHECK(made.lost[i].why == "NVRTC 12.99 took longer than 1 s of processor time");
  }
  CHECK(made.of[0][2] == cubin("// good\n", "sm_80"));
  options.patient = {false, true};
  const Cubins again = fake.make({"// bad\n", "// long\n"}, 60, 2, options);
  REQUIRE(again.lost.size() == 2);
  CHECK(again.of[1][1] == cubin("// long\n", "sm_90a"));
}

TEST_CASE("a kernel that NVRTC does not end soon is named while it is waited for") {
  const Fake fake("hang:bad");
  std::vector<std::string> lines;
  CubinOptions options;
  options.waiting = [&](const std::string& line) { lines.push_back(line); };
  fake.make({"// good\n", "// bad\n"}, 12, 3, options);
  REQUIRE(lines.size() == 2);
  std::sort(lines.begin(), lines.end());
  CHECK(lines[0] == "waiting for NVRTC, which has worked on kernel k1 for sm_80 for 10 s");
  CHECK(lines[1] == "waiting for NVRTC, which has worked on kernel k1 for sm_90a for 10 s");
}

TEST_CASE("code that does not compile is an error with NVRTC's log, and so is NVRTC that is not there") {
  {
    const Fake fake("fail:bad");
    try {
      fake.make({"// good\n", "// bad\n"});
      FAIL("it compiled");
    } catch (const Diagnostic& d) {
      CHECK(d.code() == ExitCode::toolchain);
      CHECK(d.loc().file == "k1.cu");
      CHECK_THAT(d.what(), Catch::Contains("error: the fake refuses this"));
    }
  }
  const Fake fake("");
  setenv("AOTC_NVRTC", "/does/not/exist.so", 1);
  CHECK_THROWS_WITH(fake.make({"// good\n"}), Catch::Contains("NVRTC was not found"));
}
#endif
