#pragma once
// What `verify` holds an artifact to: the archive's program as LibTorch runs it.
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "artifact.h"
#include "import/reference.h"
#include "judge.h"

namespace aotc::cli {

/// The outputs of a session's latest run, then the states that runs change.
struct Results {
  std::vector<std::string> names;
  std::vector<HostTensor> tensors;
};
Results results_of(Session& session, const Artifact& artifact);

/// The program that an artifact computes, in eager PyTorch, in float64 and in whatever else its promise is measured by.
class Oracles {
 public:
  /// archive: with the artifact's symbols (sizes.h, against). max_loss: in place of what the artifact promises.
  Oracles(const import::Program& archive, const Artifact& artifact, int threads, std::optional<double> max_loss = {});

  const import::Program& program() const { return program_; }
  /// Throws Diagnostic where the program refuses these inputs.
  std::vector<HostTensor> eager(const std::vector<HostTensor>& inputs) { return eager_->run(inputs); }
  std::vector<HostTensor> truth(const std::vector<HostTensor>& inputs) { return truth_->run(inputs); }
  /// A row a result. want: what eager gives for these inputs. Throws Diagnostic where the artifact has other results than the program.
  std::vector<Row> judge(const std::string& sizes, const std::vector<HostTensor>& inputs, const Results& got,
                         const std::vector<HostTensor>& want, const Allowed& allowed);
  /// By weight: what rounding the rows of its products changed them by, over all inputs.
  std::map<std::string, double> row_errors() const;

 private:
  const std::string artifact_;
  const import::Program program_;
  Promise promise_;
  std::map<std::string, import::RowError> lost_;
  std::unique_ptr<import::Reference> eager_, truth_, original_, bf16_, int8_;
};

}  // namespace aotc::cli
