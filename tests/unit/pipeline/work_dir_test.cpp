// The hidden folder of a build: it goes with the build, and the next build removes what a killed one left.
#include "pipeline/work_dir.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <optional>

using aotc::pipeline::WorkDir;

namespace {

namespace fs = std::filesystem;

/// A process that makes its work folder and stays.
pid_t build_that_stays(const fs::path& output) {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const WorkDir work(output);
    std::ofstream(work.file("weights")) << "much";
    if (write(ready[1], "x", 1) == 1) pause();
    _exit(0);
  }
  char byte;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  return child;
}

size_t hidden(const fs::path& dir) {
  size_t n = 0;
  for (const auto& entry : fs::directory_iterator(dir)) n += entry.path().filename().string().rfind(".aotc-", 0) == 0;
  return n;
}

}  // namespace

TEST_CASE("a build's folder goes with it; of others only those whose build is dead") {
  const fs::path dir = fs::temp_directory_path() / ("aotc_work_" + std::to_string(getpid()));
  fs::create_directories(dir);
  {
    const WorkDir work(dir / "model.so"), twin(dir / "model.so");
    CHECK(work.str() != twin.str());
    std::ofstream(work.file("a")) << "text";
    CHECK(hidden(dir) == 2);
  }
  CHECK(hidden(dir) == 0);

  const pid_t child = build_that_stays(dir / "model.so");
  { const WorkDir other(dir / "other.so"); }
  CHECK(hidden(dir) == 1);  // a living build's
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(hidden(dir) == 1);
  { const WorkDir other(dir / "other.so"); }
  CHECK(hidden(dir) == 0);

  // Folders without a lock: a living process's, a young one, an old one of a dead process; and what is none of ours.
  const auto make = [&](const std::string& name, bool old) {
    fs::create_directories(dir / name / "sub");
    if (old) fs::last_write_time(dir / name, fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  make(".aotc-model-" + std::to_string(getppid()), true);
  make(".aotc-model-" + std::to_string(child), false);
  make(".aotc-mod-el-" + std::to_string(child), true);
  make(".aotc-model", true);
  make("aotc-model-" + std::to_string(child), true);
  fs::create_directory_symlink(dir, dir / (".aotc-link-" + std::to_string(child)));
  { const WorkDir other(dir / "other.so"); }
  CHECK(fs::exists(dir / (".aotc-model-" + std::to_string(getppid()))));
  CHECK(fs::exists(dir / (".aotc-model-" + std::to_string(child))));
  CHECK(!fs::exists(dir / (".aotc-mod-el-" + std::to_string(child))));
  CHECK(fs::exists(dir / ".aotc-model"));
  CHECK(fs::exists(dir / ("aotc-model-" + std::to_string(child))));
  CHECK(fs::is_symlink(dir / (".aotc-link-" + std::to_string(child))));
  fs::remove_all(dir);
}
