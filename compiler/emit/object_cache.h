#pragma once
// Compiled objects by the hash of what they are made from. An entry carries a checksum and is written aside and renamed: a damaged one, or
// one of another form, is as good as none. Any number of builds, on several machines where the folder is shared, may use one cache.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"

namespace aotc::emit {

class CacheServer;

/// What an object is made from, part after part: no other parts, nor these cut elsewhere, have its digest.
class CacheKey {
 public:
  CacheKey& add(std::string_view part);
  Digest digest() const;

 private:
  Sha256 hash_;
};

struct CacheOptions {
  std::string folder;                        ///< holds objects/, made when it is needed; empty: no cache
  uint64_t limit_bytes = 0;                  ///< of all objects; what was not used for longest goes first; 0: no limit
  bool read_only = false;                    ///< nothing is written there, not even when an object was used
  std::shared_ptr<CacheServer> server = {};  ///< behind the folder: asked for what is not there, and given what is made; null: none
};

class ObjectCache {
 public:
  /// Nothing here is an error: a cache that cannot be read or written is an empty one.
  explicit ObjectCache(const CacheOptions& options);
  /// Keeps the limit, where something was put in.
  ~ObjectCache();
  ObjectCache(const ObjectCache&) = delete;
  ObjectCache& operator=(const ObjectCache&) = delete;
  std::optional<std::string> take(const Digest& key) const;
  void put(const Digest& key, std::string bytes) const;
  /// Writes the object of that key to `path`; false when there is none.
  bool take(const Digest& key, const std::string& path) const;
  void put_file(const Digest& key, const std::string& path) const;
  /// How many threads may take objects at once with profit.
  int readers() const;

 private:
  std::string entry(const Digest& key) const;
  std::optional<std::string> from_folder(const Digest& key) const;
  void to_folder(const Digest& key, std::string bytes) const;
  void trim() const;
  std::string folder_;
  uint64_t limit_bytes_;
  bool read_only_;
  std::shared_ptr<CacheServer> server_;
  mutable std::atomic<bool> grew_{false};
};

}  // namespace aotc::emit
