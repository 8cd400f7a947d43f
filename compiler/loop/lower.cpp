#include "loop/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "loop/finish.h"
#include "loop/lane_order.h"
#include "loop/lower_detail.h"
#include "loop/text.h"
#include "loop/tidy.h"
#include "loop/verify.h"

namespace aotc::loop {
namespace {

std::vector<NodeId>& nodes_of(Kernel& k) {
  return std::visit([](auto& x) -> std::vector<NodeId>& { return x.nodes; }, k);
}

/// "layer_norm_3" → "layer_norm".
std::string stem(std::string s) {
  const size_t last = s.find_last_not_of("0123456789");
  if (last != std::string::npos && last + 1 < s.size() && last > 0 && s[last] == '_') s.resize(last);
  for (char& c : s)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return s;
}

bool is_work(const Graph& g, const Node& n) {
  const OpClass c = op_class(n.op);
  if (n.op == Op::slice)  // columns of a product
    if (const Node* d = g.def(n.inputs[0]); d && (d->op == Op::matmul || d->op == Op::grouped_matmul)) return true;
  return c != OpClass::nullary && c != OpClass::view && n.op != Op::cast;
}
/// Views, constants and casts say little beside others; several kernels may share them.
bool has_work(const Graph& g, const std::vector<NodeId>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return is_work(g, g.nodes[id]); });
}

std::string label_of(const Graph& g, const std::vector<NodeId>& nodes) {
  const bool computes = has_work(g, nodes);
  std::string text;
  std::set<std::string> seen;
  for (NodeId id : nodes) {
    const Node& n = g.nodes[id];
    if (computes && !is_work(g, n)) continue;
    const std::string name = n.name.empty() ? std::string(op_name(n.op)) : n.name;
    if (!seen.insert(name).second) continue;
    if (seen.size() > 8) return text + " ...";
    text += (text.empty() ? "" : " ") + name;
  }
  return text;
}

}  // namespace

std::string describe(const Graph& g, const std::vector<NodeId>& nodes) {
  std::vector<std::string> parts;
  const bool computes = has_work(g, nodes);
  for (NodeId id : nodes) {
    const Node& n = g.nodes[id];
    const OpClass c = op_class(n.op);
    if (c == OpClass::nullary) continue;
    if (c != OpClass::nullary && computes && !is_work(g, n)) continue;
    const std::string s = stem(n.name.empty() ? std::string(op_name(n.op)) : n.name);
    if (std::find(parts.begin(), parts.end(), s) == parts.end()) parts.push_back(s);
  }
  if (parts.empty()) return "copy";
  std::string text;
  for (size_t i = 0; i < parts.size() && i < 4; ++i) text += (i ? "_" : "") + parts[i];
  if (!std::isalpha(static_cast<unsigned char>(text[0])) || text.rfind("aotc_", 0) == 0) text = "k_" + text;  // aotc_: the library's names
  return text.substr(0, 64);
}

Lowered lower_loop(const Partition& p, GroupId id, Buffers& buffers) {
  KernelBuilder b(p, id, buffers);
  for (const StoreAt& s : p.groups[id].stores) b.store(s);
  LoopKernel k = std::move(b.kernel());
  finish(k, p.g.syms, Loops::free, p.rules);
  return {std::move(k), b.args()};
}

Module lower(const Graph& g, const FusionRules& rules) {
  const Partition p = partition(g, rules);
  Module m;
  m.syms = g.syms;
  m.notes = p.notes;
  Buffers buffers(p, m);
  IdVec<NodeId, size_t> position;
  position.raw().assign(g.nodes.size(), 0);
  for (size_t i = 0; i < g.order.size(); ++i) position[g.order[i]] = i;
  std::map<std::string, KernelId> known;
  std::set<std::string> names;
  LaneOrder lane_order(m, rules);
  const auto call = [&](Lowered low, const std::vector<NodeId>& nodes, const std::string& label) {
    const auto [it, fresh] = known.emplace(structure(low.kernel), kNone<KernelId>);
    if (fresh) {
      const std::string base = describe(g, nodes);
      std::string name = base;
      for (int n = 2; !names.insert(name).second; ++n) name = fmt::format("{}_{}", base, n);
      it->second = m.kernels.push(named(std::move(low.kernel), name));
    }
    m.calls.push_back({it->second, std::move(low.args), label, nodes});
  };
  for (GroupId id : p.order) {
    const Group& gr = p.groups[id];
    Lowered low;
    switch (gr.kind) {
      case GroupKind::loop: low = lower_loop(p, id, buffers); break;
      case GroupKind::matmul: low = lower_matmul(p, id, buffers); break;
      case GroupKind::conv: low = lower_conv(p, id, buffers); break;
      case GroupKind::attention: low = lower_attention(p, id, buffers); break;
      case GroupKind::library: low = lower_library(p, id, buffers); break;
      case GroupKind::prologue: AOTC_CHECK(false, "a prologue is no step");
    }
    std::vector<NodeId> nodes = gr.nodes;
    std::sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) { return position[a] < position[b]; });
    nodes_of(low.kernel) = nodes;
    for (LaneCopy& c : lane_order.apply(low)) call(std::move(c.kernel), {}, c.label);
    call(std::move(low), nodes, label_of(g, nodes));
  }
  // Inputs and outputs that no kernel touches still belong to the signature.
  for (const InputInfo& in : g.inputs) buffers.of(in.value);
  verify(m, "lower");
  return m;
}

}  // namespace aotc::loop
