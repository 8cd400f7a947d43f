// A client of a cache server as builds are, without a build:
//   cache_probe put|take URL SECONDS N    the objects 0 .. N - 1, one after the other; prints what came of it as JSON
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/diagnostic.h"
#include "emit/cache_server.h"
#include "emit/object_cache.h"

using namespace aotc;

namespace {

std::string object(int i) {
  std::string bytes;
  for (int n = 0; n < 3000 + i; ++n) bytes += static_cast<char>(n * (i + 3));
  return bytes;
}
Digest key(int i) { return emit::CacheKey().add("object").add(std::to_string(i)).digest(); }

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) return 2;
  const std::string verb = argv[1];
  emit::CacheServer server({argv[2], "", std::atof(argv[3])});
  const int n = std::atoi(argv[4]);
  int right = 0, wrong = 0;
  for (int i = 0; i < n; ++i) {
    if (verb == "put") {
      server.put(key(i), object(i));
    } else if (const std::optional<std::string> got = server.take(key(i))) {
      ++(*got == object(i) ? right : wrong);
    }
  }
  const emit::CacheServer::Told told = server.finish();
  std::puts(nlohmann::json{{"right", right},
                           {"wrong", wrong},
                           {"hits", told.hits},
                           {"misses", told.misses},
                           {"stored", told.stored},
                           {"failed", told.failed},
                           {"warning", told.warning}}
                .dump()
                .c_str());
  return 0;
} catch (const Diagnostic& d) {
  std::fprintf(stderr, "%s\n", d.what());
  return static_cast<int>(d.code());
}
