#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"

namespace aotc::pipeline {

/// Announces phases and notes their times.
class PhaseClock {
 public:
  PhaseClock(const Events& events, std::vector<PhaseTime>* times) : events_(events), times_(times) {}
  ~PhaseClock() { close(); }
  PhaseClock(const PhaseClock&) = delete;
  PhaseClock& operator=(const PhaseClock&) = delete;
  void phase(std::string name) {
    close();
    if (events_.phase) events_.phase(name);
    name_ = std::move(name);
    start_ = std::chrono::steady_clock::now();
  }

 private:
  void close() {
    if (!name_.empty() && times_)
      times_->push_back({name_, std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count()});
    name_.clear();
  }
  const Events& events_;
  std::vector<PhaseTime>* times_;
  std::string name_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace aotc::pipeline
