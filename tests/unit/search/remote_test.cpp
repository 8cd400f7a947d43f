// aotc-device measure as it is driven on another machine: ssh is a script that runs the command here.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "search/remote_worker.h"

using namespace aotc;
using namespace aotc::search;
namespace fs = std::filesystem;

namespace {

/// A folder with an ssh, in front of PATH.
class FakeSsh {
 public:
  explicit FakeSsh(const std::string& script) : folder_(fs::temp_directory_path() / ("aotc_ssh_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    std::ofstream(folder_ / "ssh") << "#!/bin/sh\n" << script;
    chmod((folder_ / "ssh").c_str(), 0755);
    before_ = std::getenv("PATH");
    setenv("PATH", (folder_.string() + ":" + before_).c_str(), 1);
    setenv("TMPDIR", folder_.c_str(), 1);
  }
  ~FakeSsh() {
    setenv("PATH", before_.c_str(), 1);
    unsetenv("TMPDIR");
    fs::remove_all(folder_);
  }
  FakeSsh(const FakeSsh&) = delete;
  FakeSsh& operator=(const FakeSsh&) = delete;
  size_t left_behind() const { return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {})) - 1; }

 private:
  fs::path folder_;
  std::string before_;
};

}  // namespace

TEST_CASE("a worker on another machine is brought there, answers, takes jobs as bytes, and leaves nothing behind") {
  const FakeSsh ssh("while [ \"$1\" != -- ]; do shift; done\n[ \"$2\" = gpu-host ] || exit 9\nexec sh -c \"$3\"\n");
  const auto command = worker_on("gpu-host");
  REQUIRE(command);
  CHECK(command->elsewhere);
  {
    WorkerProcess worker(*command);
    const auto asked = worker.ask({{"architecture_of", 0}}, 60);
    REQUIRE(asked);
    CHECK(asked->at("architecture").is_number());
    const std::string no_artifact(70000, 'x');  // more than a pipe holds
    const nlohmann::json job = {
        {"artifact_bytes", no_artifact.size()}, {"candidates", 1}, {"seconds", 0.1}, {"shapes", nlohmann::json::array()}};
    for (int i = 0; i < 2; ++i) {
      const auto refused = worker.ask(job, 60, no_artifact);
      REQUIRE_FALSE(refused);
      CHECK_THAT(refused.why(), Catch::Contains("aotc-measure-"));
      REQUIRE(worker.ask({{"architecture_of", 0}}, 60));  // the bytes were taken, not read as a request
    }
    for (const nlohmann::json& artifacts : {nlohmann::json{"/none.so"}, nlohmann::json::array(), nlohmann::json{"/a.so", "/b.so", "/c.so"}})
      for (const int candidates : {0, 2}) {
        const auto none =
            worker.ask({{"artifacts", artifacts}, {"candidates", candidates}, {"seconds", 0.1}, {"shapes", nlohmann::json::array()}}, 60);
        REQUIRE_FALSE(none);
        CHECK(worker.loss() == WorkerProcess::Loss::none);
      }
    CHECK(ssh.left_behind() == 0);
  }
}

TEST_CASE("a machine that cannot be reached is a reason, no crash") {
  const FakeSsh ssh("exit 255\n");
  const auto command = worker_on("nowhere");
  REQUIRE(command);
  CHECK_FALSE(WorkerProcess(*command).ask({{"architecture_of", 0}}, 30));
}
