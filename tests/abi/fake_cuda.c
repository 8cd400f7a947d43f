/* A stand-in for libcuda.so.1 on machines without a GPU: device memory is host memory, a launch runs a C function at once. Checks what a
 * real driver would: a current context for every call, copies within blocks that are alive. Steered by the fake_ functions. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, ILLEGAL_ADDRESS = 700, MAX_BLOCKS = 256 };

static struct {
  char* base;
  size_t bytes;
} blocks[MAX_BLOCKS];
static void* stack[16];
static int depth, retained, lost, fail_launch, launches, overlapping, encoded, minor_version, major_version = 9;
static char context_tag;

void fake_arch(int major, int minor) { major_version = major, minor_version = minor; }
void fake_fail_next_launch(int code) { fail_launch = code; }
void fake_revive(void) { lost = 0; }
int fake_launches(void) { return launches; }
int fake_overlapping(void) { return overlapping; } /* launches that may start before the one before has ended */
int fake_encoded(void) { return encoded; }         /* tensor maps made */
int fake_depth(void) { return depth; }
int fake_retained(void) { return retained; }
int fake_blocks(void) {
  int n = 0, i;
  for (i = 0; i < MAX_BLOCKS; ++i) n += blocks[i].base != NULL;
  return n;
}

static int ready(void) { return lost ? lost : depth == 0 ? INVALID_CONTEXT : OK; }
static int within(uint64_t p, size_t n) {
  int i;
  for (i = 0; i < MAX_BLOCKS; ++i)
    if (blocks[i].base && (char*)p >= blocks[i].base && (char*)p + n <= blocks[i].base + blocks[i].bytes) return 1;
  return 0;
}

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : OK; }
int cuGetErrorString(int code, const char** text) {
  *text = code == ILLEGAL_ADDRESS   ? "an illegal memory access was encountered"
          : code == INVALID_CONTEXT ? "invalid device context"
                                    : "fake error";
  return OK;
}
int cuDeviceGetCount(int* n) { return *n = 1, OK; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, OK; }
int cuDeviceGetName(char* name, int n, int device) {
  (void)device;
  strncpy(name, "Fake GPU", (size_t)n);
  return OK;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? major_version : attribute == 76 ? minor_version : 0;
  return OK;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  (void)device;
  ++retained;
  *context = &context_tag;
  return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  (void)device;
  --retained;
  return OK;
}
int cuCtxPushCurrent_v2(void* context) { return stack[depth++] = context, OK; }
int cuCtxPopCurrent_v2(void** context) { return *context = stack[--depth], OK; }
int cuModuleLoadData(void** module, const void* image) { return *module = (void*)image, ready(); }
int cuModuleUnload(void* module) {
  (void)module;
  return ready();
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function;
  return attribute == 8 && value > 48 * 1024 ? ready() : INVALID_VALUE;
}
int cuMemAlloc_v2(uint64_t* p, size_t bytes) {
  int i = 0;
  if (ready()) return ready();
  if (bytes > (1u << 24)) return 2;
  while (blocks[i].base) ++i;
  blocks[i].base = aligned_alloc(256, (bytes + 255) / 256 * 256);
  blocks[i].bytes = bytes;
  memset(blocks[i].base, 0x5a, bytes);
  return *p = (uint64_t)blocks[i].base, OK;
}
int cuMemFree_v2(uint64_t p) {
  int i;
  for (i = 0; i < MAX_BLOCKS; ++i)
    if (blocks[i].base == (char*)p) {
      free(blocks[i].base);
      blocks[i].base = NULL;
      return ready();
    }
  abort();
}
int cuMemHostAlloc(void** p, size_t bytes, unsigned flags) {
  uint64_t at;
  const int status = cuMemAlloc_v2(&at, bytes);
  (void)flags;
  *p = (void*)at;
  return status;
}
int cuMemFreeHost(void* p) { return cuMemFree_v2((uint64_t)p); }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t n, void* stream) {
  (void)stream;
  if (ready() || !within(to, n)) return ready() ? ready() : ILLEGAL_ADDRESS;
  return memcpy((void*)to, from, n), OK;
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t n, void* stream) {
  (void)stream;
  if (ready() || !within(from, n)) return ready() ? ready() : ILLEGAL_ADDRESS;
  return memcpy(to, (void*)from, n), OK;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void* stream) {
  (void)stream;
  if (ready() || !within(from, n) || !within(to, n)) return ready() ? ready() : ILLEGAL_ADDRESS;
  return memcpy((void*)to, (void*)from, n), OK;
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, void* stream) {
  (void)stream;
  if (ready() || !within(to, n)) return ready() ? ready() : ILLEGAL_ADDRESS;
  return memset((void*)to, value, n), OK;
}
int cuStreamSynchronize(void* stream) {
  (void)stream;
  return ready();
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
  if (ready()) return ready();
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
  (void)module;
  *function = strcmp(name, "scale") == 0 ? (void*)scale : strcmp(name, "count") == 0 ? (void*)count : NULL;
  return *function ? ready() : 500;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** parameters, void** extra) {
  (void)stream, (void)extra, (void)shared, (void)gy, (void)gz;
  if (ready()) return ready();
  if (fail_launch) {
    lost = fail_launch;
    fail_launch = 0;
    return lost;
  }
  if (bx * by * bz == 0) return INVALID_VALUE;
  ++launches;
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
