#pragma once
// Which token comes next: penalties, temperature, top-k, top-p, min-p, in this order, and log probabilities.
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <unordered_map>
#include <vector>

namespace llm {

struct Sampling {
  double temperature = 1;  ///< 0: the likeliest token
  int64_t top_k = 0;       ///< 0: all
  double top_p = 1, min_p = 0;
  double repetition_penalty = 1;  ///< of tokens of the prompt and the answer: positive logits are divided by it, negative ones multiplied
  double presence_penalty = 0, frequency_penalty = 0;  ///< of tokens of the answer: taken from their logits once, and for each time
  std::map<int64_t, double> bias;
  uint64_t seed = 0;
  int top_logprobs = -1;  ///< -1: no log probabilities at all
};

struct Likely {
  int64_t token;
  double logprob;
};

struct Choice {
  int64_t token;
  double logprob = 0;       ///< of the model's own distribution: before penalties and temperature
  std::vector<Likely> top;  ///< the likeliest, best first
};

/// The state of one sequence's choices.
class Sampler {
 public:
  Sampler(const Sampling& options, const std::vector<int64_t>& prompt);
  /// Changes the logits. The token is -1 where none of them is finite. forbid: sets those of tokens that may not come to -infinity.
  Choice pick(float* logits, int64_t n, const std::function<void(float*)>& forbid = {});

 private:
  Choice describe(const float* logits, int64_t n);
  void adjust(float* logits, int64_t n) const;
  int64_t draw(const float* logits, int64_t n);
  double logprob_of(int64_t token) const { return static_cast<double>(raw_[static_cast<size_t>(token)]) - norm_; }

  Sampling o_;
  std::mt19937_64 random_;
  std::unordered_map<int64_t, int> made_;
  std::vector<int64_t> prompt_;  ///< without duplicates; only where the repetition penalty needs it
  std::vector<float> raw_;       ///< the model's logits of the latest choice, where log probabilities are asked for
  double norm_ = 0;
  std::vector<std::pair<float, int64_t>> order_;
  std::vector<double> share_;
};

}  // namespace llm
