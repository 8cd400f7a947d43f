#pragma once
// Other values for single weights of an archive, by name.
#include <map>
#include <string>

#include "import/program.h"

namespace aotc::pipeline {

/// Gives the parameters and buffers of these names, and those that are one tensor with them, other values; of names that the program has
/// not, nothing. Throws Diagnostic where one has another type, belongs to the program (decompose::exchangeable), or shares its memory with
/// a tensor of another shape.
void replace_data(import::Program& program, const std::map<std::string, ConstData>& replaced);

}  // namespace aotc::pipeline
