/* The hash of weights, code and tables, and the trailer of a weights file kept outside the .so: the file is the blob followed by the
 * trailer. C11 and C++17. */
#ifndef AOTC_DETAIL_BLOB_HASH_H_
#define AOTC_DETAIL_BLOB_HASH_H_
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define AOTC_WEIGHTS_MAGIC "AOTCWTS1"
typedef struct aotc_weights_trailer {
  char magic[8];   /* AOTC_WEIGHTS_MAGIC without its zero */
  uint64_t hash;   /* aotc_blob_hash of the blob: what aotc_module_desc.weights_hash says */
  uint64_t layout; /* aotc_module_desc.weights_layout: of the artifacts that the weights fit; 0: of the one alone that has this hash */
  uint64_t bytes;  /* of the blob; 0: not said */
  uint64_t reserved[4];
} aotc_weights_trailer;

static inline uint64_t aotc_blob_mix(uint64_t h, uint64_t word) {
  h = (h ^ word) * 0x9fb21c651e98df25ull;
  return h ^ (h >> 32);
}

/* Four interleaved lanes of little-endian words, about 10 GB/s. Not cryptographic: it finds mix-ups and damage. */
typedef struct aotc_hasher {
  uint64_t lane[4], bytes;
  unsigned char block[32]; /* what is left of a whole one */
} aotc_hasher;

static inline void aotc_hash_begin(aotc_hasher* h) {
  static const uint64_t start[4] = {0x243f6a8885a308d3ull, 0x13198a2e03707344ull, 0xa4093822299f31d0ull, 0x082efa98ec4e6c89ull};
  memcpy(h->lane, start, sizeof start);
  h->bytes = 0;
}

static inline void aotc_hash_block(uint64_t lane[4], const unsigned char* p) {
  uint64_t word[4];
  int i;
  memcpy(word, p, 32);
  for (i = 0; i < 4; ++i) lane[i] = aotc_blob_mix(lane[i], word[i]);
}

static inline void aotc_hash_add(aotc_hasher* h, const void* data, uint64_t bytes) {
  const unsigned char* p = (const unsigned char*)data;
  const size_t held = (size_t)(h->bytes % 32), room = 32 - held;
  uint64_t lane[4];
  h->bytes += bytes;
  if (held && bytes < room) {
    memcpy(h->block + held, p, (size_t)bytes);
    return;
  }
  memcpy(lane, h->lane, sizeof lane);
  if (held) {
    memcpy(h->block + held, p, room);
    aotc_hash_block(lane, h->block);
    p += room;
    bytes -= room;
  }
  for (; bytes >= 32; bytes -= 32, p += 32) aotc_hash_block(lane, p);
  memcpy(h->lane, lane, sizeof lane);
  if (bytes) memcpy(h->block, p, (size_t)bytes);
}

static inline uint64_t aotc_hash_end(aotc_hasher* h) {
  const size_t held = (size_t)(h->bytes % 32);
  memset(h->block + held, 0, 32 - held);
  aotc_hash_block(h->lane, h->block);
  return aotc_blob_mix(aotc_blob_mix(aotc_blob_mix(aotc_blob_mix(h->bytes, h->lane[0]), h->lane[1]), h->lane[2]), h->lane[3]);
}

static inline uint64_t aotc_blob_hash(const void* data, uint64_t bytes) {
  aotc_hasher h;
  aotc_hash_begin(&h);
  aotc_hash_add(&h, data, bytes);
  return aotc_hash_end(&h);
}

#endif
