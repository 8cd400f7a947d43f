/* A stand-in for libcuda.so.1 on machines without a GPU: two devices whose memory is host memory, a launch runs a C function at once.
 * Checks what a real driver would: a current context for every call, copies and kernels within blocks of that device that are alive.
 * Steered by the fake_ functions. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_CONTEXT = 201,
  ILLEGAL_ADDRESS = 700,
  CAPTURE_UNSUPPORTED = 900,
  MAX_BLOCKS = 1024
};
enum { DEVICES = 2 };

static struct {
  char* base;
  size_t bytes;
  int device, host;
} blocks[MAX_BLOCKS];
static void* stack[16];
static int depth, retained, lost, fail_launch, fail_wait, launches, overlapping, encoded, minor_version, major_version = 9, events_alive,
                                                                                                         streams_alive, waits;
static int calls_until_failure = -1, failure;
static void* capturing;
static int launches_until_set = -1;
static int32_t* set_word;
static char context_tags[DEVICES];

void fake_arch(int major, int minor) { major_version = major, minor_version = minor; }
void fake_fail_next_launch(int code) { fail_launch = code; }
void fake_fail_next_wait(int code) { fail_wait = code; }
void* fake_context(int device) { return &context_tags[device]; }
/* The call of the driver after `calls` more that can fail does, with `code`; once. calls < 0: none. */
void fake_fail_call(int calls, int code) { calls_until_failure = calls, failure = code; }
int fake_failure_pending(void) { return calls_until_failure >= 0; }
void fake_revive(void) { lost = 0; }
void fake_capture(void* stream) { capturing = stream; } /* the stream that the caller captures; NULL: none */
/* The launch after `launches` more sets *word to 1; once. */
void fake_set_at_launch(int after, int32_t* word) { launches_until_set = after, set_word = word; }
int fake_launches(void) { return launches; }
int fake_overlapping(void) { return overlapping; } /* launches that may start before the one before has ended */
int fake_encoded(void) { return encoded; }         /* tensor maps made */
int fake_depth(void) { return depth; }
int fake_retained(void) { return retained; }
int fake_events(void) { return events_alive; }
int fake_streams(void) { return streams_alive; }
int fake_waits(void) { return waits; }
int fake_blocks(void) {
  int n = 0, i;
  for (i = 0; i < MAX_BLOCKS; ++i) n += blocks[i].base != NULL;
  return n;
}

static int current(void) { return (int)((char*)stack[depth - 1] - context_tags); }
static int ready_anywhere(void) {
  if (calls_until_failure >= 0 && calls_until_failure-- == 0) {
    if (failure == ILLEGAL_ADDRESS) lost = failure;
    return failure;
  }
  return lost;
}
static int ready(void) {
  const int status = ready_anywhere();
  return status ? status : depth == 0 || current() < 0 || current() >= DEVICES ? INVALID_CONTEXT : OK;
}
#define TRY_READY                \
  do {                           \
    const int status_ = ready(); \
    if (status_) return status_; \
  } while (0)
static int block_of(uint64_t p, size_t n) {
  int i;
  for (i = 0; i < MAX_BLOCKS; ++i)
    if (blocks[i].base && (char*)p >= blocks[i].base && (char*)p + n <= blocks[i].base + blocks[i].bytes) return i;
  return -1;
}
static int within(uint64_t p, size_t n) {
  const int i = block_of(p, n);
  return i >= 0 && (blocks[i].host || blocks[i].device == current());
}
static int illegal(void) { return lost = ILLEGAL_ADDRESS; }

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : ready_anywhere(); }
int cuGetErrorString(int code, const char** text) {
  *text = code == ILLEGAL_ADDRESS   ? "an illegal memory access was encountered"
          : code == INVALID_CONTEXT ? "invalid device context"
                                    : "fake error";
  return OK;
}
int cuDeviceGetCount(int* n) { return *n = DEVICES, ready_anywhere(); }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ready_anywhere(); }
int cuDeviceGetName(char* name, int n, int device) {
  (void)device;
  strncpy(name, "Fake GPU", (size_t)n);
  return OK;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? major_version : attribute == 76 ? minor_version : 0;
  return ready_anywhere();
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  const int status = ready_anywhere();
  if (status) return status;
  ++retained;
  *context = &context_tags[device];
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  --retained;
  return OK;
}
int cuCtxPushCurrent_v2(void* context) {
  const int status = ready_anywhere();
  if (status && !lost) return status; /* a lost context can be made current */
  return stack[depth++] = context, OK;
}
int cuCtxPopCurrent_v2(void** context) { return *context = stack[--depth], OK; }
int cuModuleLoadData(void** module, const void* image) {
  TRY_READY;
  return *module = (void*)image, OK;
}
int cuModuleUnload(void* module) { return (void)module, lost; }
int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function;
  return attribute == 8 && value > 48 * 1024 ? ready() : INVALID_VALUE;
}
int cuMemAlloc_v2(uint64_t* p, size_t bytes) {
  int i = 0;
  TRY_READY;
  if (bytes > (1u << 24)) return OUT_OF_MEMORY;
  while (blocks[i].base) ++i;
  blocks[i].base = aligned_alloc(256, (bytes + 255) / 256 * 256);
  blocks[i].bytes = bytes;
  blocks[i].device = current();
  blocks[i].host = 0;
  memset(blocks[i].base, 0x5a, bytes);
  return *p = (uint64_t)blocks[i].base, OK;
}
int cuMemFree_v2(uint64_t p) {
  const int i = block_of(p, 0);
  if (i < 0 || (uint64_t)blocks[i].base != p) abort();
  free(blocks[i].base);
  blocks[i].base = NULL;
  return lost;
}
int cuMemHostAlloc(void** p, size_t bytes, unsigned flags) {
  uint64_t at = 0;
  const int status = cuMemAlloc_v2(&at, bytes);
  (void)flags;
  if (status) return status;
  blocks[block_of(at, 0)].host = 1;
  return *p = (void*)at, OK;
}
int cuMemFreeHost(void* p) { return cuMemFree_v2((uint64_t)p); }
int cuPointerGetAttribute(void* out, int attribute, uint64_t p) {
  const int i = block_of(p, 0);
  TRY_READY;
  if (i < 0) return INVALID_VALUE;
  *(int*)out = attribute == 2 ? (blocks[i].host ? 1 : 2) : blocks[i].device;
  return attribute == 2 || attribute == 9 ? OK : INVALID_VALUE;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t n, void* stream) {
  (void)stream;
  TRY_READY;
  return within(to, n) ? (memcpy((void*)to, from, n), OK) : illegal();
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t n, void* stream) {
  (void)stream;
  TRY_READY;
  return within(from, n) ? (memcpy(to, (void*)from, n), OK) : illegal();
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void* stream) {
  (void)stream;
  TRY_READY;
  return within(from, n) && within(to, n) ? (memcpy((void*)to, (void*)from, n), OK) : illegal();
}
/* Either side may be memory of the host, which has no bounds here. */
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t n, void* stream) {
  (void)stream;
  TRY_READY;
  return memmove((void*)to, (void*)from, n), OK;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void* stream) {
  (void)stream;
  TRY_READY;
  return within(to, n) ? (memset((void*)to, value, n), OK) : illegal();
}
int cuStreamCreate(void** stream, unsigned flags) {
  TRY_READY;
  if (flags != 1) return INVALID_VALUE; /* others wait for the caller's streams */
  ++streams_alive;
  return *stream = calloc(1, 1), OK;
}
int cuStreamDestroy_v2(void* stream) { return free(stream), --streams_alive, lost; }
int cuStreamSynchronize(void* stream) {
  TRY_READY;
  ++waits;
  if (fail_wait) {
    lost = fail_wait;
    fail_wait = 0;
    return lost;
  }
  return capturing && stream == capturing ? CAPTURE_UNSUPPORTED : OK;
}
int cuStreamIsCapturing(void* stream, int* out) {
  TRY_READY;
  return *out = capturing && stream == capturing, OK;
}

static double clock_ms;
int cuEventCreate(void** event, unsigned flags) {
  TRY_READY;
  ++events_alive;
  return *event = calloc(1, sizeof(double)), (int)flags;
}
int cuEventDestroy_v2(void* event) { return free(event), --events_alive, lost; }
int cuEventRecord(void* event, void* stream) {
  (void)stream;
  TRY_READY;
  return *(double*)event = clock_ms += 0.001, OK; /* a microsecond between two */
}
int cuEventSynchronize(void* event) { return (void)event, ready(); }
int cuEventElapsedTime(float* ms, void* from, void* to) {
  TRY_READY;
  return *ms = (float)(*(double*)to - *(double*)from), OK;
}

/* A tensor map: what was asked for, within the 128 bytes of a real one. */
typedef struct fake_map {
  float* data;
  uint64_t dims[2], stride;
  uint32_t box[2];
  int type, rank, swizzle;
} __attribute__((aligned(64))) fake_map;
int cuTensorMapEncodeTiled(void* out, int type, uint32_t rank, void* data, const uint64_t* dims, const uint64_t* strides,
                           const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int fill) {
  uint32_t d;
  fake_map m = {.data = data, .stride = strides[0], .type = type, .rank = (int)rank, .swizzle = swizzle};
  TRY_READY;
  if ((uint64_t)out % 64 || (uint64_t)data % 16 || rank != 2 || interleave || promotion > 3 || fill) return INVALID_VALUE;
  for (d = 0; d < rank; ++d) {
    if (dims[d] == 0 || box[d] == 0 || box[d] > 256 || steps[d] != 1) return INVALID_VALUE;
    m.dims[d] = dims[d], m.box[d] = box[d];
  }
  ++encoded;
  memset(out, 0, 128);
  memcpy(out, &m, sizeof m);
  return OK;
}

/* The kernels of toy_gpu.c. */
typedef struct scale_args {
  int* fault;
  void* scratch;
  void* ptr[4];
  int64_t size[2];
  fake_map x;
} scale_args;
static void scale(const scale_args* a, unsigned grid) {
  const float* x = (const float*)a->ptr[0];
  const int64_t* idx = (const int64_t*)a->ptr[1];
  const float* table = (const float*)a->ptr[2];
  float* out = (float*)a->ptr[3];
  int64_t r;
  if (grid != (unsigned)((a->size[0] + 3) / 4)) abort();
  if (!within((uint64_t)x, (size_t)a->size[0] * 32) || !within((uint64_t)out, (size_t)a->size[0] * 32)) {
    illegal();
    return;
  }
  if (a->x.data != x || a->x.dims[0] != 8 || a->x.dims[1] != (uint64_t)a->size[0] || a->x.stride != 32 || a->x.box[0] != 8 ||
      a->x.box[1] != 64 || a->x.type != 7 || a->x.swizzle != 1)
    abort();
  for (r = 0; r < a->size[0]; ++r)
    if (idx[r] < 0 || idx[r] >= a->size[1])
      *a->fault = 1;
    else
      for (int c = 0; c < 8; ++c) out[r * 8 + c] = x[r * 8 + c] * table[idx[r]];
}
typedef struct count_args {
  int* fault;
  void* scratch;
  void* ptr[1];
  int64_t size[1];
} count_args;
static void count(const count_args* a, unsigned grid) {
  (void)grid;
  ++*(int64_t*)a->ptr[0];
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (!strstr((const char*)module, name)) return 500; /* its code is in another cubin */
  *function = strcmp(name, "scale") == 0 ? (void*)scale : strcmp(name, "count") == 0 ? (void*)count : NULL;
  return *function ? ready() : 500;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void** extra) {
  (void)stream, (void)extra, (void)shared, (void)gy, (void)gz;
  TRY_READY;
  if (fail_launch) {
    lost = fail_launch;
    fail_launch = 0;
    return lost;
  }
  if (bx * by * bz == 0) return INVALID_VALUE;
  ++launches;
  if (launches_until_set >= 0 && launches_until_set-- == 0) *set_word = 1;
  ((void (*)(const void*, unsigned))function)(parameters[0], gx);
  return OK;
}

typedef struct launch_config {
  unsigned grid[3], block[3], shared;
  void* stream;
  struct {
    int id, pad;
    union {
      int value;
      char bytes[64];
    } of;
  } * attributes;
  unsigned n_attributes;
} launch_config;
int cuLaunchKernelEx(const launch_config* c, void* function, void** parameters, void** extra) {
  if (c->n_attributes != 1 || c->attributes[0].id != 6 || c->attributes[0].of.value != 1) return INVALID_VALUE;
  ++overlapping;
  return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, c->stream,
                        parameters, extra);
}

#include "cuda/graphs.h"
