#pragma once
// Weights files for toy.c.
#include <cstring>
#include <string>

#include "aotc/detail/blob_hash.h"
#include "aotc/seal.h"

constexpr uint64_t kToyLayout = 0x70070070;
constexpr size_t kToyBlobBytes = 192;

/// The content of one: toy.c's own table with `more` added to each element; the state "runs" starts at 100 + more.
inline std::string toy_weights(int more, uint64_t layout = kToyLayout) {
  std::string blob(kToyBlobBytes, '\0');
  float table[4][8];
  for (int c = 0; c < 8; ++c)
    for (int r = 0; r < 4; ++r) table[r][c] = static_cast<float>((r < 3 ? r + 1 : c) + more);
  const int64_t start = 100 + more;
  std::memcpy(blob.data(), table, sizeof table);
  std::memcpy(blob.data() + 128, &start, sizeof start);
  aotc_weights_trailer trailer{};
  std::memcpy(trailer.magic, AOTC_WEIGHTS_MAGIC, 8);
  trailer.hash = aotc_blob_hash(blob.data(), blob.size());
  trailer.layout = layout, trailer.bytes = blob.size();
  return blob + std::string(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}
