#include "graph/guard.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace aotc {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

/// e >= 0, where e is slope * floordiv(a, divisor) + offset, as the same of a; nothing when e is no such expression.
std::optional<Expr> without_quotient(const Expr& e) {
  int64_t slope = 0, offset = 0;
  const Expr::Atom* quotient = nullptr;
  for (const Expr::Term& t : e.terms()) {
    if (t.atoms.empty()) {
      offset = t.coef;
    } else {
      if (quotient || t.atoms.size() != 1 || t.atoms[0].kind != Expr::AtomKind::floordiv) return std::nullopt;
      slope = t.coef;
      quotient = &t.atoms[0];
    }
  }
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t by = quotient ? quotient->b.as_const().value_or(0) : 0;
  if (by < 1 || by > kMost || std::abs(slope) > kMost || std::abs(offset) > kMost) return std::nullopt;
  if (slope > 0) return quotient->a + floor_div(offset, slope) * by;  // the quotient is at least -floor(offset / slope)
  return floor_div(offset, -slope) * by + (by - 1) - quotient->a;
}

/// given >= 0, where that is slope * symbol + offset or quotients of such, as a bound of the symbol.
bool narrow_nonneg(SymTable& syms, const Expr& given) {
  const Expr e = syms.simplify(given);
  const std::set<SymId> open = e.symbols();
  if (open.size() != 1) return true;
  const SymId s = *open.begin();
  if (const std::optional<Expr> inner = without_quotient(e)) return narrow_nonneg(syms, *inner);
  const std::optional<Expr> slope = e.linear_coefficient(s);
  const std::optional<int64_t> offset = slope ? e.substitute({{s, Expr(0)}}).as_const() : std::nullopt;
  const std::optional<int64_t> c = slope ? slope->as_const() : std::nullopt;
  if (!offset || !c || *c == 0 || *c == INT64_MIN || *offset == INT64_MIN) return true;
  SymInfo& info = syms.edit(s);
  if (*c > 0)
    info.min = std::max(info.min, -floor_div(*offset, *c));
  else
    info.max = std::min(info.max, floor_div(*offset, -*c));
  return info.min <= info.max;
}

/// a is a multiple of `by`, where a is slope * symbol + offset and the offset is one: what the symbol then is a multiple of.
void narrow_multiple(SymTable& syms, const Expr& a, const Expr& by) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const std::set<SymId> open = a.symbols();
  const int64_t k = by.as_const().value_or(0);
  if (open.size() != 1 || k <= 1 || k > kMost) return;
  const SymId s = *open.begin();
  const std::optional<Expr> slope = a.linear_coefficient(s);
  const int64_t c = slope ? slope->as_const().value_or(0) : 0;
  if (c == 0) return;  // 0 may be no size: it may divide
  const std::optional<int64_t> offset = a.substitute({{s, Expr(0)}}).as_const();
  if (!offset || *offset % k != 0) return;
  const int64_t all = std::lcm(syms[s].multiple_of, k / std::gcd(c, k));
  if (all <= kMost) syms.edit(s).multiple_of = all;
}

/// The quotient or remainder whose division the guard says leaves nothing (mod(x, 8) == 0, mod(x, 8) <= 0, s == 8*floordiv(s, 8)), if there
/// is one.
std::optional<Expr::Atom> without_rest(const SymTable& syms, const ShapeGuard& g) {
  if (g.kind == ShapeGuard::Kind::divisible) return std::nullopt;
  const bool equal = g.kind == ShapeGuard::Kind::eq;
  const Expr diff = syms.simplify(g.a - g.b);
  for (const Expr::Term& t : diff.terms()) {
    if (t.atoms.size() != 1) continue;
    const Expr::Atom& x = t.atoms[0];
    const int64_t by = x.b.as_const().value_or(0);
    if (by < 1) continue;
    if (x.kind == Expr::AtomKind::mod && diff.terms().size() == 1 && (equal || t.coef > 0)) return x;
    if (x.kind != Expr::AtomKind::floordiv || !equal) continue;
    // by*floordiv(y, by) = y - mod(y, by): when all but the remainder goes away, that is 0
    if ((diff - floordiv(x.a, x.b) * t.coef) * by + x.a * t.coef == Expr(0)) return x;
  }
  return std::nullopt;
}

}  // namespace

bool guard_holds(const ShapeGuard& g, const SymbolValues& value_of) {
  const std::optional<int64_t> a = g.a.try_eval(value_of), b = g.b.try_eval(value_of);
  if (!a || !b) return false;
  switch (g.kind) {
    case ShapeGuard::Kind::eq: return *a == *b;
    case ShapeGuard::Kind::le: return *a <= *b;
    case ShapeGuard::Kind::divisible: return *b == -1 || (*b != 0 && *a % *b == 0);
  }
  return false;
}

bool guards_hold(const std::vector<ShapeGuard>& guards, const SymbolValues& value_of) {
  return std::all_of(guards.begin(), guards.end(), [&](const ShapeGuard& g) { return guard_holds(g, value_of); });
}

std::string guard_text(const ShapeGuard& g, const SymTable& syms) {
  static constexpr std::string_view kRelation[] = {"==", "<=", "is a multiple of"};
  return fmt::format("{} {} {}", g.a.str(syms), kRelation[static_cast<size_t>(g.kind)], g.b.str(syms));
}

std::optional<bool> decided(const ShapeGuard& g, const SymTable& syms) {
  switch (g.kind) {
    case ShapeGuard::Kind::eq:
      if (syms.proves_eq(g.a, g.b)) return true;
      if (syms.proves_ne(g.a, g.b)) return false;
      break;
    case ShapeGuard::Kind::le:
      if (syms.proves_le(g.a, g.b)) return true;
      if (syms.proves_lt(g.b, g.a)) return false;
      break;
    case ShapeGuard::Kind::divisible:
      if (const auto by = g.b.as_const(); by && *by != 0) {
        if (syms.proves_divisible(g.a, *by)) return true;
        if (const auto a = g.a.as_const(); a && *by != -1 && *a % *by != 0) return false;
      }
      break;
  }
  return std::nullopt;
}

void narrow_multiples(SymTable& syms, const std::vector<ShapeGuard>& guards) {
  for (const ShapeGuard& g : guards) {
    if (g.kind == ShapeGuard::Kind::divisible) narrow_multiple(syms, g.a, g.b);
    if (const std::optional<Expr::Atom> whole = without_rest(syms, g)) narrow_multiple(syms, whole->a, whole->b);
  }
}

bool narrow_ranges(SymTable& syms, const std::vector<ShapeGuard>& guards) {
  narrow_multiples(syms, guards);
  bool fits = true;
  for (const ShapeGuard& g : guards) {
    if (g.kind != ShapeGuard::Kind::divisible) fits = narrow_nonneg(syms, g.b - g.a) && fits;
    if (g.kind == ShapeGuard::Kind::eq) fits = narrow_nonneg(syms, g.a - g.b) && fits;
  }
  for (size_t i = 0; i < syms.size(); ++i) {
    const SymInfo& s = syms[static_cast<SymId>(i)];
    if (s.kind == SymKind::shape && s.max != kInf && s.max - s.max % s.multiple_of < s.min) fits = false;
  }
  return fits;
}

namespace {

constexpr int64_t kMostPoints = int64_t{1} << 18;  ///< that are tried for one guard

/// The sizes of some symbols within their ranges, one after another.
class Points {
 public:
  Points(const SymTable& syms, const std::set<SymId>& symbols) {
    for (const SymId s : symbols) {
      const SymInfo& i = syms[s];
      const int64_t first = (i.min + i.multiple_of - 1) / i.multiple_of * i.multiple_of;
      if (i.max == kInf || i.max - first >= kMostPoints * i.multiple_of) return;
      axes_[s] = {first, i.multiple_of, (i.max - first) / i.multiple_of + 1};
      if ((count_ *= axes_[s].count) > kMostPoints) return;
    }
    known_ = true;
  }
  bool known() const { return known_; }  ///< false: more than are tried
  bool any(const std::function<bool(const SymbolValues&)>& holds) const {
    for (int64_t n = 0; n < count_; ++n) {
      std::map<SymId, int64_t> at;
      int64_t rest = n;
      for (const auto& [s, a] : axes_) {
        at[s] = a.first + rest % a.count * a.step;
        rest /= a.count;
      }
      if (holds([&](SymId s) { return std::optional(at.at(s)); })) return true;
    }
    return false;
  }

 private:
  struct Axis {
    int64_t first, step, count;
  };
  std::map<SymId, Axis> axes_;
  int64_t count_ = 1;
  bool known_ = false;
};

std::set<SymId> symbols_of(const ShapeGuard& g) {
  std::set<SymId> out = g.a.symbols();
  out.merge(g.b.symbols());
  return out;
}

}  // namespace

const ShapeGuard* met_by_none(const SymTable& syms, const std::vector<ShapeGuard>& guards) {
  for (const ShapeGuard& g : guards) {
    const std::set<SymId> symbols = symbols_of(g);
    const Points points(syms, symbols);
    if (!points.known()) continue;
    std::vector<ShapeGuard> together;
    for (const ShapeGuard& o : guards)
      if (const std::set<SymId> own = symbols_of(o); std::includes(symbols.begin(), symbols.end(), own.begin(), own.end()))
        together.push_back(o);
    if (!points.any([&](const SymbolValues& at) { return guards_hold(together, at); })) return &g;
  }
  return nullptr;
}

namespace {

/// Looks for sizes by changing one at a time, each time to the value at which most guards hold.
class SizeSearch {
 public:
  SizeSearch(const SymTable& syms, const std::vector<ShapeGuard>& guards, const std::set<SymId>& fixed)
      : syms_(syms), guards_(guards), fixed_(fixed) {}

  std::optional<Sizes> from(Sizes at) const {
    size_t failing = count(at);
    for (int round = 0; round < kRounds && failing > 0; ++round) {
      const size_t before = failing;
      for (auto& [s, value] : at) {
        if (failing == 0 || fixed_.count(s)) continue;
        for (const int64_t v : candidates(syms_[s], value)) {
          const int64_t kept = std::exchange(value, v);
          const size_t now = count(at);
          if (now < failing)
            failing = now;
          else
            value = kept;
          if (failing == 0) break;
        }
      }
      if (failing == before) break;
    }
    if (failing > 0) return std::nullopt;
    return at;
  }

  static int64_t within(const SymInfo& s, int64_t v) {
    const int64_t m = s.multiple_of, first = (s.min + m - 1) / m * m;
    v = std::clamp(v, first, s.max);
    return std::max(first, v - v % m);
  }

 private:
  static constexpr int kRounds = 4;
  static constexpr int64_t kNear = 48;

  size_t count(const Sizes& at) const {
    return static_cast<size_t>(std::count_if(guards_.begin(), guards_.end(), [&](const ShapeGuard& g) {
      return !guard_holds(g, [&](SymId s) -> std::optional<int64_t> {
        const auto it = at.find(s);
        return it == at.end() ? std::nullopt : std::optional(it->second);
      });
    }));
  }
  /// Values near this one, then small ones, then powers of two.
  static std::vector<int64_t> candidates(const SymInfo& s, int64_t near) {
    std::vector<int64_t> out;
    for (int64_t d = 1; d <= kNear; ++d) {
      if (near <= INT64_MAX / 2) out.push_back(within(s, near + d * s.multiple_of));
      out.push_back(within(s, near - d * s.multiple_of));
    }
    for (int64_t d = 0; d <= kNear; ++d) out.push_back(within(s, s.min + d * s.multiple_of));
    for (int64_t p = 64; p <= 4096; p *= 2) out.push_back(within(s, p));
    return out;
  }

  const SymTable& syms_;
  const std::vector<ShapeGuard>& guards_;
  const std::set<SymId>& fixed_;
};

}  // namespace

std::optional<Sizes> sizes_near(const SymTable& syms, const std::vector<ShapeGuard>& guards, const Sizes& wanted,
                                const std::set<SymId>& fixed) {
  const SizeSearch search(syms, guards, fixed);
  if (const auto found = search.from(wanted)) return found;
  for (const int64_t start : {int64_t{2}, int64_t{8}, int64_t{12}, int64_t{64}}) {
    Sizes at = wanted;
    for (auto& [s, value] : at)
      if (!fixed.count(s)) value = SizeSearch::within(syms[s], start);
    if (const auto found = search.from(at)) return found;
  }
  return std::nullopt;
}

}  // namespace aotc
