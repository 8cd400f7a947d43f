#include "nvtx.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "atomic.h"

// The binary interface between a program with NVTX 3 and a tool, by nvtx3/nvtxDetail/nvtxTypes.h and nvToolsExt.h of the package
// nvidia-nvtx.
namespace aotc::rt {
namespace {

using Function = void (*)();

constexpr uint32_t kTableCallbacks = 1, kTableVersion = 3;  ///< NvtxExportTableID
constexpr uint32_t kModules = 7, kFunctions = 16;           ///< NvtxCallbackModule; the longest of their lists of functions
constexpr uint32_t kCore2 = 5;                              ///< the module of functions with a domain
constexpr uint32_t kPush = 4, kPop = 5, kCreate = 12;       ///< NvtxCallbackIdCore2
/// The last function of each module.
constexpr uint32_t kLast[kModules] = {0, 15, 8, 14, 6, 15, 6};
constexpr uint16_t kVersion = 3;
constexpr int32_t kAscii = 1;  ///< nvtxMessageType_t

struct ExportCallbacks {
  size_t struct_size;
  int (*get_module)(int module, Function*** table, unsigned* last);
};
struct ExportVersion {
  size_t struct_size;
  uint32_t version, reserved;
  void (*set_version_of_tool)(uint32_t);
};
/// nvtxEventAttributes_v2.
struct Event {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const char* message;
};
static_assert(sizeof(Event) == 48);

// What a tool is given addresses of and writes to, now and later: it has to outlive every model.
Function functions[kModules][kFunctions];
Function* addresses[kModules][kFunctions];

int get_module(int module, Function*** table, unsigned* last) {
  if (module <= 0 || module >= static_cast<int>(kModules)) return 0;
  if (table) *table = addresses[module];
  if (last) *last = kLast[module];
  return 1;
}

void set_version_of_tool(uint32_t) {}

const ExportCallbacks callbacks = {sizeof(ExportCallbacks), get_module};
const ExportVersion version = {sizeof(ExportVersion), kVersion, 0, set_version_of_tool};

const void* export_table(uint32_t id) {
  return id == kTableCallbacks ? static_cast<const void*>(&callbacks) : id == kTableVersion ? &version : nullptr;
}

template <class F>
F function(uint32_t id) {
  return reinterpret_cast<F>(load_relaxed(&functions[kCore2][id]));
}

}  // namespace

struct Nvtx {
  void* domain;
};

namespace {

enum State : uint32_t { unknown, attaching, absent, attached };
uint32_t state = unknown;
Nvtx tool;

State attach() {
  const char* const path = getenv("NVTX_INJECTION64_PATH");
  if (!path || !*path) return absent;
  void* const library = dlopen(path, RTLD_LAZY);
  if (!library) return absent;
  for (uint32_t m = 1; m < kModules; ++m)
    for (uint32_t f = 1; f <= kLast[m]; ++f) addresses[m][f] = &functions[m][f];
  using Initialize = int (*)(const void* (*)(uint32_t));
  const Initialize initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  if (!initialize || !initialize(export_table)) {
    dlclose(library);
    return absent;
  }
  using Create = void* (*)(const char*);
  if (!function<Function>(kPush) || !function<Function>(kPop)) return absent;
  if (const Create create = function<Create>(kCreate)) tool.domain = create("aotc");
  return attached;
}

}  // namespace

const Nvtx* nvtx_attach() {
  uint32_t seen = unknown;
  if (compare_exchange<uint32_t>(&state, &seen, attaching)) {
    const int saved = errno;
    seen = attach();
    errno = saved;
    store_release(&state, seen);
  }
  while (seen == attaching) {
    sched_yield();
    seen = load_acquire(&state);
  }
  return seen == attached ? &tool : nullptr;
}

void nvtx_push(const Nvtx& t, const char* name) {
  const Event event = {kVersion, sizeof(Event), 0, 0, 0, 0, 0, 0, kAscii, name ? name : ""};
  using Push = int (*)(void*, const Event*);
  function<Push>(kPush)(t.domain, &event);
}

void nvtx_pop(const Nvtx& t) {
  using Pop = int (*)(void*);
  function<Pop>(kPop)(t.domain);
}

}  // namespace aotc::rt
