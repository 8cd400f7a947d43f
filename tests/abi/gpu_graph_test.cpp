// Runs that are one launch of a CUDA graph.
#include "gpu_toy.h"

namespace {

/// What the stand-in driver counted since.
struct Counts {
  int launches = fake().ask("fake_graph_launches"), patches = fake().ask("fake_graph_patches"),
      overlapping = fake().ask("fake_graph_overlapping");
  Counts since() const {
    Counts now;
    now.launches -= launches, now.patches -= patches, now.overlapping -= overlapping;
    return now;
  }
};

}  // namespace

TEST_CASE("a shape gets its graph with its second run, patched where pointers moved") {
  Loaded toy(toy_path("toy_gpu"));
  const Current current;
  {
    Session s(toy.api, with_flags(AOTC_CONTEXT_GRAPHS));
    DeviceCall call(7);
    const Counts before;
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(before.since().launches == 0);
    CHECK(call.right());
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(before.since().launches == 1);
    CHECK(before.since().overlapping == 1);  // the edge before the kernel that waits itself
    CHECK(before.since().patches == 0);
    CHECK(call.right());
    CHECK(graphs_of(s) == 1);

    REQUIRE(call.run(s) == AOTC_STATUS_OK);  // nothing moved
    CHECK(before.since().patches == 0);
    const struct {
      size_t tensor;
      int patches;  // steps that have it: x and idx the kernel, y the copy, zeros the fill
    } kMoves[] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}};
    for (const auto& m : kMoves) {
      call.move(m.tensor);
      const Counts moved;
      REQUIRE(call.run(s) == AOTC_STATUS_OK);
      CHECK(moved.since().launches == 1);
      CHECK(moved.since().patches == m.patches);
      CHECK(call.right());
    }
    int64_t runs = 0;
    const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
    REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
    CHECK(runs == 40 + 7);
    CHECK(current.kept());
  }
  CHECK(fake().ask("fake_graphs") == 0);
}

TEST_CASE("many shapes: graphs of the latest few, a workspace that grows") {
  Loaded toy(toy_path("toy_gpu"));
  const Current current;
  {
    Session s(toy.api, with_flags(AOTC_CONTEXT_GRAPHS | AOTC_CONTEXT_POISON));
    DeviceCall small(3);
    for (int i = 0; i < 3; ++i) REQUIRE(small.run(s) == AOTC_STATUS_OK);
    for (int64_t n = 1; n <= 64; n += 3) {
      DeviceCall call(n);
      const Counts before;
      for (int i = 0; i < 3; ++i) {
        REQUIRE(call.run(s) == AOTC_STATUS_OK);
        CHECK(call.right());
      }
      CHECK(before.since().launches == 2);
      CHECK(graphs_of(s) <= 8);
      CHECK(fake().ask("fake_graphs") <= 16);
      REQUIRE(small.run(s) == AOTC_STATUS_OK);  // the arena has moved since
      CHECK(small.right());
    }
    for (int round = 0; round < 2; ++round)  // shapes that come once each time deserve none
      for (int64_t n = 1; n <= 20; ++n) {
        DeviceCall call(n);
        REQUIRE(call.run(s) == AOTC_STATUS_OK);
        CHECK(call.right());
      }
  }
  CHECK(fake().ask("fake_graphs") == 0);
}

TEST_CASE("while the caller captures the stream, the steps go into the caller's graph") {
  Loaded toy(toy_path("toy_gpu"));
  const Current current;
  int stream = 0;
  Session s(toy.api, with_flags(AOTC_CONTEXT_GRAPHS, &stream));
  DeviceCall call(5);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  const auto capture = fake().get<void (*)(void*)>("fake_capture");
  const Counts before;
  capture(&stream);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(call.right());
  }
  capture(nullptr);
  CHECK(before.since().launches == 0);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  CHECK(before.since().launches == 1);
  capture(&stream);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  capture(nullptr);
  CHECK(before.since().launches == 1);
  CHECK(call.right());
}

TEST_CASE("graphs with tensors in host memory, and faults of a graph's steps") {
  Loaded toy(toy_path("toy_gpu"));
  Session s(toy.api, with_flags(AOTC_CONTEXT_GRAPHS));
  for (int64_t n : {3, 64, 3, 64, 3}) {
    Call call(n);
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(call.right());
  }
  CHECK(graphs_of(s) == 2);
  Call bad(64);
  bad.idx[9] = 4;
  CHECK(bad.run(s) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
  CHECK(std::string(toy.api->last_error()).find("(at scale") != std::string::npos);
}

TEST_CASE("the artifact's mode and the context's flags decide") {
  Loaded plain(toy_path("toy_gpu")), graphed(toy_path("toy_gpu_graphs"));
  const struct {
    const Loaded* toy;
    uint32_t flags;
    int graphs;
  } kCases[] = {{&plain, 0, 0},
                {&plain, AOTC_CONTEXT_GRAPHS, 1},
                {&graphed, 0, 1},
                {&graphed, AOTC_CONTEXT_NO_GRAPHS, 0},
                {&plain, AOTC_CONTEXT_PROFILE, 1},
                {&graphed, AOTC_CONTEXT_PROFILE | AOTC_CONTEXT_NO_GRAPHS, 0},
                {&graphed, AOTC_CONTEXT_STEPWISE, 0}};
  for (const auto& k : kCases) {
    Session s(k.toy->api, with_flags(k.flags));
    Call call(4);
    for (int i = 0; i < 3; ++i) REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(call.right());
    CHECK(graphs_of(s) == k.graphs);
  }
  aotc_model* model = nullptr;
  REQUIRE(plain.api->model_create(nullptr, &model) == AOTC_STATUS_OK);
  for (const uint32_t wrong : {AOTC_CONTEXT_GRAPHS | AOTC_CONTEXT_NO_GRAPHS, 1 << 20, +AOTC_CONTEXT_FLUSH_DENORMALS}) {
    const aotc_context_options options = with_flags(wrong);
    aotc_context* context = nullptr;
    CHECK(plain.api->context_create(model, &options, &context) == AOTC_STATUS_INVALID_ARGUMENT);
  }
  plain.api->model_destroy(model);
}

TEST_CASE("a profile has the time of every step, by events between launches and between the nodes of a graph") {
  Loaded toy(toy_path("toy_gpu"));
  const Current current;
  for (const uint32_t flags : {0, +AOTC_CONTEXT_NO_GRAPHS}) {
    Session s(toy.api, with_flags(AOTC_CONTEXT_PROFILE | flags));
    DeviceCall call(4);
    const Counts before;
    for (int run = 0; run < 3; ++run) {
      REQUIRE(call.run(s) == AOTC_STATUS_OK);
      CHECK(call.right());
      CHECK(before.since().launches == (flags ? 0 : run));
      aotc_profile_step steps[8];
      int32_t n = 8;
      REQUIRE(toy.api->context_profile(s.context, steps, &n) == AOTC_STATUS_OK);
      REQUIRE(n == 4);
      const char* const kLabels[] = {"runs", "scale", "y", "zeros"};
      for (int i = 0; i < n; ++i) {
        CHECK(std::string(steps[i].label) == kLabels[i]);
        CHECK(steps[i].ns >= 900);
        CHECK(steps[i].ns <= 1100);
      }
    }
    CHECK(before.since().overlapping == 0);
  }
  CHECK(fake().ask("fake_events") == 0);
  CHECK(fake().ask("fake_graphs") == 0);
}

TEST_CASE("methods have graphs of their own, over the same states") {
  Loaded toy(toy_path("toy_gpu_methods"));
  const Current current;
  Session s(toy.api);  // the artifact's own flags: graphs
  DeviceCall call(7), other(5);
  const auto again = [&](DeviceCall& c) { return toy.api->run_method(s.context, 1, c.in.data(), 2, c.out.data(), 2); };
  for (int i = 0; i < 3; ++i) {
    REQUIRE(call.run(s) == AOTC_STATUS_OK);
    CHECK(call.right());
    REQUIRE(again(other) == AOTC_STATUS_OK);
    CHECK(other.right());
  }
  CHECK(graphs_of(s) == 2);
  for (int64_t n = 20; n < 40; ++n) {  // other shapes of one method drop no graph of the other
    DeviceCall more(n);
    REQUIRE(again(more) == AOTC_STATUS_OK);
    REQUIRE(again(more) == AOTC_STATUS_OK);
    CHECK(more.right());
  }
  const Counts before;
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  CHECK(call.right());
  CHECK(before.since().launches == 1);  // patched: the workspace has grown
  int64_t runs = 0;
  const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
  REQUIRE(toy.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
  CHECK(runs == 40 + 3 + 3 + 40 + 1);
}

TEST_CASE("a fault in a method is told as one of its steps, by whichever call comes next") {
  Loaded toy(toy_path("toy_gpu_methods"));
  const Current current;
  Session s(toy.api);
  DeviceCall call(4), bad(4);
  static_cast<int64_t*>(bad.tensor(1).data)[2] = 9;  // the stand-in's device memory is the host's
  REQUIRE(toy.api->run_method(s.context, 1, bad.in.data(), 2, bad.out.data(), 2) == AOTC_STATUS_OK);
  CHECK(toy.api->synchronize(s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
  CHECK(call.run(s) == AOTC_STATUS_WRONG_STATE);
  REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
  REQUIRE(call.run(s) == AOTC_STATUS_OK);
  CHECK(call.right());
}
