#include "package/sha256.h"

#include "package/libcrypto.h"

namespace aotc::cli {

Digest sha256(std::string_view bytes) {
  constexpr size_t kLarge = 1 << 20;
  if (Digest fast; bytes.size() >= kLarge && libcrypto_sha256(bytes, fast)) return fast;
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

}  // namespace aotc::cli
