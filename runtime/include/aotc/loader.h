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

/* Opens the artifact and asks it whether this machine can run it on that device. A path without '/' is a file of the current directory.
 * On failure nothing stays open and lib->error says why: NOT_FOUND: no such artifact; INCOMPATIBLE: not an artifact, older than this
 * header, or not for this machine; DAMAGED: cut off, or its code or tables are not what was built (looked at before anything of the file is
 * loaded; aotc_file_check looks at the weights too); DEVICE: the driver failed. */
static inline aotc_status aotc_library_open(const char* path, int32_t device, aotc_library* lib) {
  char local[4096];
  aotc_get_api_fn get;
  aotc_status status;
  memset(lib, 0, sizeof *lib);
  if (!strchr(path, '/')) {
    snprintf(local, sizeof local, "./%s", path);
    path = local;
  }
  status = aotc_file_check(path, AOTC_CHECK_CODE, NULL, lib->error, sizeof lib->error);
  if (status != AOTC_OK) return status;
  lib->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!lib->handle) {
    const char* why = dlerror();
    snprintf(lib->error, sizeof lib->error, "%.500s", why ? why : "dlopen failed");
    return AOTC_NOT_FOUND;
  }
  *(void**)&get = dlsym(lib->handle, "aotc_get_api");
  lib->api = get ? get(AOTC_ABI_VERSION) : NULL;
  if (!lib->api) {
    snprintf(lib->error, sizeof lib->error, get ? "%.400s is older than this program: build it again" : "%.400s is not an artifact of aotc",
             path);
    aotc_library_close(lib);
    return AOTC_INCOMPATIBLE;
  }
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
