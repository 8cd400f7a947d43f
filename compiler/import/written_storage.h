#pragma once
// Memory that several tensors of the archive share and the program writes, as torch.export.load has it, for the oracle of verify. Only for
// the files that include LibTorch.
#include <ATen/core/Tensor.h>

#include <map>
#include <set>
#include <string>

#include "import/program.h"

namespace aotc::import {

class WrittenStorage {
 public:
  /// Whether an input that lies in the storage is among those written, by their names.
  static bool is_written(const Program& program, const SharedStorage& storage, const std::set<std::string>& written);
  /// data: what the storage holds, in the type in which the program runs. The program outlives this.
  WrittenStorage(const Program& program, const SharedStorage& storage, at::Tensor data);
  /// A copy of it, and the tensors that lie there as views of that, by their names in Program::data.
  std::map<std::string, at::Tensor> views() const;

 private:
  const Program* program_;
  const SharedStorage* storage_;
  at::Tensor data_;
};

}  // namespace aotc::import
