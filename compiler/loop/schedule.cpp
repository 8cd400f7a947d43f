// Blocks. A reduction splits the work of a row into stages: stage 0 is what needs no reduction, stage s+1 what needs the result of a
// reduction in stage s. Each stage is an outer block and then an inner block.
#include <algorithm>
#include <climits>
#include <map>

#include "graph/pointwise.h"
#include "loop/finish.h"

namespace aotc::loop {
namespace {

constexpr int kCloneCost = 3;  ///< simple operations worth repeating instead of keeping a row of values

class Scheduler {
 public:
  /// `keep`: values of a row may be kept.
  Scheduler(LoopKernel& k, bool keep, const FusionRules& rules) : k_(k), given_(k.insts) {
    Expr points = 1;
    for (const LoopVar& v : k.inner) {
      local_dims_.push_back(v.extent);
      points *= v.extent;
      const Interval extent = k.syms.interval(v.extent);
      one_or_none_ = one_or_none_ || (extent.min <= 0 && extent.max == 1);
    }
    for (size_t i = 0; i < k.inner.size(); ++i) local_index_ = local_index_ * k.inner[i].extent + Expr::symbol(k.inner[i].sym);
    keep_ = keep && k.lanes != LaneAxis::outer && k.syms.hint(points) <= rules.row_points;
  }

  void run() {
    const size_t n = k_.insts.size();
    analyse();
    sink();
    int last = 0;
    for (size_t i = 0; i < n; ++i) last = std::max(last, stage_[i]);
    outer_.resize(static_cast<size_t>(last) + 1);
    inner_.resize(static_cast<size_t>(last) + 1);
    for (int s = 0; s <= last; ++s) {
      for (size_t i = 0; i < n; ++i) {
        if (stage_[i] != s) continue;
        const InstId id = static_cast<InstId>(i);
        if (!runs_inner(id)) {
          outer_[static_cast<size_t>(s)].push_back(id);
          continue;
        }
        Inst inst = k_.insts[id];
        take_operands(inst, s);
        k_.insts[id] = std::move(inst);
        inner_[static_cast<size_t>(s)].push_back(id);
      }
    }
    share_locals();
    for (size_t s = 0; s < outer_.size(); ++s) {
      if (!outer_[s].empty()) k_.blocks.push_back({false, std::move(outer_[s])});
      if (!inner_[s].empty()) k_.blocks.push_back({true, std::move(inner_[s])});
    }
  }

 private:
  /// Executed once per inner point. (The result of a reduction is a value of the row.)
  bool runs_inner(InstId i) const { return varies_[idx(i)] || k_.insts[i].kind == InstKind::reduce; }

  void analyse() {
    const size_t n = k_.insts.size();
    varies_.assign(n, 0);
    stage_.assign(n, 0);
    for (size_t i = 0; i < n; ++i) {
      const Inst& inst = k_.insts[static_cast<InstId>(i)];
      // Where a loop has one point or none its variable is 0 in indices: what they name is there if the point is.
      bool varies = inst.kind == InstKind::scan || (one_or_none_ && inst.kind == InstKind::load);
      int stage = 0;
      auto use = [&](InstId a) {
        varies = varies || varies_[idx(a)];
        stage = std::max(stage, stage_[idx(a)] + (k_.insts[a].kind == InstKind::reduce ? 1 : 0));
      };
      for (InstId a : inst.args) use(a);
      if (inst.mask != kNone<InstId>) use(inst.mask);
      if (inst.kind == InstKind::load || inst.kind == InstKind::store || inst.kind == InstKind::index)
        for (SymId s : inst.index.symbols()) {
          for (const LoopVar& v : k_.inner) varies = varies || v.sym == s;
          if (auto b = binder_.find(s); b != binder_.end()) use(b->second);
        }
      if (inst.bind != kNone<SymId>) binder_[inst.bind] = static_cast<InstId>(i);
      varies_[i] = varies && inst.kind != InstKind::reduce;
      stage_[i] = stage;
    }
  }

  /// Nothing happens earlier than the first stage that wants it.
  void sink() {
    std::vector<int> wanted(given_.size(), INT_MAX);
    for (size_t i = given_.size(); i-- > 0;) {
      const Inst& inst = given_[static_cast<InstId>(i)];
      const bool free =
          inst.kind == InstKind::op || inst.kind == InstKind::constant || inst.kind == InstKind::index || inst.kind == InstKind::load;
      if (free && wanted[i] != INT_MAX) stage_[i] = std::max(stage_[i], wanted[i]);
      auto use = [&](InstId a) { wanted[idx(a)] = std::min(wanted[idx(a)], stage_[i]); };
      for (InstId a : inst.args) use(a);
      if (inst.mask != kNone<InstId>) use(inst.mask);
      if (!binder_.empty())
        for (SymId s : inst.index.symbols())
          if (auto b = binder_.find(s); b != binder_.end()) use(b->second);
    }
  }

  bool needs_fetch(InstId a, int s) const { return varies_[idx(a)] && stage_[idx(a)] < s; }

  void take_operands(Inst& inst, int s) {
    for (InstId& a : inst.args)
      if (needs_fetch(a, s)) a = fetch(a, s);
    if (inst.mask != kNone<InstId> && needs_fetch(inst.mask, s)) inst.mask = fetch(inst.mask, s);
    if (!binder_.empty())
      for (SymId sym : inst.index.symbols())
        if (auto b = binder_.find(sym); b != binder_.end() && needs_fetch(b->second, s)) fetch(b->second, s);
  }

  int clone_cost(InstId a) const {
    if (!varies_[idx(a)] || locals_.count(a)) return varies_[idx(a)] ? 1 : 0;
    const Inst& inst = given_[a];
    int c = inst.kind == InstKind::op ? pointwise_info(inst.op).cost : 1;
    if (inst.kind == InstKind::constant) c = 0;
    if (inst.kind == InstKind::scan) c = 100000;
    for (InstId x : inst.args) c += clone_cost(x);
    if (inst.mask != kNone<InstId>) c += clone_cost(inst.mask);
    if (!binder_.empty())
      for (SymId sym : inst.index.symbols())
        if (auto b = binder_.find(sym); b != binder_.end() && varies_[idx(b->second)]) c += kCloneCost + 1;
    return std::min(c, 100000);
  }

  /// The value of `a`, of an earlier stage, in the inner block of stage s.
  InstId fetch(InstId a, int s) {
    if (auto it = fetched_.find({a, s}); it != fetched_.end()) return it->second;
    const bool scan = given_[a].kind == InstKind::scan;
    const bool may = (keep_ || scan || holds_scan(a)) && given_[a].bind == kNone<SymId>;
    const bool local = locals_.count(a) || (may && clone_cost(a) > kCloneCost);
    Inst inst;
    if (local) {
      auto [it, fresh] = locals_.emplace(a, kNone<ParamId>);
      if (fresh) {
        const DType t = given_[a].dtype;
        it->second = k_.params.push({"t" + std::to_string(locals_.size() - 1), ParamRole::local, t, local_dims_});
        Inst st;
        st.kind = InstKind::store;
        st.dtype = t;
        st.args = {a};
        st.param = it->second;
        st.index = local_index_;
        inner_[static_cast<size_t>(stage_[idx(a)])].push_back(k_.insts.push(std::move(st)));
        spans_[it->second] = {stage_[idx(a)], s};
      }
      inst.kind = InstKind::load;
      inst.dtype = given_[a].dtype;
      inst.param = it->second;
      inst.index = local_index_;
      spans_[it->second].second = s;
    } else {
      inst = given_[a];
      take_operands(inst, s);
    }
    const InstId id = k_.insts.push(std::move(inst));
    inner_[static_cast<size_t>(s)].push_back(id);
    fetched_[{a, s}] = id;
    return id;
  }

  bool holds_scan(InstId a) const {
    if (!varies_[idx(a)]) return false;
    if (given_[a].kind == InstKind::scan) return true;
    return std::any_of(given_[a].args.begin(), given_[a].args.end(), [&](InstId x) { return holds_scan(x); });
  }

  /// A local whose last reader is in the block that fills another of its type gives it its room: reads come before the store at each point.
  void share_locals() {
    std::map<ParamId, ParamId> to;
    std::vector<std::pair<ParamId, int>> owners;  // and the stage of their last use
    for (const auto& [p, span] : spans_) {
      bool shared = false;
      for (auto& [o, until] : owners)
        if (!shared && until <= span.first && k_.params[o].dtype == k_.params[p].dtype) {
          to[p] = o;
          until = span.second;
          shared = true;
        }
      if (!shared) {
        to[p] = p;
        owners.push_back({p, span.second});
      }
    }
    if (owners.size() == spans_.size()) return;
    IdVec<ParamId, Param> params;
    std::map<ParamId, ParamId> moved;
    for (size_t i = 0; i < k_.params.size(); ++i) {
      const ParamId p = static_cast<ParamId>(i);
      if (to.count(p) && to.at(p) != p) continue;
      moved[p] = params.push(k_.params[p]);
    }
    for (Inst& i : k_.insts)
      if (i.param != kNone<ParamId>) i.param = moved.at(to.count(i.param) ? to.at(i.param) : i.param);
    k_.params = std::move(params);
  }

  LoopKernel& k_;
  const IdVec<InstId, Inst> given_;  ///< as they were before operands were replaced
  Exprs local_dims_;
  Expr local_index_ = 0;
  bool keep_;
  bool one_or_none_ = false;  ///< an inner loop has at most one point, and may have none
  std::vector<char> varies_;
  std::vector<int> stage_;
  std::map<SymId, InstId> binder_;
  std::vector<std::vector<InstId>> outer_, inner_;
  std::map<std::pair<InstId, int>, InstId> fetched_;
  std::map<InstId, ParamId> locals_;
  std::map<ParamId, std::pair<int, int>> spans_;  ///< locals: stage of the store and of the last load
};

}  // namespace

namespace {

/// Bytes of what is kept of one row, over all shapes.
int64_t kept_bytes(const LoopKernel& k) {
  Expr bytes = 0;
  for (const Param& p : k.params)
    if (p.role == ParamRole::local) bytes += align_up(product(p.dims) * dtype_bytes(p.dtype), 16);
  return k.syms.interval(bytes).max;
}

}  // namespace

void schedule(LoopKernel& k, const FusionRules& rules) {
  LoopKernel given = k;
  Scheduler(k, true, rules).run();
  if (kept_bytes(k) <= rules.row_bytes) return;
  Scheduler(given, false, rules).run();
  if (kept_bytes(given) < kept_bytes(k)) k = std::move(given);
}

}  // namespace aotc::loop
