// A new artifact under an old path: what is opened is what lies there now; what is open stays what it was.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "aotc/aotc.hpp"
#include "toy.h"

namespace fs = std::filesystem;
using aotc::host::Context;
using aotc::host::Model;

namespace {

struct Folder {
  Folder() : path(fs::temp_directory_path() / ("aotc_reload_" + std::to_string(getpid()))) { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// toy.so with another weight, sealed: the same code and tables, other answers. Version 0 is toy.so.
fs::path make_version(const fs::path& folder, int version) {
  const fs::path path = folder / ("v" + std::to_string(version) + ".so");
  fs::copy_file(toy_path(), path, fs::copy_options::overwrite_existing);
  if (version == 0) return path;
  char error[512];
  aotc_seal seal = {};
  REQUIRE(aotc_file_check(path.c_str(), AOTC_CHECK_ALL, &seal, error, sizeof error) == AOTC_STATUS_OK);
  const float weight = static_cast<float>(version);  // of table[3][0]
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out)
      .seekp(static_cast<std::streamoff>(seal.weights_offset + 3 * 32))
      .write(reinterpret_cast<const char*>(&weight), sizeof weight);
  REQUIRE(std::system((AOTC_SEAL_TOY " '" + path.string() + "' .aotc_weights").c_str()) == 0);
  return path;
}

/// A copy of the file takes the path, at once.
void put(const fs::path& file, const fs::path& path) {
  const fs::path beside = path.string() + ".new";
  fs::copy_file(file, beside, fs::copy_options::overwrite_existing);
  fs::rename(beside, path);
}

/// Which version answers. Not a checking function, so that threads may use it.
int version_of(Context& context) {
  ToyCall call(4);  // idx 0 to 3
  if (!context.run(call.in, call.out)) return -1;
  const float weight = call.y[3 * 8] - call.expected(3, 0);
  call.y[3 * 8] -= weight, call.total -= weight;
  return call.right() ? static_cast<int>(weight) : -2;
}

int version_at(const fs::path& path) {
  Model model;
  Context context;
  if (!Model::load(path.string(), &model) || !model.context(&context)) return -3;
  return version_of(context);
}

/// Open for as long as it lives.
struct Served {
  explicit Served(const fs::path& path) {
    Model::load(path.string(), &model).check();
    model.context(&context).check();
  }
  Model model;
  Context context;
};

}  // namespace

TEST_CASE("a new file under an old path is what is opened, and what is open stays what it was") {
  Folder folder;
  const fs::path cur = folder.path / "cur.so";
  std::vector<std::unique_ptr<Served>> all;
  constexpr int versions = 40;
  for (int v = 0; v < versions; ++v) {
    put(make_version(folder.path, v), cur);
    all.push_back(std::make_unique<Served>(cur));
    for (int seen = 0; seen <= v; ++seen) REQUIRE(version_of(all[static_cast<size_t>(seen)]->context) == seen);
  }
  for (const int v : {5, 0, 39, 5}) {  // back to one that is open
    put(folder.path / ("v" + std::to_string(v) + ".so"), cur);
    CHECK(version_at(cur) == v);
  }
  all.clear();
  CHECK(version_at(cur) == 5);
  put(folder.path / "v7.so", cur);
  CHECK(version_at(cur) == 7);
}

TEST_CASE("the same file opened twice is loaded once") {
  aotc_library a, b;
  REQUIRE(aotc_library_open(toy_path().c_str(), AOTC_DEVICE_HOST, &a) == AOTC_STATUS_OK);
  REQUIRE(aotc_library_open(toy_path().c_str(), AOTC_DEVICE_HOST, &b) == AOTC_STATUS_OK);
  CHECK(a.api == b.api);
  aotc_library_close(&a);
  aotc_library_close(&b);
}

TEST_CASE("files in memory that have one descriptor after the other") {
  Folder folder;
  std::vector<std::unique_ptr<Served>> all;
  std::string path;
  for (int v = 0; v < 3; ++v) {
    const std::string bytes = content(make_version(folder.path, v));
    const int fd = memfd_create("artifact", MFD_CLOEXEC);
    REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    const std::string here = "/proc/self/fd/" + std::to_string(fd);
    CHECK((v == 0 || here == path));
    path = here;
    all.push_back(std::make_unique<Served>(path));
    close(fd);
    for (int seen = 0; seen <= v; ++seen) CHECK(version_of(all[static_cast<size_t>(seen)]->context) == seen);
  }
}

TEST_CASE("relative paths mean what they mean where the program is") {
  Folder folder;
  const fs::path before = fs::current_path();
  for (const int v : {1, 2}) {
    fs::create_directories(folder.path / std::to_string(v));
    put(make_version(folder.path, v), folder.path / std::to_string(v) / "cur.so");
  }
  fs::current_path(folder.path / "1");
  Served first("cur.so");
  fs::current_path(folder.path / "2");
  CHECK(version_at("cur.so") == 2);
  CHECK(version_at("./cur.so") == 2);
  fs::current_path(before);
  CHECK(version_of(first.context) == 1);
}

TEST_CASE("a file that is written over while it is open is refused until it is closed") {
  Folder folder;
  const fs::path cur = folder.path / "cur.so", next = make_version(folder.path, 3);
  put(make_version(folder.path, 0), cur);
  {
    Served old(cur);
    const std::string bytes = content(next);
    const int fd = open(cur.c_str(), O_WRONLY);
    REQUIRE(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    close(fd);
    Model model;
    for (int again = 0; again < 2; ++again) {
      const aotc::host::Status status = Model::load(cur.string(), &model);
      CHECK(status.code == AOTC_STATUS_WRONG_STATE);
      CHECK(status.message.find("written over") != std::string::npos);
    }
  }
  CHECK(version_at(cur) == 3);
}

TEST_CASE("artifacts are replaced while three threads run and open them") {
  Folder folder;
  constexpr int versions = 6, replacements = 300;
  for (int v = 0; v < versions; ++v) make_version(folder.path, v);
  const fs::path cur = folder.path / "cur.so";
  put(folder.path / "v0.so", cur);
  Served first(cur);
  std::atomic<int> begun{0}, done{0}, wrong{0}, opened{0};  // replacement i puts version i % versions there
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      Context own;
      if (!first.model.context(&own)) ++wrong;
      while (!stop) {
        if (version_of(own) != 0) ++wrong;
        const int from = done.load();
        Model model;
        Context context;
        if (!Model::load(cur.string(), &model) || !model.context(&context)) {
          ++wrong;
          continue;
        }
        const int to = begun.load(), got = version_of(context);
        bool possible = to - from >= versions;
        for (int i = from; i <= to && !possible; ++i) possible = got == i % versions;
        if (!possible || got < 0) ++wrong;
        ++opened;
      }
    });
  std::vector<std::unique_ptr<Served>> kept;
  for (int i = 1; i <= replacements; ++i) {
    begun = i;
    put(folder.path / ("v" + std::to_string(i % versions) + ".so"), cur);
    done = i;
    kept.push_back(std::make_unique<Served>(cur));
    if (version_of(kept.back()->context) != i % versions) ++wrong;
    if (kept.size() > 4) kept.erase(kept.begin());
    for (size_t k = 0; k < kept.size(); ++k)
      if (version_of(kept[k]->context) != (i - static_cast<int>(kept.size() - 1 - k)) % versions) ++wrong;
    while (opened < i / 2) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}
