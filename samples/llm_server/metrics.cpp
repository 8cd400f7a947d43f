#include "metrics.h"

#include <algorithm>
#include <cstdio>

namespace llm {

namespace {
std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", x);
  return text;
}
std::string head(const std::string& name, const char* type, const std::string& help) {
  return "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}
}  // namespace

void Histogram::add(double seconds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_[std::lower_bound(std::begin(kBounds), std::end(kBounds), seconds) - std::begin(kBounds)];
  sum_ += seconds;
}

std::string Histogram::lines(const std::string& name, const std::string& help) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string out = head(name, "histogram", help);
  uint64_t sum = 0;
  for (size_t i = 0; i < kBuckets; ++i)
    out += name + "_bucket{le=\"" + number(kBounds[i]) + "\"} " + std::to_string(sum += counts_[i]) + "\n";
  sum += counts_[kBuckets];
  out += name + "_bucket{le=\"+Inf\"} " + std::to_string(sum) + "\n";
  return out + name + "_sum " + number(sum_) + "\n" + name + "_count " + std::to_string(sum) + "\n";
}

void Metrics::count_request(const std::string& path, int status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++requests_[{path, status}];
}

std::string Metrics::text(int64_t slots, int64_t cache) const {
  std::string out;
  const auto add = [&](const char* name, const char* type, const char* help, int64_t value) {
    out += head(name, type, help) + name + " " + std::to_string(value) + "\n";
  };
  const auto counter = [&](const char* name, const char* help, const std::atomic<uint64_t>& v) {
    add(name, "counter", help, static_cast<int64_t>(v.load()));
  };
  counter("llm_prompt_tokens_total", "Tokens of prompts, those found in the cache included.", prompt_tokens);
  counter("llm_prompt_tokens_cached_total", "Tokens of prompts that a slot's cache already held.", cached_tokens);
  counter("llm_generated_tokens_total", "Tokens generated.", generated_tokens);
  counter("llm_runs_total", "Runs of the artifact.", runs);
  counter("llm_sequences_cancelled_total", "Sequences given up because the client hung up or the server stopped.", cancelled);
  counter("llm_sequences_failed_total", "Sequences that a failed run ended.", failed);
  counter("llm_weights_trimmed_total", "Times that the memory of the weights was given back because no request came.", trims);
  add("llm_sequences_running", "gauge", "Sequences that hold a slot.", running);
  add("llm_sequences_waiting", "gauge", "Sequences in the queue.", waiting);
  add("llm_slots", "gauge", "Slots of the artifact.", slots);
  add("llm_cache_positions", "gauge", "Positions of all slots together.", slots * cache);
  add("llm_cache_positions_used", "gauge", "Positions that running sequences fill.", cache_used);
  out += first_token.lines("llm_time_to_first_token_seconds", "From a sequence's arrival to its first token.");
  out += between_tokens.lines("llm_time_between_tokens_seconds", "From one token of a sequence to the next.");
  out += queued.lines("llm_queue_seconds", "From a sequence's arrival to its slot.");
  const std::lock_guard<std::mutex> lock(mutex_);
  out += head("llm_requests_total", "counter", "Requests by path and status.");
  for (const auto& [key, n] : requests_)
    out += "llm_requests_total{path=\"" + key.first + "\",status=\"" + std::to_string(key.second) + "\"} " + std::to_string(n) + "\n";
  return out;
}

}  // namespace llm
