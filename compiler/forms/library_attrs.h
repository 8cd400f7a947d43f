#pragma once
// What the attributes of whole-tensor algorithms say, for the forms of all machines.
#include "aotc/detail/library_abi.h"
#include "loop/loop.h"

namespace aotc::forms {

/// A bool or integer attribute; `fallback` where the kernel has none.
bool flag(const loop::LibraryKernel& k, Attr a, bool fallback);
/// AOTC_SCATTER_*.
int scatter_reduce(const loop::LibraryKernel& k);
/// AOTC_CELL_*.
int recurrence_cell(const loop::LibraryKernel& k);
/// Of the state's weight of a recurrent layer.
DType recurrence_weight(const loop::LibraryKernel& k);
/// A recurrent layer whose state is projected.
bool recurrence_projected(const loop::LibraryKernel& k);

}  // namespace aotc::forms
