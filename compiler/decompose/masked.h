#pragma once
#include "import/program.h"

namespace aotc::decompose {

/// Elements that a mask selects (x[mask]), whose number depends on data, stay where they are in a tensor of x's size wherever that
/// number is not needed: what is computed element by element, or row by row, is computed for all; sums and means leave the others out, and
/// y[mask] = takes the selected ones. Where a use of x[mask] needs the number, the nodes stay as they are.
void keep_masked_whole(import::Program& program);

}  // namespace aotc::decompose
