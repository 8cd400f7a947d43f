#include "emit/embedded.h"

#include "base/diagnostic.h"

#define AOTC_EMBEDDED(n, name) extern "C" const std::byte aotc_embed_##n##_begin[], aotc_embed_##n##_end[];
#include "embedded_list.inc"
#undef AOTC_EMBEDDED

namespace aotc::emit {

const std::vector<EmbeddedFile>& embedded_files() {
  static const std::vector<EmbeddedFile> files = {
#define AOTC_EMBEDDED(n, name) {name, {aotc_embed_##n##_begin, aotc_embed_##n##_end}},
#include "embedded_list.inc"
#undef AOTC_EMBEDDED
  };
  return files;
}

const EmbeddedFile& embedded(std::string_view name) {
  for (const EmbeddedFile& f : embedded_files())
    if (f.name == name) return f;
  throw InternalError(fmt::format("no embedded file {}", name));
}

}  // namespace aotc::emit
