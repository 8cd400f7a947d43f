#pragma once
// SHA-256 of whole files and layers.
#include <string_view>

#include "base/sha256.h"

namespace aotc::cli {

/// By libcrypto, where it is on the machine and there is much to hash.
Digest sha256(std::string_view bytes);

}  // namespace aotc::cli
