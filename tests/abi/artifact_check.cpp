// What must hold for every CPU artifact, whatever its model computes: the metamorphic checks, from outside, through the C ABI alone.
//
//   artifact_check model.so [--dim NAME=VALUE]... [--threads N] [--runs N]
//
// Inputs are random by a fixed seed: floats from a bell curve, integers and bools 0 or 1 (valid as indices and masks). Prints one line a
// check; exits 1 when one fails.
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "aotc/loader.h"

// Allocations of the process are counted: those of the artifact, too, which finds these functions before the C library's.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define AOTC_COUNTS_CALLS
static std::atomic<int64_t> g_calls;
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);
void* malloc(size_t bytes) { return ++g_calls, __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return ++g_calls, __libc_calloc(count, bytes); }
void* realloc(void* p, size_t bytes) { return ++g_calls, __libc_realloc(p, bytes); }
void* aligned_alloc(size_t align, size_t bytes) { return ++g_calls, __libc_memalign(align, bytes); }
int posix_memalign(void** p, size_t align, size_t bytes) { return ++g_calls, (*p = __libc_memalign(align, bytes)) ? 0 : 12; }
void free(void* p) { ++g_calls, __libc_free(p); }
}
#endif

namespace {

struct Dims {
  std::map<std::string, int64_t> given;
  std::map<std::string, int64_t> chosen;
};

/// "2*seq + 1" with values for its names: sums of products, parentheses.
class Expression {
 public:
  Expression(const char* text, Dims* dims, int64_t min, int64_t max) : at_(text), dims_(dims), min_(min), max_(max) {}
  int64_t value() {
    const int64_t v = sum();
    if (*at_) throw std::runtime_error(std::string("cannot choose a size for '") + at_ + "': give --dim");
    return v;
  }

 private:
  int64_t sum() {
    int64_t v = product();
    for (;;) {
      if (eat('+'))
        v += product();
      else if (eat('-'))
        v -= product();
      else
        return v;
    }
  }
  int64_t product() {
    int64_t v = factor();
    while (eat('*')) v *= factor();
    return v;
  }
  int64_t factor() {
    skip();
    if (eat('(')) {
      const int64_t v = sum();
      eat(')');
      return v;
    }
    if (std::isdigit(static_cast<unsigned char>(*at_))) return std::strtoll(at_, const_cast<char**>(&at_), 10);
    std::string name;
    while (std::isalnum(static_cast<unsigned char>(*at_)) || *at_ == '_') name += *at_++;
    if (auto it = dims_->given.find(name); it != dims_->given.end()) return it->second;
    // A name on its own takes a middling size of its range.
    const int64_t middle = std::max(min_, std::min<int64_t>(max_, 7));
    return dims_->chosen.emplace(name, middle).first->second;
  }
  void skip() {
    while (*at_ == ' ') ++at_;
  }
  bool eat(char c) {
    skip();
    if (*at_ != c) return false;
    ++at_;
    skip();
    return true;
  }
  const char* at_;
  Dims* dims_;
  int64_t min_, max_;
};

uint64_t bytes_of(uint32_t dtype) {
#define AOTC_X(name, value, text, bytes) \
  if (dtype == value) return bytes;
  AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
  return 0;
}

/// One tensor in memory of its own, `shift` elements past a 64-byte boundary.
struct Buffer {
  std::vector<int64_t> shape;
  uint32_t dtype = 0;
  uint64_t bytes = 0;
  std::vector<unsigned char> storage;
  unsigned char* data = nullptr;

  void allocate(uint64_t shift) {
    bytes = bytes_of(dtype);
    for (int64_t d : shape) bytes *= static_cast<uint64_t>(d);
    storage.assign(bytes + 128 + shift * bytes_of(dtype), 0xcd);
    const uintptr_t at = reinterpret_cast<uintptr_t>(storage.data());
    data = storage.data() + ((at + 63) / 64 * 64 - at) + shift * bytes_of(dtype);
  }
  aotc_tensor tensor() { return aotc_host_tensor(data, shape.data(), static_cast<int32_t>(shape.size()), dtype, bytes); }
};

void fill(Buffer* b, std::mt19937* random) {
  std::normal_distribution<float> bell;
  const uint64_t size = bytes_of(b->dtype), n = size ? b->bytes / size : 0;
  for (uint64_t i = 0; i < n; ++i) {
    unsigned char* at = b->data + i * size;
    const float f = bell(*random);
    const int64_t whole = (*random)() & 1;
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    switch (b->dtype) {
      case AOTC_DTYPE_F32:
      case AOTC_DTYPE_C64: std::memcpy(at, &f, 4); break;
      case AOTC_DTYPE_F64: {
        const double d = f;
        std::memcpy(at, &d, 8);
        break;
      }
      case AOTC_DTYPE_BF16: std::memcpy(at, reinterpret_cast<char*>(&bits) + 2, 2); break;
      case AOTC_DTYPE_F16: {  // [1, 2) with a sign: enough for a half
        const uint16_t half = static_cast<uint16_t>((bits >> 16 & 0x8000) | 0x3c00 | (bits & 0x3ff));
        std::memcpy(at, &half, 2);
        break;
      }
      default: std::memcpy(at, &whole, size); break;
    }
  }
}

/// The artifact with inputs for one choice of sizes.
class Subject {
 public:
  Subject(const std::string& path, const Dims& dims) : dims_(dims) {
    if (aotc_library_open(path.c_str(), AOTC_DEVICE_HOST, &lib_) != AOTC_STATUS_OK) throw std::runtime_error(lib_.error);
    need(api().model_create(nullptr, &model_), "model_create");
    std::mt19937 random(1);
    int32_t n = 0;
    api().io_count(model_, AOTC_INPUT, &n);
    for (int32_t i = 0; i < n; ++i) {
      aotc_io_info info = AOTC_IO_INFO_INIT;
      need(api().io_get(model_, AOTC_INPUT, i, &info), "io_get");
      Buffer b;
      b.dtype = info.dtype;
      for (int32_t d = 0; d < info.rank; ++d) {
        const aotc_dim& dim = info.dims[d];
        b.shape.push_back(dim.symbol ? Expression(dim.symbol, &dims_, dim.min, dim.max).value() : dim.value);
      }
      b.allocate(0);
      fill(&b, &random);
      inputs_.push_back(std::move(b));
    }
  }
  ~Subject() {
    if (model_) api().model_destroy(model_);
    aotc_library_close(&lib_);
  }
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;

  const aotc_api& api() const { return *lib_.api; }
  aotc_context* context(int32_t threads, uint32_t flags = 0) const {
    aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
    options.num_threads = threads;
    options.flags = flags;
    aotc_context* c = nullptr;
    need(api().context_create(model_, &options, &c), "context_create");
    return c;
  }
  /// Inputs and outputs of a call, `shift` elements off alignment.
  std::vector<Buffer> inputs(uint64_t shift = 0) const {
    std::vector<Buffer> copies = inputs_;
    for (size_t i = 0; i < copies.size(); ++i) {
      copies[i].allocate(shift);
      std::memcpy(copies[i].data, inputs_[i].data, copies[i].bytes);
    }
    return copies;
  }
  std::vector<Buffer> outputs(aotc_context* c, std::vector<Buffer>& in, uint64_t shift = 0) const {
    int32_t n = 0;
    api().io_count(model_, AOTC_OUTPUT, &n);
    std::vector<Buffer> out(static_cast<size_t>(n));
    std::vector<int64_t*> shapes;
    for (int32_t i = 0; i < n; ++i) {
      aotc_io_info info = AOTC_IO_INFO_INIT;
      need(api().io_get(model_, AOTC_OUTPUT, i, &info), "io_get");
      out[static_cast<size_t>(i)].shape.resize(static_cast<size_t>(info.rank));
      out[static_cast<size_t>(i)].dtype = info.dtype;
      shapes.push_back(out[static_cast<size_t>(i)].shape.data());
    }
    const std::vector<aotc_tensor> tensors = views(in);
    need(api().output_bounds(c, tensors.data(), static_cast<int32_t>(tensors.size()), shapes.data(), n), "output_bounds");
    for (Buffer& b : out) b.allocate(shift);
    return out;
  }
  aotc_status run(aotc_context* c, std::vector<Buffer>& in, std::vector<Buffer>& out) const {
    const std::vector<aotc_tensor> i = views(in), o = views(out);
    return api().run(c, i.data(), static_cast<int32_t>(i.size()), o.data(), static_cast<int32_t>(o.size()));
  }
  /// The bytes of all outputs after one run in a fresh context.
  std::vector<std::string> answer(int32_t threads, uint32_t flags, uint64_t shift) const {
    aotc_context* c = context(threads, flags);
    std::vector<Buffer> in = inputs(shift), out = outputs(c, in, shift);
    const aotc_status status = run(c, in, out);
    const std::string why = api().last_error();
    api().context_destroy(c);
    if (status != AOTC_STATUS_OK) throw std::runtime_error("run: " + why);
    return contents(out);
  }
  static std::vector<std::string> contents(const std::vector<Buffer>& buffers) {
    std::vector<std::string> all;
    for (const Buffer& b : buffers) all.emplace_back(reinterpret_cast<const char*>(b.data), b.bytes);
    return all;
  }
  void need(aotc_status status, const char* what) const {
    if (status != AOTC_STATUS_OK) throw std::runtime_error(std::string(what) + ": " + api().last_error());
  }
  static std::vector<aotc_tensor> views(std::vector<Buffer>& buffers) {
    std::vector<aotc_tensor> all;
    for (Buffer& b : buffers) all.push_back(b.tensor());
    return all;
  }

 private:
  Dims dims_;
  aotc_library lib_{};
  aotc_model* model_ = nullptr;
  std::vector<Buffer> inputs_;
};

int g_failures = 0;
void report(bool ok, const std::string& what) {
  std::printf("%s  %s\n", ok ? "ok  " : "FAIL", what.c_str());
  g_failures += !ok;
}

void check_sameness(const Subject& s, int threads) {
  const auto reference = s.answer(1, 0, 0);
  report(s.answer(1, 0, 0) == reference, "a second context gives the same bytes");
  report(s.answer(1, 0, 1) == reference, "pointers one element off alignment give the same bytes");
  report(s.answer(1, AOTC_CONTEXT_POISON, 0) == reference, "a poisoned workspace gives the same bytes");
  for (int n : {2, threads, threads + 3}) {
    const auto many = s.answer(n, 0, 0);
    report(many == reference, std::to_string(n) + " threads give the bytes of one");
  }
}

void check_repeats(const Subject& s, int threads, int runs) {
  aotc_context* c = s.context(threads);
  std::vector<Buffer> in = s.inputs(), out = s.outputs(c, in);
  bool same = true, untouched = true;
  std::vector<std::string> first;
  const auto before_inputs = Subject::contents(in);
  const unsigned csr = _mm_getcsr();
  for (int i = 0; i < runs && same; ++i) {
    s.api().state_reset(c, nullptr);
    same = s.run(c, in, out) == AOTC_STATUS_OK;
    if (i == 0) first = Subject::contents(out);
    same = same && Subject::contents(out) == first;
  }
  untouched = Subject::contents(in) == before_inputs;
  report(same, std::to_string(runs) + " runs in one context give the same bytes");
  report(untouched, "inputs are not written");
  report(((_mm_getcsr() ^ csr) & ~0x3fu) == 0, "MXCSR is as before");
  s.api().context_destroy(c);
}

void check_contexts(const Subject& s, int threads, int runs) {
  const auto reference = s.answer(1, 0, 0);
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads + 2; ++t)
    all.emplace_back([&] {
      for (int i = 0; i < std::max(1, runs / 4); ++i) wrong += s.answer(1, 0, 0) != reference;
    });
  for (std::thread& t : all) t.join();
  report(wrong == 0, "contexts on " + std::to_string(threads + 2) + " threads at once give the same bytes");
}

void check_refusals(const Subject& s) {
  aotc_context* c = s.context(1);
  std::vector<Buffer> in = s.inputs(), out = s.outputs(c, in);
  const auto before = Subject::contents(out);
  bool refused = true;
  for (size_t i = 0; i < in.size(); ++i) {
    for (int fault = 0; fault < 4; ++fault) {
      std::vector<aotc_tensor> x = Subject::views(in), y = Subject::views(out);
      if (fault == 0) x[i].dtype = x[i].dtype == AOTC_DTYPE_F32 ? AOTC_DTYPE_F64 : AOTC_DTYPE_F32;
      if (fault == 1) x[i].rank += 1;
      if (fault == 2) x[i].byte_size = in[i].bytes ? in[i].bytes - 1 : 0;
      if (fault == 3) x[i].device = 5;
      if (fault == 2 && in[i].bytes == 0) continue;
      const aotc_status status = s.api().run(c, x.data(), static_cast<int32_t>(x.size()), y.data(), static_cast<int32_t>(y.size()));
      refused = refused && status != AOTC_STATUS_OK && *s.api().last_error();
    }
  }
  report(refused, "wrong dtype, rank, byte size and device are refused");
  report(Subject::contents(out) == before, "refused calls touch no output");
  s.api().context_destroy(c);
}

uint64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

/// Runs that may be ended: one that is not gives the same bytes, though its steps are done in chunks; one that is leaves a context that
/// goes on after state_reset.
void check_stops(const Subject& s, int threads) {
  if (!AOTC_HAS(&s.api(), run_with)) return;
  const auto reference = s.answer(1, 0, 0);
  for (int n : {1, threads}) {
    aotc_context* c = s.context(n);
    std::vector<Buffer> in = s.inputs(), out = s.outputs(c, in);
    const std::vector<aotc_tensor> x = Subject::views(in), y = Subject::views(out);
    const int32_t never = 0;
    const auto run = [&](uint64_t deadline) {
      aotc_run_options options = AOTC_RUN_OPTIONS_INIT;
      options.cancel = &never;
      options.deadline_ns = deadline;
      s.api().state_reset(c, nullptr);
      return s.api().run_with(c, 0, x.data(), static_cast<int32_t>(x.size()), y.data(), static_cast<int32_t>(y.size()), &options);
    };
    const std::string with = " with " + std::to_string(n) + " threads";
    const uint64_t begin = monotonic_ns();
    report(run(0) == AOTC_STATUS_OK && Subject::contents(out) == reference, "a run that may be ended gives the same bytes" + with);
    const uint64_t took = monotonic_ns() - begin;
    bool right = true;
    for (uint64_t k = 0; k < 8; ++k) {
      const aotc_status status = run(monotonic_ns() + took * k / 8);
      right = right && (status == AOTC_STATUS_OK ? Subject::contents(out) == reference : status == AOTC_STATUS_DEADLINE_EXCEEDED);
    }
    report(right, "deadlines end runs or leave them right" + with);
    report(run(0) == AOTC_STATUS_OK && Subject::contents(out) == reference, "and the next run gives the same bytes" + with);
    s.api().context_destroy(c);
  }
}

/// What runtime/README.md promises a run to need.
constexpr size_t kStackBytes = 64 << 10;

/// A run on a thread whose stack is that small. Below it lie a page without access and memory that must stay as it is, which a frame
/// that steps over the page would write to.
void check_stack(const Subject& s) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  constexpr size_t kBelow = 1 << 20, kPage = 4096, kAll = kBelow + kPage + kStackBytes;
  const auto reference = s.answer(1, 0, 0);
  struct Call {
    const Subject* subject;
    aotc_context* context;
    std::vector<Buffer> in, out;
    aotc_status status;
  } call{&s, s.context(1), s.inputs(), {}, AOTC_STATUS_OK};
  call.out = s.outputs(call.context, call.in);
  void* const map = mmap(nullptr, kAll, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::runtime_error("no memory for a stack");
  auto* const below = static_cast<unsigned char*>(map);
  std::memset(below, 0xa5, kBelow);
  if (mprotect(below + kBelow, kPage, PROT_NONE) != 0) throw std::runtime_error("no guard page");
  pthread_attr_t options;
  pthread_attr_init(&options);
  pthread_attr_setstack(&options, below + kBelow + kPage, kStackBytes);
  pthread_t thread;
  const auto body = [](void* p) -> void* {
    auto* const c = static_cast<Call*>(p);
    c->status = c->subject->run(c->context, c->in, c->out);
    return nullptr;
  };
  if (pthread_create(&thread, &options, body, &call) != 0) throw std::runtime_error("no thread");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&options);
  report(call.status == AOTC_STATUS_OK && Subject::contents(call.out) == reference, "a stack of 64 KB gives the same bytes");
  report(std::all_of(below, below + kBelow, [](unsigned char c) { return c == 0xa5; }), "memory below the stack is not written");
  s.api().context_destroy(call.context);
  munmap(map, kAll);
#else
  (void)s;
#endif
}

/// What a thread with a deadline of its own needs: a run of sizes that the context has seen, on one thread, calls neither the kernel, which
/// ends the process here if it is asked for anything but reading and writing (so no lock that is waited for), nor what allocates.
void check_real_time(const Subject& s, int runs) {
#ifdef AOTC_COUNTS_CALLS
  enum { kRight = 0, kFails = 1, kCalls = 2, kNoFilter = 3 };
  const pid_t child = fork();
  if (child == 0) {
    aotc_context* const c = s.context(1);
    std::vector<Buffer> in = s.inputs(), out = s.outputs(c, in);
    const std::vector<aotc_tensor> x = Subject::views(in), y = Subject::views(out);
    const auto run = [&] { return s.api().run(c, x.data(), static_cast<int32_t>(x.size()), y.data(), static_cast<int32_t>(y.size())); };
    int result = run() == AOTC_STATUS_OK ? kRight : kFails;
    const int64_t before = g_calls;
    const bool filtered = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0;
    for (int i = 0; i < runs && result == kRight; ++i) result = run() == AOTC_STATUS_OK ? kRight : kFails;
    if (result == kRight && g_calls != before) result = kCalls;
    syscall(SYS_exit, result == kRight && !filtered ? kNoFilter : result);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) throw std::runtime_error("no process");
  report(!WIFSIGNALED(status), "runs of sizes that were seen make no system call");
  report(!WIFEXITED(status) || WEXITSTATUS(status) == kRight || WEXITSTATUS(status) == kNoFilter, "nor do they allocate");
#else
  (void)s, (void)runs;
#endif
}

int64_t resident_kb() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/// Is this file mapped into the process? By its whole path: "m.so" is a part of names that stay loaded.
bool is_mapped(const std::string& path) {
  char* whole = realpath(path.c_str(), nullptr);
  const std::string end = std::string(" ") + (whole ? whole : path.c_str());
  std::free(whole);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.size() > end.size() && line.compare(line.size() - end.size(), end.size(), end) == 0) return true;
  return false;
}

void check_unload(const std::string& path, const Dims& dims) {
  bool loaded = false;
  int64_t before = 0, after = 0;
  for (int i = 0; i < 12; ++i) {
    {
      const Subject s(path, dims);
      s.answer(2, 0, 0);
      loaded = is_mapped(path);
    }
    (i == 3 ? before : after) = resident_kb();
  }
  report(loaded && !is_mapped(path), "dlclose unloads it");
  report(after - before < 4096, "memory is flat over loads (" + std::to_string(after - before) + " KB)");
}

}  // namespace

int main(int argc, char** argv) {
  Dims dims;
  std::string path;
  int threads = 2, runs = 20;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--dim" && i + 1 < argc) {
      const std::string pair = argv[++i];
      dims.given[pair.substr(0, pair.find('='))] = std::atoll(pair.substr(pair.find('=') + 1).c_str());
    } else if (arg == "--threads" && i + 1 < argc) {
      threads = std::atoi(argv[++i]);
    } else if (arg == "--runs" && i + 1 < argc) {
      runs = std::atoi(argv[++i]);
    } else {
      path = arg;
    }
  }
  if (path.empty()) {
    std::fprintf(stderr, "usage: artifact_check model.so [--dim NAME=VALUE]... [--threads N] [--runs N]\n");
    return 2;
  }
  if (path.find('/') == std::string::npos) path = "./" + path;
  try {
    {
      const Subject s(path, dims);
      check_sameness(s, threads);
      check_repeats(s, threads, runs);
      check_stops(s, threads);
      check_contexts(s, threads, runs);
      check_refusals(s);
      check_stack(s);
      check_real_time(s, runs);
    }
    check_unload(path, dims);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), e.what());
    return 1;
  }
  return g_failures ? 1 : 0;
}
