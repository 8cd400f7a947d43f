#include <algorithm>

#include "sym/detail.h"

namespace aotc {

SymTable::SymTable() : simplified_(std::make_shared<sym::Simplified>()) {}

SymInfo& SymTable::edit(SymId s) {
  simplified_ = std::make_shared<sym::Simplified>();
  return syms_[s];
}

SymId SymTable::add(SymInfo info) {
  simplified_ = std::make_shared<sym::Simplified>();
  if (info.name.empty()) info.name = "s";
  if (find(info.name)) {
    std::string base = info.name;
    for (int n = 1; find(info.name); ++n) info.name = fmt::format("{}_{}", base, n);
  }
  return syms_.push(std::move(info));
}

std::optional<SymId> SymTable::find(std::string_view name) const {
  for (size_t i = 0; i < syms_.size(); ++i)
    if (syms_.raw()[i].name == name) return static_cast<SymId>(i);
  return std::nullopt;
}

Interval SymTable::interval(const Expr& e) const {
  const sym::Prover p(*this);
  Interval r = p.interval(e);
  if (e.is_const()) return r;
  if (auto lo = p.bound(e, false)) r.min = std::max(r.min, p.interval(*lo).min);
  if (auto hi = p.bound(e, true)) r.max = std::min(r.max, p.interval(*hi).max);
  if (r.max < r.min) r.max = r.min;  // the domain is empty: any answer is right, but an interval is not
  return r;
}

bool SymTable::proves_eq(const Expr& a, const Expr& b) const { return a == b || simplify(a - b).is(0); }

bool SymTable::proves_ne(const Expr& a, const Expr& b) const {
  const Expr d = simplify(a - b);
  const sym::Prover p(*this);
  if (p.nonneg(d - 1) || p.nonneg(-d - 1)) return true;
  const int64_t k = sym::constant_part(d), m = p.multiple_of(sym::without_constant(d));
  return m != 0 && k % m != 0;
}

bool SymTable::proves_le(const Expr& a, const Expr& b) const {
  const sym::Prover p(*this);
  const Expr d = b - a;
  if (p.nonneg(d)) return true;
  if (sym::is_plain(d)) return false;
  const Expr s = simplify(d);
  return s != d && p.nonneg(s);
}

bool SymTable::proves_lt(const Expr& a, const Expr& b) const { return proves_le(a + 1, b); }

bool SymTable::proves_divisible(const Expr& a, int64_t by) const {
  AOTC_CHECK(by != 0);
  const sym::Prover p(*this);
  auto whole = [&](const Expr& e) { return p.multiple_of(e) % by == 0; };
  return whole(a) || mod(a, by).is(0) || simplify(mod(a, by)).is(0) || whole(simplify(a));
}

std::optional<int64_t> SymTable::exported(const Expr& e) const {
  return e.try_eval([this](SymId s) { return syms_[s].exported; });
}

int64_t SymTable::hint(const Expr& e) const {
  auto value = [this](SymId s) -> std::optional<int64_t> {
    const SymInfo& i = syms_[s];
    if (i.extent) return std::max<int64_t>(i.min, hint(*i.extent) - 1);
    if (!i.tune.empty()) return *std::max_element(i.tune.begin(), i.tune.end());
    const int64_t m = std::max<int64_t>(i.multiple_of, 1);
    if (i.max <= 4096) return std::max(i.min, i.max - sym::floor_mod(i.max, m));
    const int64_t v = std::max<int64_t>(i.min, 128), up = v + sym::floor_mod(-v, m);
    return up <= i.max ? up : v;
  };
  if (auto v = e.try_eval(value)) return *v;
  const Interval i = interval(e);
  return i.min != INT64_MIN ? i.min : (i.max != kInf ? i.max : 0);
}

}  // namespace aotc
