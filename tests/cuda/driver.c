/* A libcuda.so.1 whose device is the host: kernels compiled for the host over emulator.h, from the shared object that AOTC_EMULATED_KERNELS
 * names, whatever image is loaded; where it names none, the images are such shared objects themselves (host_nvrtc.c). For
 * tests/gpu/emulate.py. Device memory lies between guards that are checked when it is freed; there are AOTC_EMULATED_BYTES of it (a
 * terabyte). Work is done late (streams.h), unless AOTC_EMULATED_AT_ONCE is set. */
#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "streams.h"
#include "tensor_map.h"

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_FOUND = 500, GUARD = 4096 };
typedef struct Function {
  void (*run)(const void*);
  unsigned cluster;
  void (*launch)(void (*)(const void*), unsigned, const unsigned*, const unsigned*, unsigned, const void*);
  char* name;
} Function;
/* What has been launched, for fake_cupti.c: told and forgotten. */
enum { MOST_LAUNCHES = 4096 };
static struct {
  const char* name;
  unsigned grid[3], block[3], shared;
} launched[MOST_LAUNCHES];
static int n_launched;
int emulated_launches(const void** rows) {
  const int n = n_launched;
  *rows = launched;
  n_launched = 0;
  return n;
}
static char tag;

/* As many as CUDA_VISIBLE_DEVICES names, one without it; all are the host. */
static int devices(void) {
  const char* named = getenv("CUDA_VISIBLE_DEVICES");
  int n = !named || (*named && *named != '-');
  for (; named && *named; ++named) n += *named == ',';
  return n;
}
int cuInit(unsigned flags) { return late = !getenv("AOTC_EMULATED_AT_ONCE"), flags ? INVALID_VALUE : devices() ? OK : NO_DEVICE; }
int cuGetErrorString(int code, const char** text) { return (void)code, *text = "the emulated GPU refused", OK; }
int cuDeviceGetCount(int* n) { return *n = devices(), OK; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal >= 0 && ordinal < devices() ? OK : INVALID_DEVICE; }
int cuDeviceGetName(char* name, int n, int device) { return (void)device, snprintf(name, (size_t)n, "an emulated GPU"), OK; }
int cuDeviceGetAttribute(int* value, int attribute, int device) { return (void)device, *value = attribute == 75 ? 9 : 0, OK; }
int cuDevicePrimaryCtxRetain(void** context, int device) { return (void)device, *context = &tag, OK; }
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, OK; }
int cuCtxPushCurrent_v2(void* context) { return (void)context, OK; }
int cuCtxPopCurrent_v2(void** context) { return *context = &tag, OK; }
int cuCtxSetCurrent(void* context) { return (void)context, OK; }

static char* guarded(size_t bytes) {
  char* p = aligned_alloc(256, (bytes + 2 * GUARD + 511) / 256 * 256);
  if (!p) return NULL;
  memset(p, 0xa5, bytes + 2 * GUARD);
  *(size_t*)p = bytes;
  return p + GUARD;
}
static void release(char* p) {
  char* base = p - GUARD;
  const size_t bytes = *(size_t*)base;
  size_t i;
  for (i = sizeof bytes; i < GUARD; ++i)
    if (base[i] != (char)0xa5 || p[bytes + i - sizeof bytes] != (char)0xa5) {
      fprintf(stderr, "emulated GPU: a kernel wrote beside a block of %zu bytes\n", bytes);
      abort();
    }
  free(base);
}
/* Memory of the host that the device copies from by itself. */
enum { MOST_PINNED = 1024 };
static struct {
  const char* base;
  size_t bytes;
} pinned[MOST_PINNED];
static int is_pinned(const void* p) {
  int i;
  for (i = 0; i < MOST_PINNED; ++i)
    if (pinned[i].base && (const char*)p >= pinned[i].base && (const char*)p < pinned[i].base + pinned[i].bytes) return 1;
  return 0;
}
static size_t device_bytes(void) {
  const char* given = getenv("AOTC_EMULATED_BYTES");
  return given ? strtoull(given, NULL, 10) : (size_t)1 << 40;
}
static size_t in_use;
int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  LOCKED;
  *total = device_bytes();
  return *free_bytes = *total > in_use ? *total - in_use : 0, OK;
}
int cuMemAlloc_v2(uint64_t* p, size_t bytes) {
  LOCKED;
  if (in_use + bytes > device_bytes() || !(*p = (uint64_t)guarded(bytes))) return OUT_OF_MEMORY;
  in_use += bytes;
  return OK;
}
int cuMemFree_v2(uint64_t p) {
  LOCKED;
  force_all();
  in_use -= *(size_t*)((char*)p - GUARD);
  return release((char*)p), OK;
}
int cuMemHostAlloc(void** p, size_t bytes, unsigned flags) {
  int i = 0;
  LOCKED;
  (void)flags;
  while (i < MOST_PINNED && pinned[i].base) ++i;
  if (i == MOST_PINNED || !(*p = guarded(bytes))) return OUT_OF_MEMORY;
  pinned[i].base = *p, pinned[i].bytes = bytes;
  return OK;
}
int cuMemFreeHost(void* p) {
  int i;
  LOCKED;
  if (force_before_free((uint64_t)p, *(size_t*)((char*)p - GUARD))) {
    fprintf(stderr, "emulated GPU: pinned memory is freed that a copy in a queue uses\n");
    abort();
  }
  for (i = 0; i < MOST_PINNED; ++i)
    if (pinned[i].base == p) pinned[i].base = NULL;
  return release(p), OK;
}
static void work_do(const work* w) {
  const Function* f = w->function;
  if (w->kind == WORK_KERNEL)
    f->launch(f->run, f->cluster, w->grid, w->block, w->shared, w->arguments);
  else if (w->kind == WORK_FILL)
    memset((void*)w->to, w->value, w->bytes);
  else
    memmove((void*)w->to, (const void*)w->from, w->bytes);
}
static int queue_copy(int kind, uint64_t to, uint64_t from, size_t n, void* stream) {
  const work w = {.kind = kind, .to = to, .from = from, .bytes = n};
  LOCKED;
  return work_queue(stream, &w), OK;
}
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t n) {
  LOCKED;
  return force_all(), memcpy((void*)to, from, n), OK;
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t n) {
  LOCKED;
  return force_all(), memcpy(to, (void*)from, n), OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t n, void* s) { return queue_copy(WORK_UPLOAD, to, (uint64_t)from, n, s); }
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t n, void* s) {
  LOCKED;
  queue_copy(WORK_COPY, (uint64_t)to, from, n, s);
  if (!is_pinned(to)) force(queue_of(s), NULL, 0);
  return OK;
}
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t n, void* s) { return queue_copy(WORK_COPY, to, from, n, s); }
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void* s) { return queue_copy(WORK_COPY, to, from, n, s); }
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void* s) {
  const work w = {.kind = WORK_FILL, .to = to, .value = value, .bytes = n};
  LOCKED;
  return work_queue(s, &w), OK;
}
int cuStreamIsCapturing(void* stream, int* out) { return (void)stream, *out = 0, OK; }
int cuPointerGetAttribute(void* out, int attribute, uint64_t p) {
  return (void)p, *(int*)out = attribute == 2 ? 2 : 0, attribute == 2 || attribute == 9 ? OK : INVALID_VALUE;
}
int cuEventCreate(void** out, unsigned flags) { return (void)flags, *out = calloc(1, sizeof(event)), OK; }
int cuEventDestroy_v2(void* e) {
  LOCKED;
  return force_all(), free(e), OK;
}
int cuEventRecord(void* e, void* stream) {
  LOCKED;
  return event_record(e, stream);
}
int cuStreamWaitEvent(void* stream, void* e, unsigned flags) {
  LOCKED;
  return flags ? INVALID_VALUE : event_follow(stream, e);
}
int cuEventSynchronize(void* e) {
  const event* at = e;
  LOCKED;
  if (at->recorded) force(at->queue, at, at->recorded);
  return OK;
}
int cuEventElapsedTime(float* ms, void* from, void* to) { return (void)from, (void)to, *ms = 0, OK; }
int cuStreamCreate(void** stream, unsigned flags) { return (void)flags, *stream = malloc(1), OK; }
int cuStreamDestroy_v2(void* s) {
  LOCKED;
  return queue_end(s), free(s), OK;
}
int cuStreamSynchronize(void* stream) {
  LOCKED;
  return force(queue_of(stream), NULL, 0), OK;
}
int cuStreamBeginCapture_v2(void* stream, int mode) { return (void)stream, (void)mode, INVALID_VALUE; }
int cuStreamEndCapture(void* stream, void** graph) { return (void)stream, *graph = NULL, INVALID_VALUE; }

/* A shared object ends with its section headers. */
static void* open_image(const void* image) {
  const Elf64_Ehdr* e = image;
  char path[] = "/tmp/aotc_emulated_XXXXXX"; /* each its own: dlopen knows what is open by the name */
  void* module = NULL;
  if (memcmp(e->e_ident, ELFMAG, SELFMAG) || e->e_machine != EM_X86_64) return NULL;
  const size_t bytes = e->e_shoff + (size_t)e->e_shnum * e->e_shentsize;
  const int file = mkstemp(path);
  if (file >= 0 && write(file, image, bytes) == (ssize_t)bytes) module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (file >= 0) close(file), unlink(path);
  return module;
}
int cuModuleLoadData(void** module, const void* image) {
  const char* path = getenv("AOTC_EMULATED_KERNELS");
  *module = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : open_image(image);
  if (!*module)
    fprintf(stderr, "emulated GPU: %s\n", path ? dlerror() : "AOTC_EMULATED_KERNELS is not set, and the image is none of the host's");
  return *module ? OK : NOT_FOUND;
}
int cuModuleUnload(void* module) {
  LOCKED;
  return force_all(), dlclose(module), OK;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  char symbol[512];
  Function* f = malloc(sizeof *f); /* as long as the process */
  snprintf(symbol, sizeof symbol, "%s_host", name);
  *(void**)&f->run = dlsym(module, symbol);
  snprintf(symbol, sizeof symbol, "%s_cluster", name);
  f->cluster = f->run ? *(const unsigned*)dlsym(module, symbol) : 0;
  *(void**)&f->launch = dlsym(module, "aotc_host_launch");
  f->name = strdup(name);
  *function = f;
  return f->run ? OK : NOT_FOUND;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function;
  return attribute == 8 && value <= 227 * 1024 ? OK : INVALID_VALUE;
}
static int tensor(EmulatedMap* m, int type, uint32_t rank, void* data, const uint64_t* dims, const uint64_t* strides, int interleave,
                  int swizzle, int fill) {
  uint32_t d;
  memset(m, 0, sizeof *m);
  if (rank < 2 || rank > 5 || (uint64_t)data % 16 || interleave || fill || swizzle < 0 || swizzle > 3) return INVALID_VALUE;
  m->data = (uint64_t)data, m->rank = (uint8_t)rank, m->swizzle = (uint8_t)swizzle, m->bytes = type == 7 ? 4 : type == 0 ? 1 : 2;
  for (d = 0; d < rank; ++d) {
    if (dims[d] < 1 || dims[d] > UINT32_MAX) return INVALID_VALUE;
    if (d > 0 && (strides[d - 1] % 16 || strides[d - 1] >> 40)) return INVALID_VALUE;
    m->dims[d] = (uint32_t)dims[d];
    if (d > 0) m->strides[d - 1] = strides[d - 1];
  }
  return OK;
}
static int made(void* map, const EmulatedMap* m) {
  if (m->box[0] * m->bytes % 16 || (m->swizzle && m->box[0] * m->bytes > 16u << m->swizzle)) return INVALID_VALUE;
  memset(map, 0, 128);
  memcpy(map, m, sizeof *m);
  return OK;
}
int cuTensorMapEncodeTiled(void* map, int type, uint32_t rank, void* data, const uint64_t* dims, const uint64_t* strides,
                           const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill) {
  EmulatedMap m;
  uint32_t d;
  (void)promotion;
  if (tensor(&m, type, rank, data, dims, strides, interleave, swizzle, fill)) return INVALID_VALUE;
  for (d = 0; d < rank; ++d) {
    if (box[d] < 1 || box[d] > 256 || steps[d] != 1) return INVALID_VALUE;
    m.box[d] = (uint16_t)box[d];
  }
  return made(map, &m);
}
int cuTensorMapEncodeIm2col(void* map, int type, uint32_t rank, void* data, const uint64_t* dims, const uint64_t* strides, const int* lower,
                            const int* upper, uint32_t channels, uint32_t pixels, const uint32_t* steps, int interleave, int swizzle,
                            int promotion, int fill) {
  static const int kCorner[] = {32768, 128, 16};
  EmulatedMap m;
  uint32_t d;
  (void)promotion;
  if (rank < 3 || tensor(&m, type, rank, data, dims, strides, interleave, swizzle, fill)) return INVALID_VALUE;
  if (channels < 1 || channels > 256 || pixels < 1 || pixels > 1024 || steps[0] != 1 || steps[rank - 1] != 1) return INVALID_VALUE;
  m.windows = 1, m.box[0] = (uint16_t)channels, m.box[1] = (uint16_t)pixels;
  for (d = 0; d < rank - 2; ++d) {
    const int most = kCorner[rank - 3];
    if (lower[d] < -most || lower[d] >= most || upper[d] < -most || upper[d] >= most) return INVALID_VALUE;
    if (steps[d + 1] < 1 || steps[d + 1] > 8) return INVALID_VALUE;
    m.lower[d] = (int16_t)lower[d], m.upper[d] = (int16_t)upper[d], m.steps[d] = (uint8_t)steps[d + 1];
  }
  return made(map, &m);
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void** extra) {
  work w = {.kind = WORK_KERNEL, .function = function, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};
  const Function* f = function;
  LOCKED;
  (void)extra;
  if (!gx || !gy || !gz || gy > 65535 || gz > 65535 || bx * by * bz == 0 || bx * by * bz > 1024 || shared > 227 * 1024)
    return INVALID_VALUE;
  if (n_launched < MOST_LAUNCHES) {
    launched[n_launched].name = f->name, launched[n_launched].shared = shared;
    memcpy(launched[n_launched].grid, w.grid, sizeof w.grid), memcpy(launched[n_launched++].block, w.block, sizeof w.block);
  }
  memcpy(w.arguments, parameters[0], sizeof w.arguments);
  return work_queue(stream, &w), OK;
}

#define TRY_READY LOCKED
#include "graphs.h"
