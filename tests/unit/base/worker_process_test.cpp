// Workers: what they answer, and how their loss is told.
#include "base/worker_process.h"

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

using namespace aotc;

namespace {

WorkerCommand shell(const std::string& script) { return {{"/bin/sh", "-c", script}, "", false}; }

}  // namespace

TEST_CASE("a worker that crashes, hangs up or babbles is a lost answer, and the next one is asked of a new worker") {
  const nlohmann::json job = {{"artifact", "/does/not/exist.so"}};
  WorkerProcess crash(shell("read x; kill -SEGV $$"));
  for (int i = 0; i < 2; ++i) {
    CHECK(crash.ask(job, 5).why() == "the worker crashed (Segmentation fault)");
    CHECK(crash.loss() == WorkerProcess::Loss::ended);
    CHECK(crash.signal() == SIGSEGV);
  }
  WorkerProcess ended(shell("read x; exit 3"));
  CHECK(ended.ask(job, 5).why() == "the worker crashed (exit code 3)");
  CHECK(ended.signal() == 0);
  WorkerProcess hung_up(shell("read x; exec >&-; exec sleep 60"));
  CHECK(hung_up.ask(job, 5).why().find("the worker crashed") == 0);
  WorkerProcess babble(shell("read x; echo hello; read x; echo '{\"ns\": 5}'; read x; echo '{\"error\": \"no\"}'"));
  CHECK(!babble.ask(job, 5));
  CHECK((*babble.ask(job, 5)).at("ns") == 5);
  CHECK(babble.ask(job, 5).why() == "no");
  CHECK(babble.loss() == WorkerProcess::Loss::none);
  WorkerProcess none({{"/does/not/exist"}, "", false});
  CHECK(!none.ask(job, 5));
  CHECK(none.loss() == WorkerProcess::Loss::not_started);
  WorkerProcess slow(shell("read x; exec sleep 20"));
  CHECK(slow.ask(job, 0.05).why().find("took longer") == 0);
  CHECK(slow.loss() == WorkerProcess::Loss::late);
}

TEST_CASE("a watch sees the processor time of one request, and gives it up") {
  WorkerProcess busy(shell("i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; read x; echo '{}'; read x; while :; do :; done"));
  double most = 0;
  REQUIRE(busy.ask({{"first", 1}}, 60, {}, [&](double s) { return most = std::max(most, s), true; }));
  double spent = 0, told = 0;
  CHECK(busy.ask({{"second", 1}}, 60, {}, [&](double s) { return ++told, (spent = s) < 0.5; }).why() == "was given up");
  CHECK(busy.loss() == WorkerProcess::Loss::late);
  CHECK(told > 1);
  CHECK((spent >= 0.5 && spent < 5));
  WorkerProcess idle(shell("read x; sleep 1; echo '{}'"));
  CHECK(idle.ask({{"first", 1}}, 60, {}, [](double s) { return s < 0.5; }));
}

TEST_CASE("workers are asked from several threads, and those that do not read end nobody") {
  const std::string much(1 << 20, 'x');  // more than a pipe holds
  std::vector<std::thread> threads;
  std::vector<std::string> answers(4);
  for (size_t t = 0; t < answers.size(); ++t)
    threads.emplace_back([&, t] {
      WorkerProcess deaf(shell("exec <&-; exit 0"));
      for (int i = 0; i < 5; ++i) answers[t] = deaf.ask({{"bytes", much.size()}}, 5, much).why();
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& a : answers) CHECK(a == "the worker crashed (exit code 0)");
}

TEST_CASE("a worker that never reads, or sends without an end, is given up in time") {
  using Clock = std::chrono::steady_clock;
  const std::string much(1 << 20, 'x');  // more than a pipe holds
  const auto lost = [&](WorkerCommand command, double limit_s) {
    const auto begin = Clock::now();
    WorkerProcess worker(std::move(command));
    const std::string why = worker.ask({{"bytes", much.size()}}, limit_s, much).why();
    CHECK(worker.loss() == WorkerProcess::Loss::late);
    CHECK(std::chrono::duration<double>(Clock::now() - begin).count() < 10);
    return why;
  };
  CHECK(lost(shell("exec sleep 60"), 0.2).find("took longer") == 0);
  WorkerCommand preceded = shell("exec sleep 60");
  preceded.preamble = much;
  CHECK(lost(std::move(preceded), 0.2).find("took longer") == 0);
  // Whichever comes first: a fast machine has sent more than an answer may have.
  const std::string endless = lost(shell("head -c 1000000 >/dev/null; exec yes | tr -d '\\n'"), 0.2);
  CHECK((endless.find("took longer") == 0 || endless == "the worker's answer has no end"));
  // what is not read of the request stays in a pipe that is open
  CHECK(lost(shell("exec 3<&0; head -c 1000000 >/dev/null; exec tr '\\0' x </dev/zero"), 60) == "the worker's answer has no end");
}
