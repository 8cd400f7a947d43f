#pragma once
// The values of a program's tensors for given inputs.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "captured.h"
#include "import/program.h"

namespace aotc::cli {

/// Data of a program whose buffers have the content of a captured run's states. Throws Diagnostic where one does not fit.
std::map<std::string, ConstData> with_states(std::map<std::string, ConstData> data, const Captured& run);

/// As eager PyTorch computes them. Throws Diagnostic (usage) where the inputs do not fit the program.
class KnownValues {
 public:
  KnownValues(import::Program program, std::vector<HostTensor> inputs);
  /// Of tensors of the program, by name: what an input has, or a node gives. Throws Diagnostic where the program fails on the inputs.
  std::vector<HostTensor> of(const std::vector<std::string>& tensors);
  /// Of an expression of the archive's symbols ("(s77 + 1)//2"); nullopt where one of them is a size that is found in data.
  std::optional<int64_t> size(const std::string& expr) const;

 private:
  const import::Program program_;
  const std::vector<HostTensor> inputs_;
  std::map<std::string, int64_t> sizes_;  ///< by the archive's names
  std::map<std::string, HostTensor> known_;
};

/// User inputs of the program from a folder with NAME.npy. Throws Diagnostic.
std::vector<HostTensor> inputs_from(const std::string& folder, const import::Program& program);

}  // namespace aotc::cli
