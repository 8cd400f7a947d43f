#include "search/measure_worker.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "aotc/loader.h"
#include "search/device.h"

namespace aotc::search {
namespace {

using nlohmann::json;

/// Of one job; carries the text of its answer.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

double now_ns() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

uint64_t bytes_of(uint32_t dtype) {
  switch (dtype) {
#define X(name, value, text, bytes) \
  case value: return bytes;
    AOTC_DTYPE_LIST(X)
#undef X
  }
  return 0;
}

/// A file of bytes that follow a request, gone with it.
class Attached {
 public:
  Attached(std::istream& in, uint64_t bytes) {
    const char* folder = std::getenv("TMPDIR");
    path_ = std::string(folder && *folder ? folder : "/tmp") + "/aotc-measure-XXXXXX";
    const int fd = mkstemp(path_.data());
    if (fd < 0) throw Failure("no file for the job in " + path_);
    std::vector<char> block(1 << 20);
    bool whole = true;
    while (bytes > 0 && in.read(block.data(), static_cast<std::streamsize>(std::min<uint64_t>(bytes, block.size())))) {
      whole = whole && write(fd, block.data(), static_cast<size_t>(in.gcount())) == in.gcount();
      bytes -= static_cast<uint64_t>(in.gcount());
    }
    close(fd);
    if (!whole || bytes > 0) throw Failure("the job was cut off");
  }
  ~Attached() { unlink(path_.c_str()); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A loaded artifact with one model.
class Artifact {
 public:
  Artifact(const std::string& path, int device) {
    if (aotc_library_load(path.c_str(), &library_) != AOTC_STATUS_OK) throw Failure(library_.error);
    api = library_.api;
    aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
    options.device = device;
    const aotc_status status = api->model_create(&options, &model);
    if (status == AOTC_STATUS_OK) return;
    const std::string why = api->last_error();
    aotc_library_close(&library_);
    throw Failure(why);
  }
  ~Artifact() {
    api->model_destroy(model);
    aotc_library_close(&library_);
  }
  Artifact(const Artifact&) = delete;
  void check(aotc_status s) const {
    if (s != AOTC_STATUS_OK) throw Failure(api->last_error());
  }

  const aotc_api* api = nullptr;
  aotc_model* model = nullptr;

 private:
  aotc_library library_ = {};
};

/// The tensors of one candidate. Contents are small numbers that are no denormals; integers are zero, bools true.
struct Tensors {
  Memory memory = Memory::buffer;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<aotc_tensor> tensors;
  void add(Device& device, std::vector<int64_t> shape, uint32_t dtype) {
    int64_t bytes = static_cast<int64_t>(bytes_of(dtype));
    for (int64_t d : shape)
      if (d < 0 || __builtin_mul_overflow(bytes, d, &bytes)) throw Failure("a tensor of a shape that no memory holds");
    shapes.push_back(std::move(shape));
    aotc_tensor t = aotc_host_tensor(device.allocate(static_cast<uint64_t>(bytes), memory), nullptr,
                                     static_cast<int32_t>(shapes.back().size()), dtype, static_cast<uint64_t>(bytes));
    t.device = device.ordinal();
    device.fill(t.data, t.byte_size, dtype);
    tensors.push_back(t);
    for (size_t i = 0; i < shapes.size(); ++i) tensors[i].shape = shapes[i].data();
  }
};

struct Candidate {
  Candidate(Artifact& a, Device& device, const json& job, int64_t number, Memory memory) : artifact(a) {
    in.memory = out.memory = memory;
    aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
    options.num_threads = job.at("threads");
    options.stream = device.stream();
    a.check(a.api->context_create(a.model, &options, &context));
    const size_t chooser = job.at("candidate");
    for (size_t i = 0; i < job.at("shapes").size(); ++i) {
      aotc_io_info info = AOTC_IO_INFO_INIT;
      a.check(a.api->io_get(a.model, AOTC_INPUT, static_cast<int32_t>(i), &info));
      in.add(device, i == chooser ? std::vector<int64_t>{number} : job.at("shapes")[i].get<std::vector<int64_t>>(), info.dtype);
      const json values = job.value("values", json::object());
      if (const auto value = values.find(std::to_string(i)); value != values.end() && info.dtype == AOTC_DTYPE_I64) {
        const aotc_tensor& t = in.tensors.back();
        const auto [first, last] = value->get<std::pair<int64_t, int64_t>>();
        std::vector<int64_t> all(t.byte_size / sizeof(int64_t), last);
        const auto steps = static_cast<double>(all.size() > 1 ? all.size() - 1 : 1);
        for (size_t e = 0; e + 1 < all.size(); ++e)
          all[e] = first + static_cast<int64_t>(static_cast<double>(last - first) * static_cast<double>(e) / steps);
        device.write(t.data, all.data(), t.byte_size);
      }
    }
    int32_t n_out = 0;
    a.check(a.api->io_count(a.model, AOTC_OUTPUT, &n_out));
    std::vector<std::vector<int64_t>> shapes;
    std::vector<uint32_t> dtypes;
    for (int32_t i = 0; i < n_out; ++i) {
      aotc_io_info info = AOTC_IO_INFO_INIT;
      a.check(a.api->io_get(a.model, AOTC_OUTPUT, i, &info));
      shapes.emplace_back(static_cast<size_t>(info.rank));
      dtypes.push_back(info.dtype);
    }
    std::vector<int64_t*> pointers;
    for (auto& s : shapes) pointers.push_back(s.data());
    a.check(a.api->output_bounds(context, in.tensors.data(), static_cast<int32_t>(in.tensors.size()), pointers.data(), n_out));
    for (int32_t i = 0; i < n_out; ++i) out.add(device, shapes[static_cast<size_t>(i)], dtypes[static_cast<size_t>(i)]);
    run();
    a.check(a.api->synchronize(context));
  }
  ~Candidate() { artifact.api->context_destroy(context); }
  void run() {
    artifact.check(artifact.api->run(context, in.tensors.data(), static_cast<int32_t>(in.tensors.size()), out.tensors.data(),
                                     static_cast<int32_t>(out.tensors.size())));
  }
  /// Whether some tensor lies elsewhere with Memory::huge.
  bool has_large() const {
    const auto large = [](const Tensors& t) {
      return std::any_of(t.tensors.begin(), t.tensors.end(), [](const aotc_tensor& x) { return x.byte_size >= kHugeFrom; });
    };
    return large(in) || large(out);
  }
  Artifact& artifact;
  aotc_context* context = nullptr;
  Tensors in, out;
};

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(q * static_cast<double>(v.size() - 1) + 0.5)];
}

constexpr double kWide = 0.1;  ///< spread of calls beyond which others had a part in most of them

/// By candidate: the lower quartile of its calls; where any candidate's calls spread widely, the least of each. The ratio is of the calls
/// of one turn to those of the first candidate in it, the middle one of all turns.
json timings_of(const std::vector<std::vector<double>>& ns, const std::vector<std::string>& errors) {
  const auto spread = [](const std::vector<double>& v) { return (quantile(v, 0.75) - quantile(v, 0.25)) / quantile(v, 0.5); };
  const bool wide = std::any_of(ns.begin(), ns.end(), [&](const std::vector<double>& v) { return !v.empty() && spread(v) > kWide; });
  const auto ratios = [](const std::vector<double>& first, const std::vector<double>& v) {
    std::vector<double> of_turns;
    for (size_t t = 0; t < std::min(first.size(), v.size()); ++t) of_turns.push_back(v[t] / first[t]);
    if (of_turns.empty()) return std::pair(0.0, 0.0);
    const double quartiles = quantile(of_turns, 0.75) - quantile(of_turns, 0.25);  // the median's error of normal ones
    return std::pair(quantile(of_turns, 0.5), 0.93 * quartiles / std::sqrt(static_cast<double>(of_turns.size())));
  };
  json timings = json::array();
  for (size_t i = 0; i < ns.size(); ++i) {
    if (!errors[i].empty() || ns[i].empty())
      timings.push_back({{"error", errors[i].empty() ? "it was never run" : errors[i]}});
    else {
      const auto [ratio, error] = ratios(ns[0], ns[i]);
      timings.push_back({{"ns", quantile(ns[i], wide ? 0 : 0.25)}, {"spread", spread(ns[i])}, {"ratio", ratio}, {"ratio_error", error}});
    }
  }
  return timings;
}

/// Nanoseconds of one run: of the processor where all of it runs on this thread, so that nobody who interrupts it counts; else as the
/// device times it.
double time_run(Device& device, bool one_thread, const std::function<void()>& run) {
  const auto now = [] {
    timespec t = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
  };
  if (!one_thread) return device.time(run);
  const double begin = now();
  run();
  return now() - begin;
}

/// Calls one after the other for about `seconds`, as programs make them: the first finds the caches as others left them and does not count,
/// unless it takes that long by itself. Nanoseconds of the middle one.
double time_turn(Device& device, bool one_thread, double seconds, const std::function<void()>& run) {
  const double first = time_run(device, one_thread, run);
  if (first >= seconds * 1e9) return first;
  std::vector<double> ns;
  for (const double end = now_ns() + seconds * 1e9; ns.empty() || now_ns() < end;) ns.push_back(time_run(device, one_thread, run));
  return quantile(ns, 0.5);
}

/// Marks candidates that are so far behind the fastest that more calls would tell nothing new. Whether two or more are left.
bool several_left(const std::vector<std::vector<double>>& ns, std::vector<bool>* behind) {
  constexpr double kBehind = 1.2;  ///< times the least call of the fastest
  constexpr size_t kEnough = 8;    ///< calls
  std::vector<double> least;
  for (const std::vector<double>& v : ns) least.push_back(v.empty() ? std::numeric_limits<double>::infinity() : quantile(v, 0));
  const double best = *std::min_element(least.begin(), least.end());
  size_t left = 0, calls = 0;
  for (size_t i = 0; i < ns.size(); ++i) {
    if (ns[i].size() >= kEnough && least[i] > kBehind * best) (*behind)[i] = true;
    left += !ns[i].empty() && !(*behind)[i], calls = std::max(calls, ns[i].size());
  }
  return left > 1 || ns.size() == 1 || calls < kEnough;
}

/// The candidates of a job whose tensors lie in memory of one kind, and what they took.
struct Field {
  explicit Field(size_t n) : candidates(n), errors(n), ns(n), behind(n) {}
  std::vector<std::unique_ptr<Candidate>> candidates;
  std::vector<std::string> errors;
  std::vector<std::vector<double>> ns;
  std::vector<bool> behind;

  bool has_large() const {
    return std::any_of(candidates.begin(), candidates.end(), [](const auto& c) { return c && c->has_large(); });
  }
};

/// What holds in memory of either kind: the mean of a candidate's ratios, the worse one where it loses in one of them.
json of_both(json a, const json& b) {
  constexpr double kLevel = 1.02;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].contains("error") || b[i].contains("error")) {
      if (b[i].contains("error")) a[i] = b[i];
      continue;
    }
    const double x = a[i].at("ratio"), y = b[i].at("ratio");
    const double ns = (a[i].at("ns").get<double>() + b[i].at("ns").get<double>()) / 2;
    const double error = std::max(a[i].at("ratio_error").get<double>(), b[i].at("ratio_error").get<double>());
    a[i]["ns"] = ns, a[i]["ratio"] = std::max(x, y) > kLevel ? std::max(x, y) : std::sqrt(x * y), a[i]["ratio_error"] = error;
  }
  return a;
}

/// paths: one artifact for all candidates, which an input tells apart, or one each. Of whole artifacts, whose tensors are programs',
/// a turn in memory of one kind is followed by one in the other where some are large: which of two ways to store results is faster differs.
json measure(const json& job, const std::vector<std::string>& paths) {
  const auto n = job.at("candidates").get<size_t>();
  if (n == 0 || paths.empty() || (paths.size() > 1 && paths.size() != n)) throw Failure("a job of no candidates, or of other artifacts");
  const double seconds = job.at("seconds");
  const double turn_s = job.value("turn_seconds", 0.0);  // 0: a turn is one call
  const int gpu = job.value("gpu", -1);
  const bool one_thread = gpu < 0 && job.value("threads", 0) == 1;
  const std::unique_ptr<Device> device = make_device(gpu);
  std::vector<std::unique_ptr<Artifact>> artifacts;
  for (const std::string& path : paths) artifacts.push_back(std::make_unique<Artifact>(path, device->ordinal()));
  const bool one_each = paths.size() > 1;
  std::vector<Field> fields;
  const auto enter = [&](Memory memory) {
    Field& f = fields.emplace_back(n);
    for (size_t i = 0; i < n; ++i) try {
        f.candidates[i] =
            std::make_unique<Candidate>(*artifacts.at(one_each ? i : 0), *device, job, one_each ? 0 : static_cast<int64_t>(i), memory);
      } catch (const Failure& e) { f.errors[i] = e.what(); }
  };
  enter(one_each ? Memory::heap : Memory::buffer);
  if (one_each && gpu < 0 && fields.front().has_large()) enter(Memory::huge);
  // In turns, so that a noisy moment of the machine does not hit one alone.
  const size_t least = 5 * fields.size(), most = 400 * fields.size();
  const double end = now_ns() + seconds * 1e9;
  for (size_t round = 0; round < most && (round < least || now_ns() < end); ++round) {
    Field& f = fields[round % fields.size()];
    if (round >= 2 * fields.size() && now_ns() > end + seconds * 2e9) break;
    if (round >= fields.size() && !several_left(f.ns, &f.behind)) break;
    for (size_t i = 0; i < n; ++i) try {
        if (!f.candidates[i] || f.behind[i]) continue;
        const auto run = [&] { f.candidates[i]->run(); };
        if (turn_s > 0) {
          f.ns[i].push_back(time_turn(*device, one_thread, turn_s, run));
          continue;
        }
        device->chill(job.value("cold_bytes", uint64_t{0}));
        for (const aotc_tensor& t : f.candidates[i]->in.tensors) device->warm(t.data, t.byte_size);
        f.ns[i].push_back(time_run(*device, one_thread, run));
      } catch (const Failure& e) { f.errors[i] = e.what(), f.candidates[i].reset(); }
  }
  json timings = timings_of(fields.front().ns, fields.front().errors);
  if (fields.size() > 1) timings = of_both(std::move(timings), timings_of(fields.back().ns, fields.back().errors));
  return {{"timings", timings}};
}

}  // namespace

int run_measure_worker() {
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      const json job = json::parse(line);
      if (job.contains("architecture_of")) {
        answer = {{"architecture", gpu_architecture(job.at("architecture_of"))}};
      } else if (job.contains("artifact_bytes")) {
        const Attached artifact(std::cin, job.at("artifact_bytes"));
        answer = measure(job, {artifact.path()});
      } else if (job.contains("artifacts")) {
        answer = measure(job, job.at("artifacts").get<std::vector<std::string>>());
      } else {
        answer = measure(job, {job.at("artifact").get<std::string>()});
      }
    } catch (const std::exception& e) { answer = {{"error", e.what()}}; }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace aotc::search
