#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "atomic.h"
#include "cuda.h"
#include "dense.h"
#include "seal.h"
#include "states.h"
#include "status.h"
#include "traceparent.h"

extern "C" int __xpg_strerror_r(int error, char* text, size_t bytes);  // strerror_r of POSIX, which _GNU_SOURCE hides
extern "C" __attribute__((weak)) const char* gnu_get_libc_version();   // musl has none

namespace aotc::rt {

struct Capture {
  enum Which : uint8_t { failed, all, one } which;
  uint64_t only;   ///< one: the number of the run, from 1
  uint64_t limit;  ///< bytes of tensors
  uint64_t runs;   ///< begun; atomic
  uint64_t bytes;  ///< of what was kept or is being written; atomic
  bool done;       ///< nothing more is written; atomic
  char folder[kPathMax];
  char stem[256];  ///< of the artifact's file: "net" of net.so
};

namespace {

constexpr uint64_t kLimit = 1u << 30;
constexpr int32_t kMostTensors = 4096;
constexpr const char* kKinds[] = {"inputs", "states", "outputs"};

struct NpyType {
  uint32_t dtype;
  const char* code;
};
/// As NumPy has them; of those that it lacks the bytes (cli/npy.h).
constexpr NpyType kNpy[] = {
    {AOTC_DTYPE_BOOL, "|b1"}, {AOTC_DTYPE_U8, "|u1"},    {AOTC_DTYPE_I8, "|i1"},       {AOTC_DTYPE_I16, "<i2"},    {AOTC_DTYPE_I32, "<i4"},
    {AOTC_DTYPE_I64, "<i8"},  {AOTC_DTYPE_F16, "<f2"},   {AOTC_DTYPE_BF16, "<u2"},     {AOTC_DTYPE_F32, "<f4"},    {AOTC_DTYPE_F64, "<f8"},
    {AOTC_DTYPE_C64, "<c8"},  {AOTC_DTYPE_C128, "<c16"}, {AOTC_DTYPE_F8E4M3FN, "|u1"}, {AOTC_DTYPE_F8E5M2, "|u1"},
};

/// "INDEX_OUT_OF_RANGE"
const char* name_of(aotc_status status) {
#define AOTC_X(name, value, text) \
  if (status == value) return #name;
  AOTC_STATUS_LIST(AOTC_X)
#undef AOTC_X
  return "unknown";
}

/// "512M" and the like. False: none.
bool parse_bytes(const char* text, uint64_t* out) {
  if (text[0] < '0' || text[0] > '9') return false;
  char* end;
  errno = 0;
  const unsigned long long n = strtoull(text, &end, 10);
  const uint64_t unit = *end == 'K' ? 1u << 10 : *end == 'M' ? 1u << 20 : *end == 'G' ? 1u << 30 : 1;
  if (unit > 1) ++end;
  return errno == 0 && *end == 0 && !__builtin_mul_overflow(static_cast<uint64_t>(n), unit, out);
}

/// What the variables say.
aotc_status read_environment(const char* folder, Capture* c) {
  const size_t length = strlen(folder);
  if (length == 0 || length + sizeof c->stem + 64 > sizeof c->folder)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "AOTC_CAPTURE must be the path of a folder");
  memcpy(c->folder, folder, length + 1);
  const char* const runs = getenv("AOTC_CAPTURE_RUNS");
  c->which = Capture::failed;
  if (runs && strcmp(runs, "all") == 0)
    c->which = Capture::all;
  else if (runs && runs[0] >= '1' && runs[0] <= '9' && parse_bytes(runs, &c->only))
    c->which = Capture::one;
  else if (runs && *runs && strcmp(runs, "failed") != 0)
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "AOTC_CAPTURE_RUNS is '%s', but must be failed, all or the number of a run, from 1", runs);
  const char* const limit = getenv("AOTC_CAPTURE_LIMIT");
  c->limit = kLimit;
  if (limit && *limit && !parse_bytes(limit, &c->limit))
    return fail(AOTC_STATUS_INVALID_ARGUMENT, "AOTC_CAPTURE_LIMIT is '%s', but must be a number of bytes, such as 512M", limit);
  if (mkdir(folder, 0700) == 0 || (errno == EEXIST && access(folder, W_OK | X_OK) == 0)) return AOTC_STATUS_OK;
  char text[128];
  return fail(AOTC_STATUS_IO, "AOTC_CAPTURE: %s cannot be written: %s", folder,
              __xpg_strerror_r(errno, text, sizeof text) == 0 ? text : "unknown");
}

void take_stem(const char* path, char* out, size_t room) {
  const char* const slash = path ? strrchr(path, '/') : nullptr;
  Text text = {out, out + room};
  text.add("%s", path && !is_of_descriptor(path) ? (slash ? slash + 1 : path) : "model");
  char* const dot = strrchr(out, '.');
  if (dot && dot != out && strcmp(dot, ".so") == 0) *dot = 0;
}

bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || strchr("_-.", c); }

/// Bytes of the dense tensor; false where there is nothing to read: it is no tensor, or says that it is elsewhere.
bool dense_bytes(const aotc_tensor& t, int32_t device, uint64_t* bytes) {
  *bytes = dtype_bytes(t.dtype);
  if (*bytes == 0 || t.rank < 0 || t.rank > kMaxStateRank || (t.rank > 0 && !t.shape)) return false;
  for (int32_t d = 0; d < t.rank; ++d)
    if (t.shape[d] < 0 || __builtin_mul_overflow(*bytes, static_cast<uint64_t>(t.shape[d]), bytes)) return false;
  if (*bytes == 0) return true;
  uint64_t span = *bytes;
  if (t.device == AOTC_DEVICE_HOST ? needs_copy(t, *bytes) && tensor_span("", t, *bytes, &span) != AOTC_STATUS_OK : t.device != device)
    return false;
  return t.data && t.byte_size >= span;
}

/// Text within the quotes of JSON.
void put_json(FILE* to, const char* text) {
  for (const char* at = text ? text : ""; *at; ++at) {
    if (*at == '"' || *at == '\\') fputc('\\', to);
    if (static_cast<unsigned char>(*at) < 0x20)
      fprintf(to, "\\u%04x", static_cast<unsigned>(*at));
    else
      fputc(*at, to);
  }
}

void put_string(FILE* to, const char* name, const char* text) {
  fprintf(to, "  \"%s\": \"", name);
  put_json(to, text);
  fputs("\",\n", to);
}

FILE* create(const char* path) {
  const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  return fd < 0 ? nullptr : fdopen(fd, "wb");
}

/// Whether all that was written is there.
bool close_file(FILE* file) {
  const bool wrote = ferror(file) == 0;
  return fclose(file) == 0 && wrote;
}

/// A .npy of version 1. data: dense, in host memory.
bool write_npy(const char* path, uint32_t dtype, const int64_t* shape, int32_t rank, const void* data, uint64_t bytes) {
  char header[2048];
  Text text = {header, header + sizeof header};
  const char* code = "|u1";
  for (const NpyType& type : kNpy)
    if (type.dtype == dtype) code = type.code;
  text.add("{'descr': '%s', 'fortran_order': False, 'shape': (", code);
  for (int32_t d = 0; d < rank; ++d) text.add("%lld, ", static_cast<long long>(shape[d]));
  text.add("), }");
  const uint64_t used = static_cast<uint64_t>(text.at - header), length = align_up(10 + used + 1, 64) - 10;
  FILE* const file = create(path);
  if (!file) return false;
  fwrite("\x93NUMPY\x01\x00", 1, 8, file);
  fputc(static_cast<int>(length & 0xff), file);
  fputc(static_cast<int>(length >> 8), file);
  fwrite(header, 1, used, file);
  for (uint64_t i = used; i + 1 < length; ++i) fputc(' ', file);
  fputc('\n', file);
  if (bytes) fwrite(data, 1, bytes, file);
  return close_file(file);
}

/// A tensor of the caller's, its first `shape` elements.
bool write_tensor(aotc_context* c, const char* path, const aotc_tensor& t, const int64_t* shape) {
  uint64_t all, bytes = dtype_bytes(t.dtype);
  if (!dense_bytes(t, c->model->device, &all)) return false;
  bool whole = true;
  for (int32_t d = 0; d < t.rank; ++d) {
    bytes *= static_cast<uint64_t>(shape[d]);
    whole = whole && shape[d] == t.shape[d];
  }
  if (bytes == 0) return write_npy(path, t.dtype, shape, t.rank, nullptr, 0);
  const bool strided = !whole || (t.device == AOTC_DEVICE_HOST && needs_copy(t, all));
  if (t.device == AOTC_DEVICE_HOST && !strided) return write_npy(path, t.dtype, shape, t.rank, t.data, bytes);
  uint8_t* const here = t.device == AOTC_DEVICE_HOST ? nullptr : static_cast<uint8_t*>(malloc(all));
  uint8_t* const dense = strided ? static_cast<uint8_t*>(malloc(bytes)) : here;
  int64_t strides[kMaxStateRank];
  aotc_tensor part = t;
  part.shape = shape;
  if (!t.strides) {
    int64_t stride = 1;
    for (int32_t d = t.rank; d-- > 0; stride *= t.shape[d]) strides[d] = stride;
    part.strides = strides;
  }
  bool good = dense && (t.device == AOTC_DEVICE_HOST || here);
  if (good && here) {
    good = state_move(c, CopyKind::to_host, here, t.data, all) == AOTC_STATUS_OK && states_wait(c) == AOTC_STATUS_OK;
    part.data = here;
  }
  if (good && strided) copy_dense(part, dense);
  good = good && write_npy(path, t.dtype, shape, t.rank, dense, bytes);
  if (dense != here) free(dense);
  free(here);
  return good;
}

bool write_state(aotc_context* c, const char* path, uint32_t s) {
  const aotc_state_desc& d = c->model->module->states[s];
  if (!c->model->cuda) return write_npy(path, d.dtype, d.dims, d.rank, c->states[s].now, d.bytes);
  void* const here = malloc(d.bytes ? d.bytes : 1);
  const bool good = here && state_move(c, CopyKind::to_host, here, c->states[s].now, d.bytes) == AOTC_STATUS_OK &&
                    states_wait(c) == AOTC_STATUS_OK && write_npy(path, d.dtype, d.dims, d.rank, here, d.bytes);
  free(here);
  return good;
}

/// The status is that of the data and the artifact, not of what the caller did meanwhile or before.
bool is_replayable(aotc_status status) {
  return status != AOTC_STATUS_CANCELLED && status != AOTC_STATUS_DEADLINE_EXCEEDED && status != AOTC_STATUS_WRONG_STATE;
}

bool is_set(const bool* flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }

}  // namespace

/// The folder of one run, and what is in it.
struct CapturedRun::Files {
  char folder[kPathMax];  ///< where it is now
  char file[kPathMax];    ///< what path() made
  char kept[kPathMax];    ///< where it will be
  char hidden[kPathMax];  ///< where it is while files are written or removed
  int64_t sizes[kMaxStateRank];

  /// A hidden folder of a name that is free: another model of the file, or an earlier process of that number, may have some.
  bool make(const Capture& capture, uint64_t number) {
    for (int attempt = 0; attempt < 1000; ++attempt) {
      Text name = {file, file + sizeof file}, text = {kept, kept + sizeof kept}, dot = {hidden, hidden + sizeof hidden};
      name.add("%s-%d-%llu", capture.stem, static_cast<int>(getpid()), static_cast<unsigned long long>(number));
      if (attempt > 0) name.add("-%d", attempt);
      text.add("%s/%s", capture.folder, file);
      dot.add("%s/.%s", capture.folder, file);
      if (access(kept, F_OK) == 0) continue;
      if (mkdir(hidden, 0700) == 0) {
        memcpy(folder, hidden, sizeof folder);
        return true;
      }
      if (errno != EEXIST) return false;
    }
    return false;
  }
  /// Of a tensor; name null: the i-th that the model has no name for.
  const char* path(const char* kind, const char* name, int32_t i) {
    Text text = {file, file + sizeof file};
    text.add("%s/%s/", folder, kind);
    char* at = text.at;
    if (name)
      text.add("%s.npy", name);
    else
      text.add("%d.npy", i);
    for (; at < text.at; ++at)
      if (!is_word(*at)) *at = '_';
    return file;
  }
  const char* path(const char* name) {
    Text text = {file, file + sizeof file};
    text.add("%s/%s", folder, name);
    return file;
  }
  bool move(const char* to, const char* suffix = "") {
    Text text = {file, file + sizeof file};
    text.add("%s%s", to, suffix);
    if (rename(folder, file) != 0) return false;
    memcpy(folder, file, sizeof folder);
    return true;
  }
};

aotc_status capture_create(const aotc_model& model, Capture** out) {
  const char* const folder = getenv("AOTC_CAPTURE");
  *out = nullptr;
  if (!folder || !*folder || getauxval(AT_SECURE)) return AOTC_STATUS_OK;
  Capture* const c = take<Capture>(1);
  if (!c) return fail(AOTC_STATUS_OUT_OF_MEMORY, "no memory for the model");
  take_stem(model.path, c->stem, sizeof c->stem);
  const aotc_status status = read_environment(folder, c);
  if (status == AOTC_STATUS_OK)
    *out = c;
  else
    capture_free(c);
  return status;
}

void capture_free(Capture* c) { free(c); }

[[gnu::cold]] CapturedRun::CapturedRun(aotc_context* context, const Method& method, const aotc_tensor* in, int32_t n_in,
                                       const aotc_tensor* out, int32_t n_out)
    : context_(context), method_(method), in_(in), out_(out), n_in_(n_in), n_out_(n_out) {
  Capture& capture = *context_->model->capture;
  number_ = __atomic_add_fetch(&capture.runs, uint64_t{1}, __ATOMIC_RELAXED);
  if (!is_set(&capture.done) && (capture.which != Capture::one || capture.only == number_)) begin();
}

CapturedRun::~CapturedRun() {
  if (files_) discard();
}

void CapturedRun::begin() {
  aotc_context& c = *context_;
  Capture& capture = *c.model->capture;
  bool recording = false;
  if (c.model->cuda && (cuda_alive(*c.model->cuda) != AOTC_STATUS_OK ||
                        cuda_is_capturing(c.model->cuda, c.stream, &recording) != AOTC_STATUS_OK || recording))
    return;
  if (states_defined(c) != AOTC_STATUS_OK || n_in_ < 0 || n_in_ > kMostTensors || (n_in_ > 0 && !in_)) return;
  uint64_t bytes;
  for (int32_t i = 0; i < n_in_; ++i) {
    if (!dense_bytes(in_[i], c.model->device, &bytes)) return;
    bytes_ += bytes;
  }
  for (uint32_t s = 0; s < c.model->module->n_states; ++s) bytes_ += c.model->module->states[s].bytes;
  for (int32_t o = 0; out_ && o < n_out_ && o < kMostTensors; ++o)
    if (dense_bytes(out_[o], c.model->device, &bytes)) bytes_ += bytes;
  if (__atomic_add_fetch(&capture.bytes, bytes_, __ATOMIC_RELAXED) > capture.limit) {
    __atomic_sub_fetch(&capture.bytes, bytes_, __ATOMIC_RELAXED);
    too_large_ = true;
    return;
  }
  files_ = take<Files>(1);
  if (!files_ || !write_inputs()) discard();
}

bool CapturedRun::write_inputs() {
  aotc_context& c = *context_;
  const Capture& capture = *c.model->capture;
  if (!files_->make(capture, number_)) return false;
  if (mkdir(files_->path("inputs"), 0700) != 0 || mkdir(files_->path("states"), 0700) != 0) return false;
  const aotc_method_desc& desc = *method_.desc;
  for (int32_t i = 0; i < n_in_; ++i)
    if (!write_tensor(&c, files_->path("inputs", static_cast<uint32_t>(i) < desc.n_inputs ? desc.inputs[i].name : nullptr, i), in_[i],
                      in_[i].shape))
      return false;
  for (uint32_t s = 0; s < c.model->module->n_states; ++s)
    if (!write_state(&c, files_->path("states", c.model->module->states[s].name, 0), s)) return false;
  return write_description(AOTC_STATUS_OK, false) && files_->move(files_->kept, ".running");
}

bool CapturedRun::write_outputs() {
  aotc_context& c = *context_;
  const aotc_method_desc& desc = *method_.desc;
  if (mkdir(files_->path("outputs"), 0700) != 0) return false;
  for (uint32_t o = 0; o < desc.n_outputs; ++o)
    if (output_sizes_within(&c, static_cast<int32_t>(o), files_->sizes) != AOTC_STATUS_OK ||
        !write_tensor(&c, files_->path("outputs", desc.outputs[o].name, 0), out_[o], files_->sizes))
      return false;
  return true;
}

bool CapturedRun::write_description(aotc_status status, bool ended) {
  const aotc_context& c = *context_;
  const aotc_module_desc& module = *c.model->module;
  const aotc_method_desc& desc = *method_.desc;
  FILE* const f = create(files_->path("run.json.new"));
  if (!f) return false;
  char when[32] = "";
  const time_t now = time(nullptr);
  tm utc;
  if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
  fputs("{\n  \"version\": 1,\n", f);
  put_string(f, "artifact", c.model->path);
  if (const uint64_t id = seal_self_hash()) fprintf(f, "  \"id\": \"%016llx\",\n", static_cast<unsigned long long>(id));
  put_string(f, "method", desc.name ? desc.name : "forward");
  put_string(f, "target", model_target(*c.model));
  if (gnu_get_libc_version) put_string(f, "glibc", gnu_get_libc_version());
  if (c.model->cuda) {
    char name[128];
    int driver;
    cuda_describe(*c.model->cuda, name, sizeof name, &driver);
    put_string(f, "gpu", name);
    fprintf(f, "  \"cuda_driver\": %d,\n", driver);
  }
  put_string(f, "time", when);
  put_string(f, "traceparent", read_traceparent(c.traceparent).text);
  fprintf(f, "  \"run\": %llu,\n  \"device\": %d,\n  \"threads\": %d,\n  \"flags\": %u,\n  \"weights_version\": %llu,\n",
          static_cast<unsigned long long>(number_), c.model->device, c.threads.width, c.flags,
          static_cast<unsigned long long>(c.weights->version));
  if (ended) {
    put_string(f, "status", name_of(status));
    put_string(f, "message", status == AOTC_STATUS_OK ? "" : last_error());
  }
  const auto tensors = [&](const char* kind, int32_t n, auto name_at, auto dtype_of) {
    fprintf(f, "  \"%s\": [", kind);
    for (int32_t i = 0; i < n; ++i) {
      fprintf(f, "%s\n    {\"name\": \"", i ? "," : "");
      put_json(f, name_at(i) ? name_at(i) : "");
      fputs("\", \"file\": \"", f);
      put_json(f, files_->path(kind, name_at(i), i) + strlen(files_->folder) + 1);
      fprintf(f, "\", \"dtype\": \"%s\"}", dtype_name(dtype_of(i)));
    }
    fputs(n ? "\n  ]" : "]", f);
  };
  tensors(
      "inputs", n_in_, [&](int32_t i) { return static_cast<uint32_t>(i) < desc.n_inputs ? desc.inputs[i].name : nullptr; },
      [&](int32_t i) { return in_[i].dtype; });
  fputs(",\n", f);
  tensors(
      "states", static_cast<int32_t>(module.n_states), [&](int32_t i) { return module.states[i].name; },
      [&](int32_t i) { return module.states[i].dtype; });
  fputs(",\n", f);
  tensors(
      "outputs", ended && status == AOTC_STATUS_OK ? static_cast<int32_t>(desc.n_outputs) : 0,
      [&](int32_t i) { return desc.outputs[i].name; }, [&](int32_t i) { return desc.outputs[i].dtype; });
  fputs("\n}\n", f);
  if (!close_file(f)) return false;
  char* const from = strdup(files_->path("run.json.new"));
  const bool moved = from && rename(from, files_->path("run.json")) == 0;
  free(from);
  return moved;
}

aotc_status CapturedRun::end(aotc_status status) {
  aotc_context& c = *context_;
  Capture& capture = *c.model->capture;
  const auto say = [&](const char* text, const char* where) {
    if (status == AOTC_STATUS_OK) return;
    char before[768] = "";
    Text{before, before + sizeof before}.add("%s", last_error());
    fail(status, "%s; %s%s", before, text, where);
  };
  if (!files_) {
    if (too_large_) say("the run was not captured: its tensors are above what AOTC_CAPTURE_LIMIT leaves", "");
    return status;
  }
  if (status == AOTC_STATUS_OK && c.model->cuda) {  // a run is queued
    status = wait_for_queued(&c);
    c.sizes_known = status == AOTC_STATUS_OK;
  }
  bool keep = is_replayable(status) && (status != AOTC_STATUS_OK || capture.which != Capture::failed);
  if (keep && capture.which != Capture::all) keep = !__atomic_exchange_n(&capture.done, true, __ATOMIC_ACQ_REL);
  const bool kept = keep && (status != AOTC_STATUS_OK || write_outputs()) && write_description(status, true) && files_->move(files_->kept);
  if (kept) {
    say("the run was captured in ", files_->folder);
    free(files_);
    files_ = nullptr;
  } else {
    char message[512] = "";
    Text{message, message + sizeof message}.add("%s", last_error());
    discard();
    if (status != AOTC_STATUS_OK) fail(status, "%s", message);
    if (keep) say("the run could not be captured in ", capture.folder);
  }
  return status;
}

void CapturedRun::discard() {
  Capture& capture = *context_->model->capture;
  __atomic_sub_fetch(&capture.bytes, bytes_, __ATOMIC_RELAXED);
  if (files_ && files_->folder[0]) {
    const aotc_method_desc& desc = *method_.desc;
    const aotc_module_desc& module = *context_->model->module;
    files_->move(files_->hidden);
    unlink(files_->path("run.json"));
    unlink(files_->path("run.json.new"));
    for (int32_t i = 0; i < n_in_; ++i)
      unlink(files_->path("inputs", static_cast<uint32_t>(i) < desc.n_inputs ? desc.inputs[i].name : nullptr, i));
    for (uint32_t s = 0; s < module.n_states; ++s) unlink(files_->path("states", module.states[s].name, 0));
    for (uint32_t o = 0; o < desc.n_outputs; ++o) unlink(files_->path("outputs", desc.outputs[o].name, 0));
    for (const char* kind : kKinds) rmdir(files_->path(kind));
    rmdir(files_->folder);
  }
  free(files_);
  files_ = nullptr;
}

}  // namespace aotc::rt
