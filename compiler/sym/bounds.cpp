// Intervals and inequalities. An inequality is proved as "this expression is never negative": loop symbols are replaced by the end of
// their extent that makes it smallest, then the rest by intervals, by minima (every atom = its minimum plus something not negative), by
// case splits over min and max, and by the bounds of a floordiv.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "sym/detail.h"

namespace aotc::sym {

namespace {

constexpr int64_t kNegInf = INT64_MIN;

int64_t clamp(__int128 v) {
  if (v <= kNegInf) return kNegInf;
  if (v >= kInf) return kInf;
  return static_cast<int64_t>(v);
}
bool infinite(int64_t v) { return v == kNegInf || v == kInf; }
int sign(int64_t v) { return v > 0 ? 1 : (v < 0 ? -1 : 0); }

int64_t mul_end(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return sign(a) * sign(b) > 0 ? kInf : kNegInf;
  return clamp(static_cast<__int128>(a) * b);
}
Interval negate(Interval i) {
  auto neg = [](int64_t v) { return v == kNegInf ? kInf : (v == kInf ? kNegInf : -v); };
  return {neg(i.max), neg(i.min)};
}
Interval hull_floordiv(Interval a, Interval b) {
  if (b.max <= -1) return hull_floordiv(negate(a), negate(b));
  if (b.min < 1) {  // the divisor may have either sign: |a / b| <= |a|
    if (infinite(a.min) || infinite(a.max)) return {kNegInf, kInf};
    const int64_t m = std::max(std::abs(a.min), std::abs(a.max));
    return {-m, m};
  }
  auto div = [](int64_t x, int64_t y) {
    if (infinite(x)) return x;
    if (y == kInf) return x < 0 ? int64_t{-1} : int64_t{0};
    return floor_div(x, y);
  };
  Interval r{};
  r.min = a.min >= 0 ? (infinite(a.min) ? (b.max == kInf ? 0 : a.min) : div(a.min, b.max)) : div(a.min, b.min);
  r.max = a.max >= 0 ? div(a.max, b.min) : div(a.max, b.max);
  return r;
}
Interval hull_mod(Interval a, Interval b) {
  auto less1 = [](int64_t v) { return infinite(v) ? v : v - 1; };
  if (b.min >= 1) {
    if (a.min >= 0 && a.max < b.min) return a;
    Interval r{0, less1(b.max)};
    if (a.min >= 0) r.max = std::min(r.max, a.max);
    return r;
  }
  if (b.max <= -1) return {infinite(b.min) ? b.min : b.min + 1, 0};
  return {std::min<int64_t>(infinite(b.min) ? b.min : b.min + 1, 0), std::max<int64_t>(less1(b.max), 0)};
}

/// The term without atom i.
Expr cofactor(const Term& t, size_t i) {
  Term r = t;
  r.atoms.erase(r.atoms.begin() + static_cast<std::ptrdiff_t>(i));
  return ExprFactory::term(r);
}

}  // namespace

Interval add(Interval a, Interval b) {
  auto end = [](int64_t x, int64_t y, int64_t inf) {
    if (infinite(x) || infinite(y)) return inf;
    return clamp(static_cast<__int128>(x) + y);
  };
  return {end(a.min, b.min, kNegInf), end(a.max, b.max, kInf)};
}
Interval mul(Interval a, Interval b) {
  const int64_t p[] = {mul_end(a.min, b.min), mul_end(a.min, b.max), mul_end(a.max, b.min), mul_end(a.max, b.max)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}
Interval scale(Interval a, int64_t by) { return mul(a, {by, by}); }

Interval Prover::symbol(SymId s) const {
  const SymInfo& i = syms_[s];
  Interval r{i.min, i.max};
  if (i.extent) {
    const int64_t end = interval(*i.extent).max;
    if (!infinite(end)) r.max = std::min(r.max, end - 1);
  }
  r.max = std::max(r.max, r.min);
  return r;
}

Interval Prover::atom(const Atom& a) const {
  if (a.kind == AtomKind::symbol) return symbol(a.sym);
  const Interval x = interval(a.a), y = interval(a.b);
  switch (a.kind) {
    case AtomKind::floordiv: return hull_floordiv(x, y);
    case AtomKind::mod: return hull_mod(x, y);
    case AtomKind::min: return {std::min(x.min, y.min), std::min(x.max, y.max)};
    default: return {std::max(x.min, y.min), std::max(x.max, y.max)};
  }
}

Interval Prover::interval(const Expr& e) const {
  Interval sum{0, 0};
  for (const Term& t : e.terms()) {
    Interval p{t.coef, t.coef};
    for (size_t i = 0; i < t.atoms.size();) {  // a square is not negative: powers are taken together
      size_t n = 1;
      while (i + n < t.atoms.size() && compare_atoms(t.atoms[i], t.atoms[i + n]) == 0) ++n;
      const Interval one = atom(t.atoms[i]);
      Interval power = one;
      for (size_t k = 1; k < n; ++k) power = mul(power, one);
      if (n % 2 == 0) power.min = std::max<int64_t>(power.min, 0);
      p = mul(p, power);
      i += n;
    }
    sum = add(sum, p);
  }
  return sum;
}

int64_t Prover::multiple_of(const Atom& a) const {
  switch (a.kind) {
    case AtomKind::symbol: {
      const SymInfo& i = syms_[a.sym];
      const Interval r = symbol(a.sym);
      if (r.min == r.max) return std::abs(r.min);
      return std::max<int64_t>(i.multiple_of, 1);
    }
    case AtomKind::floordiv: {
      auto d = a.b.as_const();
      if (!d || *d <= 0) return 1;
      const int64_t m = multiple_of(a.a);
      return m % *d == 0 ? m / *d : 1;
    }
    case AtomKind::mod: return std::gcd(multiple_of(a.a), multiple_of(a.b));
    default: return std::gcd(multiple_of(a.a), multiple_of(a.b));
  }
}

int64_t Prover::multiple_of(const Expr& e) const {
  int64_t g = 0;
  for (const Term& t : e.terms()) {
    if (t.coef == INT64_MIN) return 1;
    int64_t m = std::abs(t.coef);
    for (const Atom& a : t.atoms) {
      int64_t k = multiple_of(a), p = 0;
      if (__builtin_mul_overflow(m, k, &p)) break;
      m = p;
    }
    g = std::gcd(g, m);
    if (g == 1) break;
  }
  return g;
}

std::optional<Expr> Prover::bound(const Expr& e, bool upper, int depth) const {
  if (depth > 6) return std::nullopt;
  Expr cur = e;
  for (int step = 0; step < 24; ++step) {
    std::vector<SymId> bounded;
    for (SymId s : cur.symbols())
      if (syms_[s].extent) bounded.push_back(s);
    if (bounded.empty()) return cur;
    bool progress = false;
    for (auto it = bounded.rbegin(); it != bounded.rend() && !progress; ++it) {
      auto c = cur.linear_coefficient(*it);
      if (!c) continue;
      const Interval i = interval(*c);
      const bool up = i.min >= 0 || (i.max > 0 && depth < 3 && nonneg(*c, depth + 3));
      if (!up && !(i.max <= 0 || (i.min < 0 && depth < 3 && nonneg(-*c, depth + 3)))) continue;
      const SymInfo& s = syms_[*it];
      if (up == upper) {
        cur = cur.substitute({{*it, *s.extent - 1}});
      } else {
        if (s.min == INT64_MIN) return std::nullopt;
        cur = cur.substitute({{*it, Expr(s.min)}});
      }
      progress = true;
    }
    // An atom that holds a bounded symbol: all its kinds are monotone.
    for (size_t n = 0; n < cur.terms().size() && !progress; ++n) {
      const Term& t = cur.terms()[n];
      for (size_t k = 0; k < t.atoms.size() && !progress; ++k) {
        const Atom& a = t.atoms[k];
        if (a.kind == AtomKind::symbol) continue;
        const auto& inner = ExprFactory::atom(a).symbols();
        if (std::none_of(inner.begin(), inner.end(), [&](SymId s) { return syms_[s].extent.has_value(); })) continue;
        const Expr rest = cofactor(t, k);
        const Interval r = interval(rest);
        if (r.min < 0 && r.max > 0) continue;
        const bool want_upper = (r.min >= 0) == upper;
        std::optional<Expr> b;
        if (a.kind == AtomKind::floordiv || a.kind == AtomKind::mod) {
          if (interval(a.b).min < 1) continue;
          if (a.kind == AtomKind::floordiv) {
            if (auto x = bound(a.a, want_upper, depth + 1)) {
              if (!bound_is_free(a.b)) continue;
              b = floordiv(*x, a.b);
            }
          } else if (want_upper) {
            if (auto d = bound(a.b, true, depth + 1)) b = *d - 1;
          } else {
            b = Expr(0);
          }
        } else {
          auto x = bound(a.a, want_upper, depth + 1), y = bound(a.b, want_upper, depth + 1);
          if (x && y) b = a.kind == AtomKind::min ? min(*x, *y) : max(*x, *y);
        }
        if (!b) continue;
        cur = cur - ExprFactory::term(Term(t)) + rest * *b;
        progress = true;
      }
    }
    if (!progress) return std::nullopt;
  }
  return std::nullopt;
}

bool Prover::bound_is_free(const Expr& e) const {
  const auto s = e.symbols();
  return std::none_of(s.begin(), s.end(), [&](SymId x) { return syms_[x].extent.has_value(); });
}

int64_t Prover::shifted_min(const Expr& e) const {
  if (e.terms().size() > 24) return kNegInf;
  Expr shifted;
  for (const Term& t : e.terms()) {
    if (t.atoms.size() > 4) return kNegInf;
    Expr p = t.coef;
    double size = std::abs(static_cast<double>(t.coef));
    for (const Atom& a : t.atoms) {
      const int64_t lo = atom(a).min;
      size *= 1 + std::abs(static_cast<double>(lo));
      if (size > 1e16) return kNegInf;
      p *= ExprFactory::atom(a) + lo;
    }
    shifted += p;
  }
  Interval sum{0, 0};
  for (const Term& t : shifted.terms()) {
    Interval p{t.coef, t.coef};
    for (const Atom& a : t.atoms) {
      const Interval i = atom(a);
      p = mul(p, {0, i.max == kInf ? kInf : clamp(static_cast<__int128>(i.max) - i.min)});
    }
    sum = add(sum, p);
  }
  return sum.min;
}

std::optional<Expr> Prover::relax_division(const Expr& e) const {
  Expr cur = e;
  bool any = false;
  for (int step = 0; step < 8; ++step) {
    bool progress = false;
    for (const Term& t : cur.terms()) {
      for (size_t k = 0; k < t.atoms.size(); ++k) {
        const Atom a = t.atoms[k];
        if (a.kind != AtomKind::floordiv && a.kind != AtomKind::mod) continue;
        if (interval(a.b).min < 1) continue;
        const Expr rest = cofactor(t, k);
        const Interval r = interval(rest);
        if (r.min < 0 && r.max > 0) continue;
        if (a.kind == AtomKind::mod) {
          cur = cur - ExprFactory::term(Term(t)) + (r.min >= 0 ? Expr(0) : rest * (a.b - 1));
        } else {
          std::optional<Expr> q = divide_exact(rest, a.b);
          if (!q) {
            auto d = a.b.as_const();
            if (!d || *d > (int64_t{1} << 20)) continue;
            for (const Term& x : cur.terms())
              if (std::abs(x.coef) > (int64_t{1} << 40)) return std::nullopt;
            cur = cur * *d;  // the sign is what is asked for
            progress = true;
            break;
          }
          const Interval qi = interval(*q);
          if (qi.min < 0 && qi.max > 0) continue;
          // floordiv(x, d) lies in [(x - d + 1) / d, x / d]
          cur = cur - ExprFactory::term(Term(t)) + *q * (qi.min >= 0 ? a.a - a.b + 1 : a.a);
        }
        progress = true;
        break;
      }
      if (progress) break;
    }
    if (!progress) break;
    any = true;
  }
  if (!any) return std::nullopt;
  return cur;
}

bool Prover::nonneg(const Expr& e, int depth) const {
  if (interval(e).min >= 0) return true;
  if (e.is_const() || depth > 5) return false;
  auto shape_level = [&](const Expr& x) { return interval(x).min >= 0 || shifted_min(x) >= 0; };
  if (auto lo = bound(e, false, depth)) {
    if (shape_level(*lo)) return true;
    if (*lo != e && !is_plain(*lo) && nonneg(*lo, depth + 2)) return true;
  }
  if (is_plain(e)) return false;
  // min and max: both cases where the extremum works against us, either where it works for us.
  for (const Term& t : e.terms()) {
    for (size_t k = 0; k < t.atoms.size(); ++k) {
      const Atom& a = t.atoms[k];
      if (a.kind != AtomKind::min && a.kind != AtomKind::max) continue;
      const Expr rest = cofactor(t, k), others = e - ExprFactory::term(t);
      const Interval r = interval(rest);
      if (r.min < 0 && r.max > 0) continue;
      const bool x = nonneg(others + rest * a.a, depth + 1);
      const bool needs_both = (a.kind == AtomKind::min) == (r.min >= 0);
      if (x != needs_both) return x;
      return nonneg(others + rest * a.b, depth + 1);
    }
  }
  if (auto relaxed = relax_division(e)) return nonneg(*relaxed, depth + 2);
  return false;
}

}  // namespace aotc::sym
