#include "passes/passes.h"

namespace aotc::passes {

/// Erases nodes that no output or state needs, and lets go of the data of constants that nothing uses.
void dce(Graph& g, PassContext&) {
  std::vector<bool> live(g.values.size(), false);
  for (const OutputInfo& o : g.outputs) live[idx(o.value)] = true;
  for (const StateInfo& s : g.states)
    if (s.updated != kNone<ValueId>) live[idx(s.updated)] = true;
  for (size_t i = g.order.size(); i-- > 0;) {
    Node& n = g.nodes[g.order[i]];
    bool used = false;
    for (ValueId v : n.outputs) used = used || live[idx(v)];
    if (!used) {
      n.dead = true;
      continue;
    }
    for (ValueId v : n.inputs) live[idx(v)] = true;
  }
  g.compact();

  std::vector<bool> kept(g.constants.size(), false);
  for (const StateInfo& s : g.states)
    if (s.initial != kNone<ConstId>) kept[idx(s.initial)] = true;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const Value& v = g.values.raw()[i];
    if (live[i] && v.kind == ValueKind::constant) kept[idx(v.constant)] = true;
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) continue;
    ConstData& c = g.constants.raw()[i];
    c.keepalive.reset();
    c.data = nullptr;
    c.bytes = 0;
  }
}

}  // namespace aotc::passes
