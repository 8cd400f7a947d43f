// Other weights for a model on a GPU, while it is in use: the hand-written artifact toy_gpu over the stand-in driver.
#include "aotc/detail/blob_hash.h"
#include "gpu_toy.h"

namespace {

/// The content of a weights file for toy_gpu.c: its table with `more` added to each element; the state "runs" starts at 40 + more.
std::string weights_of(int more, uint64_t layout = 0x70070071) {
  struct {
    float table[4];
    int64_t start;
  } blob;
  for (int i = 0; i < 4; ++i) blob.table[i] = static_cast<float>(i + 1 + more);
  blob.start = 40 + more;
  aotc_weights_trailer trailer{};
  std::memcpy(trailer.magic, AOTC_WEIGHTS_MAGIC, 8);
  trailer.hash = aotc_blob_hash(&blob, sizeof blob);
  trailer.layout = layout, trailer.bytes = sizeof blob;
  return std::string(reinterpret_cast<const char*>(&blob), sizeof blob) +
         std::string(reinterpret_cast<const char*>(&trailer), sizeof trailer);
}

struct Swaps {
  const aotc_api* api;
  aotc_model* model;
  uint64_t version = 0;
  aotc_status to(int more) {
    const std::string content = weights_of(more);
    aotc_weights_source source = AOTC_WEIGHTS_SOURCE_INIT;
    source.data = content.data(), source.bytes = content.size();
    return api->model_swap_weights(model, more ? &source : nullptr, &version);
  }
};

/// Whether the outputs are those of weights_of(more).
bool is_of(const Call& call, int more) {
  for (size_t i = 0; i < call.x.size(); ++i)
    if (call.y[i] != call.x[i] * static_cast<float>(call.idx[i / 8] + 1 + more)) return false;
  return true;
}
bool is_of(DeviceCall& call, int more) {
  std::memcpy(call.home[2], call.out[0].data, call.out[0].byte_size);
  std::memset(call.out[0].data, 0x7f, call.out[0].byte_size);
  return is_of(static_cast<const Call&>(call), more);
}

int blocks() { return fake().ask("fake_blocks"); }

uint64_t version_of(const Session& s) {
  aotc_context_info info = AOTC_CONTEXT_INFO_INIT;
  REQUIRE(s.api->context_get_info(s.context, &info) == AOTC_STATUS_OK);
  return info.weights_version;
}

}  // namespace

TEST_CASE("GPU: runs that begin after a swap take the new weights, one by one and as graphs, and back again") {
  const int before = blocks(), events = fake().ask("fake_events");
  for (const uint32_t flags : {0u, uint32_t{AOTC_CONTEXT_GRAPHS}, uint32_t{AOTC_CONTEXT_STEPWISE}}) {
    Loaded toy(toy_path("toy_gpu"));
    Session s(toy.api, with_flags(flags));
    Swaps swap{toy.api, s.model};
    Call host(5);
    const Current current;
    DeviceCall call(9);
    for (const int more : {0, 0, 0, 3, 0, 7, 7}) {
      REQUIRE(swap.to(more) == AOTC_STATUS_OK);
      REQUIRE(host.run(s) == AOTC_STATUS_OK);
      CHECK(is_of(host, more));
      for (int i = 0; i < 3; ++i) {
        REQUIRE(call.run(s) == AOTC_STATUS_OK);
        CHECK(is_of(call, more));
      }
      CHECK(version_of(s) == swap.version);
      CHECK(current.kept());
    }
    CHECK(swap.version == 8);
    CHECK(graphs_of(s) == (flags == AOTC_CONTEXT_GRAPHS ? 2 : 0));
    int64_t runs = 0;  // states keep their content, and begin anew with that of the set
    const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
    REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
    CHECK(runs == 40 + 7 * 4);
    REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
    REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
    CHECK(runs == 47);
  }
  CHECK(blocks() == before);
  CHECK(fake().ask("fake_events") == events);
  CHECK(fake().ask("fake_streams") == 0);
  CHECK(fake().ask("fake_retained") == 0);
}

TEST_CASE("GPU: a set's memory stays until what is queued on it is known to be done") {
  Loaded toy(toy_path("toy_gpu"));
  Session s(toy.api);
  Swaps swap{toy.api, s.model};
  const Current current;
  DeviceCall call(9);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);  // queued
  const int queued = blocks();
  REQUIRE(swap.to(1) == AOTC_STATUS_OK);
  CHECK(blocks() == queued + 1);
  REQUIRE(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
  CHECK(blocks() == queued);
  // The next run on another set waits for its stream, once.
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  REQUIRE(swap.to(2) == AOTC_STATUS_OK);
  REQUIRE(swap.to(3) == AOTC_STATUS_OK);  // nobody read the second
  CHECK(blocks() == queued + 1);
  const int waits = fake().ask("fake_waits");
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  CHECK(fake().ask("fake_waits") == waits + 1);
  CHECK(blocks() == queued);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  CHECK(fake().ask("fake_waits") == waits + 1);
  CHECK(is_of(call, 3));
  // A context that runs no more keeps its last set, until it goes.
  aotc_context* idle = nullptr;
  REQUIRE(toy.api->context_create(s.model, nullptr, &idle) == AOTC_STATUS_OK);
  REQUIRE(toy.api->run(idle, call.in.data(), 2, call.out.data(), 2) == AOTC_STATUS_OK);
  const int with_idle = blocks();
  REQUIRE(swap.to(4) == AOTC_STATUS_OK);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  CHECK(blocks() == with_idle + 1);
  for (int more = 5; more < 9; ++more) {
    REQUIRE(swap.to(more) == AOTC_STATUS_OK);
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(is_of(call, more));
    CHECK(blocks() == with_idle + 1);
  }
  toy.api->context_destroy(idle);
  CHECK(blocks() == queued);
}

TEST_CASE("GPU: weights of a graph that the caller captured stay as long as the model") {
  const int before = blocks();
  {
    Loaded toy(toy_path("toy_gpu"));
    char stream;
    Session s(toy.api, with_flags(0, &stream));
    Swaps swap{toy.api, s.model};
    const Current current;
    DeviceCall call(9);
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    REQUIRE(toy.api->synchronize(s.context) == AOTC_STATUS_OK);
    const int one = blocks();
    fake().get<void (*)(void*)>("fake_capture")(&stream);
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    REQUIRE(swap.to(5) == AOTC_STATUS_OK);
    REQUIRE(call.run(s) == AOTC_STATUS_OK);  // waits for nothing
    fake().get<void (*)(void*)>("fake_capture")(nullptr);
    CHECK(is_of(call, 5));
    CHECK(blocks() == one + 1);
    REQUIRE(swap.to(6) == AOTC_STATUS_OK);
    REQUIRE(swap.to(7) == AOTC_STATUS_OK);
    CHECK(blocks() == one + 2);  // two that graphs may read, and the model's
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(is_of(call, 7));
    CHECK(blocks() == one + 2);
  }
  CHECK(blocks() == before);
}

TEST_CASE("GPU: a swap that fails changes nothing, whatever call of the driver it fails in") {
  Loaded toy(toy_path("toy_gpu"));
  Session s(toy.api);
  Swaps swap{toy.api, s.model};
  REQUIRE(swap.to(2) == AOTC_STATUS_OK);
  REQUIRE(Call(5).run(s) == AOTC_STATUS_OK);
  const int one = blocks();
  constexpr int kOutOfMemory = 2;
  int failed = 0;
  for (int calls = 0;; ++calls) {
    fake().get<void (*)(int, int)>("fake_fail_call")(calls, kOutOfMemory);
    const aotc_status status = swap.to(9);
    fake().get<void (*)(int, int)>("fake_fail_call")(-1, 0);
    if (status == AOTC_STATUS_OK) break;  // what fails from here on is the end of the old set
    ++failed;
    CHECK((status == AOTC_STATUS_OUT_OF_MEMORY || status == AOTC_STATUS_DEVICE));
    CHECK(blocks() == one);
    CHECK(fake().ask("fake_streams") == 0);
    Call call(5);
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(is_of(call, 2));
  }
  CHECK(failed >= 4);
  const std::string other = weights_of(1, 4711);
  aotc_weights_source source = AOTC_WEIGHTS_SOURCE_INIT;
  source.data = other.data(), source.bytes = other.size();
  CHECK(toy.api->model_swap_weights(s.model, &source, nullptr) == AOTC_STATUS_INCOMPATIBLE);
  Call call(5);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  CHECK(is_of(call, 9));
}

TEST_CASE("GPU: a model is made with other weights, and memory of the caller's is released once") {
  const int before = blocks();
  static int released;
  released = 0;
  {
    Loaded toy(toy_path("toy_gpu"));
    alignas(64) char memory[256];
    const std::string content = weights_of(11);
    std::memcpy(memory, content.data(), content.size());
    aotc_weights_source source = AOTC_WEIGHTS_SOURCE_INIT;
    source.data = memory, source.bytes = content.size();
    source.release = [](void*) { ++released; };
    aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
    options.weights = &source;
    aotc_model* model = nullptr;
    aotc_context* context = nullptr;
    REQUIRE(toy.api->model_create(&options, &model) == AOTC_STATUS_OK);
    REQUIRE(toy.api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
    Call call(5);
    REQUIRE(toy.api->run(context, call.in.data(), 2, call.out.data(), 2) == AOTC_STATUS_OK);
    CHECK(is_of(call, 11));
    CHECK(released == 0);  // the state begins with what stands there
    REQUIRE(toy.api->model_swap_weights(model, nullptr, nullptr) == AOTC_STATUS_OK);
    CHECK(released == 1);
    REQUIRE(toy.api->run(context, call.in.data(), 2, call.out.data(), 2) == AOTC_STATUS_OK);
    CHECK(is_of(call, 0));
    toy.api->context_destroy(context);
    toy.api->model_destroy(model);
  }
  CHECK(released == 1);
  CHECK(blocks() == before);
}
