#include "decompose/read_numbers.h"

#include <algorithm>

#include "decompose/tensor.h"

namespace aotc::decompose {

bool ReadNumbers::reads(const import::PNode& node) {
  return node.target == "aten.item.default" || node.target == "aten._local_scalar_dense.default";
}

void ReadNumbers::add(Builder& b, const import::PNode& node, ValueId of) {
  const T one = T(b, of).reshape({});
  for (const import::Arg& a : node.results) {
    const auto* e = std::get_if<Expr>(&a);
    if (const auto s = e ? e->as_symbol() : std::nullopt) integers_.insert_or_assign(*s, one.to(DType::i64));
    if (const auto* other = std::get_if<import::SymbolicArg>(&a)) others_.insert_or_assign(other->name, one.to(DType::f64));
  }
}

bool ReadNumbers::occurs_in(const Expr& e) const {
  const std::set<SymId> used = e.symbols();
  return std::any_of(used.begin(), used.end(), [&](SymId s) { return integers_.count(s) != 0; });
}

std::optional<ValueId> ReadNumbers::integer(Builder& b, const Expr& e) const {
  std::optional<T> sum;
  Expr rest = e;
  for (const SymId s : e.symbols()) {
    const auto it = integers_.find(s);
    if (it == integers_.end()) continue;
    const std::optional<Expr> times = rest.linear_coefficient(s);
    const auto read = [&](SymId other) { return integers_.count(other) != 0; };
    const std::set<SymId> within = times ? times->symbols() : std::set<SymId>();
    if (!times || std::any_of(within.begin(), within.end(), read))
      throw Refused{fmt::format("the number {}, which is computed from one that is read out of a tensor", e.str(b.syms())),
                    "compute it as a tensor, and read it out of that"};
    rest = b.syms().simplify(rest - *times * Expr::symbol(s));
    const T part = T(b, it->second) * scalar_of(b, *times, DType::i64);
    sum = sum ? *sum + part : part;
  }
  if (!sum) return std::nullopt;
  return rest.is(0) ? *sum : *sum + scalar_of(b, rest, DType::i64);
}

std::optional<ValueId> ReadNumbers::other(const std::string& name) const {
  const auto it = others_.find(name);
  return it == others_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace aotc::decompose
