#pragma once
// Where libnvrtc may lie on this machine: places as data, best first, so that a message can name every one of them.
#include <string>
#include <vector>

#include "base/python_sites.h"

namespace aotc::emit::cuda {

struct NvrtcPlace {
  std::string what;                    ///< as a message names it: "CUDA_HOME=/opt/cuda"
  std::string folders;                 ///< the folders that were looked in, or why there are none
  std::vector<std::string> libraries;  ///< what to give to dlopen, newest first: files, or names for the loader
};

/// In order: AOTC_NVRTC (a file or a folder; when it is set, nothing else counts), CUDA_HOME and CUDA_PATH, the loader's own path, the
/// Python packages (pip: nvidia-cuda-nvrtc) of python_sites, and /usr/local/cuda*. Starts no program.
std::vector<NvrtcPlace> nvrtc_places(const Variables& variables);
/// The last resort: sites_of_python.
NvrtcPlace nvrtc_place_of_python(const Variables& variables);

}  // namespace aotc::emit::cuda
