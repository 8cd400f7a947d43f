#pragma once
// Progress of a build: one rewritten line on a terminal, plain lines elsewhere, nothing with --quiet.
#include <chrono>
#include <functional>
#include <string>

#include "pipeline/pipeline.h"

namespace aotc::cli {

class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress();
  pipeline::Events events();

 private:
  void phase(const std::string& name);
  void update(size_t done, size_t total, const std::string& what);
  void finish_line();
  double seconds() const;

  bool quiet_, terminal_;
  std::string phase_;
  std::chrono::steady_clock::time_point start_, phase_start_;
};

/// f, with its progress told. A signal ends the process in order (Interrupt): the folders that f works in go with it.
void watched(bool quiet, const std::function<void(const pipeline::Events&)>& f);

}  // namespace aotc::cli
