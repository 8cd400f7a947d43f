// Dropout and its kin in evaluation, and operators that only check.
#include "decompose/families.h"
#include "decompose/matrices.h"
#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

void dropout(Rule& r) {
  const double p = r.number("p");
  const bool train = r.boolean_or("train", r.boolean_or("training", false));
  if (train && p != 0.0) r.refuse("dropout in training mode is random", "call model.eval() before exporting");
  const T x = tensor(r, r.has("input") ? "input" : "self");
  r.set(0, x);
  if (r.wants(1)) r.set(1, full(r.b, r.meta_result(1).dtype, x.dims(), 1.0));
}

void nothing(Rule&) {}

/// The run fails where the data do not meet the condition.
void assertion(Rule& r) {
  const std::string message = r.has("assert_msg") ? r.text("assert_msg") : "an assertion of the model does not hold";
  if (r.is_tensor("self")) {
    const T x = tensor(r, "self").reshape({});
    r.check(is_bool(x.dtype()) ? x : x != 0.0, message);
  } else if (const Rule::Number n = r.scalar("self"); n.computed) {
    r.check(T(r.b, *n.computed) != 0.0, message);
  }
  if (r.wants(0)) r.set(r.tensor("dep_token"));
}

/// What factorisations told of themselves.
void no_failures(Rule& r) {
  must_hold(r, tensor(r, "info") == 0.0,
            fmt::format("{} of a matrix that is singular, not positive definite or not finite", r.text("api_name")));
}

/// The value's first argument, unchanged (functional forms of ranges).
void pass(Rule& r) {
  if (r.wants(0)) r.set(r.tensor(r.has("self") ? "self" : "dep_token"));
}

constexpr RuleRow kRows[] = {
    {"aten.dropout.default aten.feature_dropout.default aten.alpha_dropout.default aten.feature_alpha_dropout.default "
     "aten.native_dropout.default",
     dropout},
    {"aten._assert_tensor_metadata.default aten._make_dep_token.default aten.sym_constrain_range.default "
     "aten.sym_constrain_range_for_size.default",
     nothing},
    {"aten._linalg_check_errors.default", no_failures},
    {"aten._assert_async.default aten._assert_async.msg aten._assert_scalar.default aten._functional_assert_async.msg "
     "aten._functional_assert_scalar.default",
     assertion},
    {"aten._functional_sym_constrain_range.default aten._functional_sym_constrain_range_for_size.default", pass},
};
}  // namespace

RuleTable effect_rules() { return kRows; }

}  // namespace aotc::decompose
