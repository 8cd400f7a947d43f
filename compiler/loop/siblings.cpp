// Horizontal fusion of loop kernels: groups over the same iteration domain that do not depend on each other become one when they read
// the same values, or when they are so small that starting a kernel is what they cost.
#include <algorithm>

#include "loop/partitioner.h"

namespace aotc::loop {
namespace {

constexpr size_t kMaxStores = 8, kMaxMergedNodes = 200;

/// Extents of the loops, as text of a key.
std::vector<Expr> domain(const Group& gr) {
  std::vector<Expr> d;
  for (SymId v : gr.outer) d.push_back(*gr.syms[v].extent);
  d.push_back(Expr(gr.split ? -1 : -2));
  for (SymId v : gr.inner) d.push_back(*gr.syms[v].extent);
  return d;
}

}  // namespace

void Partitioner::merge_siblings() {
  const size_t n = p_.groups.size();
  std::vector<std::set<GroupId>> before;
  find_edges(before);
  auto reaches = [&](GroupId from, GroupId to) {  // upstream
    std::vector<char> seen(n, 0);
    std::vector<GroupId> work = {from};
    while (!work.empty()) {
      const GroupId g = work.back();
      work.pop_back();
      for (GroupId h : before[idx(g)]) {
        if (h == to) return true;
        if (!seen[idx(h)]) {
          seen[idx(h)] = 1;
          work.push_back(h);
        }
      }
    }
    return false;
  };
  // What a group loads: leaves and values stored elsewhere.
  auto loads = [&](GroupId id) {
    std::set<ValueId> out;
    std::set<ValueId> seen;
    std::vector<ValueId> work;
    for (const StoreAt& s : p_.groups[id].stores) work.push_back(s.value);
    while (!work.empty()) {
      const ValueId v = work.back();
      work.pop_back();
      if (!seen.insert(v).second) continue;
      if (p_.reads(id, v)) {
        if (g_.values[v].kind != ValueKind::constant) out.insert(v);
        continue;
      }
      for (ValueId u : g_.def(v)->inputs) work.push_back(u);
    }
    return out;
  };

  struct Open {
    GroupId id;
    std::vector<Expr> shape;
    std::set<ValueId> loads;
  };
  std::vector<Open> open;
  for (size_t i = 0; i < n; ++i) {
    const GroupId id = static_cast<GroupId>(i);
    Group& b = p_.groups[id];
    if (b.kind != GroupKind::loop || b.stores.empty()) continue;
    const std::vector<Expr> shape = domain(b);
    const Expr all = product([&] {
      Exprs e;
      for (const Expr& x : shape)
        if (!(x.is(-1) || x.is(-2))) e.push_back(x);
      return e;
    }());
    const bool small = g_.syms.hint(all) <= p_.rules.small_points;
    const std::set<ValueId> b_loads = loads(id);
    bool merged = false;
    for (Open& o : open) {
      const GroupId host = o.id;
      Group& a = p_.groups[host];
      if (o.shape != shape || a.stores.size() + b.stores.size() > kMaxStores || a.nodes.size() + b.nodes.size() > kMaxMergedNodes) continue;
      const bool share = std::any_of(b_loads.begin(), b_loads.end(), [&](ValueId v) { return o.loads.count(v) != 0; });
      SymMap to;
      for (size_t k = 0; k < b.outer.size(); ++k) to[b.outer[k]] = Expr::symbol(a.outer[k]);
      for (size_t k = 0; k < b.inner.size(); ++k) to[b.inner[k]] = Expr::symbol(a.inner[k]);
      if (!(share || small) || reaches(host, id) || reaches(id, host) || lanes_differ(host, id, to)) continue;
      for (StoreAt s : b.stores) {
        for (Expr& e : s.idx) e = e.substitute(to);
        if (p_.home[s.value] == id) p_.home[s.value] = host;
        a.stores.push_back(std::move(s));
      }
      a.needs.insert(a.needs.end(), b.needs.begin(), b.needs.end());
      for (NodeId node : b.nodes)
        if (std::find(a.nodes.begin(), a.nodes.end(), node) == a.nodes.end()) a.nodes.push_back(node);
      for (auto& [v, groups] : copies_) std::replace(groups.begin(), groups.end(), id, host);
      o.loads.insert(b_loads.begin(), b_loads.end());
      b.stores.clear();
      b.needs.clear();
      for (auto& set : before)
        if (set.erase(id)) set.insert(host);
      before[idx(host)].insert(before[i].begin(), before[i].end());
      before[i].clear();
      merged = true;
      break;
    }
    if (!merged) open.push_back({id, shape, b_loads});
  }
}

}  // namespace aotc::loop
