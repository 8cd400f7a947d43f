#include "regression.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>

namespace aotc::cli {
namespace {

constexpr int kResamples = 4000;

/// The largest k with P(B < k) <= tail of a binomial B of n throws of a coin; 0: there is none.
int64_t sign_test_rank(int64_t n, double tail) {
  double below = 0, log_choose = 0;
  for (int64_t k = 0; k < n; ++k) {
    below += std::exp(log_choose - static_cast<double>(n) * std::log(2.0));
    if (below > tail) return k;
    log_choose += std::log(static_cast<double>(n - k)) - std::log(static_cast<double>(k + 1));
  }
  return 0;
}

}  // namespace

double median_of(std::vector<double> v) {
  if (v.empty()) return 0;
  const size_t half = v.size() / 2;
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(half), v.end());
  const double upper = v[half];
  if (v.size() % 2) return upper;
  return (upper + *std::max_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(half))) / 2;
}

Ratio paired_ratio(const std::vector<std::pair<double, double>>& pairs) {
  std::vector<double> ratios;
  for (const auto& [baseline, program] : pairs)
    if (baseline > 0 && program > 0) ratios.push_back(program / baseline);
  Ratio r{1, 0, std::numeric_limits<double>::infinity(), static_cast<int64_t>(ratios.size())};
  if (ratios.empty()) return r;
  std::sort(ratios.begin(), ratios.end());
  r.value = median_of(ratios);
  const int64_t k = sign_test_rank(r.samples, (1 - kConfidence) / 2);
  if (k == 0) return r;
  r.low = ratios[static_cast<size_t>(k - 1)], r.high = ratios[static_cast<size_t>(r.samples - k)];
  return r;
}

Ratio unpaired_ratio(const std::vector<double>& baseline, const std::vector<double>& program) {
  Ratio r{1, 0, std::numeric_limits<double>::infinity(), static_cast<int64_t>(std::min(baseline.size(), program.size()))};
  const double before = median_of(baseline);
  if (r.samples == 0 || before <= 0) return r;
  r.value = median_of(program) / before;
  if (r.samples < 5) return r;  // a bootstrap of so few says nothing
  std::mt19937_64 random(1);
  const auto drawn = [&](const std::vector<double>& from, std::vector<double>& to) {
    for (double& t : to) t = from[random() % from.size()];
    return median_of(to);
  };
  std::vector<double> ratios, b(baseline.size()), p(program.size());
  for (int i = 0; i < kResamples; ++i) {
    const double of_program = drawn(program, p), of_baseline = drawn(baseline, b);
    ratios.push_back(of_program / of_baseline);
  }
  std::sort(ratios.begin(), ratios.end());
  const auto tail = static_cast<size_t>((1 - kConfidence) / 2 * kResamples);
  r.low = ratios[tail], r.high = ratios[ratios.size() - 1 - tail];
  return r;
}

const char* slowdown_name(Slowdown s) {
  constexpr const char* kNames[] = {"not slower", "slower", "undecided"};
  return kNames[static_cast<size_t>(s)];
}

Slowdown judge_slowdown(const Ratio& r, double max_regression) {
  if (r.low > 1 + max_regression) return Slowdown::proven;
  return r.high <= 1 + max_regression ? Slowdown::none : Slowdown::undecided;
}

std::vector<double> block_medians(const std::vector<double>& times, size_t blocks) {
  std::vector<double> medians;
  const size_t n = std::min(blocks, times.size());
  for (size_t b = 0; b < n; ++b) {
    const auto from = times.begin() + static_cast<std::ptrdiff_t>(times.size() * b / n),
               to = times.begin() + static_cast<std::ptrdiff_t>(times.size() * (b + 1) / n);
    medians.push_back(median_of(std::vector<double>(from, to)));
  }
  return medians;
}

}  // namespace aotc::cli
