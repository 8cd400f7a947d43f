#include "decompose/size_arithmetic.h"

#include "decompose/tensor.h"

namespace aotc::decompose {
namespace {

using Args = std::vector<T>;

/// Bools are 0 and 1.
template <Op op>
T compare(const Args& a) {
  return binary(op, a[0], a[1]).to(DType::f64);
}
template <Op op>
T arithmetic(const Args& a) {
  return binary(op, a[0], a[1]);
}
template <Op op>
T function(const Args& a) {
  return unary(op, a[0]);
}
T same(const Args& a) { return a[0]; }

struct Row {
  std::string_view target;
  size_t arity;
  T (*fn)(const Args&);
};
constexpr Row kRows[] = {
    {"operator.add", 2, arithmetic<Op::add>},
    {"operator.sub", 2, arithmetic<Op::sub>},
    {"operator.mul", 2, arithmetic<Op::mul>},
    {"operator.truediv", 2, arithmetic<Op::div>},
    {"operator.floordiv", 2, arithmetic<Op::div_floor>},
    {"operator.mod", 2, arithmetic<Op::remainder>},
    {"operator.pow", 2, arithmetic<Op::pow>},
    {"operator.neg", 1, function<Op::neg>},
    {"operator.pos", 1, same},
    {"operator.eq", 2, compare<Op::eq>},
    {"operator.ne", 2, compare<Op::ne>},
    {"operator.lt", 2, compare<Op::lt>},
    {"operator.le", 2, compare<Op::le>},
    {"operator.gt", 2, compare<Op::gt>},
    {"operator.ge", 2, compare<Op::ge>},
    {"math.trunc", 1, function<Op::trunc>},
    {"torch.sym_float", 1, same},
    {"torch.sym_max", 2, arithmetic<Op::maximum>},
    {"torch.sym_min", 2, arithmetic<Op::minimum>},
    {"torch.sym_ite", 3, [](const Args& a) { return where(a[0] != 0.0, a[1], a[2]); }},
    {"torch.sym_sqrt", 1, function<Op::sqrt>},
    {"torch._sym_sqrt", 1, function<Op::sqrt>},
};

const import::PNode* maker(const import::Program& p, const std::string& name) {
  for (const import::PNode& n : p.nodes)
    for (const import::Arg& a : n.results)
      if (const auto* s = std::get_if<import::SymbolicArg>(&a); s && s->name == name) return &n;
  return nullptr;
}

T value_of(Builder& b, const import::Program& p, const import::Arg& a, const ReadNumbers& read) {
  if (const auto* e = std::get_if<Expr>(&a)) {
    const std::optional<ValueId> number = read.integer(b, *e);
    return number ? T(b, *number).to(DType::f64) : scalar_of(b, *e, DType::f64);
  }
  if (const auto* d = std::get_if<double>(&a)) return {b, full(b, DType::f64, {}, *d)};
  if (const auto* c = std::get_if<bool>(&a)) return {b, full(b, DType::f64, {}, *c ? 1.0 : 0.0)};
  if (const auto* s = std::get_if<import::SymbolicArg>(&a)) return {b, compute_from_sizes(b, p, *s, read)};
  throw Refused{"a number computed from something else than sizes", "export with these sizes fixed"};
}

}  // namespace

ValueId compute_from_sizes(Builder& b, const import::Program& p, const import::SymbolicArg& arg, const ReadNumbers& read) {
  if (const auto number = read.other(arg.name)) return *number;
  const import::PNode* n = maker(p, arg.name);
  if (n) return compute_from_sizes(b, p, *n, read);
  throw Refused{fmt::format("a number computed from sizes ({}) by nothing that is known", arg.text), "export with these sizes fixed"};
}

ValueId compute_from_sizes(Builder& b, const import::Program& p, const import::PNode& n, const ReadNumbers& read) {
  for (const Row& row : kRows) {
    if (row.target != n.target || row.arity != n.args.size()) continue;
    Args args;
    for (const import::NamedArg& a : n.args) args.push_back(value_of(b, p, a.value, read));
    return row.fn(args);
  }
  throw Refused{fmt::format("a number computed from sizes by {}", n.target), "export with these sizes fixed"};
}

}  // namespace aotc::decompose
