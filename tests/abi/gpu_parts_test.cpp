// An artifact for several kinds of machine: which of its parts is taken, and what is said where none can be.
#include "gpu_toy.h"

namespace {

void arch(int major, int minor) { fake().get<void (*)(int, int)>("fake_arch")(major, minor); }
bool says(const aotc_api* api, const char* text) { return std::string(api->last_error()).find(text) != std::string::npos; }

/// The target and device that a model on `device` gets, where it runs right.
std::pair<std::string, int32_t> taken(const aotc_api* api, int32_t device) {
  aotc_model_options options = AOTC_MODEL_OPTIONS_INIT;
  options.device = device;
  aotc_model* model = nullptr;
  REQUIRE(api->model_create(&options, &model) == AOTC_STATUS_OK);
  aotc_model_info info = AOTC_MODEL_INFO_INIT;
  REQUIRE(api->model_get_info(model, &info) == AOTC_STATUS_OK);
  const std::pair<std::string, int32_t> got = {info.target, info.device};
  aotc_context* context = nullptr;
  REQUIRE(api->context_create(model, nullptr, &context) == AOTC_STATUS_OK);
  for (int i = 0; i < 2; ++i) {
    Call call(9);
    REQUIRE(api->run(context, call.in.data(), 2, call.out.data(), 2) == AOTC_STATUS_OK);
    CHECK(call.right());
  }
  api->context_destroy(context);
  api->model_destroy(model);
  return got;
}

}  // namespace

TEST_CASE("of several parts the best that the machine can run is taken") {
  Loaded toy(toy_path("toy_parts"));
  using Taken = std::pair<std::string, int32_t>;
  const struct {
    int major, minor;
    int32_t device;
    Taken taken;
  } kCases[] = {
      {8, 6, AOTC_DEVICE_DEFAULT, {"sm_80", 0}},
      {9, 0, AOTC_DEVICE_DEFAULT, {"sm_90a", 0}},
      {9, 0, 1, {"sm_90a", 1}},
      {10, 0, AOTC_DEVICE_DEFAULT, {"sm_100a", 0}},
      {10, 3, AOTC_DEVICE_DEFAULT, {"compute_100", 0}},
      {12, 0, 0, {"compute_100", 0}},
      {9, 0, AOTC_DEVICE_HOST, {"avx2", AOTC_DEVICE_HOST}},
      {7, 5, AOTC_DEVICE_DEFAULT, {"avx2", AOTC_DEVICE_HOST}},
  };
  for (const auto& k : kCases) {
    arch(k.major, k.minor);
    INFO(k.major << "." << k.minor << " on " << k.device);
    CHECK(toy.api->probe(k.device) == AOTC_STATUS_OK);
    CHECK(taken(toy.api, k.device) == k.taken);
  }
  arch(7, 5);
  CHECK(toy.api->probe(0) == AOTC_STATUS_INCOMPATIBLE);
  CHECK(says(toy.api, "Fake GPU, sm_75) cannot run the artifact, which has code for sm_80, sm_90a, sm_100a, compute_100"));
  CHECK(toy.api->probe(-3) == AOTC_STATUS_INVALID_ARGUMENT);
  arch(9, 0);
}

TEST_CASE("where no part can run, the refusal says what the GPU and what the CPU lacks") {
  Loaded toy(toy_path("toy_parts_future"));
  arch(7, 5);
  aotc_model* model = nullptr;
  for (const aotc_status status : {toy.api->probe(AOTC_DEVICE_DEFAULT), toy.api->model_create(nullptr, &model)}) {
    CHECK(status == AOTC_STATUS_INCOMPATIBLE);
    CHECK(says(toy.api, "which has code for sm_80, sm_90a, sm_100a, compute_100; and this CPU cannot run the artifact"));
  }
  CHECK(toy.api->probe(AOTC_DEVICE_HOST) == AOTC_STATUS_INCOMPATIBLE);
  arch(9, 0);
  CHECK(toy.api->probe(AOTC_DEVICE_DEFAULT) == AOTC_STATUS_OK);
}
