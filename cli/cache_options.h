#pragma once
// The options of the cache of compiled objects, shared by build and tune.
#include <string>

#include "cli.h"
#include "emit/object_cache.h"

namespace aotc::cli {

struct CacheArgs {
  std::string folder, limit;
  bool read_only = false;
  void add_to(CLI::App& app);
  /// Throws Diagnostic (usage): a limit that is no size, a folder to read from that is not there.
  emit::CacheOptions get() const;
};

}  // namespace aotc::cli
