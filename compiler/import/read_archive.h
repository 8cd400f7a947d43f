#pragma once
#include <string>
#include <vector>

#include "import/program.h"

namespace aotc::import {

/// Reads a .pt2 saved by torch.export.save (schema major 8). Large weights stay in the mapped file.
/// Throws Diagnostic for hostile, damaged or unknown archives; never executes pickle. program: which, of an archive that holds several
/// (torch.export.pt2_archive); empty: its only one.
Program read_archive(const std::string& path, const std::string& program = {});
/// The names of the archive's programs, sorted; one without a name (torch.export.save before 2.8) is "model". Throws as read_archive.
std::vector<std::string> programs_of(const std::string& path);

}  // namespace aotc::import
