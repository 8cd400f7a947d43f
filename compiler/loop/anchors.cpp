#include "loop/anchors.h"

#include <algorithm>

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

bool has_epilogue(Op op) { return op == Op::matmul || op == Op::grouped_matmul || op == Op::conv || op == Op::conv_transpose; }

/// Fills in gr.segments when every use of the product's result v is a slice of columns and the slices make up the whole.
void find_segments(const Graph& g, ValueId v, const std::vector<NodeId>& users, Group& gr) {
  const Exprs& dims = g.type(v).dims;
  const auto columns = dims.back().as_const();
  if (!columns || users.size() < 2) return;
  std::vector<SegmentAt> found;
  for (NodeId id : users) {
    if (id == kNone<NodeId>) return;
    const Node& n = g.nodes[id];
    if (n.op != Op::slice || n.get<int64_t>(Attr::dim) + 1 != static_cast<int64_t>(dims.size()) || n.get_or<int64_t>(Attr::step, 1) != 1)
      return;
    const auto begin = n.get<Expr>(Attr::start).as_const(), size = g.type(n.outputs[0]).dims.back().as_const();
    if (!begin || !size) return;
    found.push_back({n.outputs[0], *begin, *begin + *size, kNone<SymId>});
  }
  std::sort(found.begin(), found.end(), [](const SegmentAt& a, const SegmentAt& b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (const SegmentAt& s : found) {
    if (s.begin != end || s.end <= s.begin) return;
    end = s.end;
  }
  if (end != *columns) return;
  for (SegmentAt& s : found) {
    if (s.end - s.begin == 1) continue;
    SymInfo info;
    info.name = "n";
    info.kind = SymKind::loop;
    info.extent = Expr(s.end - s.begin);
    s.column = gr.syms.add(info);
  }
  gr.segments = std::move(found);
}

GroupKind kind_of(Op op) {
  if (op == Op::matmul || op == Op::grouped_matmul) return GroupKind::matmul;
  if (op == Op::attention) return GroupKind::attention;
  return op_class(op) == OpClass::contraction ? GroupKind::conv : GroupKind::library;
}

/// Bytes an element that is not computed where it is used takes.
int64_t stored_bytes(const Graph& g, ValueId v) {
  for (const Node* n = g.def(v); n && is_pointwise(n->op) && widens(g, *n); n = g.def(v)) v = n->inputs[0];
  return dtype_bytes(g.type(v).dtype);
}

}  // namespace

bool widens(const Graph& g, const Node& n) {
  if (n.op == Op::cast) return dtype_bytes(g.type(n.inputs[0]).dtype) < dtype_bytes(g.type(n.outputs[0]).dtype);
  if (n.op != Op::sub && n.op != Op::mul) return false;  // of bytes: (x - zero) * scale
  const Node *of = g.def(n.inputs[0]), *by = g.def(n.inputs[1]);
  if (!of || !by || by->op != Op::full || g.type(n.outputs[0]).dtype != DType::f32) return false;
  if (of->op == Op::cast) return g.type(of->inputs[0]).dtype == DType::u8 || g.type(of->inputs[0]).dtype == DType::i8;
  return n.op == Op::mul && of->op == Op::sub && widens(g, *of);
}

void find_anchors(Partition& p, const std::set<ValueId>& alone) {
  const Graph& g = p.g;
  const auto users = g.users();
  auto passes_on = [&](ValueId u) { return !alone.count(u) || users[idx(u)].size() == 1; };
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
    if (gr.kind == GroupKind::matmul) find_segments(g, n.outputs[0], users[idx(n.outputs[0])], gr);
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
      const Group& gr = p.groups[p.group_of.at(id)];
      p.at[v] = gr.result_idx;
      for (uint32_t s = 0; s < gr.segments.size(); ++s) {
        const SegmentAt& part = gr.segments[s];
        p.anchor[part.value] = id;
        p.segment[part.value] = s;
        p.at[part.value] = gr.result_idx;
        p.at[part.value].back() = part.column == kNone<SymId> ? Expr(0) : Expr::symbol(part.column);
      }
    } else if (is_view(n.op) && is_one_to_one(n)) {
      const ValueId u = n.inputs[0];
      if (p.anchor[u] == kNone<NodeId> || !passes_on(u)) continue;
      p.anchor[v] = p.anchor[u];
      p.segment[v] = p.segment[u];
      p.at[v] = *view_forward(g, n, 0, p.at[u], p.groups[p.group_of.at(p.anchor[u])].syms);
    } else if (is_pointwise(n.op) && n.op != Op::bitcast) {
      // Of several, the one beside which the fewest bytes are stored, the last of those.
      NodeId best = kNone<NodeId>;
      int64_t least = 0;
      for (ValueId u : n.inputs) {
        const NodeId m = p.anchor[u];
        if (m == kNone<NodeId> || !passes_on(u)) continue;
        bool fits = true;
        int64_t bytes = 0;
        for (ValueId w : n.inputs) {
          fits = fits && (p.anchor[w] == m ? p.segment[w] == p.segment[u] && p.at[w] == p.at[u] : !deps.has(w, number.at(m)));
          if (p.anchor[w] != m && p.anchor[w] != kNone<NodeId>) bytes += stored_bytes(g, w);
        }
        if (fits && (best == kNone<NodeId> || bytes < least || (bytes == least && number.at(m) > number.at(best)))) {
          best = m, least = bytes;
          p.segment[v] = p.segment[u];
          p.at[v] = p.at[u];
        }
      }
      p.anchor[v] = best;
    }
  }
}

}  // namespace aotc::loop
