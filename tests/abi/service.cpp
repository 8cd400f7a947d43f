// A service under all that may happen to one at once: weights are swapped, the artifact is replaced on disk, runs are cancelled, clients
// hang up. Every answer that a client gets is held, to the bit, against what the set of weights that the service names gives alone.
//
//     service MODEL.so[,OTHER.so ..] [SET.weights ..] [--seconds 10] [--phase 5] [--every 1] [--reload 3] [--workers 2] [--within 0]
//
// Sets fit every artifact (aotc weights). Phases with swaps, one every `every` seconds, and without take turns, which `phase` seconds each
// take; `seconds` are those with swaps. Replacements, cancels and hang-ups happen in both. Says how long runs took in both, as clients saw
// it, and the process's memory after a tenth of the time and at the end. --within P: fails where the p99 with swaps is more than P per cent
// above that without. Sizes: all symbolic dimensions from the least one on, in as many steps as the narrowest range has.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "aotc/aotc.hpp"
#include "aotc/dtype.h"
#ifdef AOTC_TOY_WEIGHTS
#include "toy_weights.h"
#endif

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Bytes = std::vector<char>;

namespace {

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "service: %s\n", why.c_str());
  std::_Exit(1);
}
void check(const aotc::host::Status& status) {
  if (!status) give_up(status.message);
}

struct Options {
  std::vector<std::string> artifacts, sets;
  double seconds = 10, phase = 5, every = 1, reload = 3, within = 0;
  int workers = 2;
};

uint64_t bytes_of(uint32_t dtype) {
#define AOTC_X(name, value, text, bytes) \
  if (dtype == value) return bytes;
  AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X
  give_up("an unknown element type");
}

/// Inputs of one case, which has its number, and room for the outputs.
class Call {
 public:
  enum { kCases = 12 };
  Call(const aotc::host::Model& model, aotc::host::Context& context, int number) {
    int64_t steps = INT64_MAX;
    for (const aotc::host::TensorInfo& t : model.inputs())
      for (const aotc_dim& d : t.dims)
        if (d.max > d.min) steps = std::min(steps, d.max - d.min);
    for (const aotc::host::TensorInfo& t : model.inputs()) {
      std::vector<int64_t> shape;
      for (const aotc_dim& d : t.dims)
        shape.push_back(d.symbol ? d.min + (d.max - d.min) / steps * std::min<int64_t>(number, steps) : d.value);
      add(t.dtype, shape, &in, &shapes_in_, &data_in_);
      fill(t.dtype, number);
    }
    check(context.output_bounds(in, &bounds_));
    const std::vector<aotc::host::TensorInfo> outputs = model.outputs();
    for (size_t i = 0; i < outputs.size(); ++i) add(outputs[i].dtype, bounds_[i], &out, &shapes_out_, &data_out_);
  }
  Bytes answer() const {
    Bytes all;
    for (const auto& d : data_out_) all.insert(all.end(), d->begin(), d->end());
    return all;
  }
  std::vector<aotc_tensor> in, out;

 private:
  using Store = std::vector<std::unique_ptr<Bytes>>;
  using Shapes = std::vector<std::unique_ptr<std::vector<int64_t>>>;
  static void add(uint32_t dtype, const std::vector<int64_t>& dims, std::vector<aotc_tensor>* to, Shapes* shapes, Store* data) {
    uint64_t bytes = bytes_of(dtype);
    for (const int64_t d : dims) bytes *= static_cast<uint64_t>(d);
    shapes->push_back(std::make_unique<std::vector<int64_t>>(dims));
    data->push_back(std::make_unique<Bytes>(bytes));
    to->push_back(aotc_host_tensor(data->back()->data(), shapes->back()->data(), static_cast<int32_t>(dims.size()), dtype, bytes));
  }
  void fill(uint32_t dtype, int number) {
    Bytes& data = *data_in_.back();
    const auto each = [&](auto value) {
      for (size_t i = 0; i < data.size() / sizeof value; ++i) {
        const auto x = static_cast<double>((i * 2654435761u + static_cast<size_t>(number)) % 1024) / 512 - 1;
        value = dtype == AOTC_DTYPE_F32 ? static_cast<decltype(value)>(x) : static_cast<decltype(value)>(i % 2);
        std::memcpy(data.data() + i * sizeof value, &value, sizeof value);
      }
    };
    if (dtype == AOTC_DTYPE_F32) return each(float{});
    if (dtype == AOTC_DTYPE_I64) return each(int64_t{});
    if (dtype != AOTC_DTYPE_BOOL) give_up("expected inputs of float32, int64 and bool");
  }
  Store data_in_, data_out_;
  Shapes shapes_in_, shapes_out_;
  std::vector<std::vector<int64_t>> bounds_;
};

/// By artifact, set (the first: its own weights) and case.
using Expected = std::vector<std::vector<std::vector<Bytes>>>;

Expected compute_expected(const Options& o) {
  Expected all;
  for (const std::string& path : o.artifacts) {
    aotc::host::Model model;
    check(aotc::host::Model::load(path, &model));
    all.emplace_back();
    for (size_t s = 0; s <= o.sets.size(); ++s) {
      check(s ? model.swap_weights(o.sets[s - 1]) : model.own_weights());
      all.back().emplace_back();
      aotc::host::Context context;
      check(model.context(&context));
      for (int c = 0; c < Call::kCases; ++c) {
        Call call(model, context, c);
        check(context.run(call.in, call.out));
        all.back().back().push_back(call.answer());
      }
    }
    for (size_t s = 1; s < all.back().size(); ++s)
      if (all.back()[s] == all.back()[0]) give_up("two sets give one answer");
  }
  return all;
}

/// An artifact that is served. Version v of its weights is set (v - 1) % sets: one thread at a time swaps.
struct Served {
  size_t artifact = 0;
  aotc::host::Model model;
  size_t set = 0;
};

struct Request {
  int32_t cancel, number;
};
struct Header {
  int32_t status, artifact;
  uint64_t version, bytes;
};

bool read_all(int fd, void* to, size_t bytes) {
  for (size_t n = 0; n < bytes;) {
    const ssize_t got = recv(fd, static_cast<char*>(to) + n, bytes - n, 0);
    if (got <= 0) return false;
    n += static_cast<size_t>(got);
  }
  return true;
}
bool write_all(int fd, const void* from, size_t bytes) {
  for (size_t n = 0; n < bytes;) {
    const ssize_t sent = send(fd, static_cast<const char*>(from) + n, bytes - n, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    n += static_cast<size_t>(sent);
  }
  return true;
}

class Service {
 public:
  Service(const Options& o, const std::string& folder)
      : options_(o), path_(folder + "/served.so"), address_(folder + "/socket"), slots_(static_cast<size_t>(o.workers)) {
    replace();
    listener_ = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un at = address();
    if (listener_ < 0 || bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 || listen(listener_, 64) != 0)
      give_up("no socket");
    for (Slot& s : slots_) threads_.emplace_back([this, &s] { work(s); });
    threads_.emplace_back([this] { watch(); });
  }
  void stop() {
    stopping_ = true;
    shutdown(listener_, SHUT_RDWR);
    for (std::thread& t : threads_) t.join();
    close(listener_);
    current_.reset();
  }
  sockaddr_un address() const {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::snprintf(at.sun_path, sizeof at.sun_path, "%s", address_.c_str());
    return at;
  }
  /// The next artifact takes the place of the file that is served, then of the model.
  void replace() {
    const std::shared_ptr<Served> next = std::make_shared<Served>();
    next->artifact = static_cast<size_t>(replaced++) % options_.artifacts.size();
    fs::copy_file(options_.artifacts[next->artifact], path_ + ".new", fs::copy_options::overwrite_existing);
    fs::rename(path_ + ".new", path_);
    check(aotc::host::Model::load(path_, &next->model));
    const std::lock_guard<std::mutex> lock(mutex_);
    current_ = next;
  }
  void swap() {
    const std::shared_ptr<Served> served = current();
    served->set = (served->set + 1) % (options_.sets.size() + 1);
    check(served->set ? served->model.swap_weights(options_.sets[served->set - 1]) : served->model.own_weights());
    ++swaps;
  }
  int replaced = 0, swaps = 0;

 private:
  /// A worker's run, as the thread sees it that looks after the connection meanwhile.
  struct Slot {
    std::mutex mutex;
    int fd = -1;  ///< -1: no run is under way
    std::atomic<int32_t> cancel{0};
  };
  std::shared_ptr<Served> current() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return current_;
  }
  void work(Slot& slot) {
    while (!stopping_) {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) continue;
      std::shared_ptr<Served> served;
      aotc::host::Context context;
      std::vector<std::unique_ptr<Call>> calls;
      for (Request r; read_all(fd, &r, sizeof r);) {
        if (r.cancel) continue;  // of a run that was over
        if (const std::shared_ptr<Served> now = current(); now != served) {
          calls.clear();
          served = now;
          check(served->model.context(&context));
          for (int c = 0; c < Call::kCases; ++c) calls.push_back(std::make_unique<Call>(served->model, context, c));
        }
        Call& call = *calls.at(static_cast<size_t>(r.number));
        slot.cancel = 0;
        {
          const std::lock_guard<std::mutex> lock(slot.mutex);
          slot.fd = fd;
        }
        const aotc::host::Status status = context.run(call.in, call.out, aotc::host::RunOptions{{}, &slot.cancel});
        {
          const std::lock_guard<std::mutex> lock(slot.mutex);
          slot.fd = -1;
        }
        if (status.code == AOTC_STATUS_CANCELLED)
          check(context.reset_states());
        else
          check(status);
        aotc_context_info info = AOTC_CONTEXT_INFO_INIT;
        context.api()->context_get_info(context.get(), &info);
        const Bytes answer = status ? call.answer() : Bytes();
        const Header header = {status.code, static_cast<int32_t>(served->artifact), info.weights_version, answer.size()};
        if (!write_all(fd, &header, sizeof header) || !write_all(fd, answer.data(), answer.size())) break;
      }
      close(fd);
    }
  }
  /// Cancels runs whose client asks for it or is gone.
  void watch() {
    while (!stopping_) {
      std::this_thread::sleep_for(std::chrono::microseconds(500));
      for (Slot& slot : slots_) {
        const std::lock_guard<std::mutex> lock(slot.mutex);
        if (slot.fd < 0) continue;
        pollfd p = {slot.fd, POLLIN | POLLRDHUP, 0};
        if (poll(&p, 1, 0) <= 0) continue;
        Request r;
        if (!(p.revents & POLLIN) || !read_all(slot.fd, &r, sizeof r) || r.cancel) slot.cancel = 1;
      }
    }
  }
  const Options& options_;
  const std::string path_, address_;
  std::mutex mutex_;
  std::shared_ptr<Served> current_;
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;
  int listener_ = -1;
  std::atomic<bool> stopping_{false};
};

/// Times in classes of 0.2 %.
class Times {
 public:
  Times() : counts_(9000) {}
  void add(double us) { ++counts_[static_cast<size_t>(std::clamp(std::log(us) / kClass, 0.0, 8999.0))]; }
  double percentile(double share) const {
    double all = 0, seen = 0;
    for (const auto& c : counts_) all += c;
    for (size_t i = 0; i < counts_.size(); ++i)
      if ((seen += counts_[i]) >= all * share && seen > 0) return std::exp((static_cast<double>(i) + 0.5) * kClass);
    return 0;
  }
  int64_t number() const {
    int64_t all = 0;
    for (const auto& c : counts_) all += c;
    return all;
  }

 private:
  static constexpr double kClass = 0.002;
  std::vector<std::atomic<uint32_t>> counts_;
};

struct Seen {
  Times times[2];  ///< without swaps, with
  std::atomic<int64_t> wrong{0}, cancelled{0}, asked{0}, left{0}, answers{0};
  std::atomic<int> phase{0};
  std::atomic<bool> stop{false};
};

void be_client(int seed, const Service& service, const Expected& expected, Seen* seen) {
  std::mt19937 random(static_cast<unsigned>(seed));
  while (!seen->stop) {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un at = service.address();
    if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) give_up("the service does not answer");
    while (!seen->stop) {
      const Request r = {0, static_cast<int32_t>(random() % Call::kCases)};
      const bool leaves = random() % 64 == 0, cancels = !leaves && random() % 64 == 0;
      const int phase = seen->phase;
      const Clock::time_point begin = Clock::now();
      if (!write_all(fd, &r, sizeof r)) give_up("the service is gone");
      if (leaves || cancels) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
      if (leaves) {
        ++seen->left;
        break;
      }
      const Request cancel = {1, 0};
      if (cancels) ++seen->asked, write_all(fd, &cancel, sizeof cancel);
      Header h;
      if (!read_all(fd, &h, sizeof h)) give_up("an answer is cut off");
      Bytes answer(h.bytes);
      if (!read_all(fd, answer.data(), answer.size())) give_up("an answer is cut off");
      if (!cancels) seen->times[phase].add(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      if (h.status == AOTC_STATUS_CANCELLED && cancels) {
        ++seen->cancelled;
        continue;
      }
      ++seen->answers;
      const auto& sets = expected.at(static_cast<size_t>(h.artifact));
      seen->wrong += h.status != AOTC_STATUS_OK || answer != sets[(h.version - 1) % sets.size()].at(static_cast<size_t>(r.number));
    }
    close(fd);
  }
}

struct Held {
  int64_t resident_bytes = 0, mappings = 0, descriptors = 0;
};
Held held() {
  Held h;
  int64_t size = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  h.resident_bytes = pages * 4096;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++h.mappings;
  for ([[maybe_unused]] const auto& e : fs::directory_iterator("/proc/self/fd")) ++h.descriptors;
  return h;
}

int serve(const Options& o, const std::string& folder) {
  const Expected expected = compute_expected(o);
  Service service(o, folder);
  Seen seen;
  std::vector<std::thread> clients;
  for (int c = 0; c < o.workers; ++c) clients.emplace_back([&, c] { be_client(c, service, expected, &seen); });
  const auto since = [](Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); };
  const Clock::time_point begin = Clock::now();
  double next_swap = 0, next_replacement = o.reload;
  Held early;
  for (double now = 0; now < 2 * o.seconds; now = since(begin)) {
    const bool swaps = static_cast<int64_t>(now / o.phase) % 2 == 1;
    seen.phase = swaps;
    if (now >= next_replacement) service.replace(), next_replacement += o.reload;
    if (swaps && now >= next_swap) service.swap(), next_swap = now + o.every;
    if (early.mappings == 0 && now >= o.seconds / 5) early = held();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const Held late = held();
  seen.stop = true;
  for (std::thread& t : clients) t.join();
  service.stop();
  const char* names[] = {"without swaps", "with swaps"};
  double p99[2];
  for (int i = 0; i < 2; ++i) {
    const Times& t = seen.times[i];
    p99[i] = t.percentile(0.99);
    std::printf("%s: %lld runs, p50 %.0f us, p99 %.0f us, p99.9 %.0f us\n", names[i], static_cast<long long>(t.number()), t.percentile(0.5),
                p99[i], t.percentile(0.999));
  }
  std::printf("%d swaps, %d replacements, %lld clients hung up, %lld of %lld cancels ended a run; p99 %+.1f %% with swaps\n", service.swaps,
              service.replaced - 1, static_cast<long long>(seen.left), static_cast<long long>(seen.cancelled),
              static_cast<long long>(seen.asked), (p99[1] / p99[0] - 1) * 100);
  std::printf("resident %.1f MB after a tenth, %.1f MB at the end; mappings %lld, %lld; descriptors %lld, %lld\n",
              static_cast<double>(early.resident_bytes) / 1e6, static_cast<double>(late.resident_bytes) / 1e6,
              static_cast<long long>(early.mappings), static_cast<long long>(late.mappings), static_cast<long long>(early.descriptors),
              static_cast<long long>(late.descriptors));
  std::printf("%lld answers, %lld of which are not those of their set\n", static_cast<long long>(seen.answers),
              static_cast<long long>(seen.wrong));
  if (seen.wrong || seen.answers == 0 || service.swaps == 0) return 1;
  if (o.within > 0 && p99[1] > p99[0] * (1 + o.within / 100)) {
    std::printf("the p99 with swaps is more than %.0f %% above that without\n", o.within);
    return 1;
  }
  return 0;
}

Options parse(int argc, char** argv) {
  Options o;
  const std::pair<const char*, double*> kNumbers[] = {
      {"--seconds", &o.seconds}, {"--phase", &o.phase}, {"--every", &o.every}, {"--reload", &o.reload}, {"--within", &o.within}};
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = std::find_if(std::begin(kNumbers), std::end(kNumbers), [&](const auto& n) { return word == n.first; });
    if (number != std::end(kNumbers) && i + 1 < argc) {
      *number->second = std::atof(argv[++i]);
    } else if (word == "--workers" && i + 1 < argc) {
      o.workers = std::max(1, std::atoi(argv[++i]));
    } else if (o.artifacts.empty()) {
      for (size_t at = 0, end; at <= word.size(); at = end + 1) {
        end = std::min(word.find(',', at), word.size());
        o.artifacts.push_back(word.substr(at, end - at));
      }
    } else {
      o.sets.push_back(word);
    }
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  Options o = parse(argc, argv);
  char name[] = "/tmp/aotc_service_XXXXXX";
  const char* const made = mkdtemp(name);
  if (!made) give_up("no temporary folder");
  const std::string folder = made;
#ifdef AOTC_TOY_WEIGHTS
  for (const int more : {1000, 2000, 3000}) {
    o.sets.push_back(folder + "/" + std::to_string(more) + ".weights");
    std::ofstream(o.sets.back(), std::ios::binary) << toy_weights(more);
  }
#endif
  if (o.artifacts.empty() || o.sets.empty()) give_up("usage: service MODEL.so[,OTHER.so ..] SET.weights .. [options]");
  const int status = serve(o, folder);
  fs::remove_all(folder);
  return status;
}
