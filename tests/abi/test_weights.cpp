// Other weights for a model: given when it is made, and swapped while it runs.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "aotc/aotc.hpp"
#include "toy.h"
#include "toy_weights.h"

namespace fs = std::filesystem;

namespace {

/// Which weights the answer was computed with: what weights_of was given; -1: with no one set.
int set_of(const ToyCall& call) {
  const float more = call.y[0] - call.expected(0, 0);
  float sum = 0;
  for (int64_t r = 0; r < call.n; ++r)
    for (int64_t c = 0; c < 8; ++c) {
      if (call.y[static_cast<size_t>(r * 8 + c)] != call.expected(r, c) + more) return -1;
      sum += call.expected(r, c) + more;
    }
  return call.total == sum ? static_cast<int>(more) : -1;
}

int set_of_run(const aotc_api* api, aotc_context* context, int64_t batch = 5) {
  ToyCall call(batch);
  return call.run(api, context) == AOTC_STATUS_OK ? set_of(call) : -2;
}

/// A file that goes with the object.
struct File {
  fs::path path;
  explicit File(const std::string& bytes, const char* name = "toy.weights")
      : path(fs::temp_directory_path() / ("aotc_weights_" + std::to_string(getpid()) + "_" + name)) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  ~File() { fs::remove(path); }
};

aotc_weights_source from_path(const std::string& path) {
  aotc_weights_source s = AOTC_WEIGHTS_SOURCE_INIT;
  s.path = path.c_str();
  return s;
}
aotc_weights_source from_memory(const std::string& bytes) {
  aotc_weights_source s = AOTC_WEIGHTS_SOURCE_INIT;
  s.data = bytes.data(), s.bytes = bytes.size();
  return s;
}

/// Content that is read piece by piece.
struct Reader {
  std::string content;
  aotc_status fails = AOTC_STATUS_OK;
  size_t calls = 0;
  aotc_weights_source source() {
    aotc_weights_source s = AOTC_WEIGHTS_SOURCE_INIT;
    s.user = this;
    s.read = [](void* user, uint64_t offset, void* to, uint64_t bytes) -> aotc_status {
      Reader& self = *static_cast<Reader*>(user);
      ++self.calls;
      if (offset + bytes > self.content.size()) return AOTC_STATUS_INVALID_ARGUMENT;
      std::memcpy(to, self.content.data() + offset, bytes);
      return self.fails;
    };
    return s;
  }
};

int64_t start_of(const aotc_api* api, aotc_context* context) {
  int64_t runs = -1;
  const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, sizeof runs);
  return api->state_read(context, "runs", &t) == AOTC_STATUS_OK ? runs : -1;
}

uint64_t resident_bytes() {
  uint64_t size = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> size >> pages;
  return pages * 4096;
}

}  // namespace

TEST_CASE("a model is made with other weights: from a file, a descriptor, memory, a function") {
  Loaded toy(toy_path());
  const std::string content = toy_weights(40);
  const File file(content);
  const std::string path = file.path.string();
  const int fd = open(path.c_str(), O_RDONLY);
  REQUIRE(fd >= 0);
  REQUIRE(lseek(fd, 7, SEEK_SET) == 7);
  aotc_weights_source descriptor = AOTC_WEIGHTS_SOURCE_INIT;
  descriptor.fd = fd, descriptor.flags = AOTC_WEIGHTS_FD | AOTC_WEIGHTS_VERIFY;
  Reader reader{content};
  const aotc_weights_source sources[] = {from_path(path), descriptor, from_memory(content), reader.source()};
  for (const uint32_t flags :
       {0u, uint32_t{AOTC_MODEL_OWN_WEIGHTS}, uint32_t{AOTC_MODEL_LAZY_WEIGHTS}, uint32_t{AOTC_MODEL_VERIFY_WEIGHTS}})
    for (int i = 0; i < 5; ++i) {
      aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
      options.flags = flags & ~static_cast<uint32_t>(AOTC_MODEL_VERIFY_WEIGHTS);
      if (i < 4) options.weights = &sources[i];
      if (i == 4) options.weights_path = path.c_str();
      aotc_model* model = nullptr;
      aotc_context* context = nullptr;
      REQUIRE(toy.api->model_create(&options, &model) == AOTC_STATUS_OK);
      REQUIRE(toy.api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
      CHECK(start_of(toy.api, context) == 140);
      CHECK(set_of_run(toy.api, context) == 40);
      aotc_model_info info = AOTC_MODEL_INFO_INIT;
      CHECK(toy.api->model_get_info(model, &info) == AOTC_STATUS_OK);
      CHECK((info.weights_version == 1 && info.weights_layout == kToyLayout));
      toy.api->context_destroy(context);
      toy.api->model_destroy(model);
    }
  CHECK(lseek(fd, 0, SEEK_CUR) == 7);
  CHECK(close(fd) == 0);
}

TEST_CASE("runs that begin after a swap take the new weights, in every context, and back again") {
  Loaded toy(toy_path());
  Session s(toy.api);
  aotc_context* other = nullptr;
  REQUIRE(toy.api->context_create(s.model, nullptr, &other) == AOTC_STATUS_OK);
  CHECK((set_of_run(toy.api, s.context) == 0 && set_of_run(toy.api, other, 9) == 0));
  const std::string content = toy_weights(7);
  uint64_t version = 0;
  const aotc_weights_source source = from_memory(content);
  REQUIRE(toy.api->model_swap_weights(s.model, &source, &version) == AOTC_STATUS_OK);
  CHECK(version == 2);
  CHECK((set_of_run(toy.api, s.context) == 7 && set_of_run(toy.api, other, 9) == 7 && set_of_run(toy.api, other, 3) == 7));
  aotc_context_info info = AOTC_CONTEXT_INFO_INIT;
  REQUIRE(toy.api->context_get_info(other, &info) == AOTC_STATUS_OK);
  CHECK(info.weights_version == 2);
  CHECK(start_of(toy.api, s.context) == 102);  // states go on
  REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
  CHECK(start_of(toy.api, s.context) == 107);
  REQUIRE(toy.api->model_swap_weights(s.model, nullptr, &version) == AOTC_STATUS_OK);
  CHECK(version == 3);
  CHECK((set_of_run(toy.api, s.context) == 0 && set_of_run(toy.api, other, 9) == 0));
  REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
  CHECK(start_of(toy.api, s.context) == 100);
  REQUIRE(toy.api->model_swap_weights(s.model, &source, nullptr) == AOTC_STATUS_OK);
  CHECK(set_of_run(toy.api, other, 9) == 7);
  toy.api->context_destroy(other);
}

TEST_CASE("weights that do not fit are refused, and the model keeps those that it has") {
  Loaded toy(toy_path());
  Session s(toy.api);
  const std::string good = toy_weights(7), another = toy_weights(7, kToyLayout + 1), cut = good.substr(0, 100), longer = good + "x";
  std::string damaged = good;
  damaged[5] = static_cast<char>(damaged[5] ^ 1);
  const auto refused = [&](aotc_weights_source source, aotc_status status, const std::string& why) {
    uint64_t version = 4711;
    INFO(why);
    CHECK(toy.api->model_swap_weights(s.model, &source, &version) == status);
    CHECK(std::string(toy.api->last_error()).find(why) != std::string::npos);
    CHECK(version == 4711);
    CHECK(set_of_run(toy.api, s.context) == 0);
    aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
    options.weights = &source;
    aotc_model* model = nullptr;
    CHECK(toy.api->model_create(&options, &model) == status);
    CHECK(model == nullptr);
  };
  refused(from_memory(another), AOTC_STATUS_INCOMPATIBLE, "another artifact (its layout is 0000000070070071");
  refused(from_memory(cut), AOTC_STATUS_DAMAGED, "cut off or damaged");
  refused(from_memory(longer), AOTC_STATUS_DAMAGED, "cut off or damaged");
  refused(from_path("/no/such/file"), AOTC_STATUS_NOT_FOUND, "/no/such/file");
  const File file(another, "another");
  refused(from_path(file.path.string()), AOTC_STATUS_INCOMPATIBLE, "aotc weights");
  aotc_weights_source verified = from_memory(damaged);
  verified.flags = AOTC_WEIGHTS_VERIFY;
  refused(verified, AOTC_STATUS_DAMAGED, "does not have the hash");
  Reader failing{good, AOTC_STATUS_NOT_FOUND};
  refused(failing.source(), AOTC_STATUS_NOT_FOUND, "reading bytes 192 to 256 of the weights failed");
  Reader other{another};
  refused(other.source(), AOTC_STATUS_INCOMPATIBLE, "another artifact");
  CHECK(other.calls == 2);  // the end alone, each time
  aotc_weights_source both = from_memory(good);
  both.path = "x";
  refused(both, AOTC_STATUS_INVALID_ARGUMENT, "give one of");
  both = from_memory(good);
  both.flags = 64;
  refused(both, AOTC_STATUS_INVALID_ARGUMENT, "unknown flags");
  CHECK(toy.api->model_swap_weights(nullptr, nullptr, nullptr) == AOTC_STATUS_INVALID_ARGUMENT);
}

TEST_CASE("memory that is lent is released once, with the last run on it") {
  Loaded toy(toy_path());
  struct alignas(64) Lent {
    char bytes[kToyBlobBytes + sizeof(aotc_weights_trailer)];
    int released = 0;
  } lent[2];
  for (int i = 0; i < 2; ++i) {
    const std::string content = toy_weights(1 + i);
    std::memcpy(lent[i].bytes, content.data(), content.size());
  }
  const auto source = [](Lent& l) {
    aotc_weights_source s = AOTC_WEIGHTS_SOURCE_INIT;
    s.data = l.bytes, s.bytes = sizeof l.bytes, s.user = &l;
    s.release = [](void* user) { ++static_cast<Lent*>(user)->released; };
    return s;
  };
  const aotc_weights_source first = source(lent[0]), second = source(lent[1]);
  aotc_weights_source crooked = source(lent[0]);
  crooked.data = lent[0].bytes + 1;
  {
    Session s(toy.api);
    CHECK(toy.api->model_swap_weights(s.model, &crooked, nullptr) != AOTC_STATUS_OK);
    REQUIRE(toy.api->model_swap_weights(s.model, &first, nullptr) == AOTC_STATUS_OK);
    CHECK(set_of_run(toy.api, s.context) == 1);
    CHECK(lent[0].released == 0);
    REQUIRE(toy.api->model_swap_weights(s.model, &second, nullptr) == AOTC_STATUS_OK);
    CHECK(lent[0].released == 1);  // no run is on it
    CHECK(set_of_run(toy.api, s.context) == 2);
    CHECK(lent[1].released == 0);
  }
  CHECK((lent[0].released == 1 && lent[1].released == 1));
}

TEST_CASE("a run under way keeps its weights, which go when it ends") {
  Loaded toy(toy_path());
  struct alignas(64) Lent {
    char bytes[kToyBlobBytes + sizeof(aotc_weights_trailer)];
    int released = 0;
  } lent;
  const std::string content = toy_weights(5), next = toy_weights(6);
  std::memcpy(lent.bytes, content.data(), content.size());
  aotc_weights_source source = AOTC_WEIGHTS_SOURCE_INIT;
  source.data = lent.bytes, source.bytes = sizeof lent.bytes, source.user = &lent;
  source.release = [](void* user) {
    Lent& l = *static_cast<Lent*>(user);
    ++l.released;
    std::memset(l.bytes, 0xff, sizeof l.bytes);
  };
  struct Pool {
    std::function<void()> in_step;
    int steps = 0;
  } user;
  aotc_thread_pool pool{};
  pool.struct_size = sizeof pool;
  pool.user = &user;
  pool.width = [](void*) { return int32_t{2}; };
  pool.parallel_for = [](void* u, int32_t tasks, void (*task)(void*, int32_t), void* arg) {
    Pool& p = *static_cast<Pool*>(u);
    for (int32_t i = 0; i < tasks; ++i, p.in_step()) task(arg, i);
  };
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.threads = &pool;
  Session s(toy.api, options);
  REQUIRE(toy.api->model_swap_weights(s.model, &source, nullptr) == AOTC_STATUS_OK);
  const aotc_weights_source other = from_memory(next);
  int swaps = 0;
  user.in_step = [&] {  // between the parts of a step, as another thread would
    if (swaps++ == 0) CHECK(toy.api->model_swap_weights(s.model, &other, nullptr) == AOTC_STATUS_OK);
    CHECK(lent.released == 0);
  };
  CHECK(set_of_run(toy.api, s.context, 64) == 5);
  CHECK(swaps > 0);
  CHECK(lent.released == 1);
  user.in_step = [] {};
  CHECK(set_of_run(toy.api, s.context, 64) == 6);
}

TEST_CASE("threads run while weights are swapped: every answer is of one set, and memory stays flat") {
  Loaded toy(toy_path());
  aotc_model* model = nullptr;
  REQUIRE(toy.api->model_create(nullptr, &model) == AOTC_STATUS_OK);
  constexpr int kThreads = 4, kSets = 3;
  const File files[kSets] = {File(toy_weights(1000), "a"), File(toy_weights(2000), "b"), File(toy_weights(3000), "c")};
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, backwards{0};
  std::atomic<int64_t> runs{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      uint64_t seen = 0;
      while (!stop) {
        aotc_context* context = nullptr;
        if (toy.api->context_create(model, nullptr, &context) != AOTC_STATUS_OK) ++wrong;
        for (int i = 0; i < 50 && !stop; ++i) {
          ToyCall call(1 + (t * 7 + i) % 60, i);
          if (call.run(toy.api, context) != AOTC_STATUS_OK) ++wrong;
          const int set = set_of(call);
          if (set < 0 || set % 1000 != 0 || set > 1000 * kSets) ++wrong;
          aotc_context_info info = AOTC_CONTEXT_INFO_INIT;
          if (toy.api->context_get_info(context, &info) != AOTC_STATUS_OK || info.weights_version < seen) ++backwards;
          if (static_cast<int>(info.weights_version % (kSets + 1)) * 1000 != (set + 1000) % (1000 * (kSets + 1))) ++wrong;
          seen = info.weights_version;
          ++runs;
        }
        toy.api->context_destroy(context);
      }
    });
  uint64_t version = 1, after_some = 0;
  constexpr uint64_t kSwaps = 2000;
  // Version v has the set (v - 1) % 4: the artifact's own, then the files.
  while (version < kSwaps) {
    const uint64_t set = version % (kSets + 1);
    const std::string path = set ? files[set - 1].path.string() : "";
    const aotc_weights_source source = from_path(path);
    if (toy.api->model_swap_weights(model, set ? &source : nullptr, &version) != AOTC_STATUS_OK) ++wrong;
    if (version == kSwaps / 4) after_some = resident_bytes();
  }
  const uint64_t at_the_end = resident_bytes();
  while (runs < 200) std::this_thread::yield();
  stop = true;
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(backwards == 0);
  CHECK(runs > 0);
#ifndef AOTC_SANITIZED
  CHECK(at_the_end < after_some + (8u << 20));
#else
  (void)at_the_end, (void)after_some;
#endif
  toy.api->model_destroy(model);
}

TEST_CASE("threads that swap at once each get a version of their own") {
  Loaded toy(toy_path());
  Session s(toy.api);
  const std::string content = toy_weights(9);
  constexpr int kThreads = 4, kSwaps = 100;
  std::vector<uint64_t> versions[kThreads];
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kSwaps; ++i) {
        const aotc_weights_source source = from_memory(content);
        uint64_t version = 0;
        toy.api->model_swap_weights(s.model, &source, &version);
        versions[t].push_back(version);
      }
    });
  for (std::thread& t : threads) t.join();
  std::vector<int> seen(kThreads * kSwaps + 2);
  for (const std::vector<uint64_t>& v : versions)
    for (const uint64_t n : v) ++seen.at(n);
  CHECK((seen[0] == 0 && seen[1] == 0 && std::vector<int>(seen.begin() + 2, seen.end()) == std::vector<int>(kThreads * kSwaps, 1)));
  CHECK(set_of_run(toy.api, s.context) == 9);
}

TEST_CASE("the C++ wrapper swaps from a path, memory and a function") {
  aotc::host::Model model;
  aotc::host::Context context;
  REQUIRE(aotc::host::Model::load(toy_path(), &model));
  REQUIRE(model.context(&context));
  const std::string content = toy_weights(11), second = toy_weights(12);
  const File file(toy_weights(13));
  uint64_t version = 0;
  REQUIRE(model.swap_weights(content.data(), content.size(), &version));
  CHECK((version == 2 && set_of_run(model.api(), context.get()) == 11));
  const auto read = [&](uint64_t offset, void* to, uint64_t bytes) -> aotc_status {
    std::memcpy(to, second.data() + offset, bytes);
    return AOTC_STATUS_OK;
  };
  REQUIRE(model.swap_weights(read));
  CHECK(set_of_run(model.api(), context.get()) == 12);
  REQUIRE(model.swap_weights(file.path.string(), &version));
  CHECK((version == 4 && set_of_run(model.api(), context.get()) == 13));
  REQUIRE(model.own_weights());
  CHECK(set_of_run(model.api(), context.get()) == 0);
  const aotc::host::Status failed = model.swap_weights("/no/such/file");
  CHECK((failed.code == AOTC_STATUS_NOT_FOUND && failed.message.find("/no/such/file") != std::string::npos));
  CHECK(aotc::host::Model().swap_weights("x").code == AOTC_STATUS_WRONG_STATE);
}
