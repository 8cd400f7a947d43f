#include "sym/c_text.h"

namespace aotc {
namespace {

std::string literal(int64_t v, const char* suffix) {
  return v == INT64_MIN ? fmt::format("(-9223372036854775807{} - 1)", suffix) : fmt::format("{}{}", v, suffix);
}

}  // namespace

std::string c_text(const Expr& e, const SymTable& syms, const CHelpers& h, const std::function<std::string(SymId)>& name_of) {
  auto sub = [&](const Expr& x) { return c_text(x, syms, h, name_of); };
  auto nonnegative = [&](const Expr& a, const Expr& b) { return syms.interval(a).min >= 0 && syms.interval(b).min > 0; };
  auto call = [&](const char* f, const Expr::Atom& x) { return fmt::format("{}({}, {})", f, sub(x.a), sub(x.b)); };
  auto atom = [&](const Expr::Atom& x) -> std::string {
    switch (x.kind) {
      case Expr::AtomKind::symbol: return name_of(x.sym);
      case Expr::AtomKind::floordiv: return nonnegative(x.a, x.b) ? fmt::format("(({}) / ({}))", sub(x.a), sub(x.b)) : call(h.floordiv, x);
      case Expr::AtomKind::mod: return nonnegative(x.a, x.b) ? fmt::format("(({}) % ({}))", sub(x.a), sub(x.b)) : call(h.floormod, x);
      case Expr::AtomKind::min: return call(h.min, x);
      case Expr::AtomKind::max: return call(h.max, x);
    }
    return {};
  };
  std::string sum;
  for (const Expr::Term& t : e.terms()) {
    std::string term = t.coef == 1 && !t.atoms.empty() ? "" : literal(t.coef, h.suffix);
    for (const Expr::Atom& x : t.atoms) term += (term.empty() ? "" : " * ") + atom(x);
    sum += (sum.empty() ? "" : " + ") + term;
  }
  return sum.empty() ? literal(0, h.suffix) : sum;
}

}  // namespace aotc
