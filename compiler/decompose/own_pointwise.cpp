// Expressions of pointwise operators (own/pointwise.h) as core operators: computed as PyTorch promotes types, 16-bit floats in float32.
#include "decompose/own_kernel.h"
#include "decompose/tensor.h"
#include "graph/pointwise.h"

namespace aotc::decompose {
namespace {

using own::Part;
using Kind = Part::Kind;

/// A value of the expression. Numbers are of rank 0 and weak: they take the type of the tensors that they meet.
struct Term {
  T value;
  bool weak = false;
  DType dtype() const { return value.dtype(); }
};

bool is_floating(DType t) { return is_float(t); }

class Evaluator {
 public:
  Evaluator(Rule& r, const own::Kernels& all, const own::Pointwise& e) : r_(r), all_(all), e_(e) {}

  ValueId run() {
    for (const Part& p : e_.parts) terms_.push_back(term(p));
    return terms_.back().value;
  }

 private:
  Term number(DType t, double v) const { return {{r_.b, full(r_.b, t, {}, v)}, true}; }
  Term number(int64_t v) const {
    Rule::Number n;
    n.i = v;
    return {{r_.b, full(r_.b, DType::i64, {}, n)}, true};
  }

  Term term(const Part& p) {
    const auto kid = [&](size_t i) -> const Term& { return terms_.at(p.kids.at(i)); };
    switch (p.kind) {
      case Kind::integer: return number(p.integer);
      case Kind::real: return number(DType::f64, p.real);
      case Kind::name: return argument(p.name);
      case Kind::local: return kid(0);
      case Kind::op: return op(p);
      case Kind::negate: return {decompose::unary(Op::neg, arithmetic(kid(0)).value), kid(0).weak};
      case Kind::logic_not: return {!truth(kid(0)), false};
      case Kind::logic_and: return {truth(kid(0)) & truth(kid(1)), false};
      case Kind::logic_or: return {truth(kid(0)) | truth(kid(1)), false};
      case Kind::bits_not: return {decompose::unary(Op::bitwise_not, integral(arithmetic(kid(0))).value), kid(0).weak};
      case Kind::quotient: {
        const auto [a, b] = alike(arithmetic(kid(0)), arithmetic(kid(1)));
        return {decompose::binary(is_floating(a.dtype()) ? Op::div : Op::div_trunc, a.value, b.value), a.weak && b.weak};
      }
      case Kind::cast: return {kid(0).value.to(p.dtype).to(compute_type(p.dtype)), false};
      case Kind::choice: {
        const auto [a, b] = alike(kid(1), kid(2));
        return {where(truth(kid(0)), a.value, b.value), a.weak && b.weak};
      }
    }
    AOTC_CHECK(false, "a part of no kind");
  }

  Term argument(const std::string& name) {
    if (r_.is_tensor(name)) {
      const T x = tensor(r_, name);
      return {x.up(), false};
    }
    if (r_.none(name)) r_.refuse(fmt::format("its argument '{}' is None, which an expression cannot hold", name), "give it a value");
    const import::Arg& a = r_.arg(name);
    if (const auto* b = std::get_if<bool>(&a)) return number(int64_t{*b});
    if (const auto* d = std::get_if<double>(&a)) return number(DType::f64, *d);
    if (const auto* e = std::get_if<Expr>(&a)) {
      if (const auto c = e->as_const()) return number(*c);
      return {scalar_of(r_.b, *e, DType::i64), true};
    }
    const Rule::Number n = r_.scalar(name);  // refuses what is none
    const T v(r_.b, full(r_.b, n.kind == Rule::Number::floating ? DType::f64 : DType::i64, {}, n));
    return {v, true};
  }

  static T truth(const Term& t) { return is_bool(t.dtype()) ? t.value : t.value != 0.0; }
  /// C's: bools are integers.
  static Term arithmetic(const Term& t) { return is_bool(t.dtype()) ? Term{t.value.to(DType::i64), t.weak} : t; }
  Term integral(const Term& t) const {
    if (is_floating(t.dtype()))
      throw Diagnostic(all_.at(e_.path),
                       fmt::format("an operator of integers on {} in \"{}\"", dtype_name(t.dtype()), e_.text.substr(0, 80)));
    return t;
  }

  /// Both in one type.
  static std::pair<Term, Term> alike(const Term& a, const Term& b) {
    const DType t = common(a, b);
    return {{a.value.to(t), a.weak}, {b.value.to(t), b.weak}};
  }
  static DType common(const Term& a, const Term& b) {
    if (a.weak == b.weak) return promote_types(a.dtype(), b.dtype());
    const Term &number = a.weak ? a : b, &tensor = a.weak ? b : a;
    if (is_floating(number.dtype()) && !is_floating(tensor.dtype())) return DType::f32;
    return is_bool(tensor.dtype()) ? number.dtype() : tensor.dtype();
  }

  Term op(const Part& p) {
    const auto kid = [&](size_t i) -> const Term& { return terms_.at(p.kids.at(i)); };
    const OperandTypes takes = pointwise_info(p.op).operands;
    const auto operand = [&](const Term& t) -> Term {
      switch (takes) {
        case OperandTypes::floats: return is_floating(t.dtype()) ? t : Term{t.value.to(t.weak ? DType::f64 : DType::f32), t.weak};
        case OperandTypes::bools: return {truth(t), false};
        case OperandTypes::ints: return integral(arithmetic(t));
        case OperandTypes::ints_or_bool: return integral(t);
        case OperandTypes::numeric: return arithmetic(t);
        default: return t;
      }
    };
    if (p.kids.size() == 1) return {decompose::unary(p.op, operand(kid(0)).value), kid(0).weak && !yields_bool(p.op)};
    auto [a, b] = alike(operand(kid(0)), operand(kid(1)));
    return {decompose::binary(p.op, a.value, b.value), a.weak && b.weak && !yields_bool(p.op)};
  }

  Rule& r_;
  const own::Kernels& all_;
  const own::Pointwise& e_;
  std::vector<Term> terms_;
};

}  // namespace

ValueId pointwise_value(Rule& r, const own::Kernels& all, const own::Pointwise& e) { return Evaluator(r, all, e).run(); }

}  // namespace aotc::decompose
