#pragma once
// Where LibTorch is.
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/python_sites.h"

namespace aotc::import {

struct TorchFolder {
  std::string libraries;  ///< the folder of libtorch_cpu.so
  std::string version;    ///< "2.13.0+cpu"; empty where the folder does not say
};

/// LibTorch in `path`: the torch package of a Python environment or an unpacked LibTorch, its lib folder, or an environment that has the
/// package. The reason when it is not there, or when its C++ interface is not that of `wanted` ("2.13.0"): another 2.x.
Result<TorchFolder> torch_in(const std::string& path, const std::string& wanted);

struct TorchPlace {
  std::string what;                ///< as a message names it
  std::string none;                ///< why it cannot be looked in; else empty
  std::vector<std::string> paths;  ///< for torch_in
};
/// Best first: AOTC_LIBTORCH alone when it is set; else what the file `recorded` says (one path), and the torch package of python_sites and
/// of the system's Python. Starts no program.
std::vector<TorchPlace> torch_places(const Variables& variables, const std::string& recorded);
/// The last resort: the torch package of sites_of_python.
TorchPlace torch_place_of_python(const Variables& variables);

}  // namespace aotc::import
