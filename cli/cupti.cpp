#include "cupti.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/python_sites.h"

namespace aotc::cli {
namespace {

using nlohmann::json;

constexpr int kRuns = 20;

// Our own declarations of CUPTI's stable binary interface: kinds of records, and what those of all versions begin with.
enum Kind : int32_t { kCopy = 1, kFill = 2, kKernel = 10 };
struct Record {
  int32_t kind;
  uint8_t cache;
  uint8_t shared_config;
  uint16_t registers;
  int32_t partitioned[2];
  uint64_t begin_ns, end_ns;
};
struct KernelRecord {
  Record begin;
  uint64_t completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], static_shared, dynamic_shared;
  uint32_t local_bytes, local_total, correlation;
  int64_t grid_id;
  const char* name;
};
static_assert(offsetof(KernelRecord, stream) == 48 && offsetof(KernelRecord, name) == 104 && offsetof(Record, end_ns) == 24);

using Request = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using Complete = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid);

// X(member, exported name, arguments)
#define AOTC_CUPTI_FUNCTIONS(X)                                       \
  X(version, "cuptiGetVersion", (uint32_t*))                          \
  X(error_text, "cuptiGetResultString", (int, const char**))          \
  X(enable, "cuptiActivityEnable", (int))                             \
  X(disable, "cuptiActivityDisable", (int))                           \
  X(callbacks, "cuptiActivityRegisterCallbacks", (Request, Complete)) \
  X(flush, "cuptiActivityFlushAll", (uint32_t))                       \
  X(next, "cuptiActivityGetNextRecord", (uint8_t*, size_t, const Record**))

struct Cupti {
#define AOTC_X(member, name, arguments) int(*member) arguments;
  AOTC_CUPTI_FUNCTIONS(AOTC_X)
#undef AOTC_X
};

/// What to give to dlopen, best first.
std::vector<std::string> places() {
  const Variables v = process_variables();
  if (const std::string given = variable(v, "AOTC_CUPTI"); !given.empty()) return {given};
  std::vector<std::string> out;
  const auto look_in = [&](const std::string& folder) {
    std::vector<std::string> found = glob_matches(glob_literal(folder) + "/libcupti.so.1[0-9]");
    out.insert(out.end(), found.rbegin(), found.rend());
  };
  const auto toolkit = [&](const std::string& root) {
    for (const char* tail : {"/lib64", "/extras/CUPTI/lib64", "/lib"}) look_in(root + tail);
  };
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const std::string root = variable(v, name); !root.empty()) toolkit(root);
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) out.push_back(name);
  for (const PythonSites& sites : python_sites(v))
    for (const std::string& site : sites.folders)
      for (const char* tail : {"/nvidia/cu[0-9]*/lib", "/nvidia/cuda_cupti/lib"})
        for (const std::string& folder : glob_matches(glob_literal(site) + tail)) look_in(folder);
  for (const std::string& root : glob_matches("/usr/local/cuda*")) toolkit(root);
  return out;
}

Result<Cupti> load() {
  std::string first;
  for (const std::string& place : places()) {
    void* const library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
      if (const char* why = dlerror(); why && first.empty()) first = why;
      continue;
    }
    Cupti c;
#define AOTC_X(member, name, arguments)                        \
  *reinterpret_cast<void**>(&c.member) = dlsym(library, name); \
  if (!c.member) return Result<Cupti>::fail(fmt::format("{} lacks {}", place, name));
    AOTC_CUPTI_FUNCTIONS(AOTC_X)
#undef AOTC_X
    return c;
  }
  return Result<Cupti>::fail(fmt::format("libcupti is not installed (pip: nvidia-cuda-cupti; AOTC_CUPTI names it): {}", first));
}

/// Where CUPTI's callbacks, which are given nothing of ours, put what it tells.
struct Collected {
  std::mutex mutex;
  const Cupti* cupti = nullptr;
  std::vector<KernelSpan> spans;
  std::vector<uint64_t> begins_ns;
};
Collected& collected() {
  static Collected c;
  return c;
}

constexpr size_t kBufferBytes = size_t{1} << 20, kBufferAlign = 8;

void request(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlign, kBufferBytes));
  *bytes = *buffer ? kBufferBytes : 0, *most_records = 0;
}

void complete(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  Collected& c = collected();
  const std::lock_guard<std::mutex> lock(c.mutex);
  const Record* r = nullptr;
  while (c.cupti && c.cupti->next(buffer, valid, &r) == 0) {
    KernelSpan s;
    if (r->kind == kKernel) {
      const auto* k = reinterpret_cast<const KernelRecord*>(r);
      s.name = k->name ? k->name : "?";
      s.stream = k->stream, s.registers = r->registers, s.local_bytes = k->local_bytes;
      s.shared_bytes = k->static_shared + k->dynamic_shared;
      std::copy_n(k->grid, 3, s.grid.begin()), std::copy_n(k->block, 3, s.block.begin());
    } else if (r->kind == kCopy || r->kind == kFill) {
      s.name = r->kind == kCopy ? "copy" : "fill";
    } else {
      continue;
    }
    s.us = static_cast<double>(r->end_ns - r->begin_ns) / 1e3;
    c.spans.push_back(std::move(s));
    c.begins_ns.push_back(r->begin_ns);
  }
  std::free(buffer);
}

/// CUPTI on for a scope.
class Collecting {
 public:
  explicit Collecting(const Cupti& cupti) : cupti_(cupti) {
    Collected& c = collected();
    {
      const std::lock_guard<std::mutex> lock(c.mutex);
      c.cupti = &cupti_;
      c.spans.clear(), c.begins_ns.clear();
    }
    code_ = cupti.callbacks(request, complete);
    for (const int kind : {kKernel, kCopy, kFill})
      if (code_ == 0) code_ = cupti.enable(kind);
  }
  ~Collecting() {
    for (const int kind : {kKernel, kCopy, kFill}) cupti_.disable(kind);
    cupti_.flush(1);
    const std::lock_guard<std::mutex> lock(collected().mutex);
    collected().cupti = nullptr;
  }
  Collecting(const Collecting&) = delete;
  Collecting& operator=(const Collecting&) = delete;
  int code() const { return code_; }
  /// All that has been told since the last call, by begin.
  std::vector<KernelSpan> take() {
    cupti_.flush(1);
    Collected& c = collected();
    const std::lock_guard<std::mutex> lock(c.mutex);
    std::vector<size_t> order(c.spans.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return c.begins_ns[a] < c.begins_ns[b]; });
    std::vector<KernelSpan> out;
    for (const size_t i : order) {
      out.push_back(std::move(c.spans[i]));
      out.back().begin_us = static_cast<double>(c.begins_ns[i] - c.begins_ns[order[0]]) / 1e3;
    }
    c.spans.clear(), c.begins_ns.clear();
    return out;
  }

 private:
  const Cupti cupti_;
  int code_ = 0;
};

/// The time in which any of them is under way.
double busy_us(const std::vector<KernelSpan>& run) {
  double busy = 0, until = 0;
  for (const KernelSpan& s : run) {
    const double end = s.begin_us + s.us;
    busy += std::max(0.0, end - std::max(until, s.begin_us));
    until = std::max(until, end);
  }
  return busy;
}
double span_us(const std::vector<KernelSpan>& run) {
  double until = 0;
  for (const KernelSpan& s : run) until = std::max(until, s.begin_us + s.us);
  return until;
}

}  // namespace

Result<KernelTrace> trace_kernels(const Artifact& artifact, int threads, uint32_t flags, search::Device* device,
                                  const std::vector<HostTensor>& inputs) {
  const Result<Cupti> cupti = load();
  if (!cupti) return Result<KernelTrace>::fail(cupti.why());
  uint32_t version = 0;
  cupti->version(&version);
  Collecting collecting(*cupti);
  if (collecting.code()) {
    const char* text = nullptr;
    cupti->error_text(collecting.code(), &text);
    return Result<KernelTrace>::fail(fmt::format("CUPTI (version {}) refuses: {}", version, text ? text : "unknown error"));
  }
  Session session(artifact, threads, flags, device);
  session.bind(inputs);
  for (int warm = 0; warm < 3; ++warm) session.run(), session.wait();
  collecting.take();
  KernelTrace trace;
  constexpr uint32_t kMajor = 10000;  // 130001 is 13.0's; numbers below belong to older toolkits
  trace.library =
      version >= kMajor * 10 ? fmt::format("CUPTI {}.{}", version / kMajor, version % kMajor / 100) : fmt::format("CUPTI {}", version);
  for (int i = 0; i < kRuns; ++i) {
    session.run(), session.wait();
    trace.runs.push_back(collecting.take());
    if (trace.runs.back().empty()) return Result<KernelTrace>::fail(trace.library + " tells of no kernel");
    if (trace.runs.back().size() != trace.runs.front().size())
      return Result<KernelTrace>::fail(fmt::format("{} tells of {} kernels in one run and {} in another", trace.library,
                                                   trace.runs.front().size(), trace.runs.back().size()));
  }
  return trace;
}

json kernels_json(const Result<KernelTrace>& trace) {
  if (!trace) return {{"missing", trace.why()}};
  const double n = static_cast<double>(trace->runs.size());
  double busy = 0, whole = 0;
  json list = json::array();
  for (const auto& run : trace->runs) busy += busy_us(run) / n, whole += span_us(run) / n;
  for (size_t i = 0; i < trace->runs.front().size(); ++i) {
    const KernelSpan& s = trace->runs.front()[i];
    double us = 0;
    for (const auto& run : trace->runs) us += run[i].us / n;
    json row = {{"name", s.name}, {"us", us}};
    if (s.block[0] > 0)
      row.update({{"grid", s.grid},
                  {"block", s.block},
                  {"registers", s.registers},
                  {"shared_bytes", s.shared_bytes},
                  {"local_bytes", s.local_bytes}});
    list.push_back(std::move(row));
  }
  return {{"by", trace->library}, {"runs", trace->runs.size()}, {"us", whole}, {"busy_us", busy}, {"list", std::move(list)}};
}

void print_kernels(const json& k) {
  if (k.contains("missing")) {
    fmt::print("  kernels: no times of theirs: {}\n", k.at("missing").get<std::string>());
    return;
  }
  const double whole = k.at("us"), busy = k.at("busy_us");
  fmt::print("  kernels by {} ({} runs): {:.1f} us from the first to the last, in {:.1f} of which none runs\n",
             k.at("by").get<std::string>(), k.at("runs").dump(), whole, whole - busy);
  std::vector<const json*> order;
  for (const json& row : k.at("list")) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(), [](const json* a, const json* b) { return a->at("us") > b->at("us"); });
  for (const json* row : order) {
    std::string launch;
    if (row->contains("grid"))
      launch = fmt::format("  {} blocks of {}, {} registers, {} bytes shared{}", fmt::join(row->at("grid").get<std::vector<int>>(), " x "),
                           fmt::join(row->at("block").get<std::vector<int>>(), " x "), row->at("registers").dump(),
                           row->at("shared_bytes").dump(),
                           row->at("local_bytes") == 0 ? "" : fmt::format(", {} bytes local", row->at("local_bytes").dump()));
    const double us = row->at("us");
    fmt::print("  {:10.1f} us {:5.1f} %  {}{}\n", us, whole > 0 ? us / whole * 100 : 0, row->at("name").get<std::string>(), launch);
  }
}

json kernel_events(const Result<KernelTrace>& trace) {
  json events = json::array();
  if (!trace) return events;
  constexpr int kProcess = 2;
  events.push_back({{"ph", "M"}, {"pid", kProcess}, {"name", "process_name"}, {"args", {{"name", "GPU, by " + trace->library}}}});
  for (const KernelSpan& s : trace->runs[trace->runs.size() / 2])
    events.push_back({{"ph", "X"},
                      {"pid", kProcess},
                      {"tid", s.stream},
                      {"name", s.name},
                      {"ts", s.begin_us},
                      {"dur", s.us},
                      {"args", {{"grid", s.grid}, {"block", s.block}, {"registers", s.registers}, {"shared_bytes", s.shared_bytes}}}});
  return events;
}

}  // namespace aotc::cli
