#include "loop/live.h"

#include <algorithm>
#include <map>
#include <set>

namespace aotc::loop {

namespace {

/// What a block's instructions use of each other.
class Uses {
 public:
  Uses(const LoopKernel& k, const Block& b) : k_(k) {
    std::map<SymId, InstId> binders;
    const std::set<InstId> here(b.insts.begin(), b.insts.end());
    for (InstId id : b.insts)
      if (k.insts[id].bind != kNone<SymId>) binders[k.insts[id].bind] = id;
    for (InstId id : b.insts) {
      const Inst& i = k.insts[id];
      std::vector<InstId>& used = used_[id];
      const auto add = [&](InstId x) {
        if (x != kNone<InstId> && here.count(x) && std::find(used.begin(), used.end(), x) == used.end()) used.push_back(x);
      };
      for (InstId a : i.args) add(a);
      add(i.mask);
      for (SymId s : i.index.symbols())
        if (const auto it = binders.find(s); it != binders.end()) add(it->second);
    }
    for (const Block& other : k.blocks) {
      if (&other == &b) continue;
      for (InstId id : other.insts) {
        const Inst& i = k.insts[id];
        used_outside_.insert(i.args.begin(), i.args.end());
        used_outside_.insert(i.mask);
        for (SymId s : i.index.symbols())
          if (const auto it = binders.find(s); it != binders.end()) used_outside_.insert(it->second);
      }
    }
  }

  const std::vector<InstId>& of(InstId i) const { return used_.at(i); }
  bool outside(InstId i) const { return used_outside_.count(i) > 0; }

  int most_live(const std::vector<InstId>& order) const {
    std::map<InstId, size_t> last;
    for (size_t at = 0; at < order.size(); ++at)
      for (InstId u : of(order[at])) last[u] = at;
    for (InstId id : order)
      if (outside(id)) last[id] = order.size();
    std::vector<int> ends(order.size() + 1, 0);
    int live = 0, most = 0;
    for (size_t at = 0; at < order.size(); ++at) {
      live -= ends[at];
      const auto it = last.find(order[at]);
      if (k_.insts[order[at]].kind == InstKind::constant || it == last.end()) continue;
      ++live, ++ends[it->second];
      most = std::max(most, live);
    }
    return most;
  }

 private:
  const LoopKernel& k_;
  std::map<InstId, std::vector<InstId>> used_;
  std::set<InstId> used_outside_;
};

/// Whether an instruction may move anywhere between what it uses and what uses it, loads but for stores.
bool moves(const LoopKernel& k, const Inst& i) {
  if (i.bind != kNone<SymId>) return false;
  if (i.kind == InstKind::load) return k.params[i.param].role == ParamRole::input;
  return i.kind == InstKind::op || i.kind == InstKind::constant || i.kind == InstKind::index;
}

}  // namespace

int most_live(const LoopKernel& k, const Block& b, const std::vector<InstId>& order) { return Uses(k, b).most_live(order); }

std::vector<InstId> order_of_few_live(const LoopKernel& k, const Block& b, int enough) {
  if (b.insts.size() <= static_cast<size_t>(enough)) return b.insts;
  const Uses uses(k, b);
  const int most = uses.most_live(b.insts);
  if (most <= enough) return b.insts;
  // Sethi and Ullman, "The generation of optimal code for arithmetic expressions", 1970, of the graph as if it were a tree: what needs the
  // most is made first, while nothing else is held.
  std::map<InstId, int> need;
  std::map<InstId, std::vector<InstId>> operands;
  for (InstId id : b.insts) {
    std::vector<InstId> sorted = uses.of(id);
    std::stable_sort(sorted.begin(), sorted.end(), [&](InstId x, InstId y) { return need.at(x) > need.at(y); });
    int n = k.insts[id].kind == InstKind::constant ? 0 : 1;
    for (size_t j = 0; j < sorted.size(); ++j) n = std::max(n, need.at(sorted[j]) + static_cast<int>(j));
    need[id] = n, operands[id] = std::move(sorted);
  }
  std::vector<InstId> order;
  std::set<InstId> done;
  const auto make = [&](InstId wanted) {
    std::vector<std::pair<InstId, size_t>> open;
    if (done.insert(wanted).second) open.emplace_back(wanted, 0);
    while (!open.empty()) {
      const auto [id, next] = open.back();
      if (next == operands.at(id).size()) {
        order.push_back(id);
        open.pop_back();
        continue;
      }
      ++open.back().second;
      const InstId operand = operands.at(id)[next];
      if (done.insert(operand).second) open.emplace_back(operand, 0);
    }
  };
  std::vector<InstId> loads;  // that were met and must not pass the next store
  for (InstId id : b.insts) {
    const Inst& i = k.insts[id];
    if (moves(k, i)) {
      if (i.kind == InstKind::load) loads.push_back(id);
      continue;
    }
    if (i.kind == InstKind::store) {
      for (InstId a : operands.at(id)) make(a);
      for (InstId load : loads) make(load);
      loads.clear();
    }
    make(id);
  }
  for (InstId id : b.insts) make(id);
  return uses.most_live(order) < most ? order : b.insts;
}

}  // namespace aotc::loop
