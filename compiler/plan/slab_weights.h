#pragma once
// Weights of few bits on GPUs: one stored layout for all that reads them.
#include "loop/loop.h"

namespace aotc::plan {

/// Constants that products take as values of few bits are stored in slabs (forms/slabs.h), whatever form multiplies them: loads in
/// prologues and of other readers (lookups in a tied table) are rewritten, the buffer is marked (Buffer::panels). One that something takes
/// as a whole stays dense, and forms that want slabs store them beside it. Adds a note for each that has other readers. For GPU targets,
/// before calls are joined.
void slab_weights(loop::Module& m);

}  // namespace aotc::plan
