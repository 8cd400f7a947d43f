#include "import/scalar_ops.h"

#include <algorithm>
#include <cmath>

namespace aotc::import {
namespace {

struct ScalarOp {
  std::string_view target;
  ScalarFn fn;
};
using Ds = const std::vector<double>&;
constexpr ScalarOp kScalarOps[] = {
    {"operator.add", [](Ds a) { return a[0] + a[1]; }},
    {"operator.sub", [](Ds a) { return a[0] - a[1]; }},
    {"operator.mul", [](Ds a) { return a[0] * a[1]; }},
    {"operator.truediv", [](Ds a) { return a[0] / a[1]; }},
    {"operator.floordiv", [](Ds a) { return std::floor(a[0] / a[1]); }},
    {"operator.mod", [](Ds a) { return a[0] - a[1] * std::floor(a[0] / a[1]); }},
    {"operator.pow", [](Ds a) { return std::pow(a[0], a[1]); }},
    {"operator.neg", [](Ds a) { return -a[0]; }},
    {"operator.pos", [](Ds a) { return a[0]; }},
    {"operator.eq", [](Ds a) { return a[0] == a[1] ? 1. : 0.; }},
    {"operator.ne", [](Ds a) { return a[0] != a[1] ? 1. : 0.; }},
    {"operator.lt", [](Ds a) { return a[0] < a[1] ? 1. : 0.; }},
    {"operator.le", [](Ds a) { return a[0] <= a[1] ? 1. : 0.; }},
    {"operator.gt", [](Ds a) { return a[0] > a[1] ? 1. : 0.; }},
    {"operator.ge", [](Ds a) { return a[0] >= a[1] ? 1. : 0.; }},
    {"operator.and_", [](Ds a) { return a[0] != 0 && a[1] != 0 ? 1. : 0.; }},
    {"operator.or_", [](Ds a) { return a[0] != 0 || a[1] != 0 ? 1. : 0.; }},
    {"math.trunc", [](Ds a) { return std::trunc(a[0]); }},
    {"torch.sym_not", [](Ds a) { return a[0] == 0 ? 1. : 0.; }},
    {"torch.sym_int", [](Ds a) { return std::trunc(a[0]); }},
    {"torch.sym_float", [](Ds a) { return a[0]; }},
    {"torch.sym_max", [](Ds a) { return std::max(a[0], a[1]); }},
    {"torch.sym_min", [](Ds a) { return std::min(a[0], a[1]); }},
    {"torch.sym_ite", [](Ds a) { return a[0] != 0 ? a[1] : a[2]; }},
    {"torch.sym_sqrt", [](Ds a) { return std::sqrt(a[0]); }},
    {"torch._sym_sqrt", [](Ds a) { return std::sqrt(a[0]); }},
};

}  // namespace

ScalarFn find_scalar_op(std::string_view target) {
  for (const ScalarOp& op : kScalarOps)
    if (op.target == target) return op.fn;
  return nullptr;
}

}  // namespace aotc::import
