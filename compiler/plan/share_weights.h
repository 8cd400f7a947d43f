#pragma once
// Constants that a product stores as panels and other code reads element by element (a tied embedding and head): stored once,
// as floats, as bytes with scales and as bfloat16.
#include <optional>

#include "base/arch.h"
#include "forms/weight_form.h"
#include "loop/loop.h"

namespace aotc::plan {

/// Where the reads of such a constant cost little beside the model's products, they find their elements in the panels: loads are rewritten,
/// the buffer is marked (Buffer::panels), and no dense copy is made. Adds a note for every constant that this is about. For CPU targets.
void share_weights(loop::Module& m);
/// The stored form of a product's constant operand that other code reads too (MatmulKernel::b_panels_read): the same for every choice. On
/// GPUs slabs (plan/slab_weights.h).
std::optional<forms::WeightForm> shared_form(const loop::Kernel& product, Arch arch);

}  // namespace aotc::plan
