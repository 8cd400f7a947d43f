#pragma once
// Is a program slower than another, or is the machine noisy: statistics of times, without a clock.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace aotc::cli {

constexpr double kConfidence = 0.99;  ///< of the intervals

/// How many times as long as the baseline a program takes.
struct Ratio {
  double value = 1;          ///< the median
  double low = 0, high = 0;  ///< of the interval that has it with kConfidence; high is infinite where there are too few times
  int64_t samples = 0;       ///< pairs, or blocks of each
};

/// Times of the baseline and of the program that were taken right after one another: (baseline, program). What slows the machine down for
/// a while slows both, and how long one of them is held up does not count, only that it was: the median of their ratios with the interval
/// of the sign test, which assumes no distribution.
Ratio paired_ratio(const std::vector<std::pair<double, double>>& pairs);

/// Times that were taken at other hours: the ratio of the medians, with the interval of a bootstrap over the samples. What changed on the
/// machine in between is not in the interval.
Ratio unpaired_ratio(const std::vector<double>& baseline, const std::vector<double>& program);

enum class Slowdown : uint8_t { none, proven, undecided };
const char* slowdown_name(Slowdown s);  ///< "not slower", "slower", "undecided"

/// proven: the whole interval is above 1 + max_regression; none: it is not above that; else undecided.
Slowdown judge_slowdown(const Ratio& ratio, double max_regression);

/// The medians of at most `blocks` blocks of consecutive times, as equal in number as can be. Of times that follow each other most depend
/// on the ones before, blocks less so.
std::vector<double> block_medians(const std::vector<double>& times, size_t blocks);

double median_of(std::vector<double> values);

}  // namespace aotc::cli
