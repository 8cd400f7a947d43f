#include "emit/cpu/text.h"

#include "sym/c_text.h"

#include <cmath>

namespace aotc::emit::cpu {
namespace {

struct TypeRow {
  DType dtype;
  const char *elem, *reg, *splat, *to, *wrap;  // wrap: brings a result into the type's range
};
constexpr TypeRow kTypes[] = {
    {DType::boolean, "b8", "i32v", "kb", nullptr, nullptr},       {DType::u8, "uint8_t", "i32v", "ki", "to_i32", "wrap_u8"},
    {DType::i8, "int8_t", "i32v", "ki", "to_i32", "wrap_i8"},     {DType::i16, "int16_t", "i32v", "ki", "to_i32", "wrap_i16"},
    {DType::i32, "int32_t", "i32v", "ki", "to_i32", nullptr},     {DType::i64, "int64_t", "i64v", "kl", "to_i64", nullptr},
    {DType::f16, "f16", "f32v", "kf", "to_f32", nullptr},         {DType::bf16, "bf16", "f32v", "kf", "to_f32", nullptr},
    {DType::f8e4m3fn, "e4m3fn", "f32v", "kf", "to_f32", nullptr}, {DType::f8e5m2, "e5m2", "f32v", "kf", "to_f32", nullptr},
    {DType::f32, "float", "f32v", "kf", "to_f32", nullptr},       {DType::f64, "double", "f64v", "kd", "to_f64", nullptr},
};
const TypeRow& row(DType t) {
  for (const TypeRow& r : kTypes)
    if (r.dtype == t) return r;
  throw Diagnostic(ExitCode::unsupported, {}, fmt::format("{} values inside a kernel are not supported", dtype_name(t)));
}

std::string call(const std::string& f, const std::vector<std::string>& args) {
  std::string s = f + "(";
  for (size_t i = 0; i < args.size(); ++i) s += (i ? ", " : "") + args[i];
  return s + ")";
}

std::string float_text(double x, bool single) {
  const char* suffix = single ? "f" : "";
  if (std::isnan(x)) return single ? "__builtin_nanf(\"\")" : "__builtin_nan(\"\")";
  if (std::isinf(x)) return fmt::format("{}__builtin_inf{}()", x < 0 ? "-" : "", suffix);
  return single ? fmt::format("{:a}f", static_cast<float>(x)) : fmt::format("{:a}", x);
}

struct BoolOp {
  Op op;
  const char* fn;
  bool swap;
};
// true is all bits set, that is -1: the order of the lanes' integers is the reverse of that of the bools.
constexpr BoolOp kBoolOps[] = {{Op::lt, "v_lt", true},
                               {Op::le, "v_le", true},
                               {Op::gt, "v_gt", true},
                               {Op::ge, "v_ge", true},
                               {Op::minimum, "v_bit_and", false},
                               {Op::maximum, "v_bit_or", false},
                               {Op::mul, "v_bit_and", false},
                               {Op::add, "v_bit_or", false},
                               {Op::bitwise_not, "v_logical_not", false},
                               {Op::sub, "v_bit_xor", false}};

/// Operators of 16-bit floats that are not a rounding of what f32 gives.
struct HalfOp {
  Op op;
  DType type;
  const char* fn;
};
constexpr HalfOp kHalfOps[] = {{Op::nextafter, DType::f16, "v_nextafter_f16"}, {Op::nextafter, DType::bf16, "v_nextafter_bf16"}};

}  // namespace

std::string elem_type(DType t) { return row(t).elem; }
std::string reg_type(DType t) { return row(t).reg; }

std::string constant(DType t, double imm_f, int64_t imm_i) {
  if (is_float(t)) return fmt::format("{}({})", row(t).splat, float_text(imm_f, t != DType::f64));
  if (t == DType::i64) return imm_i == INT64_MIN ? "kl(INT64_MIN)" : fmt::format("kl({}L)", imm_i);
  if (t == DType::boolean) return imm_i ? "kb(true)" : "kb(false)";
  return imm_i == INT32_MIN ? "ki(INT32_MIN)" : fmt::format("ki({})", imm_i);
}

std::string wrapped(const std::string& x, DType t) {
  const char* wrap = row(t).wrap;
  return wrap ? call(wrap, {x}) : x;
}

std::string cast(const std::string& x, DType from, DType to) {
  if (from == to) return x;
  if (to == DType::boolean) return fmt::format("v_ne({0}, like({0}, 0))", x);
  const std::string value = from == DType::boolean ? fmt::format("(-({}))", x) : x;
  std::string y = reg_type(from) == reg_type(to) ? value : fmt::format("{}({})", row(to).to, value);
  if (to == DType::bf16) return fmt::format("round_bf16({})", y);
  if (to == DType::f16) return fmt::format("round_f16({})", y);
  if (is_float8(to)) return fmt::format("round_{}({})", row(to).elem, y);
  return wrapped(y, to);
}

namespace {
std::string bitcast(const std::string& x, DType from, DType to) {
  if (from == to) return x;
  const bool from_float = is_float(from), to_float = is_float(to);
  if (dtype_bytes(from) == 8) return from_float == to_float ? x : (to_float ? "from_bits(" : "bits(") + x + ")";
  if (dtype_bytes(from) == 4) return from_float == to_float ? x : (to_float ? "as_f32(" : "bits(") + x + ")";
  std::string raw = x;  // 1 and 2 byte types, by way of their bits in an i32v
  if (from == DType::bf16) raw = fmt::format("((i32v)bf16_bits({}))", x);
  if (from == DType::f16) raw = fmt::format("ext32(f16_of_f32({}))", x);
  if (is_float8(from)) raw = fmt::format("{}_bits({})", row(from).elem, x);
  if (from == DType::boolean) raw = fmt::format("(-({}))", x);
  if (to == DType::bf16) return fmt::format("as_f32({} << 16)", raw);
  if (to == DType::f16) return fmt::format("f32_of_f16(cut16({}))", raw);
  if (is_float8(to)) return fmt::format("f32_of_{}({} & 255)", row(to).elem, raw);
  if (to == DType::boolean) return fmt::format("({} != 0)", raw);
  return fmt::format("{}({})", row(to).wrap, raw);
}
}  // namespace

std::string pointwise(Op op, const std::vector<std::string>& args, const std::vector<DType>& in, DType out) {
  if (op == Op::cast) return cast(args.at(0), in.at(0), out);
  if (op == Op::bitcast) return bitcast(args.at(0), in.at(0), out);
  if (in.at(0) == DType::boolean)
    for (const BoolOp& b : kBoolOps)
      if (b.op == op) return b.swap ? call(b.fn, {args[1], args[0]}) : call(b.fn, args);
  for (const HalfOp& h : kHalfOps)
    if (h.op == op && h.type == in[0]) return call(h.fn, args);
  const std::string y = call("v_" + std::string(op_name(op)), args);
  return op == Op::where ? y : wrapped(y, out);
}

std::string accumulator(ReduceKind kind, DType t, bool scan) {
  if (t == DType::boolean) {
    AOTC_CHECK(kind != ReduceKind::logsumexp, "logsumexp of bools");
    // Masks are -1 and 0: "any" is their least, "all" their greatest.
    const bool any_of = kind == ReduceKind::max || kind == ReduceKind::sum;
    const bool arg = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
    if (!arg) kind = any_of ? ReduceKind::min : ReduceKind::max;
  }
  return fmt::format("{}_{}<{}>", scan ? "s" : "r", reduce_name(kind), reg_type(t));
}

std::string expr_text(const Expr& e, const SymTable& syms, const std::function<std::string(SymId)>& name) {
  return c_text(e, syms, {"floordiv", "mod", "imin", "imax", "L"}, name);
}

}  // namespace aotc::emit::cpu
