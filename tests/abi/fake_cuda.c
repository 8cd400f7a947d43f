/* A stand-in for libcuda.so.1 on machines without a GPU: two devices whose memory is host memory, a launch runs a C function at once.
 * Checks what a real driver would: a current context for every call, copies and kernels within blocks of that device that are alive.
 * Steered by the fake_ functions; after fake_late(1) work is done late (streams.h), by several threads' calls, too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/streams.h"

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
static _Thread_local void* stack[16];
static _Thread_local int depth;
static int running = -1; /* the device of work that is done late */
static size_t free_bytes = (size_t)1 << 40;
static int retained, lost, fail_launch, fail_wait, launches, overlapping, encoded, minor_version, major_version = 9, events_alive,
                                                                                                         streams_alive, waits;
static int calls_until_failure = -1, failure;
static void* capturing;
static int apart, early, freed_in_use;
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
/* The stream that the caller captures; NULL: none. */
void fake_capture(void* stream) {
  LOCKED;
  capturing = stream, apart += capture_of(stream);
}
int fake_apart(void) { return apart; } /* streams that a capture's did not wait for at its end */
void fake_free_bytes(size_t n) { free_bytes = n; }
/* The launch after `launches` more sets *word to 1; once. */
void fake_set_at_launch(int after, int32_t* word) { launches_until_set = after, set_word = word; }
int fake_launches(void) { return launches; }
int fake_overlapping(void) { return overlapping; } /* launches that may start before the one before has ended */
int fake_early(void) { return early; }             /* of these, those behind a wait for an event */
int fake_encoded(void) { return encoded; }         /* tensor maps made */
int fake_freed_in_use(void) { return freed_in_use; } /* of pinned memory, with a copy in a queue */
int fake_depth(void) { return depth; }
int fake_retained(void) { return retained; }
int fake_events(void) { return events_alive; }
int fake_streams(void) { return streams_alive; }
int fake_waits(void) { return waits; }
int fake_blocks(void) {
  int n = 0, i;
  LOCKED;
  for (i = 0; i < MAX_BLOCKS; ++i) n += blocks[i].base != NULL;
  return n;
}

static int current(void) { return running >= 0 ? running : (int)((char*)stack[depth - 1] - context_tags); }
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
  LOCKED;                        \
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
static int is_pinned(const void* p) {
  const int i = block_of((uint64_t)p, 1);
  return i >= 0 && blocks[i].host;
}
static void work_do(const work* w) {
  running = w->device;
  if (w->kind == WORK_KERNEL)
    ((void (*)(const void*, unsigned))w->function)(w->arguments, w->grid[0]);
  else if (w->kind == WORK_FILL)
    memset((void*)w->to, w->value, w->bytes);
  else
    memcpy((void*)w->to, (const void*)w->from, w->bytes);
  running = -1;
}
void fake_late(int on) {
  LOCKED;
  force_all();
  late = on;
}

int cuInit(unsigned flags) {
  LOCKED;
  return flags ? INVALID_VALUE : ready_anywhere();
}
int cuGetErrorString(int code, const char** text) {
  *text = code == ILLEGAL_ADDRESS   ? "an illegal memory access was encountered"
          : code == INVALID_CONTEXT ? "invalid device context"
                                    : "fake error";
  return OK;
}
int cuDeviceGetCount(int* n) {
  LOCKED;
  return *n = DEVICES, ready_anywhere();
}
int cuDeviceGet(int* device, int ordinal) {
  LOCKED;
  return *device = ordinal, ready_anywhere();
}
int cuDeviceGetName(char* name, int n, int device) {
  (void)device;
  strncpy(name, "Fake GPU", (size_t)n);
  return OK;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  LOCKED;
  (void)device;
  *value = attribute == 75 ? major_version : attribute == 76 ? minor_version : 0;
  return ready_anywhere();
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  LOCKED;
  const int status = ready_anywhere();
  if (status) return status;
  ++retained;
  *context = &context_tags[device];
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  LOCKED;
  (void)device;
  --retained;
  return OK;
}
int cuCtxPushCurrent_v2(void* context) {
  LOCKED;
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
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  TRY_READY;
  return *free = free_bytes, *total = (size_t)1 << 40, OK;
}
int cuMemFree_v2(uint64_t p) {
  int i = 0;
  LOCKED;
  while (i < MAX_BLOCKS && (uint64_t)blocks[i].base != p) ++i;
  if (i == MAX_BLOCKS) abort();
  if (blocks[i].host)
    freed_in_use += force_before_free(p, blocks[i].bytes);
  else
    force_all();
  free(blocks[i].base);
  blocks[i].base = NULL;
  return lost;
}
int cuMemHostAlloc(void** p, size_t bytes, unsigned flags) {
  uint64_t at = 0;
  LOCKED;
  const int status = cuMemAlloc_v2(&at, bytes);
  (void)flags;
  if (status) return status;
  blocks[block_of(at, bytes ? 1 : 0)].host = 1;
  return *p = (void*)at, OK;
}
int cuMemFreeHost(void* p) { return cuMemFree_v2((uint64_t)p); }
int cuPointerGetAttribute(void* out, int attribute, uint64_t p) {
  TRY_READY;
  const int i = block_of(p, 1);
  if (i < 0) return INVALID_VALUE;
  *(int*)out = attribute == 2 ? (blocks[i].host ? 1 : 2) : blocks[i].device;
  return attribute == 2 || attribute == 9 ? OK : INVALID_VALUE;
}
/* What was copied from pinned memory: the first element of each, in order, and how many launches came before. */
enum { MOST_UPLOADS = 4096 };
static struct {
  float first;
  int launches;
  size_t bytes;
} uploads[MOST_UPLOADS];
static int n_uploads;
int fake_uploads(const void** rows) {
  const int n = n_uploads;
  *rows = uploads;
  n_uploads = 0;
  return n;
}
static int queue_work(work* w, void* stream) { return w->device = current(), work_queue(stream, w), OK; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t n, void* stream) {
  work w = {.kind = WORK_UPLOAD, .to = to, .from = (uint64_t)from, .bytes = n};
  TRY_READY;
  if (is_pinned(from) && n_uploads < MOST_UPLOADS) {
    uploads[n_uploads].launches = launches, uploads[n_uploads].bytes = n;
    memcpy(&uploads[n_uploads++].first, from, sizeof(float));
  }
  return within(to, n) ? queue_work(&w, stream) : illegal();
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t n, void* stream) {
  work w = {.kind = WORK_COPY, .to = (uint64_t)to, .from = from, .bytes = n};
  TRY_READY;
  if (!within(from, n)) return illegal();
  queue_work(&w, stream);
  if (!is_pinned(to)) force(queue_of(stream), NULL, 0);
  return OK;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void* stream) {
  work w = {.kind = WORK_COPY, .to = to, .from = from, .bytes = n};
  TRY_READY;
  return within(from, n) && within(to, n) ? queue_work(&w, stream) : illegal();
}
/* Either side may be memory of the host, which has no bounds here. */
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t n, void* stream) {
  (void)stream;
  TRY_READY;
  return memmove((void*)to, (void*)from, n), OK;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void* stream) {
  work w = {.kind = WORK_FILL, .to = to, .value = value, .bytes = n};
  TRY_READY;
  return within(to, n) ? queue_work(&w, stream) : illegal();
}
int cuStreamCreate(void** stream, unsigned flags) {
  TRY_READY;
  if (flags != 1) return INVALID_VALUE; /* others wait for the caller's streams */
  ++streams_alive;
  return *stream = calloc(1, 1), OK;
}
int cuStreamDestroy_v2(void* stream) {
  LOCKED;
  queue_end(stream);
  return free(stream), --streams_alive, lost;
}
int cuStreamSynchronize(void* stream) {
  TRY_READY;
  ++waits;
  if (fail_wait) {
    lost = fail_wait;
    fail_wait = 0;
    return lost;
  }
  if (capturing && stream == capturing) return CAPTURE_UNSUPPORTED;
  force(queue_of(stream), NULL, 0);
  return lost;
}
int cuStreamIsCapturing(void* stream, int* out) {
  TRY_READY;
  return *out = capturing && stream == capturing, OK;
}

int cuEventCreate(void** out, unsigned flags) {
  TRY_READY;
  ++events_alive;
  return *out = calloc(1, sizeof(event)), flags & ~2u ? INVALID_VALUE : OK;
}
int cuEventDestroy_v2(void* e) {
  LOCKED;
  force_all();
  return free(e), --events_alive, lost;
}
int cuEventRecord(void* e, void* stream) {
  TRY_READY;
  return event_record(e, stream);
}
int cuStreamWaitEvent(void* stream, void* e, unsigned flags) {
  TRY_READY;
  return flags ? INVALID_VALUE : event_follow(stream, e);
}
int cuEventSynchronize(void* e) {
  const event* at = e;
  TRY_READY;
  if (at->recorded) force(at->queue, at, at->recorded);
  return OK;
}
int cuEventElapsedTime(float* ms, void* from, void* to) {
  TRY_READY;
  return *ms = (float)(((event*)to)->ms - ((event*)from)->ms), OK;
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

/* The kernel of toy_stream.c. */
typedef struct mix_args {
  int* fault;
  void* scratch;
  void* ptr[4];
  int64_t size[3];
} mix_args;
static float mixed(const float* w, int64_t n) {
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += w[i] * (float)(i % 5 + 1);
  return sum / (float)n;
}
static void mix(const mix_args* a, unsigned grid) {
  const float* x = (const float*)a->ptr[0];
  const float by = mixed((const float*)a->ptr[1], a->size[1]) + 2 * mixed((const float*)a->ptr[2], a->size[2]);
  float* out = (float*)a->ptr[3];
  if (grid != 1) abort();
  for (int i = 1; i < 3; ++i)
    if (!within((uint64_t)a->ptr[i], (size_t)a->size[i] * 4)) {
      illegal();
      return;
    }
  for (int64_t i = 0; i < a->size[0] * 8; ++i) out[i] = x[i] * 0.5f + by;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (!strstr((const char*)module, name)) return 500; /* its code is in another cubin */
  *function = strcmp(name, "scale") == 0 ? (void*)scale : strcmp(name, "count") == 0 ? (void*)count : strcmp(name, "mix") == 0 ? (void*)mix : NULL;
  return *function ? ready() : 500;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void** extra) {
  work w = {.kind = WORK_KERNEL, .function = function, .grid = {gx, gy, gz}};
  (void)extra, (void)shared;
  TRY_READY;
  if (fail_launch) {
    lost = fail_launch;
    fail_launch = 0;
    return lost;
  }
  if (bx * by * bz == 0) return INVALID_VALUE;
  ++launches;
  if (launches_until_set >= 0 && launches_until_set-- == 0) *set_word = 1;
  memcpy(w.arguments, parameters[0], sizeof w.arguments);
  return queue_work(&w, stream);
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
  LOCKED;
  ++overlapping, early += queue_of(c->stream)->waits;
  return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, c->stream,
                        parameters, extra);
}

#include "cuda/graphs.h"
