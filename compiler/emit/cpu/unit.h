#pragma once
// Translation units of generated CPU code: one instruction set each, many functions.
#include <string>
#include <vector>

#include "base/target.h"

namespace aotc::emit::cpu {

/// Instruction sets beyond AVX-512 change contractions; their loops are the AVX-512 ones, in which bf16 alone is rounded by an instruction.
Isa loop_isa(Isa isa);
/// Compiler flags of a unit for machines that have all of these features, without -I and -o.
std::vector<std::string> unit_flags(FeatureSet features);
inline std::vector<std::string> unit_flags(Isa isa) { return unit_flags(features_of(isa)); }
/// Those of a unit whose results have the same bits on all machines: AOTC_SAME_BITS of vec/vec.h, and the compiler, which would contract
/// vectors and the rows left over beside them unlike each other, contracts nothing.
std::vector<std::string> reproducible_flags(std::vector<std::string> flags);
/// The source of a unit: the includes, then the functions.
std::string unit_source(const std::vector<std::string>& functions);

}  // namespace aotc::emit::cpu
