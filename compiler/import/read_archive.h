#pragma once
#include <string>

#include "import/program.h"

namespace aotc::import {

/// Reads a .pt2 saved by torch.export.save (schema major 8). Large weights stay in the mapped file.
/// Throws Diagnostic for hostile, damaged or unknown archives; never executes pickle.
Program read_archive(const std::string& path);

}  // namespace aotc::import
