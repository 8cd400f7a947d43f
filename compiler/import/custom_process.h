#pragma once
// A Python process that computes custom operators: what a module of the user's defines, called from the reference of `aotc verify`.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/worker_process.h"
#include "graph/interp.h"

namespace aotc::import {

class CustomProcess {
 public:
  /// module: as `import` takes it, or the path of a .py file. The Python is that of VIRTUAL_ENV, of
  /// CONDA_PREFIX, of PATH where it has torch, or of the environment that LibTorch is loaded from.
  explicit CustomProcess(const std::string& module);
  ~CustomProcess();
  CustomProcess(const CustomProcess&) = delete;
  /// The schemas of the operators that the module defined. Fails with what Python says.
  Result<std::vector<std::string>> schemas();
  /// op: "mylib::lookup.default". args: {"tensor": number}, {"value": JSON} or {"dtype": "float32"} each.
  Result<std::vector<HostTensor>> call(const std::string& op, const nlohmann::json& args, const std::vector<HostTensor>& tensors);

 private:
  Result<nlohmann::json> ask(const nlohmann::json& request, double limit_s, const std::string& bytes);
  std::string module_;
  WorkerProcess worker_;
  bool loaded_ = false;  ///< the module, by the worker that runs
  std::string results_;  ///< a file of this process's own that results come in
};

}  // namespace aotc::import
