#pragma once
// The CUDA forms, one a file. list.cpp puts them in order.
#include "forms/form.h"

namespace aotc::forms::cuda {

const Form& mma();
const Form& loop_flat();
const Form& loop_row();
const Form& loop_serial();

}  // namespace aotc::forms::cuda
