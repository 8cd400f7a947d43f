// Artifacts of several methods, artifacts of one, and tables that are older than methods.
#include <atomic>
#include <thread>

#include "aotc/aotc.hpp"
#include "toy.h"

namespace {

/// A call of the method "peek": w = z + sums + table[0].
struct PeekCall {
  PeekCall() {
    for (int i = 0; i < 8; ++i) z[i] = static_cast<float>(i) / 2;
    in = aotc_host_tensor(z, shape, 1, AOTC_DTYPE_F32, sizeof z);
    out = aotc_host_tensor(w, shape, 1, AOTC_DTYPE_F32, sizeof w);
  }
  PeekCall(const PeekCall&) = delete;
  PeekCall& operator=(const PeekCall&) = delete;
  aotc_status run(const aotc_api* api, aotc_context* context) { return api->run_method(context, 1, &in, 1, &out, 1); }
  bool right(const std::vector<float>& sums) const {
    for (size_t i = 0; i < 8; ++i)
      if (w[i] != z[i] + sums[i] + 1) return false;
    return true;
  }
  float z[8], w[8] = {};
  int64_t shape[1] = {8};
  aotc_tensor in, out;
};

/// Adds what a run of the first method adds to "sums".
void add_sums(const ToyCall& call, std::vector<float>* sums) {
  for (int64_t r = 0; r < call.n; ++r)
    for (int64_t c = 0; c < 8; ++c) (*sums)[static_cast<size_t>(c)] += call.expected(r, c);
}

int64_t runs_of(const Session& s) {
  int64_t runs = 0;
  const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
  REQUIRE(s.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
  return runs;
}

}  // namespace

TEST_CASE("methods: what they are, by number and by name") {
  Loaded toy(toy_path("toy_methods"));
  Session s(toy.api);
  int32_t n = 0;
  REQUIRE(toy.api->method_count(s.model, &n) == AOTC_STATUS_OK);
  CHECK(n == 2);
  aotc_method_info info = AOTC_METHOD_INFO_INIT;
  REQUIRE(toy.api->method_get(s.model, 0, nullptr, &info) == AOTC_STATUS_OK);
  CHECK((std::string(info.name) == "forward" && info.index == 0 && info.n_inputs == 4 && info.n_outputs == 3 && info.n_variants == 2));
  REQUIRE(toy.api->method_get(s.model, 77, "peek", &info) == AOTC_STATUS_OK);
  CHECK((std::string(info.name) == "peek" && info.index == 1 && info.n_inputs == 1 && info.n_outputs == 1 && info.n_variants == 1));
  CHECK(toy.api->method_get(s.model, 0, "nope", &info) == AOTC_STATUS_NOT_FOUND);
  CHECK(std::string(toy.api->last_error()).find("'nope'") != std::string::npos);
  for (const int32_t i : {-1, 2}) {
    CHECK(toy.api->method_get(s.model, i, nullptr, &info) == AOTC_STATUS_INVALID_ARGUMENT);
    CHECK(toy.api->run_method(s.context, i, nullptr, 0, nullptr, 0) == AOTC_STATUS_INVALID_ARGUMENT);
    CHECK(toy.api->method_output_bounds(s.context, i, nullptr, 0, nullptr, 0) == AOTC_STATUS_INVALID_ARGUMENT);
    size_t bytes = 0;
    CHECK(toy.api->method_workspace_size(s.model, i, nullptr, nullptr, 0, &bytes) == AOTC_STATUS_INVALID_ARGUMENT);
  }
  aotc_io_info io = AOTC_IO_INFO_INIT;
  REQUIRE(toy.api->method_io_get(s.model, 1, AOTC_INPUT, 0, &io) == AOTC_STATUS_OK);
  CHECK((std::string(io.name) == "z" && io.rank == 1 && io.dims[0].value == 8));
  CHECK(toy.api->method_io_get(s.model, 1, AOTC_INPUT, 1, &io) == AOTC_STATUS_INVALID_ARGUMENT);
  for (const int32_t method : {0, 1}) {  // states are the artifact's
    REQUIRE(toy.api->method_io_get(s.model, method, AOTC_STATE, 1, &io) == AOTC_STATUS_OK);
    CHECK(std::string(io.name) == "runs");
  }
  PeekCall peek;
  int64_t shape = 0;
  int64_t* const shapes[] = {&shape};
  REQUIRE(toy.api->method_output_bounds(s.context, 1, &peek.in, 1, shapes, 1) == AOTC_STATUS_OK);
  CHECK(shape == 8);
  CHECK(toy.api->method_output_bounds(s.context, 0, &peek.in, 1, shapes, 1) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(toy.api->last_error()).find("method 'forward' has 3") != std::string::npos);
  // The old call says what a context needs for all of them.
  size_t first = 0, second = 0, all = 0;
  REQUIRE(toy.api->method_workspace_size(s.model, 0, nullptr, nullptr, 0, &first) == AOTC_STATUS_OK);
  REQUIRE(toy.api->method_workspace_size(s.model, 1, nullptr, nullptr, 0, &second) == AOTC_STATUS_OK);
  REQUIRE(toy.api->workspace_size(s.model, nullptr, nullptr, 0, &all) == AOTC_STATUS_OK);
  CHECK((second > first && all == second && second >= 65536));
}

TEST_CASE("methods: a run of one sees what another wrote, and all calls without a name mean the first") {
  Loaded toy(toy_path("toy_methods"));
  Session s(toy.api);
  std::vector<float> sums(8, 0);
  PeekCall peek;
  int64_t runs = 100;
  REQUIRE(peek.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(peek.right(sums));
  for (const int64_t batch : {3, 1, 64, 17, 3}) {
    ToyCall call(batch);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(call.right());
    add_sums(call, &sums);
    int64_t y[2] = {};
    REQUIRE(toy.api->output_sizes(s.context, 0, y) == AOTC_STATUS_OK);  // of the latest run
    CHECK(y[0] == batch);
    REQUIRE(peek.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(peek.right(sums));
    REQUIRE(toy.api->output_sizes(s.context, 0, y) == AOTC_STATUS_OK);
    CHECK(y[0] == 8);
    CHECK(toy.api->output_sizes(s.context, 1, y) == AOTC_STATUS_INVALID_ARGUMENT);
    runs += 2;
  }
  CHECK(runs_of(s) == runs + 1);
  REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
  REQUIRE(peek.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(peek.right(std::vector<float>(8, 0)));
}

TEST_CASE("methods: shapes of one do not drop what was worked out for another") {
  Loaded toy(toy_path("toy_methods"));
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.flags = AOTC_CONTEXT_PROFILE;
  Session s(toy.api, options);
  PeekCall peek;
  for (int64_t batch = 1; batch <= 40; ++batch) {
    ToyCall call(batch);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(call.right());
  }
  REQUIRE(peek.run(toy.api, s.context) == AOTC_STATUS_OK);
  int32_t n = 0;
  REQUIRE(toy.api->context_profile(s.context, nullptr, &n) == AOTC_STATUS_OK);
  CHECK(n == 2);
  aotc_context_info info = AOTC_CONTEXT_INFO_INIT;
  REQUIRE(toy.api->context_get_info(s.context, &info) == AOTC_STATUS_OK);
  CHECK(info.arena_bytes == 65536);
}

TEST_CASE("methods: a run that fails in one method makes the states undefined for all") {
  Loaded toy(toy_path("toy_methods"));
  Session s(toy.api);
  ToyCall bad(6);
  bad.idx[3] = 4;
  PeekCall peek;
  REQUIRE(bad.run(toy.api, s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
  CHECK(peek.run(toy.api, s.context) == AOTC_STATUS_WRONG_STATE);
  REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
  CHECK(peek.run(toy.api, s.context) == AOTC_STATUS_OK);
}

TEST_CASE("threads: contexts run different methods at once; one context refuses a second thread") {
  Loaded toy(toy_path("toy_methods"));
  Session shared(toy.api);
  std::atomic<int> wrong{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      aotc_context* own = nullptr;
      aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
      options.num_threads = t % 2 + 1;
      if (toy.api->context_create(shared.model, &options, &own) != AOTC_STATUS_OK) return void(++wrong);
      std::vector<float> sums(8, 0);
      for (int i = 0; i < 200; ++i) {
        ToyCall call(1 + (i * 7 + t) % 64, t);
        PeekCall peek;
        if (call.run(toy.api, own) != AOTC_STATUS_OK || !call.right()) ++wrong;
        if (i < 20) add_sums(call, &sums);  // exact in float32 as long as they are small
        if (peek.run(toy.api, own) != AOTC_STATUS_OK || (i < 20 && !peek.right(sums))) ++wrong;
        const aotc_status status = i % 2 ? call.run(toy.api, shared.context) : peek.run(toy.api, shared.context);
        if (status == AOTC_STATUS_WRONG_STATE)
          ++refused;
        else if (status != AOTC_STATUS_OK)
          ++wrong;
      }
      toy.api->context_destroy(own);
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(runs_of(shared) == 100 + 800 - refused);
}

TEST_CASE("methods: aotc.hpp by name, and an artifact whose table is older than methods") {
  aotc::host::Model model;
  REQUIRE(aotc::host::Model::load(toy_path("toy_methods"), &model));
  CHECK(model.methods() == std::vector<std::string>{"forward", "peek"});
  CHECK(model.inputs().size() == 4);
  aotc::host::Method peek, nope;
  REQUIRE(model.method("peek", &peek));
  const aotc::host::Status missing = model.method("nope", &nope);
  CHECK(missing.code == AOTC_STATUS_NOT_FOUND);
  CHECK(missing.message.find("forward, peek") != std::string::npos);
  CHECK((peek.inputs().size() == 1 && peek.inputs()[0].name == "z" && peek.outputs()[0].name == "w"));
  aotc::host::Context context;
  REQUIRE(model.context(&context));
  std::vector<float> z(8, 2), w(8);
  REQUIRE(context.run(peek, {aotc::host::tensor(z.data(), {8})}, {aotc::host::tensor(w.data(), {8})}));
  CHECK(w == std::vector<float>(8, 3));
  std::vector<std::vector<int64_t>> shapes;
  REQUIRE(context.output_bounds(peek, {aotc::host::tensor(z.data(), {8})}, &shapes));
  CHECK(shapes == std::vector<std::vector<int64_t>>{{8}});

  // As an artifact of before has it: the table ends where methods begin.
  Loaded one(toy_path());
  static aotc_api old;
  old = *one.api;
  old.struct_size = offsetof(aotc_api, method_count);
  aotc::host::Model before;
  REQUIRE(aotc::host::Model::linked([](uint32_t) -> const aotc_api* { return &old; }, &before));
  CHECK(before.methods() == std::vector<std::string>{"forward"});
  aotc::host::Method first;
  REQUIRE(before.method("forward", &first));
  CHECK((first.index() == 0 && first.inputs().size() == 4 && first.outputs().size() == 3));
  CHECK(before.method("peek", &nope).code == AOTC_STATUS_NOT_FOUND);
  aotc::host::Context of_before;
  REQUIRE(before.context(&of_before));
  ToyCall call(5);
  CHECK(of_before.run(first, call.in, call.out).code == AOTC_STATUS_OK);
  CHECK(call.right());
}
