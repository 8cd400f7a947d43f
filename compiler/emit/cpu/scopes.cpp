#include "emit/cpu/scopes.h"

#include <algorithm>

#include "emit/cpu/text.h"

namespace aotc::emit::cpu {
namespace {
/// Segments shorter than this cost more than a computation lane by lane.
constexpr int64_t kLeastSegment = 8;
/// Lanes' positions that a table is made for.
constexpr int64_t kMostTabled = 4096;

Expr value_of(const Expr::Term& t) {
  Expr x = t.coef;
  for (const Expr::Atom& a : t.atoms) switch (a.kind) {
      case Expr::AtomKind::symbol: x *= Expr::symbol(a.sym); break;
      case Expr::AtomKind::floordiv: x *= floordiv(a.a, a.b); break;
      case Expr::AtomKind::mod: x *= mod(a.a, a.b); break;
      case Expr::AtomKind::min: x *= min(a.a, a.b); break;
      case Expr::AtomKind::max: x *= max(a.a, a.b); break;
    }
  return x;
}
}  // namespace

std::string Scopes::take(int rank) {
  std::string s;
  s.swap(text_[rank]);
  return s;
}

void Scopes::forget_above(int rank) {
  for (auto it = scalars_.begin(); it != scalars_.end();) it = it->second.rank > rank ? scalars_.erase(it) : std::next(it);
}

void Scopes::define(SymId s, int rank, std::string text) {
  names_[s] = {rank, std::move(text)};
  lane_arrays_.erase(s);
}
void Scopes::define_by_lane(SymId s, std::string array) {
  lane_arrays_[s] = std::move(array);
  names_.erase(s);
}

bool Scopes::by_lane(const Expr& e) const {
  for (const auto& [s, array] : lane_arrays_)
    if (e.depends_on(s)) return true;
  return false;
}

int Scopes::rank(const Expr& e) const {
  int r = kFunction;
  for (SymId s : e.symbols()) {
    const auto it = names_.find(s);
    AOTC_CHECK(it != names_.end(), "symbol {} of an index is not known here", syms_[s].name);
    r = std::max(r, it->second.rank);
  }
  return r;
}

std::string Scopes::text(const Expr& e) const {
  return expr_text(e, syms_, [this](SymId s) {
    const auto it = names_.find(s);
    AOTC_CHECK(it != names_.end(), "symbol {} of an index is not known here", syms_[s].name);
    return it->second.text;
  });
}

std::string Scopes::text_in_lane(const Expr& e) const {
  return expr_text(e, syms_, [this](SymId s) -> std::string {
    if (const auto it = lane_arrays_.find(s); it != lane_arrays_.end()) return it->second + "[l]";
    const auto it = names_.find(s);
    AOTC_CHECK(it != names_.end(), "symbol {} of an index is not known here", syms_[s].name);
    return lane_ && s == *lane_ ? fmt::format("({} + l)", it->second.text) : it->second.text;
  });
}

/// The part of a sum that a table gives: its terms that only the lane decides, if they are not in proportion to it.
std::optional<Expr> Scopes::of_table(const Expr& e) const {
  if (!lane_ || syms_.interval(Expr::symbol(*lane_)).min < 0 || syms_.interval(Expr::symbol(*lane_)).max >= kMostTabled)
    return std::nullopt;
  Expr own = 0;
  for (const Expr::Term& t : e.terms()) {
    const Expr x = value_of(t);
    if (x.symbols() == std::set<SymId>{*lane_}) own += x;
  }
  const Interval range = syms_.interval(own);
  if (own.linear_coefficient(*lane_) || range.min < INT32_MIN || range.max > INT32_MAX) return std::nullopt;
  return own;
}

std::string Scopes::lane_table(const Expr& e) {
  const auto [it, fresh_one] = tables_.try_emplace(e.str(syms_), "");
  if (fresh_one) {
    it->second = fresh("places");
    std::string values;
    for (int64_t i = 0, n = syms_.interval(Expr::symbol(*lane_)).max; i <= n; ++i)
      values += fmt::format("{}{}", i ? ", " : "", e.eval([&](SymId) { return i; }));
    add(kFunction,
        fmt::format("static const int32_t {}[{} + AOTC_L] = {{{}}};", it->second, syms_.interval(Expr::symbol(*lane_)).max + 1, values));
  }
  return fmt::format("ld({} + {}, full())", it->second, names_.at(*lane_).text);
}

/// The least and the largest of a table's values.
Interval Scopes::tabled(const Expr& e) const {
  Interval all{INT64_MAX, INT64_MIN};
  for (int64_t i = 0, n = syms_.interval(Expr::symbol(*lane_)).max; i <= n; ++i) {
    const int64_t x = e.eval([&](SymId) { return i; });
    all = {std::min(all.min, x), std::max(all.max, x)};
  }
  return all;
}

std::optional<Scopes::Near> Scopes::near_lanes(const Expr& e, int64_t most) {
  const auto own = of_table(e);
  if (!own || varies(e - *own)) return std::nullopt;
  const Interval range = tabled(*own);
  if (range.max - range.min >= most) return std::nullopt;
  return Near{e - *own + range.min, range.max - range.min + 1, lane_table(*own - range.min)};
}

std::optional<std::string> Scopes::text_of_lanes(const Expr& e, const std::map<SymId, std::string>& vectors) {
  const auto within = [&](const Expr& x, int64_t least) {
    const Interval range = syms_.interval(x);
    return range.min >= least && range.max <= INT32_MAX;
  };
  if (!within(e, INT32_MIN)) return std::nullopt;
  if (!varies(e)) return fmt::format("ki(static_cast<int32_t>({}))", text(e));
  if (const std::optional<SymId> s = e.as_symbol()) {
    if (const auto it = vectors.find(*s); it != vectors.end()) return fmt::format("to_i32({})", it->second);
    if (lane_ && *s == *lane_) return fmt::format("(ki(static_cast<int32_t>({})) + iota32())", text(e));
    return std::nullopt;
  }
  std::string sum;
  if (const auto own = of_table(e)) {
    const Expr others = e - *own;
    const auto rest = others.is(0) ? std::string() : text_of_lanes(others, vectors);
    if (rest) return fmt::format("({}{}{})", *rest, rest->empty() ? "" : " + ", lane_table(*own));
  }
  for (const Expr::Term& t : e.terms()) {
    sum += fmt::format("{}ki({})", sum.empty() ? "" : " + ", t.coef);
    if (t.coef < INT32_MIN || t.coef > INT32_MAX) return std::nullopt;
    for (const Expr::Atom& a : t.atoms) {
      std::optional<std::string> factor;
      if (a.kind == Expr::AtomKind::symbol) {
        factor = text_of_lanes(Expr::symbol(a.sym), vectors);
      } else if (const auto x = text_of_lanes(a.a, vectors)) {
        const bool quotient = a.kind == Expr::AtomKind::floordiv, rest = a.kind == Expr::AtomKind::mod;
        const int64_t by = a.b.as_const().value_or(0);
        if ((quotient || rest) && by > 0 && by <= INT32_MAX && within(a.a, 0))
          factor = fmt::format("({} {} {})", *x, quotient ? "/" : "%", by);
        if (const auto y = quotient || rest ? std::nullopt : text_of_lanes(a.b, vectors))
          factor = fmt::format("{}({}, {})", a.kind == Expr::AtomKind::min ? "v_minimum" : "v_maximum", *x, *y);
      }
      if (!factor) return std::nullopt;
      sum += " * " + *factor;
    }
  }
  return "(" + sum + ")";
}

std::string Scopes::scalar(const Expr& e) {
  if (e.is_const() || e.as_symbol()) return text(e);
  const std::string key = e.str(syms_);
  if (const auto it = scalars_.find(key); it != scalars_.end()) return it->second.text;
  const int r = rank(e);
  const std::string name = fresh("e");
  add(r, fmt::format("const int64_t {} = {};", name, text(e)));
  scalars_[key] = {r, name};
  return name;
}

void Scopes::open_lanes(SymId lane, int segment_rank, std::string lane_text) {
  lane_ = lane;
  segment_rank_ = segment_rank;
  segmented_ = false;
  quotients_.clear();
  define(lane, segment_rank + 1, std::move(lane_text));
}

void Scopes::close_lanes() {
  lane_.reset();
  quotients_.clear();
}

std::string Scopes::at_segment(const Expr& e) const {
  return expr_text(e, syms_, [this](SymId s) { return s == *lane_ ? std::string("z") : names_.at(s).text; });
}

void Scopes::cut(const Expr& e, int64_t k) {
  segmented_ = true;
  add(segment_rank_, fmt::format("ze = imin(ze, z + steps_to_sign_change({}, {}L));", at_segment(e), k));
}

/// floordiv(a, b) as a symbol that is constant within a segment; `a` is frozen already.
std::optional<Expr> Scopes::quotient(const Expr& a, const Expr& b) {
  if (b.depends_on(*lane_) || by_lane(b) || by_lane(a)) return std::nullopt;
  const auto slope = a.linear_coefficient(*lane_);
  const auto k = slope ? slope->as_const() : std::nullopt;
  if (!k) return std::nullopt;
  const int64_t divisor = syms_.hint(b);
  if (*k != 0 && divisor / std::abs(*k) < kLeastSegment) return std::nullopt;
  if (rank(a.substitute({{*lane_, Expr(0)}})) > segment_rank_ || rank(b) > segment_rank_) return std::nullopt;
  const std::string key = a.str(syms_) + " // " + b.str(syms_);
  if (const auto it = quotients_.find(key); it != quotients_.end()) return Expr::symbol(it->second);
  SymInfo info;
  info.name = fresh("q");
  info.kind = SymKind::value;
  const Interval range = syms_.interval(floordiv(a, b));
  info.min = range.min;
  info.max = range.max;
  const SymId q = syms_.add(info);
  const std::string name = syms_[q].name;
  define(q, segment_rank_, name);
  quotients_[key] = q;
  add(segment_rank_, fmt::format("const int64_t {} = {};", name,
                                 expr_text(floordiv(a, b), syms_, [this](SymId s) { return s == *lane_ ? "z" : names_.at(s).text; })));
  if (*k > 0) cut(a - (Expr::symbol(q) + 1) * b, *k);
  if (*k < 0) cut(a - Expr::symbol(q) * b, *k);
  return Expr::symbol(q);
}

/// The expression with every division that depends on the lane replaced by a segment symbol.
std::optional<Expr> Scopes::freeze(const Expr& e) {
  if (!e.depends_on(*lane_)) return e;
  Expr sum = 0;
  for (const Expr::Term& t : e.terms()) {
    Expr factor = t.coef;
    for (const Expr::Atom& a : t.atoms) {
      if (a.kind == Expr::AtomKind::symbol) {
        factor *= Expr::symbol(a.sym);
        continue;
      }
      const auto x = freeze(a.a), y = freeze(a.b);
      if (!x || !y) return std::nullopt;
      const bool lane_free = !x->depends_on(*lane_) && !y->depends_on(*lane_);
      const bool min_max = a.kind == Expr::AtomKind::min || a.kind == Expr::AtomKind::max;
      if (min_max) {
        if (!lane_free) return std::nullopt;
        factor *= a.kind == Expr::AtomKind::min ? min(*x, *y) : max(*x, *y);
      } else if (lane_free) {
        factor *= a.kind == Expr::AtomKind::mod ? mod(*x, *y) : floordiv(*x, *y);
      } else {
        const auto q = quotient(*x, *y);
        if (!q) return std::nullopt;
        factor *= a.kind == Expr::AtomKind::floordiv ? *q : *x - *q * *y;
      }
    }
    sum += factor;
  }
  return sum;
}

/// The same; where a part of it cannot be, no segment is cut for the others.
std::optional<Expr> Scopes::freeze_whole(const Expr& e) {
  const std::string text = text_[segment_rank_];
  const auto quotients = quotients_;
  const bool segmented = segmented_;
  const auto frozen = freeze(e);
  if (!frozen) text_[segment_rank_] = text, quotients_ = quotients, segmented_ = segmented;
  return frozen;
}

LaneIndex Scopes::classify(const Expr& e) {
  LaneIndex r;
  if (by_lane(e)) return r;
  if (!varies(e)) {
    r.kind = LaneIndex::uniform;
    r.base = e;
    return r;
  }
  const auto frozen = freeze_whole(e);
  if (!frozen) return r;
  const auto slope = frozen->linear_coefficient(*lane_);
  if (!slope || slope->depends_on(*lane_)) return r;
  r.base = frozen->substitute({{*lane_, Expr(0)}});
  r.stride = *slope;
  r.kind = slope->is(0)    ? LaneIndex::uniform
           : slope->is(1)  ? LaneIndex::contiguous
           : slope->is(-1) ? LaneIndex::backward
                           : LaneIndex::strided;
  return r;
}

std::optional<std::string> Scopes::constant_sign(const Expr& d, bool at_zero, bool at_one) {
  if (!lane_ || !d.depends_on(*lane_) || by_lane(d)) return std::nullopt;
  const auto f = freeze_whole(d);
  if (!f) return std::nullopt;
  const auto slope = f->linear_coefficient(*lane_);
  const auto k = slope ? slope->as_const() : std::nullopt;
  if (!k || rank(f->substitute({{*lane_, Expr(0)}})) > segment_rank_) return std::nullopt;
  if (*k != 0 && at_zero) cut(*f, *k);
  if (*k != 0 && at_one) cut(*f - 1, *k);
  return at_segment(*f);
}

}  // namespace aotc::emit::cpu
