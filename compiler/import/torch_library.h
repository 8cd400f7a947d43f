#pragma once
// Where LibTorch is.
#include <string>
#include <vector>

#include "base/diagnostic.h"

namespace aotc::import {

/// A folder with LibTorch's libraries.
struct TorchFolder {
  std::string libraries;  ///< the folder of libtorch_cpu.so
  std::string version;    ///< "2.13.0+cpu"; empty where the folder does not say
};

/// LibTorch in `path`: the torch package of a Python environment or an unpacked LibTorch, its lib folder, or an environment that has the
/// package. The reason when it is not there, or when its C++ interface is not that of `wanted` ("2.13.0"): another 2.x.
Result<TorchFolder> torch_in(const std::string& path, const std::string& wanted);

/// Where to look, best first: AOTC_LIBTORCH alone when it is set; else what the file `recorded` says (one path), the active Python
/// environment, the environment of the first python3 of PATH, the user's and the system's Python packages.
std::vector<std::string> torch_places(const std::string& recorded);

}  // namespace aotc::import
