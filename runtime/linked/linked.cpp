// A model that is linked into a program (aotc build --emit static): in the place of src/seal.cpp, and of the loader of shared objects,
// which static programs do not have. The program's file is the user's own and has no seal.
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "aotc/detail/blob_hash.h"
#include "aotc/detail/plan_format.h"
#include "seal.h"
#include "status.h"

#define AOTC_HIDDEN extern "C" __attribute__((visibility("hidden")))

// Hidden, so that the archive asks for none of the C library's: there is no code for GPUs whose driver it would open.
AOTC_HIDDEN void* dlopen(const char*, int) noexcept { return nullptr; }
AOTC_HIDDEN void* dlsym(void*, const char*) noexcept { return nullptr; }
AOTC_HIDDEN char* dlerror() noexcept {
  static char why[] = "a model that is linked into a program has no code for GPUs";
  return why;
}

namespace aotc::rt {

aotc_status seal_check(bool all) {
  if (!all || !aotc_module.weights_begin) return AOTC_STATUS_OK;
  if (aotc_blob_hash(aotc_module.weights_begin, aotc_module.weights_bytes) == aotc_module.weights_hash) return AOTC_STATUS_OK;
  return fail(AOTC_STATUS_DAMAGED, "the program is damaged: the model's weights in it are not what was built");
}

uint64_t seal_weights_hash() { return aotc_module.weights_hash; }

uint64_t seal_self_hash() { return 0; }

const char* own_path(char* buffer) {
  Dl_info info;  // of a shared object that the model was linked into; of a program it is as the shell was told, or nothing
  if (dladdr(&aotc_module, &info) != 0 && info.dli_fname && info.dli_fname[0] == '/') return info.dli_fname;
  const ssize_t n = readlink("/proc/self/exe", buffer, kPathMax - 1);
  if (n <= 0) return nullptr;
  buffer[n] = 0;
  return buffer;
}

bool is_of_descriptor(const char*) { return false; }

}  // namespace aotc::rt
