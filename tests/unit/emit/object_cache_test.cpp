// The cache of objects: what was put in comes out, and nothing else does.
#include "emit/object_cache.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace aotc::emit;

namespace {

aotc::Digest numbered(uint8_t n) {
  aotc::Digest key = {};
  key.back() = n;
  return key;
}
std::string named(uint8_t n) { return aotc::hex(numbered(n)) + ".o"; }

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
  const ObjectCache cache({(dir / "cache").string()});
  const std::string object = (dir / "a.o").string(), got = (dir / "b.o").string();
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * 31);
  write(object, bytes);
  CHECK(!cache.take(numbered(7), got));
  cache.put_file(numbered(7), object);
  REQUIRE(cache.take(numbered(7), got));
  CHECK(read(got) == bytes);
  CHECK(!cache.take(numbered(8), got));

  const fs::path entry = dir / "cache" / "objects" / named(7);
  const std::string good = read(entry);
  for (size_t at = 0; at < good.size(); at += at + 64 < good.size() ? 61 : 1) {  // every byte of the trailer too
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write(entry, bad);
    INFO(at);
    CHECK(!cache.take(numbered(7), got));
  }
  for (const std::string& bad : {std::string(), good.substr(0, 10), good.substr(0, good.size() - 1), good + "x", bytes}) {
    write(entry, bad);
    CHECK(!cache.take(numbered(7), got));
  }
  write(entry, good);
  fs::rename(entry, entry.parent_path() / named(8));  // another's object
  CHECK(!cache.take(numbered(8), got));
  cache.put_file(numbered(7), object);
  CHECK(cache.take(numbered(7), got));
  for (const auto& left : fs::directory_iterator(entry.parent_path())) CHECK(left.path().extension() == ".o");
  fs::remove_all(dir);
}

TEST_CASE("a key is of its parts and their borders") {
  const aotc::Digest key = CacheKey().add("ab").add("c").digest();
  CHECK(key == CacheKey().add("ab").add("c").digest());
  for (const CacheKey& other : {CacheKey().add("a").add("bc"), CacheKey().add("abc"), CacheKey().add("ab").add("c").add(""),
                                CacheKey().add("c").add("ab"), CacheKey()})
    CHECK(key != other.digest());
  CacheKey grows;
  grows.add("ab");
  CHECK(grows.digest() == CacheKey().add("ab").digest());  // more may be added after a digest
  CHECK(grows.add("c").digest() == key);
}

TEST_CASE("a cache that cannot be is empty") {
  const ObjectCache none({""}), nowhere({"/proc/nowhere"});
  none.put_file(numbered(1), "/proc/self/exe");
  nowhere.put_file(numbered(1), "/proc/self/exe");
  CHECK(!none.take(numbered(1), "/tmp/unused.o"));
  CHECK(!nowhere.take(numbered(1), "/tmp/unused.o"));
}

TEST_CASE("a cache keeps its limit, and what was used last") {
  const fs::path dir = fs::temp_directory_path() / ("aotc_limit_" + std::to_string(getpid()));
  fs::remove_all(dir);
  const auto entries = [&] {
    size_t n = 0;
    for (const auto& e : fs::directory_iterator(dir / "objects")) n += e.path().extension() == ".o";
    return n;
  };
  const auto aged = [&](uint8_t key, int hours) {
    fs::last_write_time(dir / "objects" / named(key), fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  const std::string object(10000, 'x');
  {
    const ObjectCache cache({dir.string(), 100000});
    for (uint8_t key = 1; key <= 8; ++key) cache.put(numbered(key), object);
  }
  CHECK(entries() == 8);
  for (uint8_t key = 1; key <= 8; ++key) aged(key, static_cast<int>(20 - key));  // the first is the oldest
  write(dir / "objects" / "new-left", "half");
  fs::last_write_time(dir / "objects" / "new-left", fs::file_time_type::clock::now() - std::chrono::hours(30));
  write(dir / "objects" / "new-now", "half");
  {
    const ObjectCache cache({dir.string(), 100000});
    REQUIRE(cache.take(numbered(1)));  // used: the newest now
    for (uint8_t key = 9; key <= 11; ++key) cache.put(numbered(key), object);
  }
  CHECK(entries() == 8);  // nine tenths of 100,000 bytes
  const ObjectCache all({dir.string()});
  CHECK((all.take(numbered(1)) && !all.take(numbered(2)) && !all.take(numbered(3)) && !all.take(numbered(4)) && all.take(numbered(5)) &&
         all.take(numbered(11))));
  CHECK((!fs::exists(dir / "objects" / "new-left") && fs::exists(dir / "objects" / "new-now")));

  // Read only: what is there comes out, nothing is written or marked as used.
  aged(5, 40);
  const auto before = fs::last_write_time(dir / "objects" / named(5));
  const ObjectCache reader({dir.string(), 1, true});
  CHECK(reader.take(numbered(5)));
  reader.put(numbered(20), object);
  CHECK(!reader.take(numbered(20)));
  CHECK(fs::last_write_time(dir / "objects" / named(5)) == before);
  fs::remove_all(dir);
}
