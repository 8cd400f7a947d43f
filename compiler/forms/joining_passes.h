#pragma once
// The passes over a Module that join kernels where a form computes the joined one in less time (plan/module_passes.h), a file each.
#include "base/machine.h"
#include "loop/loop.h"

namespace aotc::forms {

/// Two products of one matrix, the second finished with the first's result (gate and up of a gated layer), become one with a twin
/// (MatmulKernel::twin) where a form computes that in less time than both: nothing is stored between them.
void pair_products(loop::Module& m, const Goal& goal);
/// Elementwise loops over what a segment of a product stores that read, for each of its elements, that and the one at a fixed distance (a
/// rotation of q or k by positions) become the segment's epilogue, which has both sums (Segment::mates), where a form computes that in
/// less time than both: nothing is stored between them.
void finish_mates(loop::Module& m, const Goal& goal);
/// Kernels of few rows with reductions (norms) whose results nobody but products reads become prologues of those products where a form
/// computes them there, once a block, in less time than a step of their own takes.
void compute_rows_in_products(loop::Module& m, const Goal& goal);
/// An index_put of one entry into a state (a token's keys and values into their cache) becomes the store of the kernel that computes what
/// it writes, loop or contraction, where that takes no more time than both: the row is stored where the indices say, and in no buffer of
/// its own. Not where a later step reads what the state was before.
void fuse_puts(loop::Module& m, const Goal& goal);

}  // namespace aotc::forms
