#pragma once
// Zip archives made to measure, and a check that something is refused.
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "import/zip.h"

namespace aotc::import::test {

inline Bytes bytes_of(const std::string& s) { return {reinterpret_cast<const std::byte*>(s.data()), s.size()}; }

inline std::string read_file(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  REQUIRE(f);
  return {std::istreambuf_iterator<char>(f), {}};
}
inline std::string data_file(const std::string& name) { return std::string(AOTC_TEST_DIR) + "/unit/import/data/" + name; }

/// A file that is gone at the end of the test.
class TempFile {
 public:
  explicit TempFile(const std::string& content) : path_((std::filesystem::temp_directory_path() / "aotc_import_XXXXXX").string()) {
    const int fd = ::mkstemp(path_.data());
    REQUIRE(fd >= 0);
    std::FILE* f = ::fdopen(fd, "wb");
    std::fwrite(content.data(), 1, content.size(), f);
    std::fclose(f);
  }
  ~TempFile() { std::filesystem::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// One entry; the fields that may lie are set apart from the content.
struct Entry {
  std::string name, content;
  std::string local_name = {};  ///< empty: name
  uint16_t method = 0, flags = 0;
  uint32_t crc_xor = 0;
  int64_t central_size_add = 0, local_size_add = 0, offset_add = 0;
};

inline void put(std::string& s, uint64_t v, int n) {
  for (int i = 0; i < n; ++i) s += static_cast<char>(v >> (8 * i));
}

inline std::string make_zip(const std::vector<Entry>& entries, const std::string& before = "", const std::string& between = "",
                            int count_add = 0) {
  std::string out = before, central;
  for (const Entry& e : entries) {
    const uint64_t offset = out.size();
    const uint32_t crc = crc32(bytes_of(e.content)) ^ e.crc_xor;
    const std::string& local = e.local_name.empty() ? e.name : e.local_name;
    const auto header = [&](std::string& s, const std::string& name, int64_t add) {
      put(s, 20, 2);
      put(s, e.flags, 2);
      put(s, e.method, 2);
      put(s, 0, 4);
      put(s, crc, 4);
      put(s, e.content.size() + static_cast<uint64_t>(add), 4);
      put(s, e.content.size() + static_cast<uint64_t>(add), 4);
      put(s, name.size(), 2);
      put(s, 0, 2);
    };
    put(out, 0x04034b50, 4);
    header(out, local, e.local_size_add);
    out += local + e.content + between;
    put(central, 0x02014b50, 4);
    put(central, 20, 2);
    header(central, e.name, e.central_size_add);
    put(central, 0, 2);
    put(central, 0, 2);
    put(central, 0, 2);
    put(central, 0, 4);
    put(central, offset + static_cast<uint64_t>(e.offset_add), 4);
    central += e.name;
  }
  const uint64_t at = out.size(), n = entries.size() + static_cast<uint64_t>(count_add);
  out += central;
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, n, 2);
  put(out, n, 2);
  put(out, central.size(), 4);
  put(out, at, 4);
  put(out, 0, 2);
  return out;
}

inline std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Diagnostic& d) { return d.what(); }
  return "(accepted)";
}

}  // namespace aotc::import::test
