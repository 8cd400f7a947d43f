#pragma once
// Where LibTorch is.
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/python_sites.h"
#include "import/torch_versions.h"

namespace aotc::import {

struct TorchFolder {
  std::string libraries;  ///< the folder of libtorch_cpu.so
  std::string version;    ///< "2.13.0+cpu"; empty where the folder does not say
};

/// LibTorch in `path`: the torch package of a Python environment or an unpacked LibTorch, its lib folder, or an environment that has the
/// package. The reason when it is not there, or when it is older than oldest_torch().
Result<TorchFolder> torch_in(const std::string& path);

/// A libaotc_torch.so: what of aotc is compiled against one LibTorch.
struct TorchSide {
  TorchVersion version;
  std::string file;
};
/// Those in a folder: libaotc_torch.so, which is of `version` ("2.13.0+cpu"), then libaotc_torch-2.15.so and its like, in rising order.
std::vector<TorchSide> torch_sides(const std::string& folder, const std::string& version);
/// Those of this program.
std::vector<TorchSide> torch_sides_here();

/// A LibTorch, and the side that is loaded with it.
struct TorchPair {
  TorchFolder torch;
  TorchSide side;
  bool alike = true;  ///< of the same 2.x; else they may not fit
};
/// The first LibTorch for which there is a side (one that does not say its version: the first side); where there is none, the first one
/// with the latest side that is not later, or the earliest. Neither list is empty.
TorchPair torch_pair(const std::vector<TorchFolder>& found, const std::vector<TorchSide>& sides);

/// That of this process, which is looked for once. Throws a Diagnostic that says where.
const TorchPair& torch_here();

struct TorchPlace {
  std::string what;                ///< as a message names it
  std::string none;                ///< why it cannot be looked in; else empty
  std::vector<std::string> paths;  ///< for torch_in
};
/// Best first: AOTC_LIBTORCH alone when it is set; else what the file `recorded` says (a path a line), and the torch package of the Python
/// environment that aotc itself is installed in (`prefix`), of python_sites and of the system's Python. Starts no program.
std::vector<TorchPlace> torch_places(const Variables& variables, const std::string& recorded, const std::string& prefix);
/// The last resort: the torch package of sites_of_python.
TorchPlace torch_place_of_python(const Variables& variables);

/// The Python of the environment whose package the LibTorch that is loaded is; empty where it is of none, or where none is loaded.
std::string python_of_torch();

/// For a person: that the LibTorch which is loaded is of another version than the side that drives it. Empty where it is not, or where none
/// is loaded.
std::string untried_libtorch();

}  // namespace aotc::import
