// CPU quotas of control groups, as containers get them: files under a folder that stands for "/".
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "aotc/detail/cpu_quota.h"

namespace fs = std::filesystem;

namespace {

int32_t quota_of(const std::map<std::string, std::string>& files) {
  const fs::path root = fs::temp_directory_path() / ("aotc_quota_" + std::to_string(getpid()));
  for (const auto& [path, text] : files) {
    const fs::path file = root.string() + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const int32_t quota = aotc_cpu_quota(root.c_str());
  fs::remove_all(root);
  return quota;
}

const std::string kUnified = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kByController =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 31 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

}  // namespace

TEST_CASE("version 2: the least quota from the group upwards, rounded up") {
  const auto of = [](const std::string& group, std::map<std::string, std::string> files) {
    files["/proc/self/cgroup"] = "0::" + group + "\n";
    files["/proc/self/mountinfo"] = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n" + kUnified;
    return quota_of(files);
  };
  CHECK(of("/", {{"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}) == 2);
  CHECK(of("/", {{"/sys/fs/cgroup/cpu.max", "150000 100000\n"}}) == 2);
  CHECK(of("/", {{"/sys/fs/cgroup/cpu.max", "1000 100000\n"}}) == 1);
  CHECK(of("/", {{"/sys/fs/cgroup/cpu.max", "max 100000\n"}}) == 0);
  CHECK(of("/", {}) == 0);
  CHECK(of("/kube/pod/box",
           {{"/sys/fs/cgroup/kube/pod/box/cpu.max", "max 100000"}, {"/sys/fs/cgroup/kube/pod/cpu.max", "350000 100000"}}) == 4);
  CHECK(of("/kube/pod/box", {{"/sys/fs/cgroup/kube/pod/box/cpu.max", "100000 100000"}, {"/sys/fs/cgroup/kube/cpu.max", "350000 100000"}}) ==
        1);
  CHECK(of("/../other", {{"/sys/fs/cgroup/cpu.max", "300000 100000"}}) == 3);
  for (const char* odd : {"", "\n", "x y", "0 0", "100000 0", "100000", "-1 100000", "99999999999999999999 1"})
    CHECK(of("/", {{"/sys/fs/cgroup/cpu.max", odd}}) == 0);
}

TEST_CASE("version 1: the controller's mount, which may show the group as its top") {
  const std::string groups = "12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
                    folder = "/sys/fs/cgroup/cpu,cpuacct/";
  const auto of = [&](const std::string& quota, const std::string& mounts) {
    return quota_of({{"/proc/self/cgroup", groups},
                     {"/proc/self/mountinfo", mounts},
                     {folder + "cpu.cfs_quota_us", quota},
                     {folder + "cpu.cfs_period_us", "100000\n"},
                     {"/sys/fs/cgroup/memory/cpu.cfs_quota_us", "100000"},
                     {"/sys/fs/cgroup/memory/cpu.cfs_period_us", "100000"}});
  };
  CHECK(of("250000\n", kByController) == 3);
  CHECK(of("-1\n", kByController) == 0);
  CHECK(of("250000\n", "") == 0);
  CHECK(of("250000\n", kUnified) == 0);
  // The whole tree is mounted: the group lies below.
  const std::string whole = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpuacct,cpu\n";
  CHECK(quota_of({{"/proc/self/cgroup", groups},
                  {"/proc/self/mountinfo", whole},
                  {folder + "docker/abc/cpu.cfs_quota_us", "400000"},
                  {folder + "docker/abc/cpu.cfs_period_us", "100000"},
                  {folder + "cpu.cfs_quota_us", "-1"},
                  {folder + "cpu.cfs_period_us", "100000"}}) == 4);
}

TEST_CASE("without control groups there is no quota") {
  CHECK(quota_of({}) == 0);
  CHECK(quota_of({{"/proc/self/cgroup", "nonsense\n0:\n::\n"}, {"/proc/self/mountinfo", "a b\n - \n1 2 3 4 - cgroup2\n"}}) == 0);
}
