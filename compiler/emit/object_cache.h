#pragma once
// Compiled objects by the hash of what they are made from. An entry carries a checksum and is written aside and renamed: a damaged one, or
// one of another form, is as good as none. Any number of builds, on several machines where the folder is shared, may use one cache.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace aotc::emit {

struct CacheOptions {
  std::string folder;        ///< holds objects/, made when it is needed; empty: no cache
  uint64_t limit_bytes = 0;  ///< of all objects; what was not used for longest goes first; 0: no limit
  bool read_only = false;    ///< nothing is written, not even when an object was used
};

class ObjectCache {
 public:
  /// Nothing here is an error: a cache that cannot be read or written is an empty one.
  explicit ObjectCache(const CacheOptions& options);
  /// Keeps the limit, where something was put in.
  ~ObjectCache();
  ObjectCache(const ObjectCache&) = delete;
  ObjectCache& operator=(const ObjectCache&) = delete;
  std::optional<std::string> take(uint64_t key) const;
  void put(uint64_t key, std::string bytes) const;
  /// Writes the object of that key to `path`; false when there is none.
  bool take(uint64_t key, const std::string& path) const;
  void put_file(uint64_t key, const std::string& path) const;

 private:
  std::string entry(uint64_t key) const;
  void trim() const;
  std::string folder_;
  uint64_t limit_bytes_;
  bool read_only_;
  mutable std::atomic<bool> grew_{false};
};

}  // namespace aotc::emit
