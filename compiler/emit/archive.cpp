#include <cstring>

#include "base/diagnostic.h"
#include "emit/tables.h"

namespace aotc::emit {

// The index of an ar archive (System V form): member "/", a big-endian count, as many offsets, then the names.
std::set<std::string> archive_symbols(std::string_view archive) {
  constexpr size_t kMagic = 8, kHeader = 60;
  AOTC_CHECK(archive.size() > kMagic + kHeader && archive.substr(0, kMagic) == "!<arch>\n" && archive[kMagic] == '/',
             "no index in an archive");
  const std::string_view body = archive.substr(kMagic + kHeader);
  auto word = [&](size_t at) {
    uint32_t v = 0;
    for (size_t i = 0; i < 4; ++i) v = v << 8 | static_cast<unsigned char>(body[at + i]);
    return v;
  };
  const uint32_t count = word(0);
  std::set<std::string> names;
  const char* name = body.data() + 4 + 4 * static_cast<size_t>(count);
  for (uint32_t i = 0; i < count; ++i) {
    names.emplace(name);
    name += std::strlen(name) + 1;
  }
  return names;
}

}  // namespace aotc::emit
