#include "plan/memory.h"

#include <algorithm>

#include "plan/packing.h"

namespace aotc::plan {

namespace {

constexpr size_t kMaxAlternatives = 6;

/// The maximum of several Exprs, few of them, none of which another one is known to exceed.
class Maximum {
 public:
  explicit Maximum(const SymTable& syms) : syms_(syms) {}
  void add(const Expr& e) {
    for (const Expr& x : of_)
      if (syms_.proves_le(e, x)) return;
    of_.erase(std::remove_if(of_.begin(), of_.end(), [&](const Expr& x) { return syms_.proves_le(x, e); }), of_.end());
    of_.push_back(e);
    while (of_.size() > kMaxAlternatives) {
      const Expr a = of_.back(), b = of_[of_.size() - 2];
      of_.resize(of_.size() - 2);
      add(join(a, b));
    }
  }
  void add(const Maximum& m, const Expr& plus) {
    for (const Expr& e : m.of_) add(e + plus);
  }
  Expr expr() const {
    Expr r = of_.empty() ? Expr(0) : of_[0];
    for (size_t i = 1; i < of_.size(); ++i) r = max(r, of_[i]);
    return r;
  }

 private:
  /// Something that neither exceeds. Where no product of atoms is negative: the larger coefficient of each.
  Expr join(const Expr& a, const Expr& b) const {
    Expr one = a;
    const Expr difference = b - a;
    for (const Expr::Term& t : difference.terms()) {
      Expr p = 1;
      for (const Expr::Atom& x : t.atoms) p *= atom(x);
      if (!t.atoms.empty() && syms_.interval(p).min < 0) return a + b;  // sizes and offsets are not negative
      if (t.coef > 0) one += p * t.coef;
    }
    return syms_.simplify(align_up(one, kArenaAlign));
  }
  static Expr atom(const Expr::Atom& x) {
    switch (x.kind) {
      case Expr::AtomKind::symbol: return Expr::symbol(x.sym);
      case Expr::AtomKind::floordiv: return floordiv(x.a, x.b);
      case Expr::AtomKind::mod: return mod(x.a, x.b);
      case Expr::AtomKind::min: return min(x.a, x.b);
      default: return max(x.a, x.b);
    }
  }

  const SymTable& syms_;
  std::vector<Expr> of_;
};

/// Items that share storage by in-place reuse are one.
struct Storage {
  Expr bytes;
  LiveRange live;
};

}  // namespace

MemoryPlan plan_memory(const std::vector<MemoryItem>& items, const SymTable& syms) {
  std::vector<size_t> storage_of(items.size());
  std::vector<Storage> all;
  for (size_t i = 0; i < items.size(); ++i) {
    const MemoryItem& m = items[i];
    if (m.in_place_of) {
      AOTC_CHECK(*m.in_place_of < i, "in-place items follow what they replace");
      Storage& s = all[storage_of[i] = storage_of[*m.in_place_of]];
      if (s.bytes != m.bytes) s.bytes = syms.simplify(max(s.bytes, m.bytes));
      s.live.begin = std::min(s.live.begin, m.live.begin);
      s.live.end = std::max(s.live.end, m.live.end);
    } else {
      storage_of[i] = all.size();
      all.push_back({m.bytes, m.live});
    }
  }
  const size_t n = all.size();
  std::vector<LiveRange> lives;
  std::vector<int64_t> sizes;
  for (Storage& s : all) {
    s.bytes = syms.simplify(align_up(s.bytes, kArenaAlign));
    lives.push_back(s.live);
    const int64_t hint = std::max<int64_t>(syms.hint(s.bytes), 0);
    sizes.push_back((hint + kArenaAlign - 1) / kArenaAlign * kArenaAlign);
  }
  const Packed packed = pack_intervals(lives, sizes);

  // By place at the hint; what lives at the same time and comes earlier lies below.
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::tuple(packed.offsets[a], sizes[a], a) < std::tuple(packed.offsets[b], sizes[b], b); });
  std::vector<Maximum> offset(n, Maximum(syms));
  Maximum arena(syms);
  std::vector<std::vector<bool>> below(n, std::vector<bool>(n, false));
  for (size_t k = 0; k < n; ++k) {
    const size_t i = order[k];
    std::vector<size_t> under;
    for (size_t q = 0; q < k; ++q)
      if (overlap(lives[i], lives[order[q]])) under.push_back(order[q]), below[i][order[q]] = true;
    for (size_t j : under) {
      // What lies below something that lies below i needs no relation of its own.
      if (std::any_of(under.begin(), under.end(), [&](size_t m) { return below[m][j]; })) continue;
      offset[i].add(offset[j], all[j].bytes);
    }
    if (under.empty()) offset[i].add(Expr(0));
    arena.add(offset[i], all[i].bytes);
  }
  MemoryPlan plan;
  for (size_t i = 0; i < items.size(); ++i) plan.offsets.push_back(offset[storage_of[i]].expr());
  plan.arena_bytes = arena.expr();
  return plan;
}

}  // namespace aotc::plan
