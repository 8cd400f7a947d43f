// Every guard: the status, a message that names what is wrong, and outputs left alone.
#include <chrono>
#include <functional>

#include "toy.h"

namespace {

struct Fault {
  const char* name;
  std::function<void(ToyCall&)> make;
  aotc_status status;
  std::vector<std::string> says;
};

int64_t seven[] = {7, 8}, wrong_cols[] = {6, 9}, negative[] = {-1, 8}, many[] = {65, 8}, even[] = {12}, other[] = {9},
        backwards[] = {-8, 1}, apart[] = {9, 1}, far[] = {INT64_MAX / 2, 1}, transposed[] = {1, 6};
int64_t huge[] = {INT64_MAX, 8};

const Fault kFaults[] = {
    {"dtype", [](ToyCall& c) { c.in[0].dtype = AOTC_DTYPE_F64; }, AOTC_STATUS_INVALID_ARGUMENT, {"'x'", "float64", "float32"}},
    {"dtype unknown", [](ToyCall& c) { c.in[0].dtype = 4711; }, AOTC_STATUS_INVALID_ARGUMENT, {"'x'", "4711"}},
    {"rank", [](ToyCall& c) { c.in[0].rank = 1; }, AOTC_STATUS_SHAPE_MISMATCH, {"'x'", "rank is 1", "2"}},
    {"null shape", [](ToyCall& c) { c.in[2].shape = nullptr; }, AOTC_STATUS_INVALID_ARGUMENT, {"'idx'", "shape is null"}},
    {"fixed dim", [](ToyCall& c) { c.in[0].shape = wrong_cols; }, AOTC_STATUS_SHAPE_MISMATCH, {"'x'", "dimension 1 is 9", "8"}},
    {"dims disagree", [](ToyCall& c) { c.in[2].shape = other; }, AOTC_STATUS_SHAPE_MISMATCH, {"'idx'", "dimension 0 is 9", "6", "batch"}},
    {"range", [](ToyCall& c) { c.in[0].shape = many; }, AOTC_STATUS_SHAPE_MISMATCH, {"'x'", "dimension 0 is 65", "1 to 64", "batch"}},
    {"negative", [](ToyCall& c) { c.in[0].shape = negative; }, AOTC_STATUS_SHAPE_MISMATCH, {"'x'", "-1", "1 to 64"}},
    {"huge", [](ToyCall& c) { c.in[0].shape = huge; }, AOTC_STATUS_SHAPE_MISMATCH, {"'x'", "1 to 64"}},
    {"not 2n+1", [](ToyCall& c) { c.in[3].shape = even; }, AOTC_STATUS_SHAPE_MISMATCH, {"'pair'", "12", "2*n + 1"}},
    {"guard", [](ToyCall& c) { c.in[3].shape = other; }, AOTC_STATUS_SHAPE_MISMATCH, {"where n is batch"}},
    {"stride below 0",
     [](ToyCall& c) { c.in[0].strides = backwards; },
     AOTC_STATUS_INVALID_ARGUMENT,
     {"'x'", "stride of dimension 0 is -8", "0 or more"}},
    {"bytes with strides", [](ToyCall& c) { c.in[0].strides = apart; }, AOTC_STATUS_INVALID_ARGUMENT, {"'x'", "192", "212", "strides"}},
    {"strides too far", [](ToyCall& c) { c.in[0].strides = far; }, AOTC_STATUS_INVALID_ARGUMENT, {"'x'", "beyond all memory"}},
    {"output stride",
     [](ToyCall& c) { c.out[0].strides = transposed; },
     AOTC_STATUS_INVALID_ARGUMENT,
     {"'y'", "stride of dimension 1 is 6", "1"}},
    {"output on a transposed input",
     [](ToyCall& c) {
       c.in[0].strides = transposed;
       c.out[0].data = c.in[0].data;
     },
     AOTC_STATUS_INVALID_ARGUMENT,
     {"output 'y'", "input 'x'"}},
    {"byte size", [](ToyCall& c) { c.in[0].byte_size -= 1; }, AOTC_STATUS_INVALID_ARGUMENT, {"'x'", "191", "192", "[6, 8]"}},
    {"device", [](ToyCall& c) { c.in[1].device = 0; }, AOTC_STATUS_INVALID_ARGUMENT, {"'bias'", "device is 0", "-1"}},
    {"null data", [](ToyCall& c) { c.in[1].data = nullptr; }, AOTC_STATUS_INVALID_ARGUMENT, {"'bias'", "data is null"}},
    {"odd address",
     [](ToyCall& c) { c.in[1].data = static_cast<char*>(c.in[1].data) + 1; },
     AOTC_STATUS_INVALID_ARGUMENT,
     {"'bias'", "aligned"}},
    {"flags", [](ToyCall& c) { c.in[1].flags = 4; }, AOTC_STATUS_INVALID_ARGUMENT, {"'bias'", "flags"}},
    {"output dtype", [](ToyCall& c) { c.out[1].dtype = AOTC_DTYPE_F16; }, AOTC_STATUS_INVALID_ARGUMENT, {"'total'", "float16"}},
    {"output rank", [](ToyCall& c) { c.out[0].rank = 1; }, AOTC_STATUS_SHAPE_MISMATCH, {"output 'y'", "rank is 1"}},
    {"output dim",
     [](ToyCall& c) { c.out[0].shape = seven; },
     AOTC_STATUS_SHAPE_MISMATCH,
     {"output 'y'", "dimension 0 is 7", "6", "[6, 8]"}},
    {"output bytes", [](ToyCall& c) { c.out[2].byte_size = 51; }, AOTC_STATUS_INVALID_ARGUMENT, {"output 'zeros'", "51", "52"}},
    {"output device", [](ToyCall& c) { c.out[2].device = 3; }, AOTC_STATUS_INVALID_ARGUMENT, {"output 'zeros'", "device is 3"}},
    {"output on input", [](ToyCall& c) { c.out[1].data = c.in[1].data; }, AOTC_STATUS_INVALID_ARGUMENT, {"output 'total'", "input 'bias'"}},
    {"output across its input",
     [](ToyCall& c) { c.out[0].data = c.x.data() + 1; },
     AOTC_STATUS_INVALID_ARGUMENT,
     {"output 'y'", "input 'x'"}},
    {"outputs overlap", [](ToyCall& c) { c.out[1].data = c.y.data() + 3; }, AOTC_STATUS_INVALID_ARGUMENT, {"'total'", "output 'y'"}},
};

}  // namespace

TEST_CASE("a call that is right gives the right answer") {
  Loaded toy(toy_path());
  Session s(toy.api);
  for (int64_t batch : {1, 6, 64, 1, 17, 6}) {
    ToyCall call(batch, static_cast<int>(batch));
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    REQUIRE(call.right());
  }
}

TEST_CASE("guards refuse with a message and touch no output") {
  Loaded toy(toy_path());
  Session s(toy.api);
  for (const Fault& fault : kFaults) {
    ToyCall call(6);
    fault.make(call);
    INFO(fault.name);
    CHECK(call.run(toy.api, s.context) == fault.status);
    const std::string message = toy.api->last_error();
    INFO(message);
    for (const std::string& part : fault.says) CHECK(message.find(part) != std::string::npos);
    CHECK(call.untouched());
    int64_t runs = 0;
    const aotc_tensor t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
    CHECK(toy.api->state_read(s.context, "runs", &t) == AOTC_STATUS_OK);
    CHECK(runs == 100);
  }
  ToyCall call(6);
  CHECK(toy.api->run(s.context, call.in.data(), 3, call.out.data(), 3) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->run(s.context, call.in.data(), 4, call.out.data(), 2) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->run(s.context, nullptr, 4, call.out.data(), 3) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->run(nullptr, call.in.data(), 4, call.out.data(), 3) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(call.untouched());
  CHECK(call.run(toy.api, s.context) == AOTC_STATUS_OK);
}

TEST_CASE("strides of one and of size-one dimensions are dense") {
  Loaded toy(toy_path());
  Session s(toy.api);
  ToyCall call(1);
  int64_t strides[] = {12345, 1};
  call.in[0].strides = strides;
  CHECK(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(call.right());
}

TEST_CASE("inputs with strides give what their dense copies give") {
  Loaded toy(toy_path());
  Session s(toy.api);
  ToyCall dense(6), call(6);
  REQUIRE(dense.run(toy.api, s.context) == AOTC_STATUS_OK);
  std::vector<float> memory(6 * 20 + 8, -1000);
  struct Case {
    int64_t rows, cols;
  };
  for (const Case& strides : {Case{1, 6}, Case{20, 2}, Case{9, 1}}) {
    for (int64_t r = 0; r < 6; ++r)
      for (int64_t c = 0; c < 8; ++c)
        memory[static_cast<size_t>(r * strides.rows + c * strides.cols)] = call.x[static_cast<size_t>(r * 8 + c)];
    const int64_t given[] = {strides.rows, strides.cols};
    call.in[0].data = memory.data();
    call.in[0].byte_size = memory.size() * sizeof(float);
    call.in[0].strides = given;
    REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(call.right());
    CHECK(call.y == dense.y);
  }
  // Expanded: every row is the first one; no element lies behind it.
  for (int64_t r = 1; r < 6; ++r) std::copy(dense.x.begin(), dense.x.begin() + 8, dense.x.begin() + 8 * r);
  REQUIRE(dense.run(toy.api, s.context) == AOTC_STATUS_OK);
  const int64_t expanded[] = {0, 1};
  call.in[0].data = call.x.data();
  call.in[0].byte_size = 8 * sizeof(float);
  call.in[0].strides = expanded;
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(call.y == dense.y);
}

TEST_CASE("pointers at any element boundary work") {
  Loaded toy(toy_path());
  Session s(toy.api);
  ToyCall call(6);
  std::vector<float> moved(call.x.size() + 1);
  std::copy(call.x.begin(), call.x.end(), moved.begin() + 1);
  call.in[0].data = moved.data() + 1;
  CHECK(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(call.right());
}

TEST_CASE("the new content of an input may lie on it") {
  Loaded toy(toy_path());
  Session s(toy.api);
  ToyCall call(6), in_place(6);
  in_place.out[0].data = in_place.in[0].data;
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  REQUIRE(in_place.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(in_place.x == call.y);
}

TEST_CASE("an index out of range is reported with its step") {
  Loaded toy(toy_path());
  Session s(toy.api);
  ToyCall call(6);
  call.idx[3] = 4;
  CHECK(call.run(toy.api, s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
  const std::string message = toy.api->last_error();
  INFO(message);
  CHECK(message.find("embedding") != std::string::npos);
  CHECK(message.find("where input idx has values from ") != std::string::npos);
  CHECK(message.find(" to 4)") != std::string::npos);
  // The state "runs" was updated in place before the fault.
  call.idx[3] = 1;
  CHECK(call.run(toy.api, s.context) == AOTC_STATUS_WRONG_STATE);
  CHECK(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
  CHECK(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(call.right());
}

TEST_CASE("guards cost less than a microsecond") {
  Loaded toy(toy_path("toy_empty"));
  Session s(toy.api);
  ToyCall call(6);
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 1000; ++i) call.run(toy.api, s.context);
    best = std::min(best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 1000);
  }
  INFO("microseconds a run of no steps: " << best);
#ifndef AOTC_SANITIZED
  CHECK(best < 1);
#endif
}
