#pragma once
#include <string_view>
#include <vector>

namespace aotc::import {

/// Python arithmetic on numbers of a program whose result is a float or bool, "operator.add"; null: the target is no such.
using ScalarFn = double (*)(const std::vector<double>&);
ScalarFn find_scalar_op(std::string_view target);

}  // namespace aotc::import
