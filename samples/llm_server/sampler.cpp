#include "sampler.h"

#include <algorithm>
#include <cmath>

namespace llm {

Sampler::Sampler(const Sampling& options, const std::vector<int64_t>& prompt) : o_(options), random_(options.seed) {
  if (o_.repetition_penalty == 1) return;
  prompt_ = prompt;
  std::sort(prompt_.begin(), prompt_.end());
  prompt_.erase(std::unique(prompt_.begin(), prompt_.end()), prompt_.end());
}

Choice Sampler::pick(float* logits, int64_t n, const std::function<void(float*)>& forbid) {
  Choice choice = describe(logits, n);
  if (forbid) forbid(logits);
  adjust(logits, n);
  choice.token = draw(logits, n);
  if (choice.token < 0) return choice;
  if (o_.top_logprobs >= 0) choice.logprob = logprob_of(choice.token);
  ++made_[choice.token];
  return choice;
}

Choice Sampler::describe(const float* logits, int64_t n) {
  Choice choice{-1};
  if (o_.top_logprobs < 0) return choice;
  raw_.assign(logits, logits + n);
  const double most = *std::max_element(logits, logits + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(logits[i] - most);
  norm_ = most + std::log(sum);
  const auto count = static_cast<size_t>(std::min<int64_t>(o_.top_logprobs, n));
  order_.clear();
  for (int64_t i = 0; i < n; ++i) order_.emplace_back(-logits[i], i);
  std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(count), order_.end());
  for (size_t i = 0; i < count; ++i) choice.top.push_back({order_[i].second, logprob_of(order_[i].second)});
  return choice;
}

void Sampler::adjust(float* logits, int64_t n) const {
  const auto repeat = [&](int64_t t) {
    float& x = logits[t];
    x = static_cast<float>(x > 0 ? x / o_.repetition_penalty : x * o_.repetition_penalty);
  };
  if (o_.repetition_penalty != 1) {
    for (const int64_t t : prompt_) repeat(t);
    for (const auto& [t, count] : made_)
      if (!std::binary_search(prompt_.begin(), prompt_.end(), t)) repeat(t);
  }
  if (o_.presence_penalty != 0 || o_.frequency_penalty != 0)
    for (const auto& [t, count] : made_) logits[t] -= static_cast<float>(o_.presence_penalty + count * o_.frequency_penalty);
  for (const auto& [t, by] : o_.bias)
    if (t < n) logits[t] += static_cast<float>(by);
}

int64_t Sampler::draw(const float* logits, int64_t n) {
  const int64_t best = std::max_element(logits, logits + n) - logits;
  if (o_.temperature <= 0 || o_.top_k == 1 || !std::isfinite(logits[best])) return std::isfinite(logits[best]) ? best : -1;
  // What is exp(-40) times less likely than the best is never drawn; min-p narrows that further.
  const double floor = std::max(-40.0, o_.min_p > 0 ? std::log(o_.min_p) : -40.0);
  order_.clear();
  for (int64_t i = 0; i < n; ++i)
    if ((static_cast<double>(logits[i]) - logits[best]) / o_.temperature >= floor) order_.emplace_back(-logits[i], i);
  if (o_.top_k > 0 && order_.size() > static_cast<size_t>(o_.top_k)) {
    std::nth_element(order_.begin(), order_.begin() + (o_.top_k - 1), order_.end());
    order_.resize(static_cast<size_t>(o_.top_k));
  }
  if (o_.top_p < 1) std::sort(order_.begin(), order_.end());
  share_.clear();
  double sum = 0;
  for (const auto& [minus, i] : order_)
    share_.push_back(std::exp((-static_cast<double>(minus) - logits[best]) / o_.temperature)), sum += share_.back();
  if (o_.top_p < 1) {  // the fewest that together have this share
    double kept = 0;
    size_t count = 0;
    while (count < share_.size() && (count == 0 || kept < o_.top_p * sum)) kept += share_[count++];
    share_.resize(count);
    sum = kept;
  }
  double left = std::uniform_real_distribution<double>(0, sum)(random_);
  for (size_t i = 0; i < share_.size(); ++i)
    if ((left -= share_[i]) <= 0) return order_[i].second;
  return order_[share_.size() - 1].second;
}

}  // namespace llm
