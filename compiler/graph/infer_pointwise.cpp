// Type rules: constants and pointwise ops.
#include <algorithm>

#include "graph/infer_detail.h"

namespace aotc::infer {

Types nullary(Infer& r) {
  r.arity(0);
  if (r.n.op == Op::sym) {
    r.n.get<Expr>(Attr::expr);
    return {{DType::i64, {}}};
  }
  if (r.n.op == Op::iota) {
    r.dim(r.result().rank());
    return {{DType::i64, r.result().dims}};
  }
  r.require(r.n.has(Attr::value), "has no value");
  const AttrValue& v = r.n.attrs.at(Attr::value);
  const DType t = r.result().dtype;
  const bool fits = is_bool(t)  ? std::holds_alternative<bool>(v)
                    : is_int(t) ? std::holds_alternative<int64_t>(v)
                                : std::holds_alternative<double>(v);
  r.require(fits, "the value is not of the kind of {}", dtype_name(t));
  return {r.result()};
}

static DType result_type(const Infer& r, DType operands) {
  switch (pointwise_info(r.n.op).result) {
    case ResultType::same: return operands;
    case ResultType::boolean: return DType::boolean;
    case ResultType::given: return r.result().dtype;
  }
  return operands;
}

Types unary(Infer& r) {
  r.arity(1);
  const TensorType& x = r.in(0);
  const auto casts = [&](DType t) { return r.n.op == Op::cast && is_float8(t); };
  r.require(takes(pointwise_info(r.n.op).operands, x.dtype) || casts(x.dtype), "does not take {}", dtype_name(x.dtype));
  const DType out = result_type(r, x.dtype);
  if (r.n.op == Op::cast) r.require(takes(OperandTypes::real, out) || casts(out), "does not make {}", dtype_name(out));
  if (r.n.op == Op::bitcast)
    r.require(dtype_bytes(out) == dtype_bytes(x.dtype), "widths of {} and {} differ", dtype_name(x.dtype), dtype_name(out));
  return {{out, x.dims}};
}

Types binary(Infer& r) {
  r.arity(2);
  const TensorType &a = r.in(0), &b = r.in(1);
  r.require(a.dtype == b.dtype, "operand types differ");
  r.require(takes(pointwise_info(r.n.op).operands, a.dtype), "does not take {}", dtype_name(a.dtype));
  return {{result_type(r, a.dtype), r.equal(a.dims, b.dims, "dims")}};
}

Types ternary(Infer& r) {  // where
  r.arity(3);
  r.require(is_bool(r.in(0).dtype), "the condition is not bool");
  r.require(r.in(1).dtype == r.in(2).dtype, "the branches' types differ");
  return {{r.in(1).dtype, r.equal(r.equal(r.in(0).dims, r.in(1).dims, "dims"), r.in(2).dims, "dims")}};
}

}  // namespace aotc::infer
