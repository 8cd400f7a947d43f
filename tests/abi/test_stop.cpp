// Runs that are ended before they are done: by a flag, by a deadline.
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "aotc/aotc.hpp"
#include "toy.h"

namespace {

uint64_t monotonic_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

aotc_run_options options_of(const int32_t* cancel, uint64_t deadline_ns = 0) {
  aotc_run_options o = AOTC_RUN_OPTIONS_INIT;
  o.cancel = cancel;
  o.deadline_ns = deadline_ns;
  return o;
}

aotc_status run_with(const aotc_api* api, aotc_context* context, ToyCall& call, const aotc_run_options* options) {
  return api->run_with(context, 0, call.in.data(), 4, call.out.data(), 3, options);
}

/// The states of the toy model.
struct States {
  float sums[8];
  int64_t runs;
  States(const aotc_api* api, aotc_context* context) {
    const int64_t shape[] = {8};
    const aotc_tensor a = aotc_host_tensor(sums, shape, 1, AOTC_DTYPE_F32, sizeof sums),
                      b = aotc_host_tensor(&runs, nullptr, 0, AOTC_DTYPE_I64, sizeof runs);
    read = api->state_read(context, "sums", &a) == AOTC_STATUS_OK && api->state_read(context, "runs", &b) == AOTC_STATUS_OK;
  }
  bool operator==(const States& o) const { return read && o.read && runs == o.runs && memcmp(sums, o.sums, sizeof sums) == 0; }
  bool read;
};

aotc_context_options with_threads(int32_t n, const aotc_thread_pool* pool = nullptr) {
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = n;
  options.threads = pool;
  return options;
}

/// A host's pool that does things between the parts of a step: calls `between` before the first and after each.
struct Between {
  std::function<void()> between;
  aotc_thread_pool pool() {
    aotc_thread_pool p{};
    p.struct_size = sizeof p;
    p.user = this;
    p.width = [](void*) { return int32_t{4}; };
    p.parallel_for = [](void* user, int32_t tasks, void (*task)(void*, int32_t), void* arg) {
      const Between& self = *static_cast<Between*>(user);
      self.between();
      for (int32_t i = 0; i < tasks; ++i, self.between()) task(arg, i);
    };
    return p;
  }
};

}  // namespace

TEST_CASE("a run that may be ended and is not gives the bytes of one that may not") {
  Loaded toy(toy_path());
  const int32_t never = 0;
  const aotc_run_options some[] = {options_of(nullptr), options_of(&never), options_of(nullptr, UINT64_MAX),
                                   options_of(&never, monotonic_ns() + uint64_t{3600} * 1000000000u)};
  for (const int32_t threads : {1, 2, 4})
    for (const aotc_run_options& options : some) {
      Session s(toy.api, with_threads(threads)), plain(toy.api, with_threads(threads));
      for (int64_t batch : {1, 7, 64}) {
        ToyCall call(batch, 5), same(batch, 5);
        REQUIRE(run_with(toy.api, s.context, call, &options) == AOTC_STATUS_OK);
        REQUIRE(same.run(toy.api, plain.context) == AOTC_STATUS_OK);
        CHECK((call.right() && call.y == same.y && call.total == same.total && call.zeros == same.zeros));
      }
      CHECK(States(toy.api, s.context) == States(toy.api, plain.context));
      ToyCall call(3);
      CHECK(run_with(toy.api, s.context, call, nullptr) == AOTC_STATUS_OK);
      CHECK(call.right());
    }
}

TEST_CASE("a flag that is set and a time that has passed end a run before it touches anything") {
  Loaded toy(toy_path());
  Session s(toy.api);
  const int32_t set = -1;
  ToyCall first(5);
  REQUIRE(first.run(toy.api, s.context) == AOTC_STATUS_OK);
  const States before(toy.api, s.context);
  const std::pair<aotc_run_options, aotc_status> cases[] = {{options_of(&set), AOTC_STATUS_CANCELLED},
                                                            {options_of(nullptr, 1), AOTC_STATUS_DEADLINE_EXCEEDED},
                                                            {options_of(nullptr, monotonic_ns()), AOTC_STATUS_DEADLINE_EXCEEDED},
                                                            {options_of(&set, 1), AOTC_STATUS_CANCELLED}};
  for (const auto& [options, status] : cases) {
    ToyCall call(7);
    CHECK(run_with(toy.api, s.context, call, &options) == status);
    CHECK(call.untouched());
    CHECK(std::string(toy.api->last_error()).find("as before the run") != std::string::npos);
    CHECK(States(toy.api, s.context) == before);
  }
  CHECK(std::string(toy.api->status_name(AOTC_STATUS_CANCELLED)).find("cancelled") != std::string::npos);
  CHECK(std::string(toy.api->status_name(AOTC_STATUS_DEADLINE_EXCEEDED)).find("deadline") != std::string::npos);
  ToyCall call(7);
  CHECK(run_with(toy.api, s.context, call, nullptr) == AOTC_STATUS_OK);
  CHECK(call.right());
  call.in[0].dtype = AOTC_DTYPE_I8;  // what is wrong comes first
  const aotc_run_options cancelled = options_of(&set);
  CHECK(run_with(toy.api, s.context, call, &cancelled) == AOTC_STATUS_INVALID_ARGUMENT);
}

TEST_CASE("options: sizes and unknown fields") {
  Loaded toy(toy_path());
  Session s(toy.api);
  ToyCall call(2);
  aotc_run_options options = AOTC_RUN_OPTIONS_INIT;
  options.struct_size = 3;
  CHECK(run_with(toy.api, s.context, call, &options) == AOTC_STATUS_INVALID_ARGUMENT);
  options.struct_size = 16;  // of a caller who knows deadlines alone
  options.deadline_ns = 1;
  CHECK(run_with(toy.api, s.context, call, &options) == AOTC_STATUS_DEADLINE_EXCEEDED);
  struct Newer {
    aotc_run_options known;
    int64_t unknown;
  } newer = {AOTC_RUN_OPTIONS_INIT, 0};
  newer.known.struct_size = sizeof newer;
  CHECK(run_with(toy.api, s.context, call, &newer.known) == AOTC_STATUS_OK);
  newer.unknown = 1;
  CHECK(run_with(toy.api, s.context, call, &newer.known) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->run_with(s.context, 1, call.in.data(), 4, call.out.data(), 3, nullptr) == AOTC_STATUS_INVALID_ARGUMENT);
  CHECK(toy.api->run_with(nullptr, 0, call.in.data(), 4, call.out.data(), 3, nullptr) == AOTC_STATUS_INVALID_ARGUMENT);
}

TEST_CASE("a run that is ended halfway has undefined states, and says so, where it had begun to write them") {
  Loaded toy(toy_path());
  std::atomic<int32_t> cancel{0};
  int passed = 0, at = 0;
  Between hook{[&] {
    if (++passed == at) cancel = 1;
  }};
  const aotc_thread_pool pool = hook.pool();
  Session s(toy.api, with_threads(1, &pool));
  const aotc_run_options options = options_of(reinterpret_cast<const int32_t*>(&cancel));
  int ended = 0;
  for (at = 1; at < 20; ++at) {
    passed = 0;
    cancel = 0;
    ToyCall call(64, at);
    const aotc_status status = run_with(toy.api, s.context, call, &options);
    if (status == AOTC_STATUS_OK) {
      CHECK(call.right());
      break;
    }
    ++ended;
    CHECK(status == AOTC_STATUS_CANCELLED);  // the first step counts the runs in place: never before it
    const std::string why = toy.api->last_error();
    INFO(why);
    CHECK(why.find("state_reset") != std::string::npos);
    ToyCall refused(64, at);
    CHECK(refused.run(toy.api, s.context) == AOTC_STATUS_WRONG_STATE);
    REQUIRE(toy.api->state_reset(s.context, nullptr) == AOTC_STATUS_OK);
    ToyCall again(64, at);
    CHECK(again.run(toy.api, s.context) == AOTC_STATUS_OK);
    CHECK(again.right());
  }
  CHECK(ended > 4);  // shares of a step and of the ones behind it
}

#ifndef __SANITIZE_THREAD__  // one artifact is built so
TEST_CASE("a run that is ended before it writes states leaves them") {
  Loaded toy(toy_path("toy_late"));
  std::atomic<int32_t> cancel{0};
  int passed = 0, at = 0;
  Between hook{[&] {
    if (++passed == at) cancel = 1;
  }};
  const aotc_thread_pool pool = hook.pool();
  Session s(toy.api, with_threads(1, &pool));
  const aotc_run_options options = options_of(reinterpret_cast<const int32_t*>(&cancel));
  const States before(toy.api, s.context);
  int ended = 0;
  for (at = 1; at < 20; ++at) {
    passed = 0;
    cancel = 0;
    ToyCall call(64, at);
    if (run_with(toy.api, s.context, call, &options) == AOTC_STATUS_OK) break;
    ++ended;
    CHECK(std::string(toy.api->last_error()).find("as before the run") != std::string::npos);
    CHECK(States(toy.api, s.context) == before);
  }
  CHECK(ended > 4);
  const States after(toy.api, s.context);
  CHECK((after.runs == before.runs + 1 && !(after == before)));
}
#endif

TEST_CASE("the C++ wrapper ends runs") {
  using namespace aotc::host;
  Model model;
  Context context;
  Model::load(toy_path(), &model).check();
  model.context(&context).check();
  ToyCall call(9);
  std::atomic<int32_t> cancel{0};
  RunOptions options;
  options.cancel = &cancel;
  options.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  context.run(call.in, call.out, options).check();
  CHECK(call.right());
  cancel = 1;
  CHECK(context.run(call.in, call.out, options).code == AOTC_STATUS_CANCELLED);
  cancel = 0;
  options.deadline = std::chrono::steady_clock::now() - std::chrono::milliseconds(1);
  CHECK(context.run(call.in, call.out, options).code == AOTC_STATUS_DEADLINE_EXCEEDED);
  Method method;
  model.method("forward", &method).check();
  CHECK(context.run(method, call.in, call.out, options).code == AOTC_STATUS_DEADLINE_EXCEEDED);
  CHECK(Context().run(call.in, call.out, options).code == AOTC_STATUS_WRONG_STATE);
}

TEST_CASE("twenty thousand runs, half of them ended at random times, and what was not is right") {
  Loaded toy(toy_path());
  aotc_model* model;
  REQUIRE(toy.api->model_create(nullptr, &model) == AOTC_STATUS_OK);
  constexpr int kWorkers = 4, kRuns = 5000;
  struct Lane {
    std::atomic<int32_t> cancel{0};
    std::atomic<int> begun{0};
    int pass = 0, at = 0;  // of a pool of the caller's: where in the run it is, where the flag is set
    int wrong = 0, done = 0, cancelled = 0, late = 0, kept = 0, lost = 0;
  } lanes[kWorkers];
  std::atomic<int> open{kWorkers};
  std::vector<std::thread> threads;
  for (int t = 0; t < kWorkers; ++t)
    threads.emplace_back([&, t] {
      Lane& lane = lanes[t];
      aotc_context* context;
      Between hook{[&] {
        if (++lane.pass == lane.at) lane.cancel.store(1);
      }};
      const aotc_thread_pool pool = hook.pool();
      const bool pooled = t % 2;  // the flag is set from within the run; else by another thread at any time
      const aotc_context_options threads_of = with_threads(t + 1, pooled ? &pool : nullptr);
      if (toy.api->context_create(model, &threads_of, &context) != AOTC_STATUS_OK) {
        ++lane.wrong;
        --open;
        return;
      }
      std::minstd_rand random(static_cast<unsigned>(t) + 1);
      int64_t count = 100;  // of the state "runs", which starts there
      for (int i = 0; i < kRuns; ++i) {
        lane.cancel.store(0);
        lane.pass = 0;
        lane.at = pooled ? 1 + static_cast<int>(random() % 8) : 0;
        ToyCall call(1 + static_cast<int64_t>(random() % 64), i);
        const aotc_run_options options =
            options_of(reinterpret_cast<const int32_t*>(&lane.cancel), i % 4 == 3 ? monotonic_ns() + random() % 8000 : 0);
        lane.begun.store(i + 1);
        const aotc_status status = run_with(toy.api, context, call, &options);
        if (status == AOTC_STATUS_OK) {
          ++lane.done;
          ++count;
          lane.wrong += !call.right();
          continue;
        }
        ++(status == AOTC_STATUS_CANCELLED ? lane.cancelled : lane.late);
        lane.wrong += status != AOTC_STATUS_CANCELLED && (status != AOTC_STATUS_DEADLINE_EXCEEDED || i % 4 != 3);
        lane.at = 0;
        ToyCall probe(1);
        const bool kept = strstr(toy.api->last_error(), "as before the run") != nullptr;
        const aotc_status next = probe.run(toy.api, context);
        lane.wrong += next != (kept ? AOTC_STATUS_OK : AOTC_STATUS_WRONG_STATE);
        if (kept) {
          ++lane.kept;
          const States now(toy.api, context);
          lane.wrong += !now.read || now.runs != ++count || !probe.right();
        } else {
          ++lane.lost;
          lane.wrong += toy.api->state_reset(context, nullptr) != AOTC_STATUS_OK;
          count = 100;
        }
      }
      toy.api->context_destroy(context);
      --open;
    });
  std::thread canceller([&] {
    std::minstd_rand random(99);
    while (open.load() > 0) {
      Lane& lane = lanes[random() % (kWorkers / 2) * 2];
      const int seen = lane.begun.load();
      for (unsigned spins = random() % 2000; spins > 0 && lane.begun.load() == seen; --spins) __builtin_ia32_pause();
      lane.cancel.store(static_cast<int32_t>(random() % 100) + 1);
      if (random() % 8 == 0) std::this_thread::yield();
    }
  });
  for (std::thread& t : threads) t.join();
  canceller.join();
  toy.api->model_destroy(model);
  int cancelled = 0, late = 0, done = 0, kept = 0, lost = 0;
  for (const Lane& lane : lanes) {
    CHECK(lane.wrong == 0);
    cancelled += lane.cancelled, late += lane.late, done += lane.done, kept += lane.kept, lost += lane.lost;
  }
  CHECK(done + cancelled + late == kWorkers * kRuns);
  CHECK(cancelled > kRuns / 2);
  WARN(cancelled << " cancelled, " << late << " late, " << done << " done; " << kept << " left the states, " << lost << " did not");
}
