#include "sym/expr.h"

#include <algorithm>

#include "sym/detail.h"
#include "sym/parts.h"
#include "sym/sym_error.h"

namespace aotc {

using sym::Atom;
using sym::AtomKind;
using sym::Atoms;
using sym::Term;

namespace sym {

int64_t checked_add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) throw SymError(fmt::format("sizes overflow 64 bits: {} + {}", a, b));
  return r;
}
int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) throw SymError(fmt::format("sizes overflow 64 bits: {} * {}", a, b));
  return r;
}
int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) throw SymError("sizes are divided by zero");
  if (a == INT64_MIN && b == -1) throw SymError("sizes overflow 64 bits");
  const int64_t q = a / b;
  return q - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}
int64_t floor_mod(int64_t a, int64_t b) {
  if (b == 0) throw SymError("sizes are divided by zero");
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int compare_atoms(const Atom& a, const Atom& b) {
  if (a.kind != b.kind) return a.kind < b.kind ? -1 : 1;
  if (a.kind == AtomKind::symbol) return a.sym == b.sym ? 0 : (a.sym < b.sym ? -1 : 1);
  if (int c = Expr::compare(a.a, b.a)) return c;
  return Expr::compare(a.b, b.b);
}

int compare_products(const Atoms& a, const Atoms& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    if (int c = compare_atoms(a[i], b[i])) return c;
  return 0;
}

int64_t coefficient(const Expr& e, const Atoms& product) {
  const auto& t = e.terms();
  auto it = std::lower_bound(t.begin(), t.end(), product, [](const Term& x, const Atoms& p) { return compare_products(x.atoms, p) < 0; });
  return it != t.end() && compare_products(it->atoms, product) == 0 ? it->coef : 0;
}

int64_t constant_part(const Expr& e) {
  const auto& t = e.terms();
  return !t.empty() && t.back().atoms.empty() ? t.back().coef : 0;
}

Expr without_constant(const Expr& e) {
  const auto& t = e.terms();
  if (t.empty() || !t.back().atoms.empty()) return e;
  return ExprFactory::from_canonical({t.begin(), t.end() - 1});
}

bool contains_terms(const Expr& whole, const Expr& part) {
  return std::all_of(part.terms().begin(), part.terms().end(), [&](const Term& t) { return coefficient(whole, t.atoms) == t.coef; });
}

const Atom* single_atom(const Expr& e, AtomKind kind) {
  const auto& t = e.terms();
  return t.size() == 1 && t[0].coef == 1 && t[0].atoms.size() == 1 && t[0].atoms[0].kind == kind ? &t[0].atoms[0] : nullptr;
}

int64_t parts(const Expr& e) { return ExprFactory::rep(e).parts; }

namespace {

[[noreturn]] void too_many_parts(int64_t parts) {
  throw SymError(fmt::format("sizes make an expression of {} parts; at most {} are taken", parts, kMostParts));
}

size_t mix(size_t h, size_t v) { return h ^ (v + 0x9e3779b97f4a7c15ULL + (h << 6) + (h >> 2)); }

std::shared_ptr<const Expr::Rep> make_rep(std::vector<Term> terms) {
  auto r = std::make_shared<Expr::Rep>();
  size_t h = 17;
  for (const Term& t : terms) {
    h = mix(h, static_cast<size_t>(t.coef));
    r->parts += 1 + static_cast<int64_t>(t.atoms.size());
    for (const Atom& a : t.atoms) {
      h = mix(h, static_cast<size_t>(a.kind));
      if (a.kind == AtomKind::symbol) {
        h = mix(h, idx(a.sym));
        r->mask |= uint64_t{1} << (idx(a.sym) & 63);
      } else {
        h = mix(mix(h, a.a.hash()), a.b.hash());
        r->parts += parts(a.a) + parts(a.b);
        r->mask |= symbol_mask(a.a) | symbol_mask(a.b);
        r->plain = false;
      }
    }
  }
  if (r->parts > kMostParts) too_many_parts(r->parts);
  r->hash = h;
  r->terms = std::move(terms);
  return r;
}

Atoms merge_atoms(const Atoms& a, const Atoms& b) {
  Atoms r;
  r.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(r),
             [](const Atom& x, const Atom& y) { return compare_atoms(x, y) < 0; });
  return r;
}

/// a + by * b
Expr add_scaled(const Expr& a, const Expr& b, int64_t by) {
  const auto &x = a.terms(), &y = b.terms();
  std::vector<Term> r;
  r.reserve(x.size() + y.size());
  size_t i = 0, j = 0;
  while (i < x.size() || j < y.size()) {
    const int c = i == x.size() ? 1 : j == y.size() ? -1 : compare_products(x[i].atoms, y[j].atoms);
    if (c < 0) {
      r.push_back(x[i++]);
    } else if (c > 0) {
      r.push_back({checked_mul(y[j].coef, by), y[j].atoms});
      ++j;
    } else {
      if (int64_t k = checked_add(x[i].coef, checked_mul(y[j].coef, by))) r.push_back({k, x[i].atoms});
      ++i, ++j;
    }
  }
  return ExprFactory::from_canonical(std::move(r));
}

Expr scaled(const Expr& a, int64_t by) {
  std::vector<Term> r = a.terms();
  for (Term& t : r) t.coef = checked_mul(t.coef, by);
  return ExprFactory::from_canonical(std::move(r));
}

}  // namespace
}  // namespace sym

using namespace sym;  // NOLINT

Expr ExprFactory::from_canonical(std::vector<Term> terms) {
  if (terms.empty()) return Expr(0);
  return Expr(make_rep(std::move(terms)));
}

Expr ExprFactory::from_terms(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return compare_products(a.atoms, b.atoms) < 0; });
  std::vector<Term> r;
  for (Term& t : terms) {
    if (!r.empty() && compare_products(r.back().atoms, t.atoms) == 0)
      r.back().coef = checked_add(r.back().coef, t.coef);
    else
      r.push_back(std::move(t));
  }
  r.erase(std::remove_if(r.begin(), r.end(), [](const Term& t) { return t.coef == 0; }), r.end());
  return from_canonical(std::move(r));
}

Expr ExprFactory::atom(const Atom& a) { return from_canonical({Term{1, {a}}}); }
Expr ExprFactory::atom(AtomKind kind, const Expr& a, const Expr& b) { return atom(Atom{kind, kNone<SymId>, a, b}); }
Expr ExprFactory::term(const Term& t) { return from_canonical({t}); }

Expr::Expr(int64_t c) {
  static const std::shared_ptr<const Rep> kZero = make_rep({}), kOne = make_rep({Term{1, {}}});
  rep_ = c == 0 ? kZero : c == 1 ? kOne : make_rep({Term{c, {}}});
}

Expr Expr::symbol(SymId s) { return ExprFactory::atom(Atom{AtomKind::symbol, s, {}, {}}); }

std::optional<int64_t> Expr::as_const() const {
  if (rep_->terms.empty()) return 0;
  if (rep_->terms.size() == 1 && rep_->terms[0].atoms.empty()) return rep_->terms[0].coef;
  return std::nullopt;
}

std::optional<SymId> Expr::as_symbol() const {
  if (const Atom* a = single_atom(*this, AtomKind::symbol)) return a->sym;
  return std::nullopt;
}

const std::vector<Expr::Term>& Expr::terms() const { return rep_->terms; }
size_t Expr::hash() const { return rep_->hash; }

namespace {
void collect(const Expr& e, std::set<SymId>& out) {
  for (const Term& t : e.terms()) {
    for (const Atom& a : t.atoms) {
      if (a.kind == AtomKind::symbol) {
        out.insert(a.sym);
      } else {
        collect(a.a, out);
        collect(a.b, out);
      }
    }
  }
}
}  // namespace

std::set<SymId> Expr::symbols() const {
  std::set<SymId> r;
  collect(*this, r);
  return r;
}

bool Expr::depends_on(SymId s) const {
  if (!(rep_->mask >> (idx(s) & 63) & 1)) return false;
  for (const Term& t : rep_->terms) {
    for (const Atom& a : t.atoms) {
      if (a.kind == AtomKind::symbol ? a.sym == s : a.a.depends_on(s) || a.b.depends_on(s)) return true;
    }
  }
  return false;
}

Expr Expr::substitute(const SymMap& with) const {
  uint64_t mask = 0;
  for (const auto& [s, e] : with) mask |= uint64_t{1} << (idx(s) & 63);
  if (!(rep_->mask & mask)) return *this;
  std::vector<Term> kept;
  Expr changed;
  for (const Term& t : rep_->terms) {
    Expr p = t.coef;
    Atoms same;
    for (const Atom& a : t.atoms) {
      if (a.kind == AtomKind::symbol) {
        auto it = with.find(a.sym);
        if (it == with.end())
          same.push_back(a);
        else
          p *= it->second;
      } else if (!((symbol_mask(a.a) | symbol_mask(a.b)) & mask)) {
        same.push_back(a);
      } else {
        const Expr x = a.a.substitute(with), y = a.b.substitute(with);
        switch (a.kind) {
          case AtomKind::floordiv: p *= floordiv(x, y); break;
          case AtomKind::mod: p *= mod(x, y); break;
          case AtomKind::min: p *= min(x, y); break;
          default: p *= max(x, y); break;
        }
      }
    }
    if (same.size() == t.atoms.size())
      kept.push_back(t);
    else
      changed += p * ExprFactory::from_canonical({Term{1, same}});
  }
  return ExprFactory::from_canonical(std::move(kept)) + changed;
}

std::optional<int64_t> Expr::try_eval(const std::function<std::optional<int64_t>(SymId)>& value_of) const {
  int64_t sum = 0;
  for (const Term& t : rep_->terms) {
    int64_t p = t.coef;
    for (const Atom& a : t.atoms) {
      std::optional<int64_t> v;
      if (a.kind == AtomKind::symbol) {
        v = value_of(a.sym);
      } else {
        auto x = a.a.try_eval(value_of), y = a.b.try_eval(value_of);
        if (!x || !y) return std::nullopt;
        const bool divides = a.kind == AtomKind::floordiv || a.kind == AtomKind::mod;
        if (divides && (*y == 0 || (*x == INT64_MIN && *y == -1))) return std::nullopt;
        switch (a.kind) {
          case AtomKind::floordiv: v = floor_div(*x, *y); break;
          case AtomKind::mod: v = floor_mod(*x, *y); break;
          case AtomKind::min: v = std::min(*x, *y); break;
          default: v = std::max(*x, *y); break;
        }
      }
      if (!v || __builtin_mul_overflow(p, *v, &p)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, p, &sum)) return std::nullopt;
  }
  return sum;
}

int64_t Expr::eval(const std::function<int64_t(SymId)>& value_of) const {
  auto v = try_eval([&](SymId s) { return std::optional<int64_t>(value_of(s)); });
  AOTC_CHECK(v, "an expression divides by zero or overflows");
  return *v;
}

std::optional<Expr> Expr::linear_coefficient(SymId s) const {
  std::vector<Term> r;
  for (const Term& t : rep_->terms) {
    int uses = 0;
    Atoms rest;
    for (const Atom& a : t.atoms) {
      if (a.kind == AtomKind::symbol && a.sym == s) {
        ++uses;
      } else if (a.kind != AtomKind::symbol && (a.a.depends_on(s) || a.b.depends_on(s))) {
        return std::nullopt;
      } else {
        rest.push_back(a);
      }
    }
    if (uses > 1) return std::nullopt;
    if (uses == 1) r.push_back({t.coef, std::move(rest)});
  }
  return ExprFactory::from_terms(std::move(r));
}

int Expr::compare(const Expr& a, const Expr& b) {
  if (a.rep_ == b.rep_) return 0;
  const auto &x = a.rep_->terms, &y = b.rep_->terms;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (int c = compare_products(x[i].atoms, y[i].atoms)) return c;
    if (x[i].coef != y[i].coef) return x[i].coef < y[i].coef ? -1 : 1;
  }
  return x.size() == y.size() ? 0 : (x.size() < y.size() ? -1 : 1);
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.terms().empty()) return b;
  if (b.terms().empty()) return a;
  return add_scaled(a, b, 1);
}
Expr operator-(const Expr& a, const Expr& b) {
  if (b.terms().empty()) return a;
  return add_scaled(a, b, -1);
}
Expr operator-(const Expr& a) { return scaled(a, -1); }

Expr operator*(const Expr& a, const Expr& b) {
  if (auto c = a.as_const()) return *c == 0 ? a : *c == 1 ? b : scaled(b, *c);
  if (auto c = b.as_const()) return *c == 0 ? b : *c == 1 ? a : scaled(a, *c);
  // Terms that are equal become one, few of many.
  const auto products = static_cast<int64_t>(a.terms().size() * b.terms().size());
  if (products > 4 * kMostParts) too_many_parts(products);
  std::vector<Term> r;
  r.reserve(static_cast<size_t>(products));
  for (const Term& x : a.terms())
    for (const Term& y : b.terms()) r.push_back({checked_mul(x.coef, y.coef), merge_atoms(x.atoms, y.atoms)});
  if (r.size() == 1) return ExprFactory::from_canonical(std::move(r));
  return ExprFactory::from_terms(std::move(r));
}

Expr ceildiv(const Expr& a, const Expr& b) { return floordiv(a + b - 1, b); }
Expr align_up(const Expr& a, int64_t to) { return ceildiv(a, to) * to; }
Expr product(const std::vector<Expr>& xs) {
  Expr r = 1;
  for (const Expr& x : xs) r *= x;
  return r;
}

}  // namespace aotc
