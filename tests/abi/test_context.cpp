// What a context tells of its latest run, states after a failure, errno, and a fork that meets a run.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "toy.h"

TEST_CASE("a context tells of its latest run, whatever shapes were asked for since") {
  Loaded toy(toy_path());
  Session s(toy.api);
  ToyCall call(33);
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  const auto info = [&] {
    aotc_context_info i = AOTC_CONTEXT_INFO_INIT;
    REQUIRE(toy.api->context_get_info(s.context, &i) == AOTC_STATUS_OK);
    return i;
  };
  const aotc_context_info after = info();
  for (int64_t batch = 1; batch <= 20; ++batch) {
    ToyCall asked(batch);
    int64_t* none[] = {nullptr, nullptr, nullptr};
    REQUIRE(toy.api->output_bounds(s.context, asked.in.data(), 4, none, 3) == AOTC_STATUS_OK);
    asked.in[3].rank = 0;
    CHECK(toy.api->output_bounds(s.context, asked.in.data(), 4, none, 3) != AOTC_STATUS_OK);
    int64_t y[2] = {}, zeros = 0;
    REQUIRE(toy.api->output_sizes(s.context, 0, y) == AOTC_STATUS_OK);
    REQUIRE(toy.api->output_sizes(s.context, 2, &zeros) == AOTC_STATUS_OK);
    CHECK((y[0] == 33 && y[1] == 8 && zeros == 67));
    const aotc_context_info now = info();
    CHECK((now.arena_bytes == after.arena_bytes && now.scratch_bytes == after.scratch_bytes && std::string(now.variant) == after.variant));
  }
  ToyCall one(1);
  REQUIRE(one.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(std::string(info().variant) == "batch=1");
}

TEST_CASE("states of a run that failed are defined again when each was reset or written") {
  Loaded toy(toy_path());
  Session s(toy.api);
  ToyCall good(6), bad(6);
  bad.idx[3] = 4;  // a fault, after the state "runs" was updated in place
  int64_t runs = 40;
  const aotc_tensor runs_t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
  const auto fails = [&] {
    REQUIRE(bad.run(toy.api, s.context) == AOTC_STATUS_INDEX_OUT_OF_RANGE);
    REQUIRE(good.run(toy.api, s.context) == AOTC_STATUS_WRONG_STATE);
    CHECK(std::string(toy.api->last_error()).find("'runs'") != std::string::npos);
  };
  fails();
  CHECK(toy.api->state_reset(s.context, "nope") == AOTC_STATUS_NOT_FOUND);
  REQUIRE(toy.api->state_reset(s.context, "sums") == AOTC_STATUS_OK);
  CHECK(good.run(toy.api, s.context) == AOTC_STATUS_WRONG_STATE);  // it was not that one
  REQUIRE(toy.api->state_reset(s.context, "runs") == AOTC_STATUS_OK);
  CHECK(good.run(toy.api, s.context) == AOTC_STATUS_OK);
  fails();
  REQUIRE(toy.api->state_write(s.context, "runs", &runs_t) == AOTC_STATUS_OK);
  CHECK(good.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(good.right());
  REQUIRE(toy.api->state_read(s.context, "runs", &runs_t) == AOTC_STATUS_OK);
  CHECK(runs == 41);
  fails();
  REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
  CHECK(good.run(toy.api, s.context) == AOTC_STATUS_OK);
}

#if !defined(AOTC_SANITIZED)  // which need memory and threads of their own
TEST_CASE("a context for which there is no memory leaves errno as it was") {
  Loaded toy(toy_path());
  Session s(toy.api);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit nothing = {1, 1};
    aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
    options.num_threads = AOTC_MAX_THREADS;
    aotc_context* context = nullptr;
    if (setrlimit(RLIMIT_AS, &nothing) != 0) _exit(2);
    errno = 77;
    const aotc_status status = toy.api->context_create(s.model, &options, &context);
    _exit(errno != 77 ? 3 : status != AOTC_STATUS_OUT_OF_MEMORY ? 4 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

namespace {

/// A caller's pool that stops in the middle of a run until it is told to go on.
struct Halting {
  std::atomic<bool> halt{true}, halted{false};
  static aotc_thread_pool pool(Halting* of) {
    aotc_thread_pool pool{};
    pool.struct_size = sizeof pool;
    pool.user = of;
    pool.width = [](void*) { return int32_t{4}; };
    pool.parallel_for = [](void* user, int32_t tasks, void (*task)(void* arg, int32_t i), void* arg) {
      Halting& h = *static_cast<Halting*>(user);
      for (int32_t i = 0; i < tasks; ++i) {
        h.halted = true;
        while (h.halt) std::this_thread::yield();
        task(arg, i);
      }
    };
    return pool;
  }
};

}  // namespace

TEST_CASE("a fork that meets a run of another thread leaves a context that the child can use") {
  Loaded toy(toy_path());
  Halting halting;
  const aotc_thread_pool pool = Halting::pool(&halting);
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.threads = &pool;
  Session s(toy.api, options);
  ToyCall running(64);
  std::thread other([&] { running.run(toy.api, s.context); });
  while (!halting.halted) std::this_thread::yield();
  ToyCall mine(40);
  CHECK(mine.run(toy.api, s.context) == AOTC_STATUS_WRONG_STATE);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    halting.halt = false;
    int64_t runs = 0, sizes[2];
    const aotc_tensor runs_t = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, 8);
    // The states are those of half a run; what does not depend on them is as ever.
    if (toy.api->output_sizes(s.context, 0, sizes) != AOTC_STATUS_WRONG_STATE) _exit(2);
    if (mine.run(toy.api, s.context) != AOTC_STATUS_WRONG_STATE || !std::strstr(toy.api->last_error(), "state_reset")) _exit(3);
    if (toy.api->state_reset(s.context, nullptr) != AOTC_STATUS_OK) _exit(4);
    for (int i = 1; i <= 3; ++i)
      if (mine.run(toy.api, s.context) != AOTC_STATUS_OK || !mine.right()) _exit(5);
    if (toy.api->state_read(s.context, "runs", &runs_t) != AOTC_STATUS_OK || runs != 103) _exit(6);
    std::atomic<int> refused{0};
    halting.halt = true, halting.halted = false;
    std::thread again([&] { mine.run(toy.api, s.context); });
    while (!halting.halted) std::this_thread::yield();
    ToyCall third(5);
    if (third.run(toy.api, s.context) == AOTC_STATUS_WRONG_STATE) ++refused;  // the child's own threads are told apart
    halting.halt = false;
    again.join();
    if (refused != 1) _exit(7);
    toy.api->context_destroy(s.context);
    toy.api->model_destroy(s.model);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)) == 0);
  halting.halt = false;
  other.join();
  CHECK(running.right());
}
#endif
