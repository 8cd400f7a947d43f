#include "loop/anchors.h"

#include "loop/index.h"

namespace aotc::loop {
namespace {

/// Rows of bits: which contractions a value depends on.
class Ancestors {
 public:
  Ancestors(size_t values, size_t contractions) : words_((contractions + 63) / 64), bits_(values * words_) {}
  void merge(ValueId into, ValueId from) {
    for (size_t w = 0; w < words_; ++w) bits_[idx(into) * words_ + w] |= bits_[idx(from) * words_ + w];
  }
  void set(ValueId v, size_t c) { bits_[idx(v) * words_ + c / 64] |= uint64_t{1} << (c % 64); }
  bool has(ValueId v, size_t c) const { return bits_[idx(v) * words_ + c / 64] >> (c % 64) & 1; }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

bool has_epilogue(Op op) { return op == Op::matmul || op == Op::conv || op == Op::conv_transpose; }

GroupKind kind_of(Op op) {
  if (op == Op::matmul) return GroupKind::matmul;
  if (op == Op::attention) return GroupKind::attention;
  return op_class(op) == OpClass::contraction ? GroupKind::conv : GroupKind::library;
}

}  // namespace

void find_anchors(Partition& p, bool strict) {
  const Graph& g = p.g;
  const auto users = g.users();
  auto passes_on = [&](ValueId u) { return !strict || users[idx(u)].size() == 1; };
  std::map<NodeId, size_t> number;
  for (NodeId id : g.order) {
    const Node& n = g.nodes[id];
    const OpClass c = op_class(n.op);
    if (c != OpClass::contraction && c != OpClass::opaque) continue;
    if (has_epilogue(n.op)) number.emplace(id, number.size());
    Group gr;
    gr.kind = kind_of(n.op);
    gr.node = id;
    gr.syms = g.syms;
    gr.split = true;
    gr.nodes.push_back(id);
    if (c == OpClass::contraction) {
      for (const Expr& d : g.type(n.outputs[0]).dims) {
        if (d.is(1)) {
          gr.result_idx.push_back(0);
          continue;
        }
        SymInfo s;
        s.name = "i" + std::to_string(gr.result_idx.size());
        s.kind = SymKind::loop;
        s.extent = d;
        gr.outer.push_back(gr.syms.add(s));
        gr.result_idx.push_back(Expr::symbol(gr.outer.back()));
      }
    }
    p.group_of[id] = p.groups.push(std::move(gr));
  }

  Ancestors deps(g.values.size(), number.size());
  for (NodeId id : g.order) {
    const Node& n = g.nodes[id];
    const ValueId v = n.outputs[0];
    for (ValueId u : n.inputs)
      for (ValueId o : n.outputs) deps.merge(o, u);
    if (has_epilogue(n.op)) {
      deps.set(v, number.at(id));
      p.anchor[v] = id;
      p.at[v] = p.groups[p.group_of.at(id)].result_idx;
    } else if (is_view(n.op) && is_one_to_one(n)) {
      const ValueId u = n.inputs[0];
      if (p.anchor[u] == kNone<NodeId> || !passes_on(u)) continue;
      p.anchor[v] = p.anchor[u];
      p.at[v] = *view_forward(g, n, 0, p.at[u], p.groups[p.group_of.at(p.anchor[u])].syms);
    } else if (is_pointwise(n.op) && n.op != Op::bitcast) {
      NodeId best = kNone<NodeId>;
      for (ValueId u : n.inputs) {
        const NodeId m = p.anchor[u];
        if (m == kNone<NodeId> || !passes_on(u) || (best != kNone<NodeId> && number.at(m) <= number.at(best))) continue;
        bool fits = true;
        for (ValueId w : n.inputs) fits = fits && (p.anchor[w] == m ? p.at[w] == p.at[u] : !deps.has(w, number.at(m)));
        if (fits) {
          best = m;
          p.at[v] = p.at[u];
        }
      }
      p.anchor[v] = best;
    }
  }
}

}  // namespace aotc::loop
