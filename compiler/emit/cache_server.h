#pragma once
// A cache of objects behind HTTP, as Bazel, ccache and sccache use one: GET and PUT of URL/KEY, KEY 64 hex digits. No fault of the server's
// is one of the build's: an object that does not come, or comes damaged, is compiled.
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sha256.h"
#include "emit/http.h"

namespace aotc::emit {

struct CacheServerOptions {
  std::string url;        ///< http or https, any path; objects are behind it
  std::string token;      ///< as HttpOptions has it
  double timeout_s = 10;  ///< of a request
  bool read_only = false;
};

class CacheServer {
 public:
  /// After so many requests to read (to write) that failed, nothing more is read (written). That an object is not there is no failure. A
  /// server that does not answer is asked nothing more of either kind.
  static constexpr uint64_t kFailures = 3;
  static constexpr uint64_t kLargest = 64 << 20;  ///< bytes of an object; larger ones are neither stored nor taken
  static constexpr int kReaders = 8;              ///< threads that ask at once

  /// Throws Diagnostic (usage): a URL that is none, or has a password in it; and what HttpClient throws.
  explicit CacheServer(CacheServerOptions options);
  /// What still waits to be stored is not.
  ~CacheServer();
  CacheServer(const CacheServer&) = delete;

  /// By any number of threads. What comes has its length, its key and its SHA-256 before it, and is nothing where one does not fit.
  std::optional<std::string> take(const Digest& key);
  /// Stores it, soon, by a thread of its own; waits where much is waiting. Does nothing when it is read only.
  void put(const Digest& key, std::string bytes);

  struct Told {
    uint64_t hits = 0, misses = 0, stored = 0, failed = 0;
    std::string warning;  ///< of all that failed; empty: nothing did
  };
  /// Waits until what was put is stored, or given up.
  Told finish();
  const std::string& url() const { return options_.url; }

 private:
  enum Side { reading, writing };
  struct Count {
    uint64_t requests = 0, failures = 0;
    bool over = false;
    std::string first;  ///< why the first failed
  };
  void fail(Side side, const Digest& key, const std::string& why, bool answered);
  void store_all();
  void settle();
  std::string at(const Digest& key) const;

  CacheServerOptions options_;
  HttpClient http_;
  std::mutex lock_;  ///< of what follows
  std::array<Count, 2> counts_;
  Told told_;
  std::deque<std::pair<Digest, std::string>> waiting_;
  uint64_t waiting_bytes_ = 0;
  bool storing_ = false;  ///< the writer looks at waiting_ once more before it ends
  std::mutex writer_lock_;
  std::thread writer_;  ///< ends when nothing waits
};

}  // namespace aotc::emit
