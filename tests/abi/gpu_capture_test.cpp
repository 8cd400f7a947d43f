// AOTC_CAPTURE of models on a GPU.
#include "captures.h"
#include "gpu_toy.h"

TEST_CASE("capture: tensors and states on a GPU, of runs that are queued, launched as a graph or refused") {
  REQUIRE(fake().handle != nullptr);
  Loaded toy(toy_path("toy_gpu_graphs"));
  {
    Captures captures("all");
    Session s(toy.api);
    const Current current;
    for (int i = 1; i <= 3; ++i) {
      DeviceCall call(5 + i % 2);
      REQUIRE(call.run(s) == AOTC_STATUS_OK);
      CHECK(call.right());
      const std::filesystem::path run = captures.run(i, "toy_gpu_graphs");
      CHECK(elements_of<float>(run / "inputs/x.npy", "'<f4'") == call.x);
      CHECK(elements_of<int64_t>(run / "inputs/idx.npy", "'<i8'") == call.idx);
      CHECK(elements_of<int64_t>(run / "states/runs.npy", "'<i8'") == std::vector<int64_t>{39 + i});  // 40 at first
      CHECK(elements_of<float>(run / "outputs/y.npy", "'<f4'") == call.y);
      const std::string json = text_of(run / "run.json");
      CHECK((has(json, "\"device\": 0") && has(json, "\"gpu\": \"")));
    }
    CHECK(current.kept());
  }
  Captures captures;
  Session s(toy.api);
  Call good(5), call(5);
  REQUIRE(good.run(s) == AOTC_STATUS_OK);
  CHECK(captures.names().empty());
  fake().get<void (*)(int)>("fake_fail_next_launch")(999);
  CHECK(call.run(s) == AOTC_STATUS_DEVICE);
  CHECK(has(text_of(captures.run(2, "toy_gpu_graphs") / "run.json"), "\"status\": \"DEVICE\""));
  fake().get<void (*)()>("fake_revive")();
}
