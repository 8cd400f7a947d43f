/* Checks that a model.so is complete and undamaged, before anything of the file is loaded. C11 and C++17; header-only; needs the C library.
 *
 * aotc seals its artifacts: an ELF note (name "aotc", type 1) has the sizes and hashes of the file. aotc_library_open and model_create
 * check sizes, code and tables. AOTC_CHECK_ALL (model option AOTC_MODEL_VERIFY_WEIGHTS, `aotc ... --check-weights`) also checks the
 * weights, about 0.1 s per GB. The hash finds damage, not forgery. A file with the note but without a valid seal is damaged; a file without
 * the note is not an artifact. Another note (type 2, one int64) has the distance from itself to the loaded pointer to the metadata's text.
 */
#ifndef AOTC_SEAL_H_
#define AOTC_SEAL_H_
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aotc/aotc.h"
#include "aotc/detail/blob_hash.h"

#ifndef AOTC_ABI_REVISION
#error "include this before headers that an older aotc generated: they have an older aotc.h in them"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The note's content. */
typedef struct aotc_seal {
  uint64_t file_bytes;     /* of the whole file */
  uint64_t weights_offset; /* of the weights in the file; 0: there are none in it */
  uint64_t weights_bytes;  /* of those, or of the weights file beside it */
  uint64_t weights_hash;   /* aotc_blob_hash */
  uint64_t code_hash;      /* what is loaded without the weights: code and tables. Of the ELF header without its section fields, so that a
                              file whose symbol names were taken away (strip) is still whole */
  uint64_t rest_hash;      /* what is not loaded, and those fields; holds for a file of file_bytes */
  uint64_t self_hash;      /* of the fields above */
} aotc_seal;

/* What aotc_file_check reads; each includes those before it. */
enum {
  AOTC_CHECK_SIZES = 0, /* the tables of the ELF file are within it: the file is not truncated */
  AOTC_CHECK_CODE = 1,  /* it is an artifact, and code and tables have the hashes of the seal */
  AOTC_CHECK_ALL = 2    /* so has every byte */
};

/* ---- within ------------------------------------------------------------------------------------------------------------------------ */
enum { AOTC_ELF_SPANS = 16, AOTC_ELF_HEADER = 64, AOTC_ELF_SEGMENT = 56 };
typedef struct aotc_span {
  uint64_t from, to; /* half-open, of the file */
} aotc_span;
typedef struct aotc_elf {
  const unsigned char* data; /* the file, mapped */
  uint64_t bytes;
  aotc_span load[AOTC_ELF_SPANS]; /* segments, by offset */
  int n_load;
  uint64_t seal_at; /* 0: no seal */
  aotc_seal seal;
  uint64_t metadata_at; /* address of the pointer to the metadata's text; 0: not said */
  uint64_t build_at;    /* of `build` in the file; 0: there is no room for it */
  uint64_t build;       /* differs from build to build; 0: by an aotc before there was one. The value of DT_NULL, which ends the dynamic
                           section: nothing else reads it, and the page that a process has of it is its own, whatever becomes of the file */
} aotc_elf;

static inline uint64_t aotc_elf_word(const unsigned char* p, int bytes) { /* x86-64 is little-endian, here and there */
  uint64_t v = 0;
  memcpy(&v, p, (size_t)bytes);
  return v;
}

static inline aotc_status aotc_elf_fault(const aotc_elf* elf, const char* path, const char* what, char* error, size_t n) {
  snprintf(error, n, "%.300s is cut off or damaged: %s (it has %llu bytes)", path, what, (unsigned long long)elf->bytes);
  return AOTC_STATUS_DAMAGED;
}

static inline void aotc_elf_close(aotc_elf* elf) {
  if (elf->data) munmap((void*)elf->data, (size_t)elf->bytes);
  elf->data = NULL;
}

/* Maps what the descriptor is open on, from its beginning. The descriptor's offset moves. `name`: for messages. Shared where that can be:
 * tracers' breakpoints in the code are in every private mapping of the file, and the hash of such is another. */
static inline aotc_status aotc_map_descriptor(int fd, const char* name, const unsigned char** data, uint64_t* bytes, char* error,
                                              size_t n) {
  const off_t size = lseek(fd, 0, SEEK_END);
  void* map = MAP_FAILED;
  *data = NULL;
  *bytes = 0;
  if (size > 0) map = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
  if (size > 0 && map == MAP_FAILED) map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED) {
    snprintf(error, n, "%.300s %s%s", name,
             size > 0    ? "cannot be mapped: "
             : size == 0 ? "is empty"
                         : "is no regular file",
             size > 0 ? strerror(errno) : "");
    return size == 0 ? AOTC_STATUS_DAMAGED : AOTC_STATUS_NOT_FOUND;
  }
  *data = (const unsigned char*)map;
  *bytes = (uint64_t)size;
  return AOTC_STATUS_OK;
}

/* Opens a file for reading without waiting for a FIFO's other end. -1: errno says why. */
static inline int aotc_open_file(const char* path) {
  int flags = O_RDONLY | O_NONBLOCK;
#ifdef O_CLOEXEC
  flags |= O_CLOEXEC;
#endif
  return open(path, flags);
}

/* Maps a file of a known kind. */
static inline aotc_status aotc_map_file(const char* path, const unsigned char** data, uint64_t* bytes, char* error, size_t n) {
  const int fd = aotc_open_file(path);
  aotc_status status;
  *data = NULL;
  *bytes = 0;
  if (fd < 0) {
    snprintf(error, n, "%.300s: %s", path, strerror(errno));
    return AOTC_STATUS_NOT_FOUND;
  }
  status = aotc_map_descriptor(fd, path, data, bytes, error, n);
  close(fd);
  return status;
}

/* Looks for ours among the notes of a segment, which is loaded at `address`. 0: the notes are malformed. */
static inline int aotc_elf_notes(aotc_elf* elf, uint64_t at, uint64_t end, uint64_t align, uint64_t address) {
  const uint64_t begin = at;
  while (end - at >= 12) {
    const uint64_t name = aotc_elf_word(elf->data + at, 4), desc = aotc_elf_word(elf->data + at + 4, 4);
    const uint64_t desc_at = at + ((12 + name + align - 1) & ~(align - 1)), next = desc_at + ((desc + align - 1) & ~(align - 1));
    if (next < at || desc_at + desc > end) return 0;
    if (name == 5 && memcmp(elf->data + at + 12, "aotc", 5) == 0) {
      const uint64_t type = aotc_elf_word(elf->data + at + 8, 4);
      if (type == 1 && desc == sizeof(aotc_seal)) {
        elf->seal_at = desc_at;
        memcpy(&elf->seal, elf->data + desc_at, sizeof elf->seal);
      }
      if (type == 2 && desc == 8) elf->metadata_at = address + (desc_at - begin) + aotc_elf_word(elf->data + desc_at, 8);
    }
    if (next >= end) return 1;
    at = next;
  }
  return 1;
}

/* Finds the end of the dynamic section. */
static inline void aotc_elf_dynamic(aotc_elf* elf, uint64_t at, uint64_t end) {
  while (end - at >= 16 && aotc_elf_word(elf->data + at, 8) != 0) at += 16;
  if (end - at < 16) return;
  elf->build_at = at + 8;
  elf->build = aotc_elf_word(elf->data + at + 8, 8);
}

/* Reads the tables of the file that elf->data and elf->bytes have; all else of *elf is zero. `path`: for messages. */
static inline aotc_status aotc_elf_read(const char* path, aotc_elf* elf, char* error, size_t n) {
  const unsigned char* const h = elf->data;
  uint64_t segments, sections, count, i;
  if (elf->bytes < AOTC_ELF_HEADER || memcmp(h, "\177ELF\2\1", 6) != 0 || aotc_elf_word(h + 16, 2) != 3 || aotc_elf_word(h + 18, 2) != 62 ||
      aotc_elf_word(h + 54, 2) != AOTC_ELF_SEGMENT) {
    if (elf->bytes < AOTC_ELF_HEADER) return aotc_elf_fault(elf, path, "it has no whole header", error, n);
    snprintf(error, n, "%.300s is no shared object for x86-64 Linux", path);
    return AOTC_STATUS_INCOMPATIBLE;
  }
  segments = aotc_elf_word(h + 32, 8);
  count = aotc_elf_word(h + 56, 2);
  if (segments > elf->bytes || count * AOTC_ELF_SEGMENT > elf->bytes - segments)
    return aotc_elf_fault(elf, path, "its table of segments lies outside of it", error, n);
  sections = aotc_elf_word(h + 40, 8);
  if (sections > elf->bytes || aotc_elf_word(h + 58, 2) * aotc_elf_word(h + 60, 2) > elf->bytes - sections)
    return aotc_elf_fault(elf, path, "its table of sections lies outside of it", error, n);
  for (i = 0; i < count; ++i) {
    const unsigned char* s = h + segments + i * AOTC_ELF_SEGMENT;
    const uint64_t type = aotc_elf_word(s, 4), offset = aotc_elf_word(s + 8, 8), size = aotc_elf_word(s + 32, 8);
    int k;
    if (offset > elf->bytes || size > elf->bytes - offset) return aotc_elf_fault(elf, path, "a segment lies outside of it", error, n);
    if (type == 4 && !aotc_elf_notes(elf, offset, offset + size, aotc_elf_word(s + 48, 8) == 8 ? 8 : 4, aotc_elf_word(s + 16, 8)))
      return aotc_elf_fault(elf, path, "its notes are malformed", error, n);
    if (type == 2) aotc_elf_dynamic(elf, offset, offset + size);
    if (type != 1 || size == 0) continue;
    if (elf->n_load == AOTC_ELF_SPANS) return aotc_elf_fault(elf, path, "it has too many segments", error, n);
    for (k = elf->n_load++; k > 0 && elf->load[k - 1].from > offset; --k) elf->load[k] = elf->load[k - 1];
    elf->load[k].from = offset;
    elf->load[k].to = offset + size;
  }
  return AOTC_STATUS_OK;
}

static inline aotc_status aotc_elf_open(const char* path, aotc_elf* elf, char* error, size_t n) {
  aotc_status status;
  memset(elf, 0, sizeof *elf);
  status = aotc_map_file(path, &elf->data, &elf->bytes, error, n);
  return status == AOTC_STATUS_OK ? aotc_elf_read(path, elf, error, n) : status;
}

/* Adds [from, to) without the holes, which are in order and may lie anywhere. */
static inline void aotc_elf_add(const aotc_elf* elf, aotc_hasher* hasher, uint64_t from, uint64_t to, const aotc_span* holes, int n) {
  int i;
  for (i = 0; i < n && from < to; ++i) {
    if (holes[i].to <= from || holes[i].from >= to) continue;
    if (holes[i].from > from) aotc_hash_add(hasher, elf->data + from, holes[i].from - from);
    from = holes[i].to;
  }
  if (from < to) aotc_hash_add(hasher, elf->data + from, to - from);
}

/* Fields of the ELF header that say where its sections are. */
#define AOTC_ELF_SECTION_FIELDS \
  {40, 48}, { 60, 64 }

static inline uint64_t aotc_elf_code_hash(const aotc_elf* elf, const aotc_seal* seal) {
  aotc_span holes[4] = {AOTC_ELF_SECTION_FIELDS, {0, 0}, {0, 0}};
  aotc_hasher hasher;
  int i;
  holes[2].from = elf->seal_at;
  holes[2].to = elf->seal_at + sizeof(aotc_seal);
  if (seal->weights_offset) {
    const int before = seal->weights_offset < elf->seal_at;
    if (before) holes[3] = holes[2];
    holes[before ? 2 : 3].from = seal->weights_offset;
    holes[before ? 2 : 3].to = seal->weights_offset + seal->weights_bytes;
  }
  aotc_hash_begin(&hasher);
  for (i = 0; i < elf->n_load; ++i) aotc_elf_add(elf, &hasher, elf->load[i].from, elf->load[i].to, holes, seal->weights_offset ? 4 : 3);
  return aotc_hash_end(&hasher);
}

static inline uint64_t aotc_elf_rest_hash(const aotc_elf* elf) {
  static const aotc_span fields[2] = {AOTC_ELF_SECTION_FIELDS};
  aotc_hasher hasher;
  int i;
  aotc_hash_begin(&hasher);
  for (i = 0; i < 2; ++i) aotc_hash_add(&hasher, elf->data + fields[i].from, fields[i].to - fields[i].from);
  aotc_elf_add(elf, &hasher, 0, elf->bytes, elf->load, elf->n_load);
  return aotc_hash_end(&hasher);
}

static inline uint64_t aotc_seal_self_hash(const aotc_seal* seal) { return aotc_blob_hash(seal, offsetof(aotc_seal, self_hash)); }

/* What of a file that is mapped is not what was built; NULL: nothing. */
static inline const char* aotc_elf_damage(const aotc_elf* elf, int32_t what) {
  const aotc_seal* s = &elf->seal;
  if (what < AOTC_CHECK_CODE) return NULL;
  if (!s->file_bytes || s->self_hash != aotc_seal_self_hash(s) ||
      (s->weights_offset && (s->weights_offset > elf->bytes || s->weights_bytes > elf->bytes - s->weights_offset)))
    return "its seal is damaged";
  if (elf->bytes == s->file_bytes && what >= AOTC_CHECK_ALL && s->rest_hash != aotc_elf_rest_hash(elf))
    return "what is not loaded of it is not what was built";
  if (s->code_hash != aotc_elf_code_hash(elf, s)) return "its code and tables are not what was built";
  if (what >= AOTC_CHECK_ALL && s->weights_offset && s->weights_hash != aotc_blob_hash(elf->data + s->weights_offset, s->weights_bytes))
    return "its weights are not what was built";
  return NULL;
}

/* What follows upon aotc_elf_open or aotc_elf_read, and their status: is it an artifact, and whole? Unmaps what is not. */
static inline aotc_status aotc_elf_judge(aotc_status status, const char* path, int32_t what, aotc_elf* elf, char* error, size_t n) {
  if (status == AOTC_STATUS_OK && what >= AOTC_CHECK_CODE && !elf->seal_at) {
    snprintf(error, n, "%.300s is not an artifact of aotc (it has no note of aotc)", path);
    status = AOTC_STATUS_INCOMPATIBLE;
  } else if (status == AOTC_STATUS_OK) {
    const char* damage = aotc_elf_damage(elf, what);
    if (damage) status = aotc_elf_fault(elf, path, damage, error, n);
  }
  if (status != AOTC_STATUS_OK) aotc_elf_close(elf);
  return status;
}

/* As aotc_file_check. On success the file stays mapped until aotc_elf_close. */
static inline aotc_status aotc_elf_check(const char* path, int32_t what, aotc_elf* elf, char* error, size_t n) {
  return aotc_elf_judge(aotc_elf_open(path, elf, error, n), path, what, elf, error, n);
}

/* As aotc_elf_check, of what a descriptor is open on; its offset moves. `name`: for messages. */
static inline aotc_status aotc_elf_check_fd(int fd, const char* name, int32_t what, aotc_elf* elf, char* error, size_t n) {
  aotc_status status;
  memset(elf, 0, sizeof *elf);
  status = aotc_map_descriptor(fd, name, &elf->data, &elf->bytes, error, n);
  if (status == AOTC_STATUS_OK) status = aotc_elf_read(name, elf, error, n);
  return aotc_elf_judge(status, name, what, elf, error, n);
}

/* ---- to be called ------------------------------------------------------------------------------------------------------------------ */

/* Checks the artifact at `path`. OK, or a status and a message: NOT_FOUND: no such file; INCOMPATIBLE: no shared object for this kind of
 * machine, or not one of aotc; DAMAGED: cut off, or not the bytes that were built. *seal (may be NULL): what the file has, zeros for
 * none. */
static inline aotc_status aotc_file_check(const char* path, int32_t what, aotc_seal* seal, char* error, size_t error_bytes) {
  aotc_elf elf;
  const aotc_status status = aotc_elf_check(path, what, &elf, error, error_bytes);
  if (seal) *seal = elf.seal;
  if (status == AOTC_STATUS_OK) aotc_elf_close(&elf);
  return status;
}

/* Whether the content of a weights file may take the place of an artifact's weights: it has their hash, or their layout (not 0). */
static inline aotc_status aotc_weights_fit(const unsigned char* data, uint64_t bytes, const char* path, int32_t what,
                                           uint64_t weights_bytes, uint64_t weights_hash, uint64_t layout, char* error,
                                           size_t error_bytes) {
  aotc_weights_trailer trailer;
  const uint64_t expected = weights_bytes + sizeof trailer;
  if (bytes >= sizeof trailer) memcpy(&trailer, data + bytes - sizeof trailer, sizeof trailer);
  if (bytes < sizeof trailer || memcmp(trailer.magic, AOTC_WEIGHTS_MAGIC, sizeof trailer.magic) != 0) {
    snprintf(error, error_bytes, "%.300s is no weights file of aotc, or is cut off or damaged", path);
    return AOTC_STATUS_DAMAGED;
  }
  if (bytes != expected || (trailer.hash != weights_hash && (layout == 0 || trailer.layout != layout))) {
    snprintf(error, error_bytes,
             "%.300s belongs to another artifact (its layout is %016llx, this artifact's is %016llx): aotc weights MODEL.pt2 --for "
             "ARTIFACT.so makes one that fits",
             path, (unsigned long long)trailer.layout, (unsigned long long)layout);
    return AOTC_STATUS_INCOMPATIBLE;
  }
  if (what >= AOTC_CHECK_ALL && aotc_blob_hash(data, weights_bytes) != trailer.hash) {
    snprintf(error, error_bytes, "%.300s is damaged: its content does not have the hash %016llx", path, (unsigned long long)trailer.hash);
    return AOTC_STATUS_DAMAGED;
  }
  return AOTC_STATUS_OK;
}

/* As aotc_weights_check, of a file that is mapped. */
static inline aotc_status aotc_weights_compare(const unsigned char* data, uint64_t bytes, const char* path, int32_t what,
                                               uint64_t weights_bytes, uint64_t weights_hash, char* error, size_t error_bytes) {
  aotc_weights_trailer trailer;
  const uint64_t expected = weights_bytes + sizeof trailer;
  if (bytes != expected) {
    snprintf(error, error_bytes, "%.300s is cut off, or of another build: it has %llu bytes, but this artifact's weights have %llu", path,
             (unsigned long long)bytes, (unsigned long long)expected);
    return bytes < expected ? AOTC_STATUS_DAMAGED : AOTC_STATUS_INCOMPATIBLE;
  }
  memcpy(&trailer, data + weights_bytes, sizeof trailer);
  if (memcmp(trailer.magic, AOTC_WEIGHTS_MAGIC, sizeof trailer.magic) != 0) {
    snprintf(error, error_bytes, "%.300s is not a weights file of aotc, or is damaged", path);
    return AOTC_STATUS_INCOMPATIBLE;
  }
  if (trailer.hash != weights_hash) {
    snprintf(error, error_bytes, "%.300s belongs to another build of the model (its stamp is %016llx, this artifact's is %016llx)", path,
             (unsigned long long)trailer.hash, (unsigned long long)weights_hash);
    return AOTC_STATUS_INCOMPATIBLE;
  }
  if (what >= AOTC_CHECK_ALL && aotc_blob_hash(data, weights_bytes) != weights_hash) {
    snprintf(error, error_bytes, "%.300s is damaged: its content does not have the hash %016llx", path, (unsigned long long)weights_hash);
    return AOTC_STATUS_DAMAGED;
  }
  return AOTC_STATUS_OK;
}

/* Checks the weights file of an artifact: size and stamp, and with AOTC_CHECK_ALL every byte. weights_bytes, weights_hash: of the
 * artifact's seal. NOT_FOUND: no such file; INCOMPATIBLE: of another build; DAMAGED. */
static inline aotc_status aotc_weights_check(const char* path, int32_t what, uint64_t weights_bytes, uint64_t weights_hash, char* error,
                                             size_t error_bytes) {
  const unsigned char* data;
  uint64_t bytes;
  aotc_status status = aotc_map_file(path, &data, &bytes, error, error_bytes);
  if (status != AOTC_STATUS_OK) return status;
  status = aotc_weights_compare(data, bytes, path, what, weights_bytes, weights_hash, error, error_bytes);
  munmap((void*)data, (size_t)bytes);
  return status;
}

#ifdef __cplusplus
}
#endif
#endif
