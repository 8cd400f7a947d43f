#include "decompose/read_numbers.h"

#include <algorithm>

#include "decompose/tensor.h"

namespace aotc::decompose {

Op op_of(Expr::AtomKind kind) {
  switch (kind) {
    case Expr::AtomKind::floordiv: return Op::div_floor;
    case Expr::AtomKind::mod: return Op::remainder;
    case Expr::AtomKind::min: return Op::minimum;
    case Expr::AtomKind::max: return Op::maximum;
    case Expr::AtomKind::symbol: break;
  }
  AOTC_CHECK(false, "a symbol is no operator");
}

static Expr of_atom(const Expr::Atom& x) {
  switch (x.kind) {
    case Expr::AtomKind::symbol: break;
    case Expr::AtomKind::floordiv: return floordiv(x.a, x.b);
    case Expr::AtomKind::mod: return mod(x.a, x.b);
    case Expr::AtomKind::min: return min(x.a, x.b);
    case Expr::AtomKind::max: return max(x.a, x.b);
  }
  return Expr::symbol(x.sym);
}

bool ReadNumbers::reads(const import::PNode& node) {
  return node.target == "aten.item.default" || node.target == "aten._local_scalar_dense.default" || import::makes_symbol(node);
}

void ReadNumbers::add(Builder& b, const import::PNode& node, ValueId of, const std::function<bool(SymId)>& is_size) {
  const T one = T(b, of).reshape({});
  for (const import::Arg& a : node.results) {
    const auto* e = std::get_if<Expr>(&a);
    if (const auto s = e ? e->as_symbol() : std::nullopt; s && !is_size(*s)) integers_.insert_or_assign(*s, one.to(DType::i64));
    if (const auto* other = std::get_if<import::SymbolicArg>(&a)) others_.insert_or_assign(other->name, one.to(DType::f64));
  }
}

bool ReadNumbers::occurs_in(const Expr& e) const {
  const std::set<SymId> used = e.symbols();
  return std::any_of(used.begin(), used.end(), [&](SymId s) { return integers_.count(s) != 0; });
}

std::optional<ValueId> ReadNumbers::integer(Builder& b, const Expr& e) const {
  if (!occurs_in(e)) return std::nullopt;
  std::optional<T> sum;
  Expr rest = 0;
  for (const Expr::Term& t : e.terms()) {
    Expr times = t.coef;
    std::optional<T> product;
    for (const Expr::Atom& x : t.atoms) {
      const std::optional<T> own = factor(b, x);
      if (!own)
        times *= of_atom(x);
      else
        product = product ? *product * *own : *own;
    }
    if (!product) {
      rest += times;
      continue;
    }
    const T part = times.is(1) ? *product : *product * scalar_of(b, times, DType::i64);
    sum = sum ? *sum + part : part;
  }
  rest = b.syms().simplify(rest);
  return rest.is(0) ? *sum : *sum + scalar_of(b, rest, DType::i64);
}

std::optional<T> ReadNumbers::factor(Builder& b, const Expr::Atom& x) const {
  if (x.kind == Expr::AtomKind::symbol) {
    const auto it = integers_.find(x.sym);
    return it == integers_.end() ? std::nullopt : std::optional(T(b, it->second));
  }
  if (!occurs_in(x.a) && !occurs_in(x.b)) return std::nullopt;
  const auto number = [&](const Expr& e) {
    const std::optional<ValueId> v = integer(b, e);
    return v ? T(b, *v) : scalar_of(b, e, DType::i64);
  };
  return binary(op_of(x.kind), number(x.a), number(x.b));
}

std::optional<ValueId> ReadNumbers::other(const std::string& name) const {
  const auto it = others_.find(name);
  return it == others_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace aotc::decompose
