// Weights that are streamed to a GPU: the hand-written artifacts of toy_stream.c over the stand-in driver, whose work is done late.
#include <algorithm>
#include <atomic>
#include <climits>
#include <fstream>
#include <memory>
#include <thread>

#include "aotc/detail/blob_hash.h"
#include "gpu_toy.h"

namespace {

constexpr size_t kBlobBytes = 4 << 20, kLayerBytes = 64 << 10;
constexpr int kLayers = 24;
constexpr uint64_t kNever = UINT64_MAX;

/// Work of the driver is done late, for a scope.
struct Late {
  Late() { set(1); }
  ~Late() { set(0); }
  static void set(int on) { fake().get<void (*)(int)>("fake_late")(on); }
};

/// The content of a weights file. Layer k of toy_layers begins with 1000 + k; the state "runs" starts at 40 + seed.
std::string weights_of(int seed) {
  std::vector<float> blob(kBlobBytes / 4);
  for (size_t i = 0; i < blob.size(); ++i)
    blob[i] = static_cast<float>((static_cast<uint32_t>(i) * 2654435761u + static_cast<uint32_t>(seed) * 97u) >> 20) / 4096;
  const int64_t start = 40 + seed;
  std::memcpy(blob.data(), &start, sizeof start);
  for (int k = 0; k < kLayers; ++k) blob[(64 + static_cast<size_t>(k) * kLayerBytes) / 4] = static_cast<float>(1000 + k);
  aotc_weights_trailer trailer{};
  std::memcpy(trailer.magic, AOTC_WEIGHTS_MAGIC, 8);
  trailer.hash = aotc_blob_hash(blob.data(), kBlobBytes);
  trailer.layout = 0x57e4, trailer.bytes = kBlobBytes;
  return std::string(reinterpret_cast<const char*>(blob.data()), kBlobBytes) +
         std::string(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}
const std::string& content(int seed) {
  static const std::string all[] = {weights_of(0), weights_of(1), weights_of(2)};
  return all[seed];
}
aotc_weights_source source_of(int seed) {
  aotc_weights_source s = AOTC_WEIGHTS_SOURCE_INIT;
  s.data = content(seed).data(), s.bytes = content(seed).size();
  return s;
}

/// A model with a budget, and a context of it.
class Streamed {
 public:
  Streamed(const aotc_api* api, uint64_t budget, uint32_t flags = 0, void* stream = nullptr, int seed = 0) : api(api) {
    const aotc_weights_source source = source_of(seed);
    aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
    options.weights = &source, options.weights_budget = budget;
    options.log = [](void* told, int32_t, const char* line) { *static_cast<std::string*>(told) += line; };
    options.log_user = &log;
    status = api->model_create(&options, &model);
    if (status != AOTC_STATUS_OK) return;
    const aotc_context_options c = with_flags(flags, stream);
    status = api->context_create(model, &c, &context);
  }
  ~Streamed() {
    api->context_destroy(context);
    api->model_destroy(model);
  }
  Streamed(const Streamed&) = delete;
  Streamed& operator=(const Streamed&) = delete;
  aotc_model_info info() const {
    aotc_model_info i = AOTC_MODEL_INFO_INIT;
    REQUIRE(api->model_get_info(model, &i) == AOTC_STATUS_OK);
    return i;
  }
  aotc_status swap(int seed, uint64_t* version = nullptr) {
    const aotc_weights_source source = source_of(seed);
    return api->model_swap_weights(model, &source, version);
  }
  const aotc_api* api;
  aotc_status status;
  std::string log;
  aotc_model* model = nullptr;
  aotc_context* context = nullptr;
};

/// A call of a method with so many rows, on tensors of the host or of the device (which needs a Current).
class Rows {
 public:
  Rows(int32_t method, int64_t n, bool on_device) : method_(method), shape_{n, 8}, x_(static_cast<size_t>(n) * 8), y_(x_.size(), -77) {
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 13);
    in_ = aotc_host_tensor(x_.data(), shape_, 2, AOTC_DTYPE_F32, x_.size() * 4);
    out_ = aotc_host_tensor(y_.data(), shape_, 2, AOTC_DTYPE_F32, y_.size() * 4);
    if (!on_device) return;
    for (aotc_tensor* t : {&in_, &out_}) {
      void* const at = DeviceCall::allocate(t->byte_size);
      std::memcpy(at, t->data, t->byte_size);
      t->data = at, t->device = 0;
    }
  }
  ~Rows() {
    for (const aotc_tensor* t : {&in_, &out_})
      if (t->device == 0) DeviceCall::release(t->data);
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  aotc_status run(const aotc_api* api, aotc_context* c, const aotc_run_options* options = nullptr) {
    return api->run_with(c, method_, &in_, 1, &out_, 1, options);
  }
  /// What the runs that were waited for wrote.
  std::vector<float> answer() {
    if (out_.device == 0) std::memcpy(y_.data(), out_.data, out_.byte_size);
    const std::vector<float> y = y_;
    std::fill(y_.begin(), y_.end(), -77.f);
    if (out_.device == 0) std::memcpy(out_.data, y_.data(), out_.byte_size);
    return y;
  }

 private:
  int32_t method_;
  int64_t shape_[2];
  std::vector<float> x_, y_;
  aotc_tensor in_, out_;
};

struct Program {
  int32_t method;
  int64_t rows;
};
constexpr Program kPrograms[] = {{0, 3}, {0, 9}, {1, 5}};  // both variants, and the other method

/// The answers of a model all of whose weights are on the device.
std::vector<std::vector<float>> resident(const aotc_api* api, int seed) {
  Streamed s(api, kNever, 0, nullptr, seed);
  REQUIRE(s.status == AOTC_STATUS_OK);
  CHECK(s.info().weights_streamed == 0);
  CHECK(s.info().weights_ring == 0);
  std::vector<std::vector<float>> all;
  for (const Program& p : kPrograms) {
    Rows call(p.method, p.rows, false);
    REQUIRE(call.run(api, s.context) == AOTC_STATUS_OK);
    all.push_back(call.answer());
  }
  return all;
}

/// The least budget, as the model says it.
uint64_t needed(const aotc_api* api, uint64_t budget = 1) {
  Streamed s(api, budget);
  REQUIRE(s.status == AOTC_STATUS_INVALID_ARGUMENT);
  const std::string text = api->last_error();
  INFO(text);
  const size_t at = text.find("at least ");
  REQUIRE(at != std::string::npos);
  return std::stoull(text.substr(at + 9));
}

uint64_t whole(const aotc_api* api) { return Streamed(api, kNever).info().weights_bytes; }

struct Upload {
  float first;
  int launches;
  size_t bytes;
};
std::vector<Upload> uploads() {
  const void* rows = nullptr;
  const int n = fake().get<int (*)(const void**)>("fake_uploads")(&rows);
  return std::vector<Upload>(static_cast<const Upload*>(rows), static_cast<const Upload*>(rows) + n);
}

/// What of the driver's is there; and what was freed too early.
struct Alive {
  int freed = fake().ask("fake_freed_in_use");
  int blocks = fake().ask("fake_blocks"), events = fake().ask("fake_events"), streams = fake().ask("fake_streams");
  bool operator==(const Alive& o) const { return freed == o.freed && blocks == o.blocks && events == o.events && streams == o.streams; }
};

}  // namespace

TEST_CASE("streamed weights: the stand-in driver shows what no order forbids") {
  const Late late;
  const Current current;
  const auto call = [](const char* name) { return dlsym(fake().handle, name); };
  const auto upload = reinterpret_cast<int (*)(uint64_t, const void*, size_t, void*)>(call("cuMemcpyHtoDAsync_v2"));
  const auto copy = reinterpret_cast<int (*)(uint64_t, uint64_t, size_t, void*)>(call("cuMemcpyDtoDAsync_v2"));
  const auto record = reinterpret_cast<int (*)(void*, void*)>(call("cuEventRecord"));
  const auto follow = reinterpret_cast<int (*)(void*, void*, unsigned)>(call("cuStreamWaitEvent"));
  const auto wait = reinterpret_cast<int (*)(void*)>(call("cuStreamSynchronize"));
  const auto host = reinterpret_cast<int (*)(void**, size_t, unsigned)>(call("cuMemHostAlloc"));
  char copies, steps;
  void *pinned = nullptr, *event = nullptr;
  REQUIRE(host(&pinned, 8, 1) == 0);
  REQUIRE(reinterpret_cast<int (*)(void**, unsigned)>(call("cuEventCreate"))(&event, 2) == 0);
  const auto source = static_cast<uint64_t*>(pinned);
  const auto ring = reinterpret_cast<uint64_t>(DeviceCall::allocate(8)), to = reinterpret_cast<uint64_t>(DeviceCall::allocate(8));
  const auto read = [&] {
    copy(to, ring, 8, &steps);
    REQUIRE(wait(&steps) == 0);
    return *reinterpret_cast<uint64_t*>(to);
  };
  *source = 1;
  upload(ring, pinned, 8, &copies);
  CHECK(read() == UINT64_MAX);  // nothing says that the copy comes first
  record(event, &copies);
  follow(&steps, event, 0);
  CHECK(read() == 1);
  *source = 2;
  copy(to, ring, 8, &steps);  // not waited for
  upload(ring, pinned, 8, &copies);
  REQUIRE(wait(&steps) == 0);
  CHECK(*reinterpret_cast<uint64_t*>(to) == UINT64_MAX);  // nothing says that the read does
  REQUIRE(wait(&copies) == 0);
  copy(to, ring, 8, &steps);
  record(event, &steps);
  follow(&copies, event, 0);
  *source = 3;
  upload(ring, pinned, 8, &copies);
  REQUIRE(wait(&steps) == 0);
  CHECK(*reinterpret_cast<uint64_t*>(to) == 2);
  *source = 4;  // pinned memory is read when the copy is done
  REQUIRE(wait(&copies) == 0);
  CHECK(read() == 4);
  DeviceCall::release(reinterpret_cast<void*>(ring)), DeviceCall::release(reinterpret_cast<void*>(to));
  reinterpret_cast<int (*)(void*)>(call("cuMemFreeHost"))(pinned);
  reinterpret_cast<int (*)(void*)>(call("cuEventDestroy_v2"))(event);
}

TEST_CASE("streamed weights: results have the bits of the resident model's, with any budget") {
  const Alive before;
  for (const char* name : {"toy_stream", "toy_layers"}) {
    Loaded toy(toy_path(name));
    const auto expected = resident(toy.api, 0);
    const uint64_t all = whole(toy.api), least = needed(toy.api);
    const uint64_t unread = std::string(name) == "toy_stream" ? 512 << 10 : 64;
    CHECK(least < all / 2);
    const Late late;
    const Current current;
    for (const uint64_t budget : {all, all - unread - 300, all * 3 / 4, all / 2, least + (all / 2 - least) / 3, least + 1, least})
      for (const uint32_t flags : {0u, uint32_t{AOTC_CONTEXT_GRAPHS}, uint32_t{AOTC_CONTEXT_STEPWISE}, uint32_t{AOTC_CONTEXT_POISON},
                                   uint32_t{AOTC_CONTEXT_PROFILE}}) {
        INFO(name << ", budget " << budget << " of " << all << ", flags " << flags);
        Streamed s(toy.api, budget, flags);
        INFO(toy.api->last_error());
        REQUIRE(s.status == AOTC_STATUS_OK);
        const aotc_model_info info = s.info();
        CHECK(info.weights_bytes - info.weights_streamed + info.weights_ring <= budget);
        CHECK((info.weights_streamed == 0) == (budget >= all - unread));
        CHECK(s.log.empty() == (budget >= all));
        for (const bool on_device : {false, true}) {  // on the device all are queued before one is done
          std::vector<std::unique_ptr<Rows>> calls;
          for (size_t n = 0; n < 3 * std::size(kPrograms); ++n) {
            const Program& p = kPrograms[n % 4 % std::size(kPrograms)];
            calls.push_back(std::make_unique<Rows>(p.method, p.rows, on_device));
            REQUIRE(calls.back()->run(toy.api, s.context) == AOTC_STATUS_OK);
          }
          REQUIRE(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
          for (size_t n = 0; n < calls.size(); ++n) CHECK(calls[n]->answer() == expected[n % 4 % std::size(kPrograms)]);
        }
        CHECK(current.kept());
        if (info.weights_streamed == 0) continue;
        aotc_context_info of = AOTC_CONTEXT_INFO_INIT;
        REQUIRE(toy.api->context_get_info(s.context, &of) == AOTC_STATUS_OK);
        CHECK(of.graphs == 0);
      }
  }
  CHECK(fake().ask("fake_early") == 0);  // a kernel that begins before its turn may read before its copy
  CHECK(Alive() == before);
}

TEST_CASE("streamed weights: too small a budget is refused with the one that is enough") {
  Loaded toy(toy_path("toy_stream"));
  const uint64_t least = needed(toy.api);
  CHECK(needed(toy.api, least - 1) == least);
  CHECK(least > (256 + 384) << 10);  // the two that one step reads
  CHECK(std::string(toy.api->last_error()).find(std::to_string(least - 1) + " bytes") != std::string::npos);
  CHECK(Streamed(toy.api, least).status == AOTC_STATUS_OK);
}

TEST_CASE("streamed weights: what is copied is spread evenly, is copied once, and in time") {
  const Late late;
  Loaded toy(toy_path("toy_layers"));
  for (const int kept : {4, 8, 12, 18}) {
    Streamed s(toy.api, 2 * kLayerBytes + static_cast<uint64_t>(kept) * kLayerBytes + 4096);
    REQUIRE(s.status == AOTC_STATUS_OK);
    INFO(s.log);
    CHECK(s.info().weights_ring == 2 * kLayerBytes);
    CHECK(s.info().weights_streamed == (kLayers - kept) * kLayerBytes);
    Rows call(0, 3, false);
    uploads();
    const int launches = fake().ask("fake_launches") + 1;  // of the state's counter
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    const std::vector<Upload> copied = uploads();
    REQUIRE(copied.size() == static_cast<size_t>(kLayers - kept));
    int behind = -1, run = 0, longest = 0;
    std::string which;
    for (const Upload& u : copied) which += " " + std::to_string(static_cast<int>(u.first) - 1000);
    INFO(which);
    for (size_t i = 0; i < copied.size(); ++i) {
      const int layer = static_cast<int>(copied[i].first) - 1000;
      CHECK(layer > behind);
      CHECK(copied[i].bytes == kLayerBytes);
      CHECK(copied[i].launches - launches <= layer);                                                   // queued before the step
      if (i > 1) CHECK(copied[i].launches - launches > static_cast<int>(copied[i - 2].first) - 1000);  // after the one that it lies over
      run = layer == behind + 1 ? run + 1 : 1;
      longest = std::max(longest, run);
      behind = layer;
    }
    CHECK(longest <= kLayers / kept + 1);
  }
  // Steps that read one weight in a row have it of one copy.
  Loaded mixed(toy_path("toy_stream"));
  Streamed s(mixed.api, needed(mixed.api) * 2);
  REQUIRE(s.status == AOTC_STATUS_OK);
  uploads();
  REQUIRE(Rows(0, 3, false).run(mixed.api, s.context) == AOTC_STATUS_OK);
  const std::vector<Upload> copied = uploads();
  CHECK(copied.size() > 1);
  std::vector<size_t> sizes;
  for (const Upload& u : copied) sizes.push_back(u.bytes);
  CHECK(std::count(sizes.begin(), sizes.end(), size_t{128 << 10}) <= 3);  // a0 for three steps, a1 for two that are apart
  CHECK(std::count(sizes.begin(), sizes.end(), size_t{1 << 10}) == 0);    // small ones stay
  CHECK(std::count(sizes.begin(), sizes.end(), size_t{512 << 10}) == 0);  // what no step reads does not come
}

TEST_CASE("streamed weights: without a budget, where the memory that is free does not suffice") {
  Loaded toy(toy_path("toy_stream"));
  const auto free_bytes = fake().get<void (*)(size_t)>("fake_free_bytes");
  const uint64_t all = whole(toy.api);
  const auto expected = resident(toy.api, 0);
  free_bytes(all + 8);  // and the state
  CHECK(Streamed(toy.api, 0).log.empty());
  CHECK(Streamed(toy.api, 0).info().weights_streamed == 0);
  free_bytes(all + 7);
  CHECK(!Streamed(toy.api, 0).log.empty());
  free_bytes(all * 2 / 3);
  {
    Streamed s(toy.api, 0);
    REQUIRE(s.status == AOTC_STATUS_OK);
    CHECK(s.info().weights_streamed > 0);
    CHECK(s.log.find(std::to_string(s.info().weights_streamed) + " bytes of weights are streamed") != std::string::npos);
    Rows call(0, 3, false);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(call.answer() == expected[0]);
  }
  CHECK(Streamed(toy.api, kNever).info().weights_streamed == 0);
  free_bytes(4096);
  CHECK(Streamed(toy.api, 0).status == AOTC_STATUS_OUT_OF_MEMORY);
  INFO(toy.api->last_error());
  CHECK(std::string(toy.api->last_error()).find("to stream them takes at least") != std::string::npos);
  free_bytes(size_t{1} << 40);
}

TEST_CASE("streamed weights: swaps, from memory and from files, while runs are queued") {
  const Alive before;
  Loaded toy(toy_path("toy_stream"));
  const std::vector<std::vector<float>> expected[] = {resident(toy.api, 0), resident(toy.api, 1), resident(toy.api, 2)};
  const uint64_t budget = whole(toy.api) / 2;
  const std::string path = toy_path("toy_stream") + ".weights";
  std::ofstream(path, std::ios::binary) << content(2);
  {
    const Late late;
    const Current current;
    Streamed s(toy.api, budget);
    REQUIRE(s.status == AOTC_STATUS_OK);
    Rows old(0, 3, true), now(0, 3, true), host(0, 9, false);
    for (int round = 0; round < 3; ++round) {
      REQUIRE(s.swap(0) == AOTC_STATUS_OK);
      REQUIRE(old.run(toy.api, s.context) == AOTC_STATUS_OK);
      REQUIRE(s.swap(1) == AOTC_STATUS_OK);
      REQUIRE(now.run(toy.api, s.context) == AOTC_STATUS_OK);
      REQUIRE(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
      CHECK(old.answer() == expected[0][0]);
      CHECK(now.answer() == expected[1][0]);
      aotc_weights_source file = AOTC_WEIGHTS_SOURCE_INIT;
      file.path = path.c_str();
      REQUIRE(toy.api->model_swap_weights(s.model, &file, nullptr) == AOTC_STATUS_OK);
      REQUIRE(host.run(toy.api, s.context) == AOTC_STATUS_OK);
      CHECK(host.answer() == expected[2][1]);
    }
    int64_t runs = 0;
    const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
    REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
    CHECK(runs == 40 + 9);
    REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
    REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
    CHECK(runs == 42);
  }
  std::remove(path.c_str());
  CHECK(Alive() == before);
}

TEST_CASE("streamed weights: contexts in threads, and swaps") {
  const Alive before;
  Loaded toy(toy_path("toy_stream"));
  const std::vector<std::vector<float>> expected[] = {resident(toy.api, 0), resident(toy.api, 1), resident(toy.api, 2)};
  {
    const Late late;
    Streamed s(toy.api, whole(toy.api) / 2);
    REQUIRE(s.status == AOTC_STATUS_OK);
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0}, runs{0};
    const auto work = [&](size_t first) {
      aotc_context* context = nullptr;
      if (toy.api->context_create(s.model, nullptr, &context) != AOTC_STATUS_OK) ++wrong;
      for (size_t n = 0; n < 12 || !over; ++n) {
        const size_t p = (first + n) % std::size(kPrograms);
        Rows call(kPrograms[p].method, kPrograms[p].rows, false);
        aotc_context_info info = AOTC_CONTEXT_INFO_INIT;
        const bool ran = call.run(toy.api, context) == AOTC_STATUS_OK && toy.api->context_get_info(context, &info) == AOTC_STATUS_OK;
        wrong += !ran || call.answer() != expected[(info.weights_version - 1) % 3][p];
        ++runs;
      }
      toy.api->context_destroy(context);
    };
    std::thread one(work, 0), other(work, 1);
    uint64_t version = 1;
    for (int swaps = 1; swaps < 9; ++swaps)
      if (s.swap(swaps % 3, &version) != AOTC_STATUS_OK || version != static_cast<uint64_t>(swaps) + 1) ++wrong;
    over = true;
    one.join();
    other.join();
    CHECK(wrong == 0);
    CHECK(runs >= 24);
  }
  CHECK(Alive() == before);
}

TEST_CASE("streamed weights: a run that is cancelled between any two steps leaves the next ones right") {
  const Late late;
  const Current current;
  Loaded toy(toy_path("toy_stream"));
  const std::vector<std::vector<float>> expected[] = {resident(toy.api, 0), resident(toy.api, 1)};
  const int freed = fake().ask("fake_freed_in_use");
  Streamed s(toy.api, whole(toy.api) / 2);
  REQUIRE(s.status == AOTC_STATUS_OK);
  Rows call(0, 3, true), next(0, 9, true);
  int stopped = 0;
  for (int after = 0; after < 9; ++after) {
    int32_t flag = 0;
    aotc_run_options options = AOTC_RUN_OPTIONS_INIT;
    options.cancel = &flag;
    fake().get<void (*)(int, int32_t*)>("fake_set_at_launch")(after, &flag);
    const aotc_status status = call.run(toy.api, s.context, &options);
    fake().get<void (*)(int, int32_t*)>("fake_set_at_launch")(-1, nullptr);
    CHECK((status == AOTC_STATUS_CANCELLED || status == AOTC_STATUS_OK));
    stopped += status == AOTC_STATUS_CANCELLED;
    REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
    REQUIRE(s.swap(after % 2) == AOTC_STATUS_OK);
    REQUIRE(next.run(toy.api, s.context) == AOTC_STATUS_OK);  // frees what the one before copied
    REQUIRE(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
    CHECK(next.answer() == expected[after % 2][1]);
  }
  CHECK(stopped >= 8);
  CHECK(fake().ask("fake_freed_in_use") == freed);
}

TEST_CASE("streamed weights: whatever call of the driver fails, nothing is lost and the next run is right") {
  Loaded toy(toy_path("toy_stream"));
  const auto expected = resident(toy.api, 0);
  const uint64_t budget = whole(toy.api) / 2;
  const Late late;
  const Alive before;
  const auto fail_call = fake().get<void (*)(int, int)>("fake_fail_call");
  constexpr int kInvalid = 1;
  int failed = 0;
  for (int calls = 0;; ++calls) {
    fail_call(calls, kInvalid);
    {
      const Streamed s(toy.api, budget);
      const bool pending = fake().ask("fake_failure_pending");
      fail_call(-1, 0);
      if (s.status == AOTC_STATUS_OK && pending) break;
      failed += s.status != AOTC_STATUS_OK;
    }
    CHECK(Alive() == before);
  }
  CHECK(failed > 30);
  failed = 0;
  const Current current;
  Streamed s(toy.api, budget);
  REQUIRE(s.status == AOTC_STATUS_OK);
  Rows call(0, 3, true);
  for (int calls = 0;; ++calls) {
    fail_call(calls, kInvalid);
    const aotc_status status = call.run(toy.api, s.context);
    const bool pending = fake().ask("fake_failure_pending");
    fail_call(-1, 0);
    if (status == AOTC_STATUS_OK && pending) break;
    failed += status != AOTC_STATUS_OK;
    REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
    call.answer();
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    REQUIRE(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
    CHECK(call.answer() == expected[0]);
  }
  CHECK(failed > 30);
}

TEST_CASE("streamed weights: a graph of the caller's takes the copies in, and runs that follow it keep clear of it") {
  const Late late;
  const Current current;
  Loaded toy(toy_path("toy_stream"));
  const auto expected = resident(toy.api, 0);
  char stream;
  Streamed s(toy.api, whole(toy.api) / 2, 0, &stream);
  REQUIRE(s.status == AOTC_STATUS_OK);
  Rows call(0, 3, true), other(0, 9, true);
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  REQUIRE(other.run(toy.api, s.context) == AOTC_STATUS_OK);
  REQUIRE(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
  const int apart = fake().ask("fake_apart");
  for (int round = 0; round < 2; ++round) {
    fake().get<void (*)(void*)>("fake_capture")(&stream);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    REQUIRE(other.run(toy.api, s.context) == AOTC_STATUS_OK);
    fake().get<void (*)(void*)>("fake_capture")(nullptr);
    CHECK(fake().ask("fake_apart") == apart);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    REQUIRE(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
    CHECK(call.answer() == expected[0]);
    CHECK(other.answer() == expected[1]);
  }
}
