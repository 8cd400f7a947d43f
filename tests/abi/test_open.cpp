// Artifacts from memory and from descriptors: the same checks as of a file, nothing written anywhere, every content its own library.
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>

#include "aotc/aotc.hpp"
#include "toy.h"

namespace fs = std::filesystem;
using aotc::host::Context;
using aotc::host::Model;

namespace {

struct Folder {
  Folder() {
    std::string name = fs::temp_directory_path() / "aotc_open_XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The bytes of toy.so with another weight, sealed. Version 0 is toy.so.
std::string version_bytes(int version) {
  if (version == 0) return content(toy_path());
  const Folder folder;
  const fs::path path = folder.path / "v.so";
  fs::copy_file(toy_path(), path);
  char error[512];
  aotc_seal seal = {};
  REQUIRE(aotc_file_check(path.c_str(), AOTC_CHECK_ALL, &seal, error, sizeof error) == AOTC_STATUS_OK);
  const float weight = static_cast<float>(version);  // of table[3][0]
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
      .seekp(static_cast<std::streamoff>(seal.weights_offset + 3 * 32))
      .write(reinterpret_cast<const char*>(&weight), sizeof weight);
  REQUIRE(std::system((AOTC_SEAL_TOY " '" + path.string() + "' .aotc_weights").c_str()) == 0);
  return content(path);
}

/// Which version answers; negative: none. Not a checking function, so that threads may use it.
int version_of(Context& context) {
  ToyCall call(4);  // idx 0 to 3
  if (!context.run(call.in, call.out)) return -1;
  const float weight = call.y[3 * 8] - call.expected(3, 0);
  call.y[3 * 8] -= weight, call.total -= weight;
  return call.right() ? static_cast<int>(weight) : -2;
}

struct Served {
  aotc::host::Status status;
  Model model;
  Context context;
  int version() { return context ? version_of(context) : -3; }
};
using Server = std::unique_ptr<Served>;
template <class Open>
Server serve(const Open& open) {
  Server s = std::make_unique<Served>();
  s->status = open(&s->model);
  if (s->status) s->status = s->model.context(&s->context);
  return s;
}
Server serve_memory(const std::string& bytes) {
  return serve([&](Model* m) { return Model::load_memory(bytes.data(), bytes.size(), m); });
}
Server serve_fd(int fd) {
  return serve([&](Model* m) { return Model::load_fd(fd, m); });
}

constexpr int kWrite = 8, kGrow = 4, kShrink = 2;  // F_SEAL_*

/// A memory file with these bytes.
int memory_file(const std::string& bytes, int seals = 0, const char* name = "test") {
  const int fd = static_cast<int>(syscall(SYS_memfd_create, name, 1 | 2));
  REQUIRE(fd >= 0);
  REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  if (seals) REQUIRE(fcntl(fd, 1033, seals) == 0);
  return fd;
}

size_t count_descriptors() {
  size_t n = 0;
  DIR* dir = opendir("/proc/self/fd");
  while (readdir(dir)) ++n;
  closedir(dir);
  return n;
}

#ifndef AOTC_SANITIZED  // whose children may not do this
/// What `work` returns in a forked child; -1 when it died.
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    _exit(work());
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
constexpr int kCannot = 77;  // the child may not do what the test needs

/// A mount namespace of its own; false where that is not allowed.
bool own_mounts() {
  const bool made = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
  return made && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}
#endif

}  // namespace

TEST_CASE("an artifact from memory answers as its file does, whatever becomes of the memory") {
  std::string bytes = version_bytes(2);
  const size_t descriptors = count_descriptors();
  {
    const Server s = serve_memory(bytes);
    INFO(s->status.message);
    REQUIRE(s->status);
    bytes.assign(bytes.size(), 'x');
    bytes.clear();
    bytes.shrink_to_fit();
    CHECK(s->version() == 2);
    CHECK(count_descriptors() == descriptors);
  }
  CHECK(count_descriptors() == descriptors);
}

TEST_CASE("the same bytes twice and other bytes: each its own answers") {
  std::vector<std::string> all;
  for (int v = 0; v < 4; ++v) all.push_back(version_bytes(v));
  std::vector<std::pair<int, Server>> open;
  for (const int v : {0, 1, 2, 1, 3, 0, 2, 2}) {
    open.emplace_back(v, serve_memory(all[static_cast<size_t>(v)]));
    for (const auto& [version, s] : open) REQUIRE(s->version() == version);
  }
  CHECK(open[1].second->model.api() == open[3].second->model.api());  // loaded once
  CHECK(open[1].second->model.api() != open[2].second->model.api());
  while (!open.empty()) {
    open.erase(open.begin());
    for (const auto& [version, s] : open) REQUIRE(s->version() == version);
  }
}

TEST_CASE("descriptors stay the caller's, and their numbers may be other files' later") {
  const Folder folder;
  std::vector<std::string> all;
  for (int v = 0; v < 4; ++v) all.push_back(version_bytes(v));
  std::vector<Server> open;
  int number = -1;
  for (int i = 0; i < 12; ++i) {
    const std::string& bytes = all[static_cast<size_t>(i % 4)];
    int fd;
    if (i % 3 == 0) {
      const fs::path path = folder.path / ("f" + std::to_string(i));
      std::ofstream(path, std::ios::binary) << bytes;
      fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      fs::remove(path);
    } else {
      fd = memory_file(bytes, i % 3 == 1 ? kWrite | kGrow | kShrink : 0);
    }
    CHECK((number < 0 || fd == number));
    number = fd;
    REQUIRE(lseek(fd, 1234, SEEK_SET) == 1234);
    open.push_back(serve_fd(fd));
    INFO(i << ": " << open.back()->status.message);
    REQUIRE(open.back()->status);
    CHECK(lseek(fd, 0, SEEK_CUR) == 1234);
    CHECK(fcntl(fd, F_GETFD) >= 0);
    close(fd);
    for (int seen = 0; seen <= i; ++seen) REQUIRE(open[static_cast<size_t>(seen)]->version() == seen % 4);
  }
}

TEST_CASE("a sealed memory file is mapped, one that may still change is copied") {
  const std::string bytes = version_bytes(1);
  const int sealed = memory_file(bytes, kWrite | kShrink | kGrow, "aotc_sealed_by_caller"),
            loose = memory_file(version_bytes(3), 0, "aotc_loose");
  const Server a = serve_fd(sealed);
  REQUIRE(a->status);
  CHECK(content("/proc/self/maps").find("memfd:aotc_sealed_by_caller") != std::string::npos);
  const Server b = serve_fd(loose);
  REQUIRE(b->status);
  CHECK(content("/proc/self/maps").find("memfd:aotc_loose") == std::string::npos);
  REQUIRE(ftruncate(loose, 0) == 0);
  CHECK(b->version() == 3);
  CHECK(a->version() == 1);
  for (const int fd : {sealed, loose}) close(fd);
}

TEST_CASE("damage in memory and behind a descriptor has the statuses that it has in a file") {
  const Folder folder;
  const std::string good = content(toy_path());
  const fs::path path = folder.path / "damaged.so";
  std::vector<std::string> all = {"", "x", std::string(100000, 'x'), content("/proc/self/exe").substr(0, 200000)};
  for (size_t n : {size_t{10}, size_t{63}, size_t{64}, good.size() / 4, good.size() / 2, good.size() - 1}) all.push_back(good.substr(0, n));
  for (size_t i = 0; i < 300; ++i) {
    all.push_back(good);
    all.back()[i * 7919 % good.size()] ^= static_cast<char>(1 << i % 8);
  }
  int damaged = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    std::ofstream(path, std::ios::binary) << all[i];
    aotc_library by_path, by_memory, by_fd;
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    const aotc_status expected = aotc_library_open(path.c_str(), AOTC_DEVICE_HOST, &by_path);
    INFO(i << ": " << by_path.error);
    CHECK(aotc_library_open_memory(all[i].data(), all[i].size(), AOTC_DEVICE_HOST, &by_memory) == expected);
    CHECK(aotc_library_open_fd(fd, AOTC_DEVICE_HOST, &by_fd) == expected);
    if (expected != AOTC_STATUS_OK) {
      ++damaged;
      CHECK((by_memory.error[0] && by_fd.error[0] && !by_memory.handle && !by_fd.handle && !by_memory.api && !by_fd.api));
    }
    close(fd);
    aotc_library_close(&by_path);
    aotc_library_close(&by_memory);
    aotc_library_close(&by_fd);
    fs::remove(path);
  }
  CHECK(damaged > 50);  // the others are in what a debugger alone reads
}

TEST_CASE("the weights of an artifact in memory are hashed where that is asked for") {
  std::string bytes = content(toy_path());
  char error[512];
  aotc_seal seal = {};
  REQUIRE(aotc_file_check(toy_path().c_str(), AOTC_CHECK_ALL, &seal, error, sizeof error) == AOTC_STATUS_OK);
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.flags = AOTC_MODEL_VERIFY_WEIGHTS;
  Model model;
  CHECK(Model::load_memory(bytes.data(), bytes.size(), &model, &options));
  bytes[seal.weights_offset + 17] ^= 4;
  const int fd = memory_file(bytes);
  CHECK(Model::load_memory(bytes.data(), bytes.size(), &model).code == AOTC_STATUS_OK);
  CHECK(Model::load_memory(bytes.data(), bytes.size(), &model, &options).code == AOTC_STATUS_DAMAGED);
  CHECK(Model::load_fd(fd, &model, &options).code == AOTC_STATUS_DAMAGED);
  close(fd);
}

TEST_CASE("an artifact in memory whose weights are in a file needs that file's path") {
  const std::string bytes = content(toy_path("toy_file"));
  Model model;
  const aotc::host::Status status = Model::load_memory(bytes.data(), bytes.size(), &model);
  CHECK(status.code == AOTC_STATUS_NOT_FOUND);
  CHECK(status.message.find("toy.weights") != std::string::npos);
}

TEST_CASE("what is no file is refused") {
  aotc_library lib;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int directory = open("/", O_RDONLY | O_DIRECTORY), null = open("/dev/null", O_RDONLY);
  CHECK(aotc_library_open_fd(-1, AOTC_DEVICE_HOST, &lib) == AOTC_STATUS_NOT_FOUND);
  CHECK(std::string(lib.error).find("not open") != std::string::npos);
  CHECK(aotc_library_open_fd(ends[0], AOTC_DEVICE_HOST, &lib) == AOTC_STATUS_NOT_FOUND);
  CHECK(std::string(lib.error).find("regular file") != std::string::npos);
  CHECK(aotc_library_open_fd(directory, AOTC_DEVICE_HOST, &lib) == AOTC_STATUS_NOT_FOUND);
  CHECK(aotc_library_open_fd(null, AOTC_DEVICE_HOST, &lib) == AOTC_STATUS_DAMAGED);
  CHECK(aotc_library_open_memory(nullptr, 10, AOTC_DEVICE_HOST, &lib) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(aotc_library_open_memory("", 0, AOTC_DEVICE_HOST, &lib) == AOTC_STATUS_DAMAGED);
  for (const int fd : {ends[0], ends[1], directory, null}) close(fd);
}

TEST_CASE("threads open and close artifacts in memory at once") {
  std::vector<std::string> all;
  for (int v = 0; v < 4; ++v) all.push_back(version_bytes(v));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const int v = (i * 3 + t) % 4;
        const std::string& bytes = all[static_cast<size_t>(v)];
        wrong += serve_memory(bytes)->version() != v;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

#ifndef AOTC_SANITIZED
TEST_CASE("nothing is written: no /tmp, no /dev/shm, everything read-only") {
  const std::string bytes = version_bytes(1);
  const int got = in_child([&] {
    if (!own_mounts()) return kCannot;
    for (const char* gone : {"/tmp", "/dev/shm", "/var/tmp"})
      if (fs::exists(gone) && mount("none", gone, "tmpfs", MS_RDONLY, "size=4k") != 0) return kCannot;
    if (mount("/", "/", nullptr, MS_BIND | MS_REC, nullptr) != 0 || chdir("/..") != 0 || chroot(".") != 0) return kCannot;
    if (mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr) != 0) return kCannot;
    if (open("/aotc_probe", O_CREAT | O_WRONLY, 0600) >= 0 || open("/tmp/aotc_probe", O_CREAT | O_WRONLY, 0600) >= 0) return kCannot;
    const Server s = serve_memory(bytes);
    return s->status ? s->version() : 50 + s->status.code;
  });
  if (got == kCannot)
    WARN("not tried: this process may not mount");
  else
    CHECK(got == 1);
}

TEST_CASE("without /proc the message says so") {
  const std::string bytes = version_bytes(1);
  const int got = in_child([&] {
    if (!own_mounts() || mount("none", "/proc", "tmpfs", 0, nullptr) != 0) return kCannot;
    aotc_library lib;
    const aotc_status status = aotc_library_open_memory(bytes.data(), bytes.size(), AOTC_DEVICE_HOST, &lib);
    return status == AOTC_STATUS_NOT_FOUND && strstr(lib.error, "/proc") && !lib.handle ? 0 : 1;
  });
  if (got == kCannot)
    WARN("not tried: this process may not mount");
  else
    CHECK(got == 0);
}

TEST_CASE("where memfd_create is not allowed the message says so, and sealed descriptors still open") {
  const std::string bytes = version_bytes(1);
  const int sealed = memory_file(bytes, kWrite | kShrink | kGrow), loose = memory_file(bytes);
  const int got = in_child([&] {
    sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return kCannot;
    aotc_library lib;
    if (aotc_library_open_memory(bytes.data(), bytes.size(), AOTC_DEVICE_HOST, &lib) != AOTC_STATUS_INCOMPATIBLE) return 1;
    if (!strstr(lib.error, "memfd_create") || !strstr(lib.error, "not allowed")) return 2;
    if (aotc_library_open_fd(loose, AOTC_DEVICE_HOST, &lib) != AOTC_STATUS_INCOMPATIBLE) return 3;
    return serve_fd(sealed)->version() == 1 ? 0 : 4;
  });
  if (got == kCannot)
    WARN("not tried: this process may not filter its system calls");
  else
    CHECK(got == 0);
  close(sealed);
  close(loose);
}
#endif
