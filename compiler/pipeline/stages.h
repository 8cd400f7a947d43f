#pragma once
// Where IR text leaves the pipeline: --print-ir-after and --dump-dir.
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "graph/constant_store.h"
#include "pipeline/pipeline.h"

namespace aotc::pipeline {

class Stages {
 public:
  Stages(const FrontOptions& options, const Events& events);
  /// `text` is only made when somebody wants it.
  void after(const std::string& stage, const std::function<std::string()>& text);
  /// A stage whose text is that of a graph: a dump has the data of its constants beside it.
  void after(const std::string& stage, const Graph& g, bool changed = true);
  /// At the end: a name that no stage had is a Diagnostic (usage).
  void check_names() const;

 private:
  void tell(const std::string& stage, const std::function<std::string()>& text, const std::function<std::string()>& dumped);
  const FrontOptions& options_;
  const Events& events_;
  std::set<std::string> seen_;
  int number_ = 0;
  std::optional<ConstantStore> constants_;
};

Front run_front(const FrontOptions& options, const Events& events, Stages& stages, std::vector<PhaseTime>* times);

}  // namespace aotc::pipeline
