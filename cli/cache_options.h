#pragma once
// The options of the cache of compiled objects, shared by build and tune.
#include <string>
#include <vector>

#include "cli.h"
#include "emit/object_cache.h"

namespace aotc::cli {

struct CacheArgs {
  std::vector<std::string> places;  ///< a folder or "none", a URL, or one of each
  uint64_t limit = 0;               ///< bytes; 0: not given
  double timeout_s = 10;
  bool read_only = false;
  void add_to(CLI::App& app);
  /// Throws Diagnostic (usage): a folder to read from that is not there, a URL that is none.
  emit::CacheOptions get() const;
};

}  // namespace aotc::cli
