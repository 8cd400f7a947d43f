// Allocator, workspace, states, and memory that stays flat.
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "toy.h"

namespace {

struct Counter {
  int64_t live = 0, calls = 0, refuse_above = INT64_MAX;
};

aotc_allocator counting(Counter* counter) {
  aotc_allocator a{};
  a.struct_size = sizeof a;
  a.user = counter;
  a.alloc = [](void* user, size_t bytes, size_t align, int32_t device) -> void* {
    auto* c = static_cast<Counter*>(user);
    ++c->calls;
    if (device != AOTC_DEVICE_HOST || static_cast<int64_t>(bytes) > c->refuse_above) return nullptr;
    void* p = nullptr;
    if (posix_memalign(&p, align, bytes) != 0) return nullptr;
    std::memset(p, 0x5a, bytes);
    c->live += static_cast<int64_t>(bytes);
    return p;
  };
  a.free = [](void* user, void* p, size_t bytes, int32_t) {
    static_cast<Counter*>(user)->live -= static_cast<int64_t>(bytes);
    std::free(p);
  };
  return a;
}

int64_t resident_kb() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

}  // namespace

TEST_CASE("weights are copied where the options or the artifact say so") {
  Loaded toy(toy_path()), own(toy_path("toy_own"));
  Counter counter;
  const aotc_allocator allocator = counting(&counter);
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.allocator = &allocator;
  const auto copies = [&](const Loaded& artifact, uint32_t flags) {
    options.flags = flags;
    const int64_t before = counter.live;
    aotc_model* model;
    aotc_context* context;
    REQUIRE(artifact.api->model_create(&options, &model) == AOTC_STATUS_OK);
    const int64_t bytes = counter.live - before;
    REQUIRE(artifact.api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
    ToyCall call(5);
    CHECK(call.run(artifact.api, context) == AOTC_STATUS_OK);
    CHECK(call.right());
    artifact.api->context_destroy(context);
    artifact.api->model_destroy(model);
    return bytes > 0;
  };
  CHECK_FALSE(copies(toy, 0));
  CHECK(copies(toy, AOTC_MODEL_OWN_WEIGHTS));
  CHECK(copies(own, 0));
  CHECK_FALSE(copies(own, AOTC_MODEL_SHARED_WEIGHTS));
  CHECK_FALSE(copies(own, AOTC_MODEL_LAZY_WEIGHTS));
  CHECK(copies(own, AOTC_MODEL_OWN_WEIGHTS | AOTC_MODEL_LAZY_WEIGHTS));
  options.flags = AOTC_MODEL_OWN_WEIGHTS | AOTC_MODEL_SHARED_WEIGHTS;
  aotc_model* model;
  CHECK(toy.api->model_create(&options, &model) == AOTC_STATUS_INVALID_ARGUMENT);
  // Where the memory cannot be had, what the artifact does by itself is left; what the caller asks for is not.
  counter.refuse_above = 64;
  options.flags = 0;
  REQUIRE(own.api->model_create(&options, &model) == AOTC_STATUS_OK);
  CHECK(counter.live == 0);
  own.api->model_destroy(model);
  options.flags = AOTC_MODEL_OWN_WEIGHTS;
  CHECK(own.api->model_create(&options, &model) == AOTC_STATUS_OUT_OF_MEMORY);
  CHECK(counter.live == 0);
}

TEST_CASE("the caller's allocator gives all large blocks and gets them back") {
  Loaded toy(toy_path());
  Counter counter;
  const aotc_allocator allocator = counting(&counter);
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.allocator = &allocator;
  aotc_model* model;
  aotc_context* context;
  REQUIRE(toy.api->model_create(&options, &model) == AOTC_STATUS_OK);
  REQUIRE(toy.api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
  ToyCall small(2), large(64), again(3);
  CHECK(small.run(toy.api, context) == AOTC_STATUS_OK);
  CHECK(large.run(toy.api, context) == AOTC_STATUS_OK);
  CHECK((small.right() && large.right()));
  const int64_t calls = counter.calls;
  for (int i = 0; i < 100; ++i) {
    CHECK(again.run(toy.api, context) == AOTC_STATUS_OK);
    CHECK(large.run(toy.api, context) == AOTC_STATUS_OK);
  }
  CHECK(counter.calls == calls);
  toy.api->context_destroy(context);
  CHECK(counter.live == 0);
  counter.refuse_above = 600;  // enough for the states
  REQUIRE(toy.api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
  ToyCall refused(64);
  CHECK(refused.run(toy.api, context) == AOTC_STATUS_OUT_OF_MEMORY);
  CHECK(refused.untouched());
  ToyCall fits(2);
  CHECK(fits.run(toy.api, context) == AOTC_STATUS_OK);
  toy.api->context_destroy(context);
  counter.refuse_above = 0;
  CHECK(toy.api->context_create(model, nullptr, &context) == AOTC_STATUS_OUT_OF_MEMORY);
  toy.api->model_destroy(model);
  CHECK(counter.live == 0);
}

TEST_CASE("workspace_size is what a caller's workspace needs") {
  Loaded toy(toy_path());
  aotc_model* model;
  aotc_context* context;
  REQUIRE(toy.api->model_create(nullptr, &model) == AOTC_STATUS_OK);
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = 3;
  ToyCall call(40);
  size_t bytes = 0, most = 0;
  REQUIRE(toy.api->workspace_size(model, &options, call.in.data(), 4, &bytes) == AOTC_STATUS_OK);
  REQUIRE(toy.api->workspace_size(model, &options, nullptr, 0, &most) == AOTC_STATUS_OK);
  CHECK(bytes == 40 * 32 + 3 * 256);
  CHECK(most == 64 * 32 + 3 * 256);
  call.in[0].rank = 1;
  CHECK(toy.api->workspace_size(model, &options, call.in.data(), 4, &bytes) == AOTC_STATUS_SHAPE_MISMATCH);
  call.in[0].rank = 2;
  struct alignas(64) Line {
    char c[64];
  };
  std::vector<Line> space(bytes / 64 + 2);
  std::memset(space.data(), 0x77, space.size() * 64);
  options.workspace = space.data();
  options.workspace_size = bytes;
  REQUIRE(toy.api->context_create(model, &options, &context) == AOTC_STATUS_OK);
  CHECK(call.run(toy.api, context) == AOTC_STATUS_OK);
  CHECK(call.right());
  CHECK(reinterpret_cast<char*>(space.data())[bytes] == 0x77);
  ToyCall larger(41);
  CHECK(larger.run(toy.api, context) == AOTC_STATUS_OUT_OF_MEMORY);
  CHECK(std::string(toy.api->last_error()).find(std::to_string(bytes)) != std::string::npos);
  CHECK(larger.untouched());
  toy.api->context_destroy(context);
  options.workspace = reinterpret_cast<char*>(space.data()) + 8;
  CHECK(toy.api->context_create(model, &options, &context) == AOTC_STATUS_INVALID_ARGUMENT);
  toy.api->model_destroy(model);
}

TEST_CASE("a poisoned workspace changes nothing") {
  Loaded toy(toy_path());
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.flags = AOTC_CONTEXT_POISON | AOTC_CONTEXT_PROFILE;
  options.num_threads = 2;
  Session s(toy.api, options);
  ToyCall call(33);
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(call.right());
  aotc_profile_step steps[6];
  int32_t n = 6;
  REQUIRE(toy.api->context_profile(s.context, steps, &n) == AOTC_STATUS_OK);
  CHECK(n == 6);
  CHECK(std::string(steps[1].label) == "relu, add, embedding");
  CHECK(steps[1].threads == 2);
}

TEST_CASE("states: initial content, update, read, write, reset; one set a context") {
  Loaded toy(toy_path());
  Session a(toy.api), b(toy.api);
  int64_t runs = 0;
  float sums[8] = {};
  const int64_t eight = 8, seven = 7;
  const aotc_tensor runs_t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
  const aotc_tensor sums_t = aotc_host_tensor(sums, &eight, 1, AOTC_DTYPE_F32, 32);
  ToyCall call(5);
  float columns[8] = {};
  for (int64_t r = 0; r < 5; ++r)
    for (int64_t c = 0; c < 8; ++c) columns[c] += call.expected(r, c);
  for (int i = 1; i <= 3; ++i) {
    REQUIRE(call.run(toy.api, a.context) == AOTC_STATUS_OK);
    REQUIRE(toy.api->state_read(a.context, "runs", &runs_t) == AOTC_STATUS_OK);
    REQUIRE(toy.api->state_read(a.context, "sums", &sums_t) == AOTC_STATUS_OK);
    CHECK(runs == 100 + i);
    for (int c = 0; c < 8; ++c) CHECK(sums[c] == static_cast<float>(i) * columns[c]);
  }
  REQUIRE(toy.api->state_read(b.context, "runs", &runs_t) == AOTC_STATUS_OK);
  CHECK(runs == 100);
  runs = 7;
  REQUIRE(toy.api->state_write(a.context, "runs", &runs_t) == AOTC_STATUS_OK);
  REQUIRE(call.run(toy.api, a.context) == AOTC_STATUS_OK);
  REQUIRE(toy.api->state_read(a.context, "runs", &runs_t) == AOTC_STATUS_OK);
  CHECK(runs == 8);
  REQUIRE(toy.api->state_reset(a.context, "sums") == AOTC_STATUS_OK);
  REQUIRE(toy.api->state_read(a.context, "sums", &sums_t) == AOTC_STATUS_OK);
  CHECK(sums[0] == 0);
  CHECK(toy.api->state_reset(a.context, "nope") == AOTC_STATUS_NOT_FOUND);
  const aotc_tensor wrong = aotc_host_tensor(sums, &seven, 1, AOTC_DTYPE_F32, 32);
  CHECK(toy.api->state_read(a.context, "sums", &wrong) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(toy.api->state_read(a.context, "runs", &sums_t) == AOTC_STATUS_INVALID_ARGUMENT);
}

TEST_CASE("memory is flat over runs of ever new shapes") {
  Loaded toy(toy_path());
  Session s(toy.api);
  ToyCall widest(64);
  REQUIRE(widest.run(toy.api, s.context) == AOTC_STATUS_OK);
  std::vector<ToyCall> calls;
  calls.reserve(64);
  for (int64_t b = 1; b <= 64; ++b) calls.emplace_back(b);
  int64_t before = 0;
  for (int i = 0; i < 100000; ++i) {
    if (i == 10000) before = resident_kb();
    ToyCall& call = calls[static_cast<size_t>(i * 37) % 64];
    call.in[0].shape = call.in[0].shape;
    if (call.run(toy.api, s.context) != AOTC_STATUS_OK) FAIL(toy.api->last_error());
  }
  CHECK(resident_kb() - before < 512);
}
