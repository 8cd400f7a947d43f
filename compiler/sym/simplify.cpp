// SymTable::simplify: the rules of division.cpp again where ranges, extents and divisibility prove more, and rules over sums
// (n*floordiv(x, n) + mod(x, n) = x, x + mod(-x, n) = -n*floordiv(-x, n)).
#include <algorithm>
#include <numeric>

#include "sym/detail.h"

namespace aotc {

using namespace sym;  // NOLINT

namespace {

constexpr int kMaxDepth = 12;

class Simplifier {
 public:
  Simplifier(const SymTable& syms, Simplified* known) : syms_(syms), prove_(syms), known_(known) {}

  Expr run(const Expr& e, int depth = 0) {
    if (depth > kMaxDepth) return e;
    Expr r = atoms(e, depth);
    for (int i = 0; i < 8 && !is_plain(r); ++i) {
      const Expr next = sums(r, depth);
      if (next == r) break;
      r = atoms(next, depth + 1);
    }
    return r;
  }

 private:
  bool fixed(SymId s, int64_t* value) const {
    const SymInfo& i = syms_[s];
    if (i.max != i.min && !i.extent) return false;
    const Interval r = prove_.symbol(s);
    *value = r.min;
    return r.min == r.max;
  }

  /// Every atom simplified.
  Expr atoms(const Expr& e, int depth) {
    std::vector<Term> kept;
    Expr changed;
    for (const Term& t : e.terms()) {
      Atoms same;
      Expr p;
      bool is_changed = false;
      for (const Atom& a : t.atoms) {
        Expr r;
        int64_t value = 0;
        if (a.kind == AtomKind::symbol) {
          if (!fixed(a.sym, &value)) {
            same.push_back(a);
            continue;
          }
          r = value;
        } else {
          r = atom(a, depth);
          const Atom* back = single_atom(r, a.kind);
          if (back && compare_atoms(*back, a) == 0) {
            same.push_back(a);
            continue;
          }
        }
        p = is_changed ? p * r : r;
        is_changed = true;
      }
      if (is_changed)
        changed += p * ExprFactory::from_canonical(same.empty() ? std::vector<Term>{{t.coef, {}}} : std::vector<Term>{{t.coef, same}});
      else
        kept.push_back(t);
    }
    if (kept.size() == e.terms().size()) return e;
    return ExprFactory::from_canonical(std::move(kept)) + changed;
  }

  Expr atom(const Atom& a, int depth) {
    return once(ExprFactory::atom(a), depth, false, [&] { return simplified(a, depth); });
  }

  template <class F>
  Expr once(const Expr& atom, int depth, bool of_simplified, F&& make) {
    Simplified::Key key{depth, of_simplified, atom};
    if (const std::optional<Expr> r = known_->find(key)) return *r;
    const Expr r = make();
    known_->add(std::move(key), r);
    return r;
  }

  Expr simplified(const Atom& a, int depth) {
    const Expr x = run(a.a, depth + 1), y = run(a.b, depth + 1);
    const bool divides = a.kind == AtomKind::floordiv || a.kind == AtomKind::mod;
    if (divides && y.is(0)) return ExprFactory::atom(a);  // has no value anyway
    switch (a.kind) {
      case AtomKind::floordiv: return divide(x, y, depth);
      case AtomKind::mod: return modulo(x, y, depth);
      case AtomKind::min: return extremum(x, y, true);
      default: return extremum(x, y, false);
    }
  }

  Expr extremum(const Expr& a, const Expr& b, bool is_min) {
    if (le(a, b)) return is_min ? a : b;
    if (le(b, a)) return is_min ? b : a;
    const Expr r = is_min ? min(a, b) : max(a, b);
    // An operand inside a nested extremum that another one dominates.
    const AtomKind kind = is_min ? AtomKind::min : AtomKind::max;
    const Atom* top = single_atom(r, kind);
    if (!top || !(single_atom(a, kind) || single_atom(b, kind))) return r;
    std::vector<Expr> xs;
    for (const Atom* n = top; n; n = single_atom(n->b, kind)) {
      xs.push_back(n->a);
      if (!single_atom(n->b, kind)) xs.push_back(n->b);
    }
    if (xs.size() > 16) return r;
    std::vector<Expr> keep;
    for (size_t i = 0; i < xs.size(); ++i) {
      bool dominated = false;
      for (size_t j = 0; j < xs.size() && !dominated; ++j) {
        if (j == i) continue;
        const bool beats = is_min ? le(xs[j], xs[i]) : le(xs[i], xs[j]);
        const bool equal = beats && (is_min ? le(xs[i], xs[j]) : le(xs[j], xs[i]));
        dominated = beats && (!equal || j < i);
      }
      if (!dominated) keep.push_back(xs[i]);
    }
    if (keep.size() == xs.size() || keep.empty()) return r;
    Expr out = keep[0];
    for (size_t i = 1; i < keep.size(); ++i) out = is_min ? min(out, keep[i]) : max(out, keep[i]);
    return out;
  }
  bool le(const Expr& a, const Expr& b) { return prove_.nonneg(b - a); }

  // Both operands are simplified.
  Expr divide(const Expr& a, const Expr& b, int depth) { return divided(AtomKind::floordiv, a, b, depth); }
  Expr modulo(const Expr& a, const Expr& b, int depth) { return divided(AtomKind::mod, a, b, depth); }
  Expr divided(AtomKind kind, const Expr& a, const Expr& b, int depth) {
    const bool quotient = kind == AtomKind::floordiv;
    const Expr e = quotient ? floordiv(a, b) : mod(a, b);
    const Atom* f = single_atom(e, kind);
    if (!f || f->a != a || f->b != b) return run(e, depth + 1);
    return once(e, depth, true, [&] {
      const auto r = quotient ? divide_in_range(a, b, depth) : modulo_in_range(a, b, depth);
      return r ? run(*r, depth + 1) : e;
    });
  }

  /// floordiv(a, b) where the ranges say that it is one number (b >= 1).
  std::optional<Expr> quotient_in_range(const Expr& a, const Expr& b) {
    const Interval i = prove_.interval(ExprFactory::atom(AtomKind::floordiv, a, b));
    if (i.min == i.max) return Expr(i.min);
    if (prove_.in_range(a, b)) return Expr(0);
    if (prove_.nonneg(-a - 1) && prove_.nonneg(a + b)) return Expr(-1);
    if (b.is_const()) return std::nullopt;
    auto [q, r] = polynomial_divide(a, b);
    if (!q.is(0) && prove_.in_range(r, b)) return q;
    // by floordiv(x, n) where n divides x: x is n of them
    const Atom* part = single_atom(b, AtomKind::floordiv);
    const int64_t n = part ? part->b.as_const().value_or(0) : 0;
    if (n < 1 || prove_.multiple_of(part->a) % n != 0) return std::nullopt;
    std::tie(q, r) = polynomial_divide(a, part->a);
    if (!q.is(0) && prove_.in_range(r, b)) return q * n;
    return std::nullopt;
  }

  /// a = g*u + v with 0 <= v < g and b = g*d: floordiv(a, b) = floordiv(u, d), mod(a, b) = g*mod(u, d) + v.
  struct Parts {
    Expr g, u, v, d;
  };
  std::optional<Parts> split_small(const Expr& a, const Expr& b) {
    auto attempt = [&](const Term& g, const Expr& d) -> std::optional<Parts> {
      std::vector<Term> u, v;
      for (const Term& t : a.terms()) {
        if (t.atoms.empty() && g.atoms.empty()) {
          if (int64_t k = floor_div(t.coef, g.coef)) u.push_back({k, {}});
          if (int64_t k = floor_mod(t.coef, g.coef)) v.push_back({k, {}});
        } else if (auto q = divide_term(t, g)) {
          u.push_back(*q);
        } else {
          v.push_back(t);
        }
      }
      if (u.empty() || v.empty()) return std::nullopt;
      Parts p{ExprFactory::term(g), ExprFactory::from_terms(std::move(u)), ExprFactory::from_terms(std::move(v)), d};
      if (!g.atoms.empty() && !prove_.positive(p.g)) return std::nullopt;
      if (!prove_.in_range(p.v, p.g)) return std::nullopt;
      return p;
    };
    if (auto c = b.as_const()) {
      std::vector<int64_t> gs;
      for (const Term& t : a.terms()) {
        const int64_t g = std::gcd(t.coef, *c);
        if (!t.atoms.empty() && g > 1 && std::find(gs.begin(), gs.end(), g) == gs.end()) gs.push_back(g);
      }
      for (int64_t g : gs)
        if (auto p = attempt({g, {}}, *c / g)) return p;
      return std::nullopt;
    }
    if (b.terms().size() != 1) return std::nullopt;
    const Term& t = b.terms()[0];
    if (t.coef < 0 || t.atoms.size() > 5) return std::nullopt;
    const uint32_t subsets = 1u << t.atoms.size();
    for (uint32_t with_coef = 0; with_coef < (t.coef > 1 ? 2u : 1u); ++with_coef) {
      for (uint32_t m = 0; m < subsets; ++m) {
        Term g{with_coef ? t.coef : 1, {}}, d{with_coef ? 1 : t.coef, {}};
        for (size_t i = 0; i < t.atoms.size(); ++i) (m >> i & 1 ? g : d).atoms.push_back(t.atoms[i]);
        if ((g.coef == 1 && g.atoms.empty()) || (d.coef == 1 && d.atoms.empty())) continue;
        if (!prove_.positive(ExprFactory::term(d))) continue;
        if (auto p = attempt(g, ExprFactory::term(d))) return p;
      }
    }
    return std::nullopt;
  }

  /// a = u + v where every term of u is a multiple of c by the divisibility of its symbols.
  std::optional<std::pair<Expr, Expr>> split_divisible(const Expr& a, int64_t c) {
    Expr u, v;
    for (const Term& t : a.terms()) {
      const Expr e = ExprFactory::term(t);
      (!t.atoms.empty() && prove_.multiple_of(e) % c == 0 ? u : v) += e;
    }
    if (u.is(0)) return std::nullopt;
    return std::pair{u, v};
  }

  std::optional<Expr> divide_in_range(const Expr& a, const Expr& b, int depth) {
    if (!prove_.positive(b)) return std::nullopt;
    if (auto q = quotient_in_range(a, b)) return q;
    if (auto p = split_small(a, b)) return divide(p->u, p->d, depth + 1);
    if (auto c = b.as_const()) {
      if (auto s = split_divisible(a, *c); s && !s->second.is(0)) return floordiv(s->first, b) + divide(s->second, b, depth + 1);
    }
    if (const Atom* f = single_atom(a, AtomKind::floordiv)) {
      if (!b.is_const() && prove_.positive(f->b)) return divide(f->a, f->b * b, depth + 1);
    }
    if (const Atom* m = single_atom(a, AtomKind::mod)) {
      auto n = divide_exact(m->b, b);
      if (n && prove_.positive(*n)) return modulo(divide(m->a, b, depth + 1), *n, depth + 1);
    }
    return std::nullopt;
  }

  std::optional<Expr> modulo_in_range(const Expr& a, const Expr& b, int depth) {
    if (!prove_.positive(b)) return std::nullopt;
    if (auto q = quotient_in_range(a, b)) return a - *q * b;
    if (auto p = split_small(a, b)) return p->g * modulo(p->u, p->d, depth + 1) + p->v;
    if (auto c = b.as_const()) {
      if (auto s = split_divisible(a, *c)) return modulo(s->second, b, depth + 1);
    }
    return std::nullopt;
  }

  static Expr drop(const Term& t, size_t i) {
    Term r = t;
    r.atoms.erase(r.atoms.begin() + static_cast<std::ptrdiff_t>(i));
    return ExprFactory::term(r);
  }

  /// One rewriting of a sum, or e itself.
  Expr sums(const Expr& e, int depth) {
    for (const Term& t : e.terms()) {
      for (size_t i = 0; i < t.atoms.size(); ++i) {
        const Atom& a = t.atoms[i];
        if (a.kind != AtomKind::mod && a.kind != AtomKind::floordiv) continue;
        const Expr rest = drop(t, i), whole = ExprFactory::term(t);
        if (a.kind == AtomKind::mod) {
          // rest*mod(y, n) + rest*n*floordiv(y, n) = rest*y
          const Expr q = divide(a.a, a.b, depth + 1);
          const Expr part = rest * a.b * q;
          if (!part.is(0) && contains_terms(e, part)) return e - whole - part + rest * a.a;
          // rest*mod(y, n) - rest*y = -rest*n*floordiv(y, n): x rounded up to a multiple of n, written x + mod(-x, n)
          if (const Expr y = rest * a.a; contains_terms(e, -y)) return e - whole + y - part;
          // rest*mod(y, n) + rest*n*mod(floordiv(y, n), m) = rest*mod(y, n*m)
          for (const Term& o : e.terms()) {
            for (size_t k = 0; k < o.atoms.size(); ++k) {
              const Atom& m = o.atoms[k];
              if (m.kind != AtomKind::mod || m.a != q || drop(o, k) != rest * a.b) continue;
              if (!prove_.positive(a.b) || !prove_.positive(m.b)) continue;
              return e - whole - ExprFactory::term(o) + rest * modulo(a.a, a.b * m.b, depth + 1);
            }
          }
        } else if (auto k = divide_exact(rest, a.b)) {
          // k*n*floordiv(y, n) + k*mod(y, n) = k*y
          const Expr part = *k * modulo(a.a, a.b, depth + 1);
          if (contains_terms(e, part)) return e - whole - part + *k * a.a;
        }
      }
    }
    return e;
  }

  const SymTable& syms_;
  Prover prove_;
  Simplified* known_;
};

}  // namespace

Expr SymTable::simplify(const Expr& e) const {
  sym::Simplified alone;  // of a table that was moved from
  return Simplifier(*this, simplified_ ? simplified_.get() : &alone).run(e);
}

}  // namespace aotc
