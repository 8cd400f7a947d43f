/* Loads a model.so: is it whole, dlopen, version check, probe. C11 and C++17; header-only; link with -ldl where the C library needs it.
 *
 *   aotc_library lib;
 *   if (aotc_library_open("model.so", AOTC_DEFAULT_DEVICE, &lib) != AOTC_OK) { puts(lib.error); return 1; }
 *   lib.api->model_create(NULL, &model); ...
 *   aotc_library_close(&lib);
 */
#ifndef AOTC_LOADER_H_
#define AOTC_LOADER_H_
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "aotc/seal.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aotc_library {
  void* handle;
  const aotc_api* api; /* NULL when not open */
  char error[512];     /* why the latest open failed */
} aotc_library;

/* Ends the use of the library; every context and model of it must be destroyed. A library that is not open is fine. */
static inline void aotc_library_close(aotc_library* lib) {
  if (lib->handle) dlclose(lib->handle);
  lib->handle = NULL;
  lib->api = NULL;
}

/* ---- within ------------------------------------------------------------------------------------------------------------------------ */
enum { AOTC_LOAD_TRIES = 32, AOTC_LOAD_PATH = 4096 };

/* How struct link_map of <link.h> begins, which a handle of dlopen points at. */
typedef struct aotc_loaded {
  uintptr_t base;
  const char* name;
  const uint64_t* dynamic; /* tag and value of each entry */
} aotc_loaded;

/* aotc_elf.build of what was loaded. */
static inline uint64_t aotc_loaded_build(const void* handle) {
  const uint64_t* entry = ((const aotc_loaded*)handle)->dynamic;
  while (entry[0] != 0) entry += 2;
  return entry[1];
}

/* The same path, with one of "/" and "./" for each bit of `bits` before the file's name, and `more` slashes: a text that no other file was
 * loaded by. 0: it is too long. */
static inline int aotc_path_apart(const char* path, uint64_t bits, int more, char apart[AOTC_LOAD_PATH]) {
  const char* name = strrchr(path, '/') + 1;
  size_t n = (size_t)(name - path);
  if (strlen(path) + 128 + (size_t)more >= AOTC_LOAD_PATH) return 0;
  memcpy(apart, path, n);
  for (; bits; bits >>= 1) {
    if (bits & 1) apart[n++] = '.';
    apart[n++] = '/';
  }
  for (; more > 0; --more) apart[n++] = '/';
  memcpy(apart + n, name, strlen(name) + 1);
  return 1;
}

/* dlopen of the file that is there now, once it has been checked. dlopen gives what is loaded already by the text of the path, whatever
 * file is there by now, and what is loaded of the same inode; so what it gave is compared. WRONG_STATE: it gave another file, or the file
 * was replaced meanwhile. `tries`: how often it did before. */
static inline aotc_status aotc_dlopen_checked(const char* path, int tries, aotc_library* lib) {
  char apart[AOTC_LOAD_PATH];
  aotc_elf file;
  int way;
  const aotc_status status = aotc_elf_check(path, AOTC_CHECK_CODE, &file, lib->error, sizeof lib->error);
  if (status != AOTC_OK) return status;
  aotc_elf_close(&file);
  for (way = file.build ? 0 : 1; way < 2; ++way) { /* what has no number of its build cannot be compared by it */
    if (way == 1 && !aotc_path_apart(path, file.seal.self_hash, tries, apart)) break;
    lib->handle = dlopen(way == 0 ? path : apart, RTLD_NOW | RTLD_LOCAL);
    if (!lib->handle) {
      const char* why = dlerror();
      snprintf(lib->error, sizeof lib->error, "%.500s", why ? why : "dlopen failed");
      return AOTC_NOT_FOUND;
    }
    if (aotc_loaded_build(lib->handle) == file.build) return AOTC_OK;
    aotc_library_close(lib);
  }
  snprintf(lib->error, sizeof lib->error,
           "%.300s was written over while what it was before is open in this process: copy to another name and rename it", path);
  return AOTC_WRONG_STATE;
}

/* ---- to be called ------------------------------------------------------------------------------------------------------------------ */

/* Opens the artifact: always the file that is there now, whatever was opened by that path before and is still in use. A path without '/'
 * is a file of the current directory. On failure nothing stays open and lib->error says why: NOT_FOUND: no such file; INCOMPATIBLE: not an
 * artifact, or older than this header; DAMAGED: cut off, or its code or tables are not what was built (looked at before anything of the
 * file is loaded; aotc_file_check looks at the weights too); WRONG_STATE: the file was written over while what it was before is still open
 * (copy to another name and rename it), or another takes its place all the time. */
static inline aotc_status aotc_library_load(const char* path, aotc_library* lib) {
  char local[AOTC_LOAD_PATH];
  aotc_get_api_fn get;
  aotc_status status = AOTC_WRONG_STATE;
  int tries;
  memset(lib, 0, sizeof *lib);
  if (!strchr(path, '/')) {
    snprintf(local, sizeof local, "./%s", path);
    path = local;
  }
  for (tries = 0; status == AOTC_WRONG_STATE && tries < AOTC_LOAD_TRIES; ++tries) status = aotc_dlopen_checked(path, tries, lib);
  if (status != AOTC_OK) return status;
  *(void**)&get = dlsym(lib->handle, "aotc_get_api");
  lib->api = get ? get(AOTC_ABI_VERSION) : NULL;
  if (lib->api) return AOTC_OK;
  snprintf(lib->error, sizeof lib->error, get ? "%.400s is older than this program: build it again" : "%.400s is not an artifact of aotc",
           path);
  aotc_library_close(lib);
  return AOTC_INCOMPATIBLE;
}

/* aotc_library_load, and asks the artifact whether this machine can run it on that device: INCOMPATIBLE: not on this machine; DEVICE: the
 * driver failed. */
static inline aotc_status aotc_library_open(const char* path, int32_t device, aotc_library* lib) {
  aotc_status status = aotc_library_load(path, lib);
  if (status != AOTC_OK) return status;
  status = lib->api->probe(device);
  if (status != AOTC_OK) {
    snprintf(lib->error, sizeof lib->error, "%.120s: %.380s", path, lib->api->last_error());
    aotc_library_close(lib);
  }
  return status;
}

/* 1 when the artifact has that function of the table: for functions newer than version 1. */
#define AOTC_HAS(api, function) ((api)->struct_size > offsetof(aotc_api, function) && (api)->function)

#ifdef __cplusplus
}
#endif
#endif
