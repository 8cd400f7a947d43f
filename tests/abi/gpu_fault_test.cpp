// What goes wrong on a GPU: every call of the driver failing in turn, wrong pointers, a lost device, several devices.
#include "gpu_toy.h"

namespace {

void fail_call(int calls, int code) { fake().get<void (*)(int, int)>("fake_fail_call")(calls, code); }
void revive() { fake().get<void (*)()>("fake_revive")(); }
bool says(const aotc_api* api, const char* text) { return std::string(api->last_error()).find(text) != std::string::npos; }

bool is_clear(aotc_status s) {
  return s == AOTC_STATUS_OK || s == AOTC_STATUS_DEVICE || s == AOTC_STATUS_DEVICE_LOST || s == AOTC_STATUS_OUT_OF_MEMORY ||
         s == AOTC_STATUS_WRONG_STATE;
}

/// A model's whole life; returns the first status that is not OK. Everything is destroyed in any case.
aotc_status whole_life(const aotc_api* api, uint32_t flags) {
  aotc_model* model = nullptr;
  aotc_context* context = nullptr;
  aotc_status first = AOTC_STATUS_OK;
  const auto note = [&](aotc_status s) {
    CHECK(is_clear(s));
    if (first == AOTC_STATUS_OK) first = s;
    return s == AOTC_STATUS_OK;
  };
  const aotc_context_options options = with_flags(flags);
  if (note(api->model_create(nullptr, &model)) && note(api->context_create(model, &options, &context))) {
    for (int64_t n : {5, 5, 5, 40, 40, 5}) {
      Call call(n);
      if (note(api->run(context, call.in.data(), 2, call.out.data(), 2))) CHECK(call.right());
    }
    note(api->synchronize(context));
    int64_t runs = 0;
    const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
    note(api->state_read(context, "runs", &t));
    note(api->state_write(context, "runs", &t));
    note(api->state_reset(context, nullptr));
    aotc_profile_step steps[8];
    int32_t n = 8;
    if (flags & AOTC_CONTEXT_PROFILE) note(api->context_profile(context, steps, &n));
  }
  api->context_destroy(context);
  api->model_destroy(model);
  return first;
}

}  // namespace

TEST_CASE("whichever call of the driver fails, the status is clear, nothing leaks and the current context stays") {
  Loaded toy(toy_path("toy_gpu"));
  REQUIRE(toy.api->probe(0) == AOTC_STATUS_OK);
  const int blocks = fake().ask("fake_blocks"), retained = fake().ask("fake_retained");
  for (const uint32_t flags : {0, +AOTC_CONTEXT_GRAPHS, +AOTC_CONTEXT_PROFILE, AOTC_CONTEXT_STEPWISE | AOTC_CONTEXT_POISON})
    for (const int code : {2, 700, 999}) {
      int failed = 0, calls = 0;
      for (;; ++calls) {
        fail_call(calls, code);
        const aotc_status status = whole_life(toy.api, flags);
        const bool reached = !fake().ask("fake_failure_pending");
        fail_call(-1, 0);
        revive();
        REQUIRE(fake().ask("fake_blocks") == blocks);
        REQUIRE(fake().ask("fake_retained") == retained);
        REQUIRE(fake().ask("fake_depth") == 0);
        REQUIRE(fake().ask("fake_graphs") == 0);
        REQUIRE(fake().ask("fake_events") == 0);
        if (!reached) {
          CHECK(status == AOTC_STATUS_OK);
          break;
        }
        failed += status != AOTC_STATUS_OK;
      }
      CHECK(calls > 50);
      // A graph that cannot be made is no failure: its steps are launched one by one. Nor is one met while all is taken down.
      CHECK(failed >= calls * (flags & (AOTC_CONTEXT_GRAPHS | AOTC_CONTEXT_PROFILE) ? 6 : 9) / 10);
    }
}

TEST_CASE("pointers that the device cannot take are refused before anything is queued") {
  Loaded toy(toy_path("toy_gpu"));
  Session s(toy.api);
  const Current current;
  DeviceCall call(5);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  const int launches = fake().ask("fake_launches");
  for (size_t i = 0; i < 4; ++i) {
    void* const right = call.tensor(i).data;
    call.tensor(i).data = call.home[i];  // host memory, said to be on the device
    CHECK(call.run(s) == AOTC_STATUS_INVALID_ARGUMENT);
    CHECK(says(toy.api, "not in memory that CUDA knows of"));
    {
      const Current second(1);
      call.tensor(i).data = DeviceCall::allocate(call.tensor(i).byte_size);
    }
    CHECK(call.run(s) == AOTC_STATUS_INVALID_ARGUMENT);
    CHECK(says(toy.api, "on GPU 1, but the model is on GPU 0"));
    DeviceCall::release(call.tensor(i).data);
    call.tensor(i).data = right;
  }
  call.in[0].device = 1;
  CHECK(call.run(s) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(fake().ask("fake_launches") == launches);
  call.in[0].device = 0;
  void* pinned = nullptr;
  REQUIRE(fake().get<int (*)(void**, size_t, unsigned)>("cuMemHostAlloc")(&pinned, call.in[0].byte_size, 0) == 0);
  std::memcpy(pinned, call.in[0].data, call.in[0].byte_size);
  std::swap(pinned, call.in[0].data);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);  // pinned memory is the device's too
  CHECK(call.right());
  std::swap(pinned, call.in[0].data);
  DeviceCall::release(pinned);
}

TEST_CASE("models on several devices") {
  Loaded toy(toy_path("toy_gpu"));
  const int blocks = fake().ask("fake_blocks");
  {
    aotc_model* models[2] = {};
    aotc_context* contexts[2] = {};
    for (int d = 0; d < 2; ++d) {
      aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
      options.device = d;
      const aotc_context_options flags = with_flags(AOTC_CONTEXT_GRAPHS);
      REQUIRE(toy.api->model_create(&options, &models[d]) == AOTC_STATUS_OK);
      REQUIRE(toy.api->context_create(models[d], &flags, &contexts[d]) == AOTC_STATUS_OK);
    }
    const Current current(1);
    for (int round = 0; round < 3; ++round)
      for (int d = 0; d < 2; ++d) {
        const Current on(d);
        DeviceCall call(6 + d, d);
        const Current other(1 - d);
        REQUIRE(toy.api->run(contexts[d], call.in.data(), 2, call.out.data(), 2) == AOTC_STATUS_OK);
        REQUIRE(toy.api->synchronize(contexts[d]) == AOTC_STATUS_OK);
        CHECK(call.right());
      }
    CHECK(current.kept());
    for (int d = 0; d < 2; ++d) toy.api->context_destroy(contexts[d]), toy.api->model_destroy(models[d]);
  }
  CHECK(fake().ask("fake_blocks") == blocks);
}

TEST_CASE("an error of the device names the step where that can be known") {
  Loaded toy(toy_path("toy_gpu"));
  {
    Session s(toy.api);
    Call call(5);
    fake().get<void (*)(int)>("fake_fail_next_launch")(999);
    CHECK(call.run(s) == AOTC_STATUS_DEVICE);
    CHECK(says(toy.api, "at runs: fake error"));
    revive();
  }
  Session s(toy.api, with_flags(AOTC_CONTEXT_STEPWISE));
  Call call(5);
  fake().get<void (*)(int)>("fake_fail_next_wait")(719);
  CHECK(call.run(s) == AOTC_STATUS_DEVICE_LOST);
  CHECK(says(toy.api, "at runs"));
  revive();
}

TEST_CASE("a lost device stays lost, with a status of its own, for every context, and nothing hangs") {
  Loaded toy(toy_path("toy_gpu"));
  Session s(toy.api);
  aotc_context* second = nullptr;
  REQUIRE(toy.api->context_create(s.model, nullptr, &second) == AOTC_STATUS_OK);
  Call call(5);
  fake().get<void (*)(int)>("fake_fail_next_launch")(700);
  CHECK(call.run(s) == AOTC_STATUS_DEVICE_LOST);
  CHECK(says(toy.api, "illegal memory access"));
  revive();  // even if the driver forgot
  int64_t runs = 0;
  const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
  for (int i = 0; i < 3; ++i) {
    const aotc_status status = call.run(s);
    CHECK((status == AOTC_STATUS_DEVICE_LOST || status == AOTC_STATUS_WRONG_STATE));
    for (const aotc_status other : {toy.api->run(second, call.in.data(), 2, call.out.data(), 2), toy.api->synchronize(s.context),
                                    toy.api->state_read(second, "runs", &t), toy.api->state_reset(s.context, nullptr)}) {
      CHECK(other == AOTC_STATUS_DEVICE_LOST);
      CHECK(says(toy.api, "GPU 0 is lost to this process since CUDA error 700"));
    }
    aotc_context* third = nullptr;
    CHECK(toy.api->context_create(s.model, nullptr, &third) == AOTC_STATUS_DEVICE_LOST);
  }
  toy.api->context_destroy(second);
}
