#include "passes/passes.h"

#include <map>
#include <set>

namespace aotc::passes {

/// Gives every node a name: that of its archive node, or one made from its op.
void assign_names(Graph& g, PassContext&) {
  std::set<std::string> taken;
  for (NodeId id : g.order) taken.insert(g.nodes[id].name);
  std::map<Op, int> next;
  for (NodeId id : g.order) {
    Node& n = g.nodes[id];
    while (n.name.empty()) {
      std::string name = fmt::format("{}_{}", op_name(n.op), next[n.op]++);
      if (taken.insert(name).second) n.name = std::move(name);
    }
  }
}

}  // namespace aotc::passes
