// A slowdown beside noise, on drawn times: those of a machine that others use, too.
#include "regression.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace aotc::cli;

namespace {

/// Times of runs on two shared cores: the machine's speed drifts, single runs scatter, a twelfth is held up by others for up to twice as
/// long again.
class Machine {
 public:
  explicit Machine(uint64_t seed) : random_(seed) {}
  double time(double us) {
    drift_ = 0.98 * drift_ + 0.01 * normal_(random_);
    const double held_up = uniform_(random_) < 1.0 / 12 ? 1 + 2 * uniform_(random_) : 1;
    return us * std::exp(drift_ + 0.04 * normal_(random_)) * held_up;
  }

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double drift_ = 0;
};

Ratio in_turns(uint64_t seed, double slowdown, int pairs) {
  Machine machine(seed);
  std::vector<std::pair<double, double>> times;
  for (int i = 0; i < pairs; ++i) {
    const double first = machine.time(i % 2 ? slowdown : 1), second = machine.time(i % 2 ? 1 : slowdown);
    times.emplace_back(i % 2 ? second : first, i % 2 ? first : second);
  }
  return paired_ratio(times);
}

/// Blocks of runs, the machine's drift begins anew.
Ratio stored(uint64_t seed, double slowdown) {
  const auto blocks = [](uint64_t of, double us) {
    Machine machine(of);
    std::vector<double> times;
    for (int i = 0; i < 4000; ++i) times.push_back(machine.time(us));
    return block_medians(times, 40);
  };
  return unpaired_ratio(blocks(seed, 1), blocks(seed + 1000, slowdown));
}

}  // namespace

TEST_CASE("a slowdown of 10 % is caught 20 times of 20, 50 runs without one raise no alarm") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Ratio r = in_turns(seed, 1.10, 250);
    CHECK(judge_slowdown(r, 0.05) == Slowdown::proven);
    CHECK((r.low < 1.10 && 1.10 < r.high));
  }
  int open = 0;
  for (uint64_t seed = 100; seed < 150; ++seed) {
    const Slowdown s = judge_slowdown(in_turns(seed, 1, 250), 0.05);
    CHECK(s != Slowdown::proven);
    open += s == Slowdown::undecided;
  }
  CHECK(open == 0);
}

TEST_CASE("the same of times that were stored") {
  for (uint64_t seed = 0; seed < 20; ++seed) CHECK(judge_slowdown(stored(seed, 1.10), 0.02) == Slowdown::proven);
  for (uint64_t seed = 100; seed < 150; ++seed) CHECK(judge_slowdown(stored(seed, 1), 0.05) != Slowdown::proven);
}

TEST_CASE("the interval has the true ratio as often as it says") {
  int missed = 0;
  constexpr int kTries = 400;
  for (uint64_t seed = 0; seed < kTries; ++seed) {
    const Ratio r = in_turns(seed, 1.03, 120);
    missed += r.low > 1.03 || r.high < 1.03;
  }
  CHECK(missed <= kTries * (1 - kConfidence) * 3);
}

TEST_CASE("what is slower and allowed is none, and few times decide nothing") {
  for (uint64_t seed = 0; seed < 20; ++seed) CHECK(judge_slowdown(in_turns(seed, 1.03, 1000), 0.05) != Slowdown::proven);
  CHECK(judge_slowdown(in_turns(1, 3, 5), 0.05) == Slowdown::undecided);
  CHECK(judge_slowdown(paired_ratio({}), 0.05) == Slowdown::undecided);
  CHECK(judge_slowdown(unpaired_ratio({1, 1}, {9, 9}), 0.05) == Slowdown::undecided);
  CHECK(judge_slowdown(in_turns(1, 3, 20), 0.05) == Slowdown::proven);
  CHECK(judge_slowdown(in_turns(1, 0.5, 20), 0.05) == Slowdown::none);
}

TEST_CASE("blocks are consecutive and as many as asked for, or one a time") {
  CHECK(block_medians({1, 2, 3, 10, 11, 12}, 2) == std::vector<double>{2, 11});
  CHECK(block_medians({3, 1}, 40) == std::vector<double>{3, 1});
  CHECK(block_medians({}, 40).empty());
  CHECK(median_of({4, 1, 3, 2}) == 2.5);
}
