#include "cache_options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "emit/cache_server.h"
#include "emit/toolchain.h"

namespace aotc::cli {

void CacheArgs::add_to(CLI::App& app) {
  add_option(app, "--cache", places,
             "folder of compiled objects, which builds and machines may share; 'none': no folder (default: ~/.cache/aotc, or "
             "$XDG_CACHE_HOME/aotc); http://HOST:PORT/PATH or https: a server behind that folder, which is asked for what the folder "
             "lacks (AOTC_CACHE_TOKEN: a bearer token for it)")
      .repeated();
  add_option(app, "--cache-limit", limit, "size of that folder (500M, 2G): the least recently used objects are removed; default: 5G")
      .transform(as_bytes, "SIZE");
  add_option(app, "--cache-timeout", timeout_s, "seconds that a request to the server may take; default: 10").positive();
  add_flag(app, "--cache-read-only", read_only,
           "read objects from the cache, write none to the server or a folder that --cache names: for untrusted jobs");
}

emit::CacheOptions CacheArgs::get() const {
  emit::CacheOptions o = emit::user_cache();
  std::string folder, url;
  for (const std::string& place : places) {
    std::string& of_kind = place.find("://") == std::string::npos ? folder : url;
    if (!of_kind.empty())
      throw Diagnostic(ExitCode::usage, {}, "--cache: one folder and one URL can be named")
          .note(fmt::format("there are {} and {}", of_kind, place));
    of_kind = place;
  }
  if (!folder.empty()) o.folder = folder == "none" ? std::string() : std::filesystem::absolute(folder).string();
  if (limit) o.limit_bytes = limit;
  o.read_only = read_only && (url.empty() || !folder.empty());
  std::error_code ec;
  if (o.read_only && !folder.empty() && !o.folder.empty() && !std::filesystem::is_directory(o.folder, ec))
    throw Diagnostic(ExitCode::usage, Loc{folder, "", "", ""}, "--cache-read-only: there is no such folder to read from");
  const char* token = std::getenv("AOTC_CACHE_TOKEN");
  if (!url.empty()) o.server = std::make_shared<emit::CacheServer>(emit::CacheServerOptions{url, token ? token : "", timeout_s, read_only});
  return o;
}

}  // namespace aotc::cli
