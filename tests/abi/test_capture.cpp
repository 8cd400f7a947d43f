// AOTC_CAPTURE: runs as files.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "captures.h"
#include "toy.h"

namespace {

using Strings = std::set<std::string>;

/// The toy's call fails: an index is out of range, found after the state "runs" was written.
void break_index(ToyCall* call) { call->idx[3] = 4; }

}  // namespace

TEST_CASE("capture: the first run that fails, with the states before it; runs that succeed leave nothing") {
  Captures captures;
  Loaded toy(toy_path());
  {
    Session s(toy.api);
    ToyCall call(6);
    for (int i = 0; i < 2; ++i) REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(call.right());
    CHECK(captures.names().empty());
    break_index(&call);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
    const std::string message = toy.api->last_error();
    INFO(message);
    CHECK(has(message, "where input idx has values from "));
    CHECK(has(message, "; the run was captured in " + captures.run(3).string()));
    // Only the first one.
    REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
    CHECK(!has(toy.api->last_error(), "captured"));
    CHECK(captures.names() == Strings{captures.run(3).filename().string()});
    const std::filesystem::path run = captures.run(3);
    CHECK(elements_of<float>(run / "inputs/x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 8, ), }") == call.x);
    CHECK(elements_of<int64_t>(run / "inputs/idx.npy", "'<i8'") == call.idx);
    CHECK(elements_of<float>(run / "inputs/bias.npy", "(8, )") == call.bias);
    CHECK(elements_of<int64_t>(run / "states/runs.npy", "'shape': ()") == std::vector<int64_t>{102});  // 100 at first
    CHECK(!std::filesystem::exists(run / "outputs"));
    const std::string json = text_of(run / "run.json");
    for (const char* words : {"\"status\": \"INDEX_OUT_OF_RANGE\"", "\"method\": \"forward\"", "\"run\": 3", "\"id\": \"",
                              "\"file\": \"inputs/idx.npy\", \"dtype\": \"int64\"", "\"device\": -1", "\"outputs\": []"})
      CHECK(has(json, words));
    CHECK((std::filesystem::status(run / "run.json").permissions() & std::filesystem::perms::others_read) == std::filesystem::perms::none);
  }
}

TEST_CASE("capture: every run with its outputs, of any strides; the one that is asked for; none that the caller ended") {
  Loaded toy(toy_path());
  {
    Captures captures("all");
    Session s(toy.api);
    ToyCall call(6), wide(6, 1);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(elements_of<float>(captures.run(1) / "outputs/y.npy", "(6, 8, )") == call.y);
    CHECK(elements_of<float>(captures.run(1) / "outputs/zeros.npy", "(13, )") == call.zeros);
    CHECK(has(text_of(captures.run(1) / "run.json"), "\"status\": \"OK\""));
    // Every second row of a larger tensor.
    std::vector<float> rows(wide.x.size() * 2, -1);
    for (size_t r = 0; r < 6; ++r) std::copy_n(&wide.x[r * 8], 8, &rows[r * 16]);
    const int64_t strides[] = {16, 1};
    wide.in[0].data = rows.data(), wide.in[0].strides = strides, wide.in[0].byte_size = rows.size() * 4;
    REQUIRE(wide.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(elements_of<float>(captures.run(2) / "inputs/x.npy", "(6, 8, )") == wide.x);
    // A run in place: what it read is kept.
    ToyCall in_place(6);
    in_place.out[0].data = in_place.in[0].data;
    const std::vector<float> before = in_place.x;
    REQUIRE(in_place.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(elements_of<float>(captures.run(3) / "inputs/x.npy", "") == before);
    CHECK(elements_of<float>(captures.run(3) / "outputs/y.npy", "") == in_place.x);
    // Cancelled.
    const int32_t cancel = 1;
    aotc_run_options options = AOTC_RUN_OPTIONS_INIT;
    options.cancel = &cancel;
    CHECK(toy.api->run_with(s.context, 0, call.in.data(), 4, call.out.data(), 3, &options) == AOTC_STATUS_CANCELLED);
    // A shape that the model refuses is captured as it was given.
    ToyCall odd(6);
    odd.pair_shape[0] = 12;
    CHECK(odd.run(toy.api, s.context) == AOTC_STATUS_SHAPE_MISMATCH);
    CHECK(has(text_of(captures.run(5) / "run.json"), "\"status\": \"SHAPE_MISMATCH\""));
    CHECK(captures.names().size() == 4);
  }
  Captures captures("2");
  Session s(toy.api);
  ToyCall call(6);
  for (int i = 0; i < 3; ++i) REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(captures.names() == Strings{captures.run(2).filename().string()});
  Session other(toy.api);  // another model of the file
  for (int i = 0; i < 3; ++i) REQUIRE(call.run(toy.api, other.context) == AOTC_STATUS_OK);
  CHECK(captures.names() == Strings{captures.run(2).filename().string(), captures.run(2).filename().string() + "-1"});
}

TEST_CASE("capture: nothing beyond the limit, nothing half written, and no run fails for it") {
  Loaded toy(toy_path());
  {
    Captures captures(nullptr, "300");
    Session s(toy.api);
    ToyCall call(6);
    break_index(&call);
    CHECK(call.run(toy.api, s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
    CHECK(has(toy.api->last_error(), "the run was not captured: its tensors are above what AOTC_CAPTURE_LIMIT leaves"));
    CHECK(captures.names().empty());
  }
  {
    Captures captures("all", "3K");
    Session s(toy.api);
    ToyCall call(6);  // 1 KB
    for (int i = 0; i < 8; ++i) REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    const size_t kept = captures.names().size();
    CHECK((kept > 0 && kept < 8));
  }
  Captures captures("all");
  Session s(toy.api);
  ToyCall call(6);
  std::filesystem::remove_all(captures.folder);
  CHECK(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(call.right());
  break_index(&call);
  CHECK(call.run(toy.api, s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
  std::filesystem::create_directories(captures.folder);
}

TEST_CASE("capture: variables that mean nothing are refused when a model is made") {
  Loaded toy(toy_path());
  aotc_model* model = nullptr;
  const auto refused = [&](const char* words) {
    const aotc_status status = toy.api->model_create(nullptr, &model);
    if (status == AOTC_STATUS_OK) toy.api->model_destroy(model);
    INFO(toy.api->last_error());
    return status != AOTC_STATUS_OK && has(toy.api->last_error(), words);
  };
  for (const char* runs : {"al", "0", "-1", "1x", "99999999999999999999999"}) {
    Captures captures(runs);
    CHECK(refused("AOTC_CAPTURE_RUNS is"));
  }
  for (const char* limit : {"x", "-1", "1T", "18446744073709551615G"}) {
    Captures captures(nullptr, limit);
    CHECK(refused("AOTC_CAPTURE_LIMIT is"));
  }
  Captures captures;
  setenv("AOTC_CAPTURE", "/proc/none", 1);
  CHECK(refused("AOTC_CAPTURE: /proc/none cannot be written"));
}

TEST_CASE("capture: the method; a run that does not end leaves its inputs") {
  Captures captures;
  Loaded toy(toy_path("toy_methods"));
  const pid_t child = fork();
  if (child == 0) {
    // The caller's threads do not come back from the first step.
    aotc_thread_pool pool = {};
    pool.struct_size = sizeof pool;
    pool.width = [](void*) { return 2; };
    pool.parallel_for = [](void*, int32_t, void (*)(void*, int32_t), void*) { _exit(0); };
    aotc_model* model = nullptr;
    aotc_context* context = nullptr;
    aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
    options.threads = &pool;
    ToyCall call(64);
    if (toy.api->model_create(nullptr, &model) == AOTC_STATUS_OK && toy.api->context_create(model, &options, &context) == AOTC_STATUS_OK)
      call.run(toy.api, context);
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WEXITSTATUS(status) == 0);
  const std::string name = "toy_methods-" + std::to_string(child) + "-1.running";
  CHECK(captures.names() == Strings{name});
  CHECK(elements_of<float>(captures.folder / name / "inputs/x.npy", "(64, 8, )") == ToyCall(64).x);
  CHECK(!has(text_of(captures.folder / name / "run.json"), "\"status\""));
  std::filesystem::remove_all(captures.folder / name);
  // A shape that the second method does not take.
  Session s(toy.api);
  float z[4] = {};
  const int64_t shape[] = {4};
  const aotc_tensor in = aotc_host_tensor(z, shape, 1, AOTC_DTYPE_F32, sizeof z), out = in;
  CHECK(toy.api->run_method(s.context, 1, &in, 1, &out, 1) == AOTC_STATUS_SHAPE_MISMATCH);
  CHECK(has(text_of(captures.run(1, "toy_methods") / "run.json"), "\"method\": \"peek\""));
}

TEST_CASE("capture: threads run at once, each run in a folder of its own") {
  Captures captures("all");
  Loaded toy(toy_path());
  Session first(toy.api);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      aotc_context* context = nullptr;
      wrong += toy.api->context_create(first.model, nullptr, &context) != AOTC_STATUS_OK;
      for (int i = 0; i < 25; ++i) {
        ToyCall call(3 + t, t * 100 + i);
        wrong += call.run(toy.api, context) != AOTC_STATUS_OK || !call.right();
      }
      toy.api->context_destroy(context);
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(captures.names().size() == 100);
  for (int n = 1; n <= 100; ++n) CHECK(has(text_of(captures.run(n) / "run.json"), "\"status\": \"OK\""));
}
