#pragma once
// Weights of few bits in slabs (kernels/cuda/slabs.cuh): which products read them, and how they are stored.
#include "forms/form.h"

namespace aotc::forms::cuda {

/// Whether b is a weight of few bits that the GPU's forms of such products multiply: values, scales and offsets as kernels/cuda/slabs.cuh
/// takes them, scales in order of columns.
Fit takes_slabs(const loop::MatmulKernel& k);
/// The form of its values, the same for all of these forms.
std::pair<loop::ParamId, WeightForm> slab_weight(const loop::MatmulKernel& k);

}  // namespace aotc::forms::cuda
