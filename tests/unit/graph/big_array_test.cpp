// Memory of large constants: of files without names where there is room for them.
#include "graph/big_array.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

using aotc::BigArray;

namespace fs = std::filesystem;

namespace {

/// The name that /proc/self/maps gives the mapping at p; empty: the process's own memory.
std::string mapped_from(const void* p) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream in(line);
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    in >> std::hex >> begin >> dash >> end;
    if (at >= begin && at < end) return line.find('/') == std::string::npos ? "" : line.substr(line.find('/'));
  }
  return "not mapped";
}

/// TMPDIR for a scope.
class Temporary {
 public:
  explicit Temporary(const std::string& folder) : before_(std::getenv("TMPDIR") ? std::getenv("TMPDIR") : "") {
    setenv("TMPDIR", folder.c_str(), 1);
  }
  ~Temporary() { before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1); }

 private:
  const std::string before_;
};

void check_memory(size_t n) {
  BigArray<uint16_t> a(n);
  REQUIRE(a.size() == n);
  CHECK(reinterpret_cast<uintptr_t>(a.data()) % 64 == 0);
  CHECK(std::all_of(a.begin(), a.end(), [](uint16_t x) { return x == 0; }));
  for (size_t i = 0; i < n; ++i) a[i] = static_cast<uint16_t>(i * 7);
  const BigArray<uint16_t> shared = a;
  a = {};
  CHECK((a.empty() && a.data() == nullptr));
  bool same = true;
  for (size_t i = 0; i < n; ++i) same = same && shared[i] == static_cast<uint16_t>(i * 7);
  CHECK(same);
}

}  // namespace

TEST_CASE("large arrays are of files without names", "[graph]") {
  char name[] = "/tmp/aotc-big-XXXXXX";
  const fs::path folder = mkdtemp(name);
  {
    const Temporary set(folder);
    const BigArray<float> large(1 << 20), small(1000);
    CHECK(mapped_from(large.data()).find(folder.string()) == 0);
    CHECK(mapped_from(large.data()).find("(deleted)") != std::string::npos);
    CHECK(mapped_from(small.data()).find(folder.string()) != 0);
    CHECK(fs::is_empty(folder));
    for (size_t n : {size_t{1}, size_t{1000}, size_t{1} << 19, (size_t{1} << 20) + 3}) check_memory(n);
  }
  fs::remove(folder);
}

TEST_CASE("without a folder for temporary files large arrays are of the process's memory", "[graph]") {
  const Temporary set("/nonexistent/folder");
  const BigArray<float> large(1 << 20);
  CHECK(mapped_from(large.data()).empty());
  check_memory(size_t{1} << 20);
}
