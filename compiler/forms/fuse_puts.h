#pragma once
#include "base/machine.h"
#include "loop/loop.h"

namespace aotc::forms {

/// An index_put of one entry into a state (a token's keys and values into their cache) becomes the store of the kernel that computes what
/// it writes, loop or contraction, where that takes no more time than both: the row is stored where the indices say, and in no buffer of
/// its own. Not where a later step reads what the state was before.
void fuse_puts(loop::Module& m, const Goal& goal);

}  // namespace aotc::forms
