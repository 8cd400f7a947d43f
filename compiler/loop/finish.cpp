#include "loop/finish.h"

#include <algorithm>
#include <map>
#include <set>

#include "loop/tidy.h"

namespace aotc::loop {
namespace {

bool is_access(const Inst& i) { return i.kind == InstKind::load || i.kind == InstKind::store; }

/// These variables, and the values loaded at places that they decide.
std::set<SymId> decided_by(const LoopKernel& k, std::set<SymId> vars) {
  std::vector<char> depends(k.insts.size(), 0);
  for (size_t n = 0; n < k.insts.size(); ++n) {
    const Inst& i = k.insts[static_cast<InstId>(n)];
    const std::set<SymId> at = i.index.symbols();
    depends[n] = std::any_of(at.begin(), at.end(), [&](SymId s) { return vars.count(s) > 0; }) ||
                 std::any_of(i.args.begin(), i.args.end(), [&](InstId a) { return depends[idx(a)] != 0; });
    if (depends[n] && i.bind != kNone<SymId>) vars.insert(i.bind);
  }
  return vars;
}

bool moves_with(const Inst& i, const std::set<SymId>& vars) {
  const std::set<SymId> at = i.index.symbols();
  return std::any_of(at.begin(), at.end(), [&](SymId s) { return vars.count(s) > 0; });
}

/// How many accesses run along consecutive elements when v runs, and where one does how many load the same element; stores count twice,
/// what happens once a row counts little.
int contiguous_score(const LoopKernel& k, SymId v) {
  std::set<SymId> inner;
  for (const LoopVar& x : k.inner) inner.insert(x.sym);
  inner = decided_by(k, std::move(inner));
  const std::set<SymId> by_v = decided_by(k, {v});
  int runs = 0, stays = 0;
  for (const Inst& i : k.insts) {
    if (!is_access(i)) continue;
    const bool often = k.inner.empty() || moves_with(i, inner);
    const int weight = (i.kind == InstKind::store ? 2 : 1) * (often ? 16 : 1);
    if (const auto c = i.index.linear_coefficient(v); c && c->is(1))
      runs += weight;
    else if (i.kind == InstKind::load && !moves_with(i, by_v))
      stays += weight;
  }
  return runs > 0 ? runs + stays : 0;
}

/// The same, less where lanes stay empty.
int lane_score(const LoopKernel& k, const LoopVar& v, int64_t lanes) {
  const int64_t points = std::max<int64_t>(k.syms.hint(v.extent), 1);
  return static_cast<int>(contiguous_score(k, v.sym) * std::min(points, lanes) / lanes);
}

/// Whether all accesses step evenly when v runs, if not by one element, and stay near each other.
bool steps_evenly(const LoopKernel& k, SymId v) {
  constexpr int64_t kFarBytes = 4096;  // where the lines of all lanes lie in the same places of a cache
  return std::all_of(k.insts.begin(), k.insts.end(), [&](const Inst& i) {
    if (!is_access(i)) return true;
    const auto step = i.index.linear_coefficient(v);
    const auto elements = step ? step->as_const() : std::nullopt;
    return elements && std::abs(*elements) * dtype_bytes(k.params[i.param].dtype) < kFarBytes;
  });
}

/// Position of the best variable to run lanes along; ties go to the last.
size_t best_lane(const LoopKernel& k, const std::vector<LoopVar>& vars, int64_t lanes, int* score) {
  size_t best = vars.empty() ? 0 : vars.size() - 1;
  *score = vars.empty() ? 0 : lane_score(k, vars[best], lanes);
  for (size_t i = vars.size(); i-- > 0;)
    if (const int s = lane_score(k, vars[i], lanes); s > *score) {
      *score = s;
      best = i;
    }
  return best;
}

/// Position of the variable that fills lanes by steps of more than an element, where the best one leaves most of them empty, as pairs do.
size_t filled_lane(const LoopKernel& k, const std::vector<LoopVar>& vars, int64_t lanes, size_t best) {
  constexpr int64_t kFewLanes = 4;
  const auto points = [&](size_t i) { return k.syms.hint(vars[i].extent); };
  if (vars.empty() || points(best) * kFewLanes > lanes) return best;
  for (size_t i = vars.size(); i-- > 0;)
    if (points(i) >= lanes && steps_evenly(k, vars[i].sym)) return i;
  return best;
}

/// Few points whose loads step far where neighbours of another loop lie side by side.
bool reads_across(const LoopKernel& k) {
  constexpr int64_t kLeastPoints = 4, kLeastStep = 8, kLeastAcross = 16;
  const SymId lane = k.outer.back().sym;
  if (k.syms.hint(k.outer.back().extent) < kLeastPoints) return false;
  return std::any_of(k.insts.begin(), k.insts.end(), [&](const Inst& i) {
    const auto step = i.index.linear_coefficient(lane);
    if (i.kind != InstKind::load || i.mask != kNone<InstId> || !step || step->as_const().value_or(kLeastStep) < kLeastStep) return false;
    return std::any_of(k.outer.begin(), k.outer.end() - 1, [&](const LoopVar& v) {
      const auto along = i.index.linear_coefficient(v.sym);
      return along && along->is(1) && k.syms.hint(v.extent) >= kLeastAcross;
    });
  });
}

void move_last(std::vector<LoopVar>& vars, size_t at) {
  if (!vars.empty()) std::rotate(vars.begin() + static_cast<long>(at), vars.begin() + static_cast<long>(at) + 1, vars.end());
}

/// Whether a and b, neighbours with b inside, count through all indices as one variable would.
bool merges(const LoopKernel& k, const LoopVar& a, const LoopVar& b) {
  for (const Inst& i : k.insts) {
    if (!is_access(i) && i.kind != InstKind::index) continue;
    const auto ca = i.index.linear_coefficient(a.sym), cb = i.index.linear_coefficient(b.sym);
    if (!ca || !cb || ca->depends_on(b.sym) || *ca != *cb * b.extent) return false;
  }
  return true;
}

void merge_loops(LoopKernel& k, std::vector<LoopVar>& vars) {
  for (size_t i = vars.size(); i-- > 1;) {
    if (!merges(k, vars[i - 1], vars[i])) continue;
    const SymMap gone{{vars[i - 1].sym, Expr(0)}};
    for (Inst& inst : k.insts) inst.index = inst.index.substitute(gone);
    vars[i].extent = vars[i - 1].extent * vars[i].extent;
    k.syms.edit(vars[i].sym).extent = vars[i].extent;
    vars.erase(vars.begin() + static_cast<long>(i) - 1);
  }
}

/// Few long rows without reductions: cut into equal pieces, so that there is work for the whole machine.
void cut_rows(LoopKernel& k, const FusionRules& rules) {
  const auto length = k.inner.back().extent.as_const();
  int64_t rows = k.syms.hint(k.outer_points()), pieces = 1;
  if (!length) return;
  const auto halves = [&](int64_t n) { return *length % n == 0 && *length / n >= rules.unit_points && *length / n % 16 == 0; };
  while (rows * pieces < rules.units && halves(pieces * 2)) pieces *= 2;
  if (pieces == 1) return;
  SymInfo s;
  s.name = "piece";
  s.kind = SymKind::loop;
  s.extent = Expr(pieces);
  const SymId piece = k.syms.add(s), old = k.inner.back().sym;
  const Expr part = *length / pieces;
  k.syms.edit(old).extent = part;
  k.inner.back().extent = part;
  k.outer.push_back({piece, Expr(pieces)});
  const SymMap to{{old, Expr::symbol(piece) * part + Expr::symbol(old)}};
  for (Inst& i : k.insts) i.index = i.index.substitute(to);
}

/// Short rows that fill lanes and have many accesses a reduction: lanes along rows step over most of what they access, and the lines of all
/// those accesses do not stay in L1 until the next point comes.
bool many_streams(const LoopKernel& k, SymId row, SymId point) {
  constexpr int kStreamsAReduction = 8;
  int streams = 0, reductions = 0;
  for (const Inst& i : k.insts) {
    reductions += i.kind == InstKind::reduce;
    if (!is_access(i)) continue;
    const auto along = i.index.linear_coefficient(point), across = i.index.linear_coefficient(row);
    streams += along && along->is(1) && across && !across->is(0) && !across->is(1);
  }
  return streams > kStreamsAReduction * std::max(reductions, 1);
}

void choose_loops(LoopKernel& k, const FusionRules& rules) {
  bool ordered = false, scans = false;  // the order of inner points matters
  for (const Inst& i : k.insts) {
    const bool arg = i.reduce_kind == ReduceKind::argmax || i.reduce_kind == ReduceKind::argmin;
    ordered = ordered || i.kind == InstKind::scan || (i.kind == InstKind::reduce && arg);
    scans = scans || i.kind == InstKind::scan;
  }
  int outer_score = 0, inner_score = 0;
  const size_t outer_best = best_lane(k, k.outer, rules.lanes, &outer_score);
  if (k.inner.empty()) {
    move_last(k.outer, rules.lane_steps ? filled_lane(k, k.outer, rules.lanes, outer_best) : outer_best);
    merge_loops(k, k.outer);
    k.lanes = k.outer.empty() ? LaneAxis::none : LaneAxis::outer;
    if (k.outer.size() > 1 && (k.syms.hint(k.outer.back().extent) >= 16 || (rules.lane_steps && reads_across(k)))) {
      k.inner = {k.outer.back()};
      k.outer.pop_back();
      k.lanes = LaneAxis::inner;
      cut_rows(k, rules);
    }
    return;
  }
  const size_t inner_best = best_lane(k, k.inner, rules.lanes, &inner_score);
  const int64_t points = k.syms.hint(k.inner_points());
  const bool fills = rules.lane_steps && points >= rules.lanes && !k.outer.empty() && k.syms.hint(k.outer[outer_best].extent) < rules.lanes;
  const bool small_rows = points < 32 && !fills &&
                          !(rules.lanes > 1 && points % rules.lanes == 0 && !k.outer.empty() &&
                            many_streams(k, k.outer[outer_best].sym, k.inner[inner_best].sym));
  if (!k.outer.empty() && outer_score > 0 && (scans || small_rows || outer_score > inner_score)) {
    k.lanes = LaneAxis::outer;
    move_last(k.outer, outer_best);
  } else {
    k.lanes = scans ? LaneAxis::none : LaneAxis::inner;
    if (!ordered) move_last(k.inner, inner_best);
  }
  merge_loops(k, k.outer);
  if (!scans) merge_loops(k, k.inner);
}

/// New symbol table with only what is used: loop symbols i0.. and r0.., value symbols x0.. in order of definition, one an instruction that
/// binds.
void canonical_symbols(LoopKernel& k, const SymTable& base) {
  SymTable syms = base;
  SymMap to;
  auto add = [&](const std::string& name, SymKind kind, std::optional<Expr> extent) {
    SymInfo s;
    s.name = name;
    s.kind = kind;
    s.extent = std::move(extent);
    return syms.add(s);
  };
  auto loops = [&](std::vector<LoopVar>& vars, const char* letter) {
    for (size_t n = 0; n < vars.size(); ++n) {
      const SymId sym = add(letter + std::to_string(n), SymKind::loop, vars[n].extent);
      to[vars[n].sym] = Expr::symbol(sym);
      vars[n].sym = sym;
    }
  };
  loops(k.outer, "i");
  loops(k.inner, "r");
  int n = 0;
  for (const Block& b : k.blocks) {
    SymMap in_block = to;
    SymMap& known = b.over_inner ? in_block : to;  // what an inner block binds ends with it
    for (const InstId id : b.insts) {
      Inst& i = k.insts[id];
      i.index = i.index.substitute(known);
      if (i.bind == kNone<SymId>) continue;
      const SymId old = i.bind;
      i.bind = add("x" + std::to_string(n++), SymKind::value, k.syms[old].extent);
      known[old] = Expr::symbol(i.bind);
    }
  }
  k.syms = std::move(syms);
}

/// Drops what neither stores nor checks need.
void drop_unused(LoopKernel& k) {
  std::vector<char> used(k.insts.size(), 0);
  std::map<SymId, InstId> binder;
  for (size_t i = 0; i < k.insts.size(); ++i)
    if (const SymId s = k.insts[static_cast<InstId>(i)].bind; s != kNone<SymId>) binder[s] = static_cast<InstId>(i);
  for (size_t i = k.insts.size(); i-- > 0;) {
    const Inst& inst = k.insts[static_cast<InstId>(i)];
    const bool nothing = inst.kind == InstKind::store && product(k.params[inst.param].dims).is(0);
    if ((inst.kind == InstKind::store && !nothing) || inst.kind == InstKind::check) used[i] = 1;
    if (!used[i]) continue;
    for (InstId a : inst.args) used[idx(a)] = 1;
    if (inst.mask != kNone<InstId>) used[idx(inst.mask)] = 1;
    if (!binder.empty())
      for (SymId s : inst.index.symbols())
        if (auto b = binder.find(s); b != binder.end()) used[idx(b->second)] = 1;
  }
  IdVec<InstId, Inst> out;
  std::vector<InstId> to(k.insts.size());
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    Inst inst = k.insts[static_cast<InstId>(i)];
    for (InstId& a : inst.args) a = to[idx(a)];
    if (inst.mask != kNone<InstId>) inst.mask = to[idx(inst.mask)];
    to[i] = out.push(std::move(inst));
  }
  k.insts = std::move(out);
}

}  // namespace

void finish(LoopKernel& k, const SymTable& base, Loops loops, const FusionRules& rules) {
  drop_unused(k);
  if (loops == Loops::free)
    choose_loops(k, rules);
  else
    k.lanes = LaneAxis::inner;
  for (Inst& i : k.insts) i.index = k.syms.simplify(i.index);
  schedule(k, rules);
  canonical_symbols(k, base);
  number_insts(k);
}

}  // namespace aotc::loop
