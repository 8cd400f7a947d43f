// Threads: the context's own, the caller's, many contexts at once, fork.
#include <dirent.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>

#include "placement.h"
#include "pool.h"
#include "toy.h"

namespace {

aotc_context_options with_threads(int32_t n) {
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.num_threads = n;
  return options;
}

std::set<pid_t> thread_ids() {
  std::set<pid_t> ids;
  DIR* dir = opendir("/proc/self/task");
  while (const dirent* entry = readdir(dir))
    if (entry->d_name[0] != '.') ids.insert(std::atoi(entry->d_name));
  closedir(dir);
  return ids;
}
int count_threads() { return static_cast<int>(thread_ids().size()); }

/// Until the thread sleeps, which one without a CPU does not come to for a while.
void await_sleep(pid_t tid) {
  for (int i = 0; i < 10000; ++i, usleep(1000)) {
    std::ifstream in("/proc/self/task/" + std::to_string(tid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    if (const size_t name = text.rfind(") "); name != std::string::npos && text.substr(name + 2, 1) == "S") return;
  }
  FAIL("the thread does not sleep");
}

using CpuSet = std::set<int32_t>;
CpuSet affinity(pid_t tid) {
  cpu_set_t set;
  CpuSet cpus;
  REQUIRE(sched_getaffinity(tid, sizeof set, &set) == 0);
  for (int32_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(static_cast<size_t>(i), &set)) cpus.insert(i);
  return cpus;
}
void set_affinity(pid_t tid, const CpuSet& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int32_t i : cpus) CPU_SET(static_cast<size_t>(i), &set);
  REQUIRE(sched_setaffinity(tid, sizeof set, &set) == 0);
}

/// A pool as a host may have one: a fresh thread per task, in reverse order.
aotc_thread_pool host_pool(int32_t* width) {
  aotc_thread_pool pool{};
  pool.struct_size = sizeof pool;
  pool.user = width;
  pool.width = [](void* user) { return *static_cast<int32_t*>(user); };
  pool.parallel_for = [](void*, int32_t tasks, void (*task)(void*, int32_t), void* arg) {
    std::vector<std::thread> threads;
    for (int32_t i = tasks; i-- > 0;) threads.emplace_back([=] { task(arg, i); });
    for (std::thread& t : threads) t.join();
  };
  return pool;
}

/// Ends the process when the test hangs.
struct Watchdog {
  explicit Watchdog(unsigned seconds) { alarm(seconds); }
  ~Watchdog() { alarm(0); }
};

}  // namespace

TEST_CASE("any number of threads gives the same bytes") {
  const Watchdog dog(60);
  Loaded toy(toy_path());
  ToyCall serial(61, 3);
  Session one(toy.api);
  REQUIRE(serial.run(toy.api, one.context) == AOTC_STATUS_OK);
  for (int32_t n : {2, 3, 8}) {
    Session s(toy.api, with_threads(n));
    for (int i = 0; i < 50; ++i) {
      ToyCall call(61, 3);
      REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
      REQUIRE(call.y == serial.y);
      REQUIRE(call.total == serial.total);
    }
  }
  int32_t width = 5;
  const aotc_thread_pool pool = host_pool(&width);
  aotc_context_options options = AOTC_CONTEXT_OPTIONS_INIT;
  options.threads = &pool;
  Session s(toy.api, options);
  for (int i = 0; i < 20; ++i) {
    ToyCall call(61, 3);
    REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
    REQUIRE(call.y == serial.y);
  }
}

TEST_CASE("threads are as many as granted, park, wake, and go with the context") {
  const Watchdog dog(60);
  Loaded toy(toy_path());
  const int before = count_threads();
  {
    Session s(toy.api, with_threads(4));
    CHECK(count_threads() == before + 3);
    for (int i = 0; i < 5; ++i) {
      ToyCall call(64, i);
      REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
      REQUIRE(call.right());
      usleep(20000);  // long enough to park
    }
    aotc_context_info info = AOTC_CONTEXT_INFO_INIT;
    REQUIRE(toy.api->context_get_info(s.context, &info) == AOTC_STATUS_OK);
    CHECK(info.threads == 4);
    CHECK(count_threads() == before + 3);
  }
  CHECK(count_threads() == before);
  aotc_model* model;
  aotc_context* context;
  REQUIRE(toy.api->model_create(nullptr, &model) == AOTC_STATUS_OK);
  aotc_context_options options = with_threads(5000);
  CHECK(toy.api->context_create(model, &options, &context) == AOTC_STATUS_INVALID_ARGUMENT);
  toy.api->model_destroy(model);
}

TEST_CASE("many threads, each with its context, with failures in between") {
  const Watchdog dog(120);
  Loaded toy(toy_path());
  aotc_model* model;
  REQUIRE(toy.api->model_create(nullptr, &model) == AOTC_STATUS_OK);
  std::atomic<int> wrong{0}, created{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      aotc_context* context;
      const aotc_context_options options = with_threads(t % 2 + 1);
      const bool made = toy.api->context_create(model, &options, &context) == AOTC_STATUS_OK;
      ++created;
      if (!made) {
        ++wrong;
        return;
      }
      for (int i = 0; i < 3000; ++i) {
        ToyCall call(1 + (i * 7 + t) % 64, i);
        if (i % 5 == 0) {
          call.idx.back() = 99;
          wrong += call.run(toy.api, context) != AOTC_STATUS_INDEX_OUT_OF_RANGE;
          wrong += !strstr(toy.api->last_error(), "embedding");
          wrong += toy.api->state_reset(context, nullptr) != AOTC_STATUS_OK;
          continue;
        }
        if (i % 7 == 0) call.in[0].dtype = AOTC_DTYPE_I8;
        const aotc_status status = call.run(toy.api, context);
        wrong += i % 7 == 0 ? status != AOTC_STATUS_INVALID_ARGUMENT || !call.untouched() : status != AOTC_STATUS_OK || !call.right();
      }
      toy.api->context_destroy(context);
    });
  while (created < 8) usleep(100);
  toy.api->model_destroy(model);  // the contexts keep it
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("a context that two threads use at once says so") {
  const Watchdog dog(60);
  Loaded toy(toy_path());
  Session s(toy.api);
  std::atomic<int> wrong{0}, refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        ToyCall call(8, i);
        const aotc_status status = call.run(toy.api, s.context);
        if (status == AOTC_STATUS_WRONG_STATE)
          ++refused;
        else
          wrong += status != AOTC_STATUS_OK || !call.right();
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  INFO("refused: " << refused);
}

#ifndef __SANITIZE_THREAD__  // ThreadSanitizer keeps no track of threads that are started in a forked child
TEST_CASE("a forked child works, and so does its parent") {
  const Watchdog dog(60);
  Loaded toy(toy_path());
  Session s(toy.api, with_threads(3));
  ToyCall call(64, 1);
  REQUIRE(call.run(toy.api, s.context) == AOTC_STATUS_OK);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool ok = true;
    for (int i = 0; i < 20; ++i) {
      ToyCall inner(64, i);
      ok = ok && inner.run(toy.api, s.context) == AOTC_STATUS_OK && inner.right();
    }
    toy.api->context_destroy(s.context);
    _exit(ok ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  ToyCall after(64, 2);
  CHECK(after.run(toy.api, s.context) == AOTC_STATUS_OK);
  CHECK(after.right());
  // A child that never runs destroys what it inherited.
  const pid_t second = fork();
  if (second == 0) {
    alarm(20);
    toy.api->context_destroy(s.context);
    toy.api->model_destroy(s.model);
    _exit(0);
  }
  REQUIRE(waitpid(second, &status, 0) == second);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}
#endif

TEST_CASE("errno and the floating-point environment stay as they were") {
  Loaded toy(toy_path());
  const unsigned before = _mm_getcsr();
  for (uint32_t flags : {0u, uint32_t{AOTC_CONTEXT_FLUSH_DENORMALS}}) {
    aotc_context_options options = with_threads(2);
    options.flags = flags;
    Session s(toy.api, options);
    const unsigned odd = before ^ 0x2000;  // another rounding mode
    _mm_setcsr(odd);
    errno = 4242;
    ToyCall call(32);
    call.x.assign(call.x.size(), 1e-40f);
    call.bias.assign(8, 0);
    call.idx.assign(call.idx.size(), 3);
    const aotc_status status = call.run(toy.api, s.context);
    const unsigned csr = _mm_getcsr() & ~0x3fu, error = static_cast<unsigned>(errno);
    _mm_setcsr(before);
    CHECK(status == AOTC_STATUS_OK);
    CHECK(csr == (odd & ~0x3fu));
    CHECK(error == 4242);
    for (int64_t r = 0; r < 32; ++r) CHECK((call.y[static_cast<size_t>(r) * 8] == 0) == (flags != 0));
  }
}

namespace {

struct Tally {
  std::vector<std::atomic<int>> times;  ///< of each unit
  std::vector<int64_t> done;            ///< units by thread
  std::atomic<int> wrong_words{0};      ///< pieces that did not find what their thread's last one of this job held
  explicit Tally(size_t units, size_t width) : times(units), done(width) {}
  static void task(void* arg, int32_t i, int64_t begin, int64_t end, int64_t* held) {
    Tally& t = *static_cast<Tally*>(arg);
    t.wrong_words += t.done[static_cast<size_t>(i)] == 0 ? held[0] != -1 || held[1] != -1 : held[0] != t.done[static_cast<size_t>(i)];
    for (int64_t u = begin; u < end; ++u) t.times[static_cast<size_t>(u)].fetch_add(1, std::memory_order_relaxed);
    held[0] = held[1] = t.done[static_cast<size_t>(i)] += end - begin;
  }
  bool once_each() const {
    return std::all_of(times.begin(), times.end(), [](const std::atomic<int>& n) { return n == 1; });
  }
};

}  // namespace

TEST_CASE("fork and join do every unit once, however short") {
  using namespace aotc::rt;
  const Watchdog dog(120);
  for (int32_t width : {2, 5, 12}) {
    Threads threads;
    REQUIRE(threads_create(width, nullptr, &threads) == AOTC_STATUS_OK);
    REQUIRE(threads_begin(&threads, width) == AOTC_STATUS_OK);
    for (int i = 0; i < 4000; ++i) {
      const int32_t tasks = 1 + i % width;
      const int64_t work = tasks + i % 97;
      Tally tally(static_cast<size_t>(work), static_cast<size_t>(width));
      threads_run(&threads, tasks, work, Tally::task, &tally);
      REQUIRE(tally.once_each());
      REQUIRE(tally.wrong_words == 0);
      REQUIRE(std::accumulate(tally.done.begin(), tally.done.end(), int64_t{0}) == work);
    }
    threads_end(&threads);
    threads_destroy(&threads);
  }
}

TEST_CASE("more units than a word can number are done in lots") {
  using namespace aotc::rt;
  const Watchdog dog(60);
  Threads threads;
  REQUIRE(threads_create(3, nullptr, &threads) == AOTC_STATUS_OK);
  for (int64_t work : {(int64_t{1} << 31) - 1, int64_t{1} << 31, (int64_t{5} << 32) + 7}) {
    std::atomic<int64_t> units{0}, ends{0};
    std::pair<std::atomic<int64_t>*, std::atomic<int64_t>*> sums{&units, &ends};
    const TaskFn task = [](void* arg, int32_t, int64_t begin, int64_t end, int64_t*) {
      auto& to = *static_cast<std::pair<std::atomic<int64_t>*, std::atomic<int64_t>*>*>(arg);
      to.first->fetch_add(end - begin);
      for (int64_t most = *to.second; end > most && !to.second->compare_exchange_weak(most, end);) {}
    };
    REQUIRE(threads_begin(&threads, 3) == AOTC_STATUS_OK);
    threads_run(&threads, 3, work, task, &sums);
    threads_end(&threads);
    CHECK(units == work);
    CHECK(ends == work);
  }
  threads_destroy(&threads);
}

TEST_CASE("a thread that is held up loses the rest of its share") {
  using namespace aotc::rt;
  const Watchdog dog(60);
  constexpr int64_t kUnits = 64;
  for (int32_t late : {0, 1}) {
    Threads threads;
    REQUIRE(threads_create(2, nullptr, &threads) == AOTC_STATUS_OK);
    struct Held {
      int32_t late;
      std::atomic<int64_t> by_late{0}, by_other{0};
    } held{late};
    const TaskFn task = [](void* arg, int32_t i, int64_t begin, int64_t end, int64_t*) {
      Held& h = *static_cast<Held*>(arg);
      if (i == h.late)  // until the other has all but this piece
        for (int spins = 0; h.by_other + (end - begin) < kUnits && spins < 20000; ++spins) usleep(100);
      (i == h.late ? h.by_late : h.by_other) += end - begin;
    };
    REQUIRE(threads_begin(&threads, 2) == AOTC_STATUS_OK);
    threads_run(&threads, 2, kUnits, task, &held);
    threads_end(&threads);
    CHECK(held.by_late + held.by_other == kUnits);
    CHECK(held.by_late <= kUnits / 4);  // at most the piece that it was in: half of its share
    threads_destroy(&threads);
  }
}

TEST_CASE("a thread stays off CPUs for a while, and its affinity is what it was") {
  using namespace aotc::rt;
  const pid_t self = static_cast<pid_t>(syscall(SYS_gettid));
  const CpuSet allowed = affinity(self);
  const int32_t here = *allowed.begin();
  CpuSet others = allowed;
  others.erase(here);
  Cpus one, all;
  one.add(here);
  one.add(-1);
  for (int32_t cpu : allowed) all.add(cpu);
  const auto meanwhile = [&](const Cpus& taken, int32_t leader, pid_t tid) {
    errno = 77;
    const Elsewhere elsewhere(tid, taken, leader);
    CHECK(errno == 77);
    return affinity(self);
  };
  CHECK(meanwhile(one, here, 0) == allowed);
  CHECK(meanwhile(one, here, self) == (others.empty() ? allowed : others));
  CHECK(affinity(self) == allowed);
  CHECK(meanwhile(all, here, self) == (others.empty() ? allowed : others));
  CHECK(meanwhile(all, -1, self) == allowed);
  CHECK(affinity(self) == allowed);
  set_affinity(self, {here});
  CHECK(meanwhile(one, here, self) == CpuSet{here});
  set_affinity(self, allowed);
}

TEST_CASE("a worker that slept on the caller's CPU wakes up on another") {
  using namespace aotc::rt;
  const Watchdog dog(60);
  const CpuSet allowed = affinity(0);
  if (allowed.size() < 2) {
    WARN("not tried: there is one CPU");
    return;
  }
  const std::set<pid_t> before = thread_ids();
  Threads threads;
  REQUIRE(threads_create(2, nullptr, &threads) == AOTC_STATUS_OK);
  pid_t worker = 0;
  for (pid_t id : thread_ids())
    if (!before.count(id)) worker = id;
  REQUIRE(worker != 0);
  struct Seen {
    std::atomic<int32_t> cpus[2];
  } seen;
  const TaskFn task = [](void* arg, int32_t i, int64_t, int64_t, int64_t*) {
    Seen& s = *static_cast<Seen*>(arg);
    s.cpus[i] = cpu_now();
    for (int spins = 0; s.cpus[1 - i] < 0 && spins < 20000; ++spins) usleep(100);  // each thread does one unit
  };
  const auto run = [&] {
    for (auto& cpu : seen.cpus) cpu = -1;
    await_sleep(worker);
    REQUIRE(threads_begin(&threads, 2) == AOTC_STATUS_OK);
    threads_run(&threads, 2, 2, task, &seen);
    threads_end(&threads);
  };
  const int32_t here = *allowed.begin();
  set_affinity(0, {here});
  constexpr int kRounds = 9;
  int elsewhere = 0;
  for (int attempt = 0; attempt < 5 && elsewhere <= kRounds / 2; ++attempt) {  // what other processes do may have moved it since
    elsewhere = 0;
    for (int round = 0; round < kRounds; ++round) {
      set_affinity(worker, {here});
      run();
      CHECK(seen.cpus[1] == here);
      await_sleep(worker);
      set_affinity(worker, allowed);
      run();
      CHECK(seen.cpus[0] == here);
      elsewhere += seen.cpus[1] != here;
      CHECK(affinity(worker) == allowed);
    }
  }
  CHECK(elsewhere > kRounds / 2);
  set_affinity(0, allowed);
  threads_destroy(&threads);
}
