#pragma once
#include "import/operators.h"

namespace aotc::import {

/// Brings an argument into the form of its parameter's type: an int where a float is wanted becomes a double, one int a list of one,
/// a list of tensors a list of optional ones, an empty list the parameter's kind. Fails when the argument cannot be meant.
Fit convert_arg(Arg& arg, const OpParam& param);

}  // namespace aotc::import
