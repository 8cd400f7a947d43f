#pragma once
// The CUDA forms (forms.def).
#include "forms/instance.h"

namespace aotc::forms::cuda {

#define AOTC_FORM(name) const Form& name();
#include "forms/cuda/forms.def"
#undef AOTC_FORM

}  // namespace aotc::forms::cuda
