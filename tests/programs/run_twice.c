/* Runs calls of an artifact, each twice, with every buffer guarded.
 *
 *   run_twice model.so calls.bin results.bin
 *
 * calls.bin: int32 count of calls; a call: int32 count of inputs; an input: int32 dtype, int32 rank, int64 dims[rank], uint64 bytes, data.
 * results.bin: for each call int32 status, int32 length of a text, the text (of the error, or what was broken); when the status is 0: int32
 * count of tensors of the first run, then of the second (0: the same bytes as the first), each int32 kind (1 output, 2 state), int32
 * length of its name, the name, int32 alias_input, int32 dtype, int32 rank, int64 dims[rank], uint64 bytes, data.
 *
 * The first run has one thread, buffers that end at an inaccessible page, inputs that cannot be written, and outputs beside inputs that
 * they replace; the second two threads, buffers that begin after an inaccessible page, and such outputs on the inputs themselves. Outputs
 * are poisoned before, canaries lie on the open side, the workspace is poisoned. Status -1: a canary was overwritten, a refused call touched
 * an output, or a run without states gave other bytes the second time. Exit 3: the artifact does not load; 4: the file of calls is bad. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aotc/loader.h"

enum { kPage = 4096, kCanary = 64, kMaxIo = 4096, kMaxRank = 64 };

typedef struct {
  unsigned char* map;
  size_t mapped;
  unsigned char* data;
  size_t bytes;
  int at_end;
} Buffer;

static size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/* at_end: the last byte is the last before an inaccessible page. Else the first byte is the first after one. */
static Buffer make_buffer(size_t bytes, int at_end) {
  Buffer b;
  const size_t room = pages(bytes + kCanary);
  b.mapped = room + 2 * kPage;
  b.map = mmap(NULL, b.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (b.map == MAP_FAILED || mprotect(b.map + kPage, room, PROT_READ | PROT_WRITE)) exit(5);
  b.bytes = bytes;
  b.at_end = at_end;
  b.data = at_end ? b.map + kPage + room - bytes : b.map + kPage;
  memset(b.map + kPage, 0xC5, room);
  return b;
}

static void free_buffer(Buffer* b) {
  if (b->map) munmap(b->map, b->mapped);
  memset(b, 0, sizeof *b);
}

static int canaries_stand(const Buffer* b) {
  const unsigned char* begin = b->map + kPage;
  const unsigned char* end = b->map + b->mapped - kPage;
  const unsigned char* p;
  for (p = begin; p < end; ++p)
    if ((p < b->data || p >= b->data + b->bytes) && *p != 0xC5) return 0;
  return 1;
}

typedef struct {
  int32_t dtype, rank;
  int64_t dims[kMaxRank];
  uint64_t bytes;
  const unsigned char* data;
} Given;

static unsigned char* file_at;
static unsigned char* file_end;
static void take(void* out, size_t n) {
  if ((size_t)(file_end - file_at) < n) exit(4);
  memcpy(out, file_at, n);
  file_at += n;
}

static FILE* results;
static void put(const void* p, size_t n) {
  if (n && fwrite(p, 1, n, results) != n) exit(5);
}
static void put32(int32_t v) { put(&v, 4); }
static void put_status(int32_t status, const char* text) {
  put32(status);
  put32((int32_t)strlen(text));
  put(text, strlen(text));
}

static void check(const aotc_api* api, aotc_status s) {
  if (s == AOTC_STATUS_OK) return;
  fprintf(stderr, "%s\n", api->last_error());
  exit(3);
}

static aotc_io_info info(const aotc_api* api, aotc_model* m, int32_t kind, int32_t i) {
  aotc_io_info out = AOTC_IO_INFO_INIT;
  check(api, api->io_get(m, kind, i, &out));
  return out;
}

static size_t elem_bytes(uint32_t dtype) {
  switch (dtype) {
#define BYTES_(name, value, text, bytes) \
  case value: return bytes;
    AOTC_DTYPE_LIST(BYTES_)
#undef BYTES_
    default: return 0;
  }
}

typedef struct {
  Buffer buffer;
  const char* name;
  int32_t kind, alias, rank;
  uint32_t dtype;
  int64_t dims[kMaxRank];
} Result;

static void put_results(const Result* r, int32_t n) {
  int32_t i;
  put32(n);
  for (i = 0; i < n; ++i) {
    const uint64_t bytes = r[i].buffer.bytes;
    put32(r[i].kind);
    put32((int32_t)strlen(r[i].name));
    put(r[i].name, strlen(r[i].name));
    put32(r[i].alias);
    put32((int32_t)r[i].dtype);
    put32(r[i].rank);
    put(r[i].dims, (size_t)r[i].rank * 8);
    put(&bytes, 8);
    put(r[i].buffer.data, bytes);
  }
}

static int32_t n_in, n_out, n_state;
static Given given[kMaxIo];
static aotc_tensor in[kMaxIo], out[kMaxIo];
static Buffer in_buffer[kMaxIo];
static Result first[kMaxIo], second[kMaxIo];
static int64_t* shapes[kMaxIo];

static size_t result_bytes(const Result* r) {
  size_t n = elem_bytes(r->dtype);
  int32_t d;
  for (d = 0; d < r->rank; ++d) n *= (size_t)r->dims[d];
  return n;
}

/* An output whose sizes the run found: what there is, without what lies behind it. Gives 0 where the sizes are none of the buffer's. */
static int keep_found(const aotc_api* api, aotc_context* context, int32_t i, Result* r) {
  int64_t sizes[kMaxRank], at[kMaxRank] = {0};
  const size_t elem = elem_bytes(r->dtype);
  size_t n = 1, k;
  int32_t d;
  check(api, api->output_sizes(context, i, sizes));
  for (d = 0; d < r->rank; ++d) {
    if (sizes[d] < 0 || sizes[d] > r->dims[d]) return 0;
    n *= (size_t)sizes[d];
  }
  for (k = 0; k < n; ++k) {
    size_t from = 0;
    for (d = 0; d < r->rank; ++d) from = from * (size_t)r->dims[d] + (size_t)at[d];
    memmove(r->buffer.data + k * elem, r->buffer.data + from * elem, elem);
    for (d = r->rank; d-- > 0;) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
  for (d = 0; d < r->rank; ++d) r->dims[d] = sizes[d];
  r->buffer.bytes = n * elem;
  return 1;
}

/* One run; the text of what is wrong, or NULL. */
static const char* run(const aotc_api* api, aotc_model* model, aotc_context* context, Result* results_of, int again, aotc_status* status) {
  const unsigned char poison = again ? 0x5A : 0xA5;
  int32_t i;
  for (i = 0; i < n_in; ++i) {
    in_buffer[i] = make_buffer(given[i].bytes, !again);
    memcpy(in_buffer[i].data, given[i].data, given[i].bytes);
    in[i] = aotc_host_tensor(given[i].bytes ? in_buffer[i].data : NULL, given[i].dims, given[i].rank, (uint32_t)given[i].dtype, given[i].bytes);
  }
  for (i = 0; i < n_out; ++i) {
    const aotc_io_info o = info(api, model, AOTC_OUTPUT, i);
    results_of[i].kind = AOTC_OUTPUT;
    results_of[i].name = o.name;
    results_of[i].alias = o.alias_input;
    results_of[i].rank = o.rank;
    results_of[i].dtype = o.dtype;
    shapes[i] = results_of[i].dims;
  }
  *status = api->output_bounds(context, in, n_in, shapes, n_out);
  if (*status == AOTC_STATUS_OK) {
    for (i = 0; i < n_out; ++i) {
      Result* r = &results_of[i];
      const size_t bytes = result_bytes(r);
      r->buffer = make_buffer(bytes, !again);
      memset(r->buffer.data, poison, bytes);
      out[i] = aotc_host_tensor(bytes ? r->buffer.data : NULL, r->dims, r->rank, r->dtype, bytes);
      if (again && r->alias >= 0) out[i].data = in[r->alias].data;
    }
    if (!again)
      for (i = 0; i < n_in; ++i) mprotect(in_buffer[i].map + kPage, in_buffer[i].mapped - 2 * kPage, PROT_READ);
    *status = api->run(context, in, n_in, out, n_out);
    for (i = 0; i < n_out; ++i) {
      Result* r = &results_of[i];
      if (!canaries_stand(&r->buffer)) return "bytes beside an output were written";
      if (*status == AOTC_STATUS_SHAPE_MISMATCH || *status == AOTC_STATUS_INVALID_ARGUMENT) {
        size_t k;
        for (k = 0; k < r->buffer.bytes; ++k)
          if (r->buffer.data[k] != poison) return "a refused call wrote to an output";
      }
      if (again && r->alias >= 0 && r->buffer.bytes) memcpy(r->buffer.data, in[r->alias].data, r->buffer.bytes);
      if (*status == AOTC_STATUS_OK && info(api, model, AOTC_OUTPUT, i).found && !keep_found(api, context, i, r)) return "output_sizes tells more than there is room for";
    }
  }
  for (i = 0; i < n_in; ++i) {
    int32_t k, replaced = 0;
    if (!canaries_stand(&in_buffer[i])) return "bytes beside an input were written";
    for (k = 0; k < n_out; ++k) replaced |= results_of[k].alias == i;
    if (!(again && replaced) && memcmp(in_buffer[i].data, given[i].data, given[i].bytes) != 0) return "an input was written";
    free_buffer(&in_buffer[i]);
  }
  if (*status != AOTC_STATUS_OK) return NULL;
  for (i = 0; i < n_state; ++i) {
    Result* r = &results_of[n_out + i];
    const aotc_io_info s = info(api, model, AOTC_STATE, i);
    aotc_tensor t;
    int32_t d;
    r->kind = AOTC_STATE;
    r->name = s.name;
    r->alias = -1;
    r->rank = s.rank;
    r->dtype = s.dtype;
    for (d = 0; d < s.rank; ++d) r->dims[d] = s.dims[d].value;
    r->buffer = make_buffer(result_bytes(r), 1);
    t = aotc_host_tensor(r->buffer.data, r->dims, r->rank, r->dtype, r->buffer.bytes);
    check(api, api->state_read(context, s.name, &t));
  }
  return NULL;
}

static int same(const Result* a, const Result* b) { return a->buffer.bytes == b->buffer.bytes && !memcmp(a->buffer.data, b->buffer.data, a->buffer.bytes); }

static void call(const aotc_api* api, aotc_model* model, aotc_context* contexts[2]) {
  aotc_status status = AOTC_STATUS_OK, status2 = AOTC_STATUS_OK;
  const char* broken;
  int32_t i, differ = 0;
  take(&n_in, 4);
  if (n_in < 0 || n_in > kMaxIo) exit(4);
  for (i = 0; i < n_in; ++i) {
    take(&given[i].dtype, 4);
    take(&given[i].rank, 4);
    if (given[i].rank < 0 || given[i].rank > kMaxRank) exit(4);
    take(given[i].dims, 8 * (size_t)given[i].rank);
    take(&given[i].bytes, 8);
    given[i].data = file_at;
    if ((size_t)(file_end - file_at) < given[i].bytes) exit(4);
    file_at += given[i].bytes;
  }
  for (i = 0; i < 2; ++i)
    if (n_state) check(api, api->state_reset(contexts[i], NULL));
  broken = run(api, model, contexts[0], first, 0, &status);
  if (!broken && status == AOTC_STATUS_OK) {
    for (i = 0; i < n_state; ++i) {  /* the second run goes on from the first one's states */
      const Result* r = &first[n_out + i];
      const aotc_tensor t = aotc_host_tensor(r->buffer.data, r->dims, r->rank, r->dtype, r->buffer.bytes);
      check(api, api->state_write(contexts[1], info(api, model, AOTC_STATE, i).name, &t));
    }
    broken = run(api, model, contexts[1], second, 1, &status2);
    if (!broken && status2 != AOTC_STATUS_OK) broken = "the second run failed";
    if (!broken)
      for (i = 0; i < n_out + n_state; ++i) differ |= !same(&first[i], &second[i]);
  }
  if (broken) {
    char text[1400];
    snprintf(text, sizeof text, "%s; status %d %s", broken, (int)(status2 ? status2 : status), api->last_error());
    put_status(-1, text);
  } else if (status != AOTC_STATUS_OK) {
    put_status(status, api->last_error());
  } else {
    put_status(0, "");
    put_results(first, n_out + n_state);
    put_results(second, differ ? n_out + n_state : 0);
  }
  for (i = 0; i < n_in; ++i) free_buffer(&in_buffer[i]);
  for (i = 0; i < n_out + n_state; ++i) {
    free_buffer(&first[i].buffer);
    free_buffer(&second[i].buffer);
  }
}

int main(int argc, char** argv) {
  aotc_library lib;
  aotc_model* model;
  aotc_context* contexts[2];
  int32_t calls, i;
  FILE* f;
  long size;
  if (argc != 4) return 2;
  f = fopen(argv[2], "rb");
  if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 4 || fseek(f, 0, SEEK_SET)) return 4;
  file_at = malloc((size_t)size);
  if (!file_at || fread(file_at, 1, (size_t)size, f) != (size_t)size) return 4;
  file_end = file_at + size;
  fclose(f);
  results = fopen(argv[3], "wb");
  if (!results) return 4;
  if (aotc_library_open(argv[1], AOTC_DEVICE_DEFAULT, &lib) != AOTC_STATUS_OK) {
    fprintf(stderr, "%s\n", lib.error);
    return 3;
  }
  check(lib.api, lib.api->model_create(NULL, &model));
  for (i = 0; i < 2; ++i) {
    aotc_context_options o = AOTC_CONTEXT_OPTIONS_INIT;
    o.num_threads = i + 1;
    o.flags = AOTC_CONTEXT_POISON;
    check(lib.api, lib.api->context_create(model, &o, &contexts[i]));
  }
  check(lib.api, lib.api->io_count(model, AOTC_OUTPUT, &n_out));
  check(lib.api, lib.api->io_count(model, AOTC_STATE, &n_state));
  if (n_out + n_state > kMaxIo) return 3;
  take(&calls, 4);
  for (i = 0; i < calls; ++i) {
    call(lib.api, model, contexts);
    fflush(results);
  }
  for (i = 0; i < 2; ++i) lib.api->context_destroy(contexts[i]);
  lib.api->model_destroy(model);
  aotc_library_close(&lib);
  return fclose(results) ? 5 : 0;
}
