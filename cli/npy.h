#pragma once
// NumPy .npy files, version 1 to 3. bfloat16 has no NumPy type: it is written as '<u2' and read from it where the model wants bfloat16.
#include <string>

#include "graph/interp.h"

namespace aotc::cli {
/// Throws Diagnostic. Fortran order and big-endian data are converted.
HostTensor read_npy(const std::string& path);
void write_npy(const std::string& path, const HostTensor& t);
}  // namespace aotc::cli
