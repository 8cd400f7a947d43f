// floordiv, mod, min and max: construction with the rules that hold for all integers (any divisor that is not zero).
#include <algorithm>
#include <numeric>

#include "sym/detail.h"
#include "sym/sym_error.h"

namespace aotc {

using namespace sym;  // NOLINT

namespace sym {

std::optional<Term> divide_term(const Term& t, const Term& by) {
  if (t.coef % by.coef != 0) return std::nullopt;
  Atoms rest;
  size_t j = 0;
  for (const Atom& a : t.atoms) {
    if (j < by.atoms.size() && compare_atoms(a, by.atoms[j]) == 0)
      ++j;
    else
      rest.push_back(a);
  }
  if (j != by.atoms.size()) return std::nullopt;
  return Term{t.coef / by.coef, std::move(rest)};
}

std::pair<Expr, Expr> polynomial_divide(const Expr& a, const Expr& b) {
  const Term& lead = b.terms().front();
  Expr q, r = a;
  for (int step = 0; step < 32; ++step) {
    Expr part;
    for (const Term& t : r.terms()) {
      if (auto d = divide_term(t, lead)) {
        part = ExprFactory::term(*d);
        break;
      }
    }
    if (part.is(0)) break;
    q += part;
    r -= part * b;
    if (r.terms().size() > a.terms().size() + b.terms().size()) break;
  }
  return {q, r};
}

std::optional<Expr> divide_exact(const Expr& a, const Expr& b) {
  if (a.is(0)) return Expr(0);
  if (b.is(0)) return std::nullopt;
  auto [q, r] = polynomial_divide(a, b);
  if (!r.is(0)) return std::nullopt;
  return q;
}

}  // namespace sym

namespace {

/// The product that divides every term of a and b (coefficient positive); constants count.
Term common_factor(const Expr& a, const Expr& b) {
  Term g{0, {}};
  bool first = true;
  for (const Expr* e : {&a, &b}) {
    for (const Term& t : e->terms()) {
      g.coef = std::gcd(g.coef, t.coef);
      if (first) {
        g.atoms = t.atoms;
        first = false;
      } else {
        Atoms both;
        std::set_intersection(g.atoms.begin(), g.atoms.end(), t.atoms.begin(), t.atoms.end(), std::back_inserter(both),
                              [](const Atom& x, const Atom& y) { return compare_atoms(x, y) < 0; });
        g.atoms = std::move(both);
      }
    }
  }
  return g;
}

Expr divide_all(const Expr& e, const Term& by) {
  std::vector<Term> r;
  for (const Term& t : e.terms()) r.push_back(*divide_term(t, by));
  return ExprFactory::from_terms(std::move(r));
}

/// a = b*q + g*r + rest, b = g*d, 0 <= rest < g (g constant where rest is not 0); so floordiv(a,b) = q + floordiv(r,d) and
/// mod(a,b) = g*mod(r,d) + rest.
struct Split {
  Expr q, r, d, g = 1, rest;
};

Split split_const(const Expr& a, int64_t c) {
  Split s;
  std::vector<Term> q, r;
  int64_t gcd = c, konst = 0;
  for (const Term& t : a.terms()) {
    if (t.atoms.empty()) {
      if (int64_t k = floor_div(t.coef, c)) q.push_back({k, {}});
      konst = floor_mod(t.coef, c);
    } else {
      if (t.coef / c) q.push_back({t.coef / c, t.atoms});
      if (int64_t k = t.coef % c) {
        r.push_back({k, t.atoms});
        gcd = std::gcd(gcd, k);
      }
    }
  }
  for (Term& t : r) t.coef /= gcd;
  if (konst / gcd) r.push_back({konst / gcd, {}});
  s.q = ExprFactory::from_canonical(std::move(q));
  s.r = ExprFactory::from_canonical(std::move(r));
  s.d = c / gcd;
  s.g = gcd;
  s.rest = konst % gcd;
  return s;
}

Split split_symbolic(const Expr& a, const Expr& b) {
  Split s;
  if (b.terms().size() == 1) {
    const Term& by = b.terms()[0];
    std::vector<Term> q, r;
    for (const Term& t : a.terms()) {
      Term whole{t.coef / by.coef * by.coef, t.atoms};
      auto d = whole.coef ? divide_term(whole, by) : std::nullopt;
      if (!d) {
        r.push_back(t);
        continue;
      }
      q.push_back(*d);
      if (int64_t k = t.coef % by.coef) r.push_back({k, t.atoms});
    }
    s.q = ExprFactory::from_terms(std::move(q));
    s.r = ExprFactory::from_canonical(std::move(r));
  } else {
    std::tie(s.q, s.r) = polynomial_divide(a, b);
    if (s.r.terms().size() >= a.terms().size()) s.q = 0, s.r = a;
  }
  s.d = b;
  if (s.r.is(0)) return s;
  const Term g = common_factor(s.r, b);
  if (g.coef != 1 || !g.atoms.empty()) {
    s.r = divide_all(s.r, g);
    s.d = divide_all(b, g);
    s.g = ExprFactory::term(g);
  }
  return s;
}

Split split(const Expr& a, const Expr& b) {
  if (auto c = b.as_const()) return split_const(a, *c);
  return split_symbolic(a, b);
}

/// Replaces mod(y, m) by y in the terms where the multiple of m that this drops is a multiple of b.
Expr drop_inner_mod(const Expr& a, const Expr& b) {
  if (is_plain(a)) return a;
  Expr r = a;
  for (const Term& t : a.terms()) {
    for (size_t i = 0; i < t.atoms.size(); ++i) {
      if (t.atoms[i].kind != AtomKind::mod) continue;
      Term rest = t;
      rest.atoms.erase(rest.atoms.begin() + static_cast<std::ptrdiff_t>(i));
      const Expr cofactor = ExprFactory::term(rest);
      if (!divide_exact(cofactor * t.atoms[i].b, b)) continue;
      r += cofactor * t.atoms[i].a - ExprFactory::term(t);
      break;
    }
  }
  return r;
}

/// One of min / max over the flattened, deduplicated operands, rebuilt in canonical order.
Expr extremum(AtomKind kind, const Expr& a, const Expr& b) {
  std::vector<Expr> xs;
  auto flatten = [&](auto& self, const Expr& e) -> void {
    if (const Atom* x = single_atom(e, kind)) {
      self(self, x->a);
      self(self, x->b);
    } else {
      xs.push_back(e);
    }
  };
  flatten(flatten, a);
  flatten(flatten, b);
  std::vector<std::pair<Expr, int64_t>> all, best;  // variable part, constant part
  for (const Expr& x : xs) all.emplace_back(without_constant(x), constant_part(x));
  std::sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return Expr::compare(x.first, y.first) < 0; });
  for (auto& [v, c] : all) {
    if (best.empty() || best.back().first != v)
      best.emplace_back(std::move(v), c);
    else
      best.back().second = kind == AtomKind::min ? std::min(best.back().second, c) : std::max(best.back().second, c);
  }
  Expr r = best.back().first + best.back().second;
  for (size_t i = best.size() - 1; i-- > 0;) r = ExprFactory::atom(kind, best[i].first + best[i].second, r);
  return r;
}

}  // namespace

Expr floordiv(const Expr& a, const Expr& b) {
  if (auto d = b.as_const()) {
    if (*d == 0) throw SymError("sizes are divided by zero");
    if (*d == 1) return a;
    if (*d < 0) return floordiv(-a, -b);
    if (auto c = a.as_const()) return floor_div(*c, *d);
  }
  if (a.is(0)) return a;
  const Split s = split(a, b);
  if (s.r.is(0)) return s.q;
  if (s.d != b) return s.q + floordiv(s.r, s.d);
  if (auto c = b.as_const()) {
    if (s.r.is_const()) return s.q + floor_div(*s.r.as_const(), *c);
    // floordiv(floordiv(x, n) + k, c) = floordiv(x + k*n, n*c)
    const Expr varying = without_constant(s.r);
    if (const Atom* f = single_atom(varying, AtomKind::floordiv)) return s.q + floordiv(f->a + f->b * constant_part(s.r), f->b * b);
    // floordiv(mod(x, m*c), c) = mod(floordiv(x, c), m)
    if (const Atom* m = single_atom(s.r, AtomKind::mod)) {
      auto n = m->b.as_const();
      if (n && *n > 0 && *n % *c == 0) return s.q + mod(floordiv(m->a, b), *n / *c);
    }
  }
  return s.q + ExprFactory::atom(AtomKind::floordiv, s.r, b);
}

Expr mod(const Expr& a, const Expr& b) {
  if (auto d = b.as_const()) {
    if (*d == 0) throw SymError("sizes are divided by zero");
    if (*d == 1) return 0;
    if (*d < 0) return -mod(-a, -b);
    if (auto c = a.as_const()) return floor_mod(*c, *d);
  }
  if (a.is(0)) return a;
  const Split s = split(drop_inner_mod(a, b), b);
  if (s.r.is(0)) return s.rest;
  if (s.d != b) return s.g * mod(s.r, s.d) + s.rest;
  const Expr again = drop_inner_mod(s.r, b);
  if (again != s.r) return mod(again, b);
  if (s.r.is_const() && b.is_const()) return s.rest + floor_mod(*s.r.as_const(), *b.as_const());
  return ExprFactory::atom(AtomKind::mod, s.r, b) + s.rest;
}

Expr min(const Expr& a, const Expr& b) { return extremum(AtomKind::min, a, b); }
Expr max(const Expr& a, const Expr& b) { return extremum(AtomKind::max, a, b); }

}  // namespace aotc
