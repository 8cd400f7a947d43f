#pragma once
// Compiled objects by the hash of what they are made from. An entry carries a checksum and is written aside and renamed: a damaged one, or
// one of another form, is as good as none.
#include <cstdint>
#include <optional>
#include <string>

namespace aotc::emit {

class ObjectCache {
 public:
  /// `folder`: made when it is needed; empty: no cache. Nothing here is an error: a cache that cannot be read or written is an empty one.
  explicit ObjectCache(std::string folder) : folder_(std::move(folder)) {}
  std::optional<std::string> take(uint64_t key) const;
  void put(uint64_t key, std::string bytes) const;
  /// Writes the object of that key to `path`; false when there is none.
  bool take(uint64_t key, const std::string& path) const;
  void put_file(uint64_t key, const std::string& path) const;

 private:
  std::string entry(uint64_t key) const;
  std::string folder_;
};

}  // namespace aotc::emit
