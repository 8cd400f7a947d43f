#include "passes/passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/effort.h"
#include "base/uarch.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Values of rank r without their dim p, that dim behind the others.
Ints moved_last(int64_t p, size_t r) {
  Ints perm;
  for (size_t i = 0; i < r; ++i)
    if (static_cast<int64_t>(i) != p) perm.push_back(static_cast<int64_t>(i));
  perm.push_back(p);
  return perm;
}

Ints moved_back(int64_t p, size_t r) {
  Ints perm(r);
  const Ints to = moved_last(p, r);
  for (size_t i = 0; i < r; ++i) perm[static_cast<size_t>(to[i])] = static_cast<int64_t>(i);
  return perm;
}

/// All that is gathered from the columns of one table, and what is computed of that element by element or summed, as far as rows stay rows.
struct Region {
  ValueId table;
  std::vector<NodeId> nodes;              ///< in order; the result of the last one is handed on, the others' stay here
  std::map<ValueId, int64_t> row_dim_of;  ///< of each result
};

class Finder {
 public:
  Finder(const Graph& g, const CpuCosts& u) : g_(g), users_(g.users()), u_(u) {}

  std::map<NodeId, Region> all() {  // by their last nodes
    std::map<NodeId, Region> found;
    std::set<ValueId> seen;
    for (const NodeId id : g_.order) {
      const Node& n = g_.nodes[id];
      if (!picks_columns(n) || !seen.insert(n.inputs[0]).second) continue;
      if (auto r = shortest(grown(n.inputs[0])); r && pays(*r)) found.emplace(r->nodes.back(), std::move(*r));
    }
    return found;
  }

 private:
  bool picks_columns(const Node& n) const {
    if (n.op != Op::index || n.inputs.size() != 2) return false;
    const Exprs& dims = g_.type(n.inputs[0]).dims;
    const auto last = static_cast<int64_t>(dims.size()) - 1;
    return last >= 1 && n.get<Ints>(Attr::dims) == Ints{last} && g_.syms.hint(dims[static_cast<size_t>(last) - 1]) >= u_.picked_rows;
  }

  double elems(ValueId v) const { return static_cast<double>(g_.syms.hint(g_.type(v).elems())); }

  /// What is spread over the rows, or as good as that, is read as it lies.
  bool small(ValueId v) const {
    ValueId root = v;
    for (const Node* d = g_.def(root); d && is_view(d->op); d = g_.def(root)) root = d->inputs[0];
    const Node* d = g_.def(root);
    return (d && op_class(d->op) == OpClass::nullary) || elems(root) * static_cast<double>(u_.picked_rows) <= elems(v);
  }

  /// The dim of n's result that the rows are, where n can work on columns as rows.
  std::optional<int64_t> row_dim(const Region& r, const Node& n) const {
    std::optional<int64_t> p;
    if (n.outputs.size() != 1) return p;
    for (const ValueId v : n.inputs) {
      const auto at = r.row_dim_of.find(v);
      if (at == r.row_dim_of.end() ? !small(v) : p && *p != at->second) return std::nullopt;
      if (at != r.row_dim_of.end()) p = at->second;
    }
    if (!p || is_pointwise(n.op)) return p;
    if (n.op != Op::reduce) return std::nullopt;
    int64_t before = 0;
    for (const int64_t d : n.get<Ints>(Attr::dims)) {
      if (d == *p) return std::nullopt;
      before += d < *p;
    }
    return *p - before;
  }

  Region grown(ValueId table) const {
    Region r{table, {}, {}};
    const int64_t rank = g_.type(table).rank();
    for (const NodeId id : g_.order) {
      const Node& n = g_.nodes[id];
      std::optional<int64_t> p;
      if (picks_columns(n) && n.inputs[0] == table) {
        const int64_t more = g_.type(n.inputs[1]).rank();
        p = rank - 2 + (n.get<int64_t>(Attr::out_pos) <= rank - 2 ? more : 0);
      } else if (is_pointwise(n.op) || n.op == Op::reduce) {
        p = row_dim(r, n);
      }
      if (!p) continue;
      if (r.nodes.size() == effort::kPickedOps) break;
      r.nodes.push_back(id);
      r.row_dim_of[n.outputs[0]] = *p;
    }
    return r;
  }

  /// The part of it that ends in the smallest value from which all that is gathered is seen, and that hands on nothing else.
  std::optional<Region> shortest(const Region& whole) const {
    std::optional<Region> best;
    std::set<NodeId> in;
    for (size_t end = 0; end < whole.nodes.size(); ++end) {
      in.clear();
      in.insert(whole.nodes[end]);
      for (size_t i = end; i-- > 0;) {
        const std::vector<NodeId>& users = users_[idx(result(whole.nodes[i]))];
        if (std::any_of(users.begin(), users.end(), [&](NodeId u) { return in.count(u) > 0; })) in.insert(whole.nodes[i]);
      }
      const auto stays = [&](NodeId id) {
        const std::vector<NodeId>& users = users_[idx(result(id))];
        return id == whole.nodes[end] || std::all_of(users.begin(), users.end(), [&](NodeId u) { return in.count(u) > 0; });
      };
      const auto left_out = [&](NodeId id) { return g_.nodes[id].op == Op::index && !in.count(id); };
      if (!std::all_of(in.begin(), in.end(), stays) || std::any_of(whole.nodes.begin(), whole.nodes.end(), left_out)) continue;
      if (best && bytes(result(whole.nodes[end])) >= bytes(result(best->nodes.back()))) continue;
      best = Region{whole.table, {}, {}};
      for (size_t i = 0; i <= end; ++i)
        if (const NodeId id = whole.nodes[i]; in.count(id)) {
          best->nodes.push_back(id);
          best->row_dim_of[result(id)] = whole.row_dim_of.at(result(id));
        }
    }
    return best;
  }

  bool pays(const Region& r) const {
    double picked = 0;
    for (const NodeId id : r.nodes)
      if (g_.nodes[id].op == Op::index) picked += elems(result(id)) * picked_ns(g_.type(result(id)).dtype);
    const ValueId end = result(r.nodes.back());
    return picked > u_.picked_gain * (elems(r.table) * turned_ns(g_.type(r.table).dtype) + elems(end) * turned_ns(g_.type(end).dtype));
  }

  ValueId result(NodeId id) const { return g_.nodes[id].outputs[0]; }
  double picked_ns(DType t) const { return dtype_bytes(t) <= 2 ? u_.picked_half_ns : u_.picked_ns; }
  double turned_ns(DType t) const { return u_.turned_ns + u_.turned_byte_ns * static_cast<double>(dtype_bytes(t)); }
  double bytes(ValueId v) const { return elems(v) * static_cast<double>(dtype_bytes(g_.type(v).dtype)); }

  const Graph& g_;
  std::vector<std::vector<NodeId>> users_;
  const CpuCosts& u_;
};

ValueId stored(Rewriter& r, ValueId v, Ints perm) {
  return r.b.make1(Op::permute, {v}, {{Attr::perm, std::move(perm)}, {Attr::stored, true}});
}

/// A copy of the table with dim p behind the others, which keep the order in which they lie in memory, and that seen with p last.
ValueId stored_rows(Rewriter& r, ValueId v, int64_t p) {
  const size_t rank = r.dims(v).size();
  const Ints to = moved_last(p, rank);
  const Node* n = r.def(v, Op::permute);
  if (!n || n->get_or<bool>(Attr::stored, false)) return stored(r, v, to);
  const Ints inner = n->get<Ints>(Attr::perm), order = moved_last(inner[static_cast<size_t>(p)], rank);
  const ValueId copy = stored(r, n->inputs[0], order);
  Ints seen;
  for (const int64_t d : to) seen.push_back(std::find(order.begin(), order.end(), inner[static_cast<size_t>(d)]) - order.begin());
  const bool same = std::is_sorted(seen.begin(), seen.end());
  return same ? copy : r.b.make1(Op::permute, {copy}, {{Attr::perm, std::move(seen)}});
}

ValueId by_rows(Rewriter& r, const Region& region) {
  std::map<ValueId, ValueId> made;
  const size_t rank = r.dims(region.table).size();
  const Node& first = r.g.nodes[region.nodes[0]];  // its operand may be what another region has become
  const ValueId table = stored_rows(r, first.inputs[0], static_cast<int64_t>(rank) - 2);
  int64_t p = 0;
  ValueId last = kNone<ValueId>;
  for (const NodeId id : region.nodes) {
    const Node n = r.g.nodes[id];
    last = n.outputs[0];
    p = region.row_dim_of.at(last);
    if (n.op == Op::index) {
      const auto from = static_cast<int>(rank) - 2;
      made[last] = r.b.index(table, {n.inputs[1]}, {from}, std::min(static_cast<int>(n.get<int64_t>(Attr::out_pos)), from));
      continue;
    }
    std::vector<ValueId> inputs;
    for (const ValueId v : n.inputs) {
      const auto at = made.find(v);
      inputs.push_back(at != made.end() ? at->second : r.b.permute(v, moved_last(p, r.dims(v).size())));
    }
    std::map<Attr, AttrValue> attrs = n.attrs;
    if (n.op == Op::reduce) {
      const int64_t q = region.row_dim_of.at(n.inputs[0]);
      Ints dims = n.get<Ints>(Attr::dims);
      for (int64_t& d : dims) d -= d > q;
      attrs[Attr::dims] = dims;
    }
    TensorType t{r.dtype(last), {}};
    const Exprs dims = r.dims(last);
    for (const int64_t d : moved_last(p, dims.size())) t.dims.push_back(dims[static_cast<size_t>(d)]);
    made[last] = r.b.make1(n.op, std::move(inputs), std::move(attrs), &t);
  }
  return stored(r, made.at(last), moved_back(p, r.dims(last).size()));
}

}  // namespace

/// On CPUs, what is gathered from along the last dim, more often than copies cost (the columns of an image that is resized), is
/// gathered row by row from a transposed copy, and what becomes of that is transposed back: permute {stored} both. Vectors then
/// read neighbours where they would pick each lane by itself.
void columns_as_rows(Graph& g, PassContext& ctx) {
  std::map<ValueId, Region> regions;  // by what they hand on: sweeps number nodes anew
  for (auto& [id, region] : Finder(g, uarch_of(ctx.target).cpu).all()) regions.emplace(g.nodes[id].outputs[0], std::move(region));
  if (regions.empty()) return;
  Rewriter(g).sweep([&](Rewriter& r, const Node& n) -> std::optional<ValueId> {
    const auto at = regions.find(n.outputs[0]);
    if (at == regions.end()) return std::nullopt;
    const ValueId v = by_rows(r, at->second);
    regions.erase(at);
    return v;
  });
}

}  // namespace aotc::passes
