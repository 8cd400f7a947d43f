#include "cache_options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "emit/toolchain.h"

namespace aotc::cli {
namespace {

/// "500M", "2G", "4096": bytes; K, M, G, T are powers of 1024.
uint64_t parse_bytes(const std::string& text) {
  constexpr std::string_view kUnits = "KMGT";
  char* rest = nullptr;
  const unsigned long long n = text.empty() || text[0] < '0' || text[0] > '9' ? 0 : std::strtoull(text.c_str(), &rest, 10);
  const std::string_view unit = rest ? std::string_view(rest) : std::string_view("?");
  const size_t power = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  const unsigned shift = unit.empty() ? 0 : power == std::string_view::npos ? 99 : static_cast<unsigned>(10 * (power + 1));
  if (n == 0 || shift == 99 || n > (UINT64_MAX >> shift))
    throw Diagnostic(ExitCode::usage, {}, fmt::format("--cache-limit: '{}' is no size: expected 500M, 2G or a number of bytes", text));
  return n << shift;
}

}  // namespace

void CacheArgs::add_to(CLI::App& app) {
  add_option(app, "--cache", folder,
             "folder of compiled objects, which builds and machines may share; 'none': no cache (default: ~/.cache/aotc, or "
             "$XDG_CACHE_HOME/aotc)");
  add_option(app, "--cache-limit", limit, "size of that cache (500M, 2G): the least recently used objects are removed; default: 5G");
  add_flag(app, "--cache-read-only", read_only, "read objects from the cache and write none: for untrusted jobs");
}

emit::CacheOptions CacheArgs::get() const {
  emit::CacheOptions o = emit::user_cache();
  if (!folder.empty()) o.folder = folder == "none" ? std::string() : std::filesystem::absolute(folder).string();
  if (!limit.empty()) o.limit_bytes = parse_bytes(limit);
  o.read_only = read_only;
  std::error_code ec;
  if (read_only && !folder.empty() && !o.folder.empty() && !std::filesystem::is_directory(o.folder, ec))
    throw Diagnostic(ExitCode::usage, Loc{folder, "", "", ""}, "--cache-read-only: there is no such folder to read from");
  return o;
}

}  // namespace aotc::cli
