// The cache of objects: what was put in comes out, and nothing else does.
#include "emit/object_cache.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace aotc::emit;

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

}  // namespace

TEST_CASE("an object comes back whole or not at all") {
  const fs::path dir = fs::temp_directory_path() / ("aotc_objects_" + std::to_string(getpid()));
  fs::create_directories(dir);
  const ObjectCache cache((dir / "cache" / "objects").string());
  const std::string object = (dir / "a.o").string(), got = (dir / "b.o").string();
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * 31);
  write(object, bytes);
  CHECK(!cache.take(7, got));
  cache.put_file(7, object);
  REQUIRE(cache.take(7, got));
  CHECK(read(got) == bytes);
  CHECK(!cache.take(8, got));

  const fs::path entry = dir / "cache" / "objects" / "0000000000000007.o";
  const std::string good = read(entry);
  for (size_t at = 0; at < good.size(); at += at + 64 < good.size() ? 61 : 1) {  // every byte of the trailer too
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write(entry, bad);
    INFO(at);
    CHECK(!cache.take(7, got));
  }
  for (const std::string& bad : {std::string(), good.substr(0, 10), good.substr(0, good.size() - 1), good + "x", bytes}) {
    write(entry, bad);
    CHECK(!cache.take(7, got));
  }
  write(entry, good);
  fs::rename(entry, entry.parent_path() / "0000000000000008.o");  // another's object
  CHECK(!cache.take(8, got));
  cache.put_file(7, object);
  CHECK(cache.take(7, got));
  for (const auto& left : fs::directory_iterator(entry.parent_path())) CHECK(left.path().extension() == ".o");
  fs::remove_all(dir);
}

TEST_CASE("a cache that cannot be is empty") {
  const ObjectCache none(""), nowhere("/proc/nowhere/objects");
  none.put_file(1, "/proc/self/exe");
  nowhere.put_file(1, "/proc/self/exe");
  CHECK(!none.take(1, "/tmp/unused.o"));
  CHECK(!nowhere.take(1, "/tmp/unused.o"));
}
