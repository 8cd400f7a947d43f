#include "cuda_driver.h"

#include <dlfcn.h>
#include <errno.h>

#include "atomic.h"
#include "status.h"

namespace aotc::rt {
namespace {

constexpr CUresult kNotInitialized = 3, kNoDevice = 100;

/// After these the context is beyond use: every later call of the driver fails.
constexpr CUresult kLost[] = {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719};

}  // namespace

const char* error_text(const Driver& driver, CUresult code) {
  const char* text = nullptr;
  return driver.error_text(code, &text) == kSuccess && text ? text : "unknown error";
}

aotc_status cuda_check(Cuda* cuda, CUresult code, const char* doing, const char* at) {
  if (__builtin_expect(code == kSuccess, 1)) return AOTC_STATUS_OK;
  aotc_status status = AOTC_STATUS_DEVICE;
  for (CUresult lost : kLost)
    if (code == lost) {
      store_release(&cuda->lost, code);
      status = AOTC_STATUS_DEVICE_LOST;
    }
  return fail(status, "CUDA error %d while %s%s%s: %s", code, doing, at ? ", at " : "", at ? at : "", error_text(cuda->driver, code));
}

aotc_status load_driver(Driver* out) {
  const int saved = errno;
  // Never unloaded: the driver has threads of its own.
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  errno = saved;
  if (!library) {
    const char* why = dlerror();
    return fail(AOTC_STATUS_INCOMPATIBLE, "this artifact needs a GPU, but the machine has no CUDA driver (%s)", why ? why : "libcuda.so.1");
  }
#define AOTC_X(member, name, arguments)                           \
  *reinterpret_cast<void**>(&out->member) = dlsym(library, name); \
  if (!out->member) return fail(AOTC_STATUS_INCOMPATIBLE, "the CUDA driver of this machine is too old: it lacks %s", name);
  AOTC_CUDA_FUNCTIONS(AOTC_X)
#undef AOTC_X
#define AOTC_X(member, name, arguments) *reinterpret_cast<void**>(&out->member) = dlsym(library, name);
  AOTC_CUDA_NEWER_FUNCTIONS(AOTC_X)
#undef AOTC_X
  const CUresult code = out->init(0);
  if (code == kSuccess) return AOTC_STATUS_OK;
  if (code == kNotInitialized)
    return fail(AOTC_STATUS_DEVICE, "CUDA cannot be used here: in a process forked after CUDA was started it never can");
  return fail(code == kNoDevice ? AOTC_STATUS_INCOMPATIBLE : AOTC_STATUS_DEVICE, "this artifact needs a GPU, but CUDA does not start: %s",
              error_text(*out, code));
}

}  // namespace aotc::rt
