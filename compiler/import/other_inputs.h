#pragma once
// Inputs beside those that make_inputs (reference.h) draws first.
#include "import/reference.h"

namespace aotc::import {

/// As make_inputs, the attempt-th time: above 0 other numbers, where the model refuses those (torch._check): of one sign, small, large,
/// ordered, alike, or on one side of numbers that the program compares the input with.
std::vector<HostTensor> make_inputs(const Program& program, const std::map<SymId, int64_t>& sizes, uint64_t seed, int attempt);
/// Whether the archive has sample inputs of these dims: make_inputs gives them for seed 0, the first time.
bool have_example_sizes(const Program& program, const std::vector<HostTensor>& inputs);
/// The archive's sample inputs; nothing where it has none.
std::vector<HostTensor> example_inputs(const Program& program);

}  // namespace aotc::import
