#pragma once
// Counters, gauges and histograms as Prometheus reads them.
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace llm {

/// Seconds in buckets.
class Histogram {
 public:
  void add(double seconds);
  /// The lines of /metrics.
  std::string lines(const std::string& name, const std::string& help) const;

 private:
  static constexpr double kBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
  static constexpr size_t kBuckets = sizeof kBounds / sizeof *kBounds;
  mutable std::mutex mutex_;
  uint64_t counts_[kBuckets + 1] = {};
  double sum_ = 0;
};

/// All that the server tells of itself; every member may be used from any thread.
struct Metrics {
  std::atomic<uint64_t> prompt_tokens{0}, cached_tokens{0}, generated_tokens{0}, runs{0}, cancelled{0}, failed{0}, trims{0};
  std::atomic<int64_t> running{0}, waiting{0}, cache_used{0};  ///< sequences, sequences, positions
  Histogram first_token, between_tokens, queued;

  void count_request(const std::string& path, int status);
  std::string text(int64_t slots, int64_t cache) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;
};

}  // namespace llm
