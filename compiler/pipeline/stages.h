#pragma once
// Where IR text leaves the pipeline: --print-ir-after and --dump-dir.
#include <functional>
#include <set>
#include <string>

#include "pipeline/pipeline.h"

namespace aotc::pipeline {

class Stages {
 public:
  Stages(const FrontOptions& options, const Events& events);
  /// `text` is only made when somebody wants it.
  void after(const std::string& stage, const std::function<std::string()>& text);
  /// At the end: a name that no stage had is a Diagnostic (usage).
  void check_names() const;

 private:
  const FrontOptions& options_;
  const Events& events_;
  std::set<std::string> seen_;
  int number_ = 0;
};

Front run_front(const FrontOptions& options, const Events& events, Stages& stages, std::vector<PhaseTime>* times);
/// Throws Diagnostic (io).
std::string read_text(const std::string& path);

}  // namespace aotc::pipeline
