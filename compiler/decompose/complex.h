#pragma once
// Complex tensors in rules: real ones with a last dim of 2.
#include "decompose/rule.h"
#include "decompose/waves.h"

namespace aotc::decompose {

Complex times(const Complex& a, const Complex& b);
/// 1 / z and a / b, of whatever magnitude; of zeros and infinities as PyTorch's.
Complex inverse(const Complex& z);
Complex quotient(const Complex& a, const Complex& b);
Complex apart(const T& pair);
T join(const Complex& c);
bool complex_arg(const Rule& r, std::string_view name);
/// Whether the first result is complex: a factory's `dtype` may say otherwise than its operand.
bool complex_result(const Rule& r);
/// The real type of the result's parts.
DType part_type(const Rule& r);
/// An operand that is complex, real, or a number.
Complex complex_operand(Rule& r, std::string_view name, DType t);

RuleTable fourier_rules();
RuleTable complex_arc_rules();
RuleTable complex_math_rules();
RuleTable complex_solve_rules();
RuleTable complex_conv_rules();
void complex_einsum(Rule& r);
/// The rule for real tensors on both parts in turn, where that serves this operator (decompose/complex_parts.cpp).
RuleFn find_rule_by_parts(std::string_view overload);
/// The rule for real tensors on tensors whose last dim is the pair; by parts where some of them or of the results are real.
void with_pair(Rule& r);
/// Whether the rule for real tensors serves tensors whose last dim is the pair.
bool pair_rides_along(std::string_view overload);

}  // namespace aotc::decompose
