#pragma once
// What passes over a module's calls ask, and what they leave to do.
#include <string>

#include "loop/loop.h"

namespace aotc::loop {

/// Whether some instruction is a reduction.
bool reduces(const LoopKernel& k);
/// Instructions numbered in the order of the blocks; what no block holds is dropped.
void number_insts(LoopKernel& k);
/// The kernel and the loops that it carries under another name.
Kernel named(Kernel k, const std::string& name);
/// Erases kernels that no call names and temporary buffers that no call has.
void drop_unused(Module& m);

}  // namespace aotc::loop
