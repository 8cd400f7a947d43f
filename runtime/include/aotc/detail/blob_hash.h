/* The hash of a weights blob, and the trailer of a weights file kept outside the .so: the file is the blob followed by the trailer.
 * C11 and C++17. */
#ifndef AOTC_DETAIL_BLOB_HASH_H_
#define AOTC_DETAIL_BLOB_HASH_H_
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AOTC_WEIGHTS_MAGIC "AOTCWTS1"
typedef struct aotc_weights_trailer {
  char magic[8]; /* AOTC_WEIGHTS_MAGIC without its zero */
  uint64_t hash; /* aotc_blob_hash of the blob: what aotc_module_desc.weights_hash says */
  uint64_t reserved[6];
} aotc_weights_trailer;

static inline uint64_t aotc_blob_mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0x9fb21c651e98df25ull;
  return h ^ (h >> 32);
}

/* Four interleaved lanes of little-endian words, about 10 GB/s. Not cryptographic: it finds mix-ups and damage. */
static inline uint64_t aotc_blob_hash(const void* data, uint64_t bytes) {
  const unsigned char* p = (const unsigned char*)data;
  uint64_t lane[4] = {0x243f6a8885a308d3ull, 0x13198a2e03707344ull, 0xa4093822299f31d0ull, 0x082efa98ec4e6c89ull};
  uint64_t word[4], left = bytes;
  int i;
  for (; left >= 32; left -= 32, p += 32) {
    memcpy(word, p, 32);
    for (i = 0; i < 4; ++i) lane[i] = aotc_blob_mix(lane[i], word[i]);
  }
  memset(word, 0, sizeof word);
  memcpy(word, p, (size_t)left);
  for (i = 0; i < 4; ++i) lane[i] = aotc_blob_mix(lane[i], word[i]);
  return aotc_blob_mix(aotc_blob_mix(aotc_blob_mix(aotc_blob_mix(bytes, lane[0]), lane[1]), lane[2]), lane[3]);
}

#endif
