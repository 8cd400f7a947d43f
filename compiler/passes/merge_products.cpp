#include "passes/passes.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "graph/big_array.h"
#include "graph/builder.h"
#include "graph/constant_store.h"
#include "passes/seen_weight.h"

namespace aotc::passes {
namespace {

struct Product {
  NodeId node;
  ConstId weight;
  bool transposed;  ///< the weight is [n, k], seen through a permute
  int64_t n;
  std::set<NodeId> downstream;  ///< pointwise ops and one-to-one views that follow
};

class Merger {
 public:
  Merger(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx), users_(g.users()) {}

  void run(int64_t limit_bytes) {
    std::map<std::pair<ValueId, DType>, std::vector<Product>> by_input;
    std::vector<std::pair<ValueId, DType>> order;
    for (NodeId id : g_.order)
      if (auto p = product(id)) {
        const Node& n = g_.nodes[id];
        const std::pair key{n.inputs[0], g_.type(n.outputs[0]).dtype};
        if (!by_input.count(key)) order.push_back(key);
        by_input[key].push_back(std::move(*p));
      }
    for (const auto& key : order) {
      std::vector<std::vector<const Product*>> clusters;
      for (const Product& p : by_input[key]) {
        auto fits = [&](const std::vector<const Product*>& c) {
          return c[0]->transposed == p.transposed && rounded(*c[0]) == rounded(p) &&
                 std::none_of(c.begin(), c.end(), [&](const Product* q) { return meet(*q, p); });
        };
        auto c = std::find_if(clusters.begin(), clusters.end(), fits);
        if (c == clusters.end())
          clusters.push_back({&p});
        else
          c->push_back(&p);
      }
      for (const auto& c : clusters)
        if (c.size() > 1 && bytes(c) <= limit_bytes) merge(c);
    }
    g_.compact();
  }

 private:
  std::optional<Product> product(NodeId id) const {
    const Node& n = g_.nodes[id];
    if (n.dead || n.op != Op::matmul || g_.type(n.outputs[0]).rank() != 2) return std::nullopt;
    const std::optional<SeenWeight> w = seen_weight(g_, n.inputs[1]);
    if (!w || users_[idx(n.inputs[1])].size() > 1 || users_[idx(w->source)].size() > 1) return std::nullopt;
    Product p{id, w->constant, !w->perm.empty(), 0, {}};
    p.n = *g_.constants[p.weight].type.dims[p.transposed ? 0 : 1].as_const();
    if (p.n == 0 || g_.constants[p.weight].bytes == 0 || !has_data(g_.constants[p.weight])) return std::nullopt;
    follow(n.outputs[0], p.downstream);
    return p;
  }

  void follow(ValueId v, std::set<NodeId>& into) const {
    for (NodeId id : users_[idx(v)]) {
      if (id == kNone<NodeId>) continue;
      const Node& u = g_.nodes[id];
      const bool goes_on = is_pointwise(u.op) || u.op == Op::reshape || u.op == Op::permute || u.op == Op::flip;
      if (goes_on && into.insert(id).second) follow(u.outputs[0], into);
    }
  }
  bool rounded(const Product& p) const { return ctx_.rounded_weights.find(g_.constants[p.weight]) != nullptr; }
  static bool meet(const Product& a, const Product& b) {
    return std::any_of(a.downstream.begin(), a.downstream.end(), [&](NodeId id) { return b.downstream.count(id) != 0; });
  }
  int64_t bytes(const std::vector<const Product*>& c) const {
    int64_t sum = 0;
    for (const Product* p : c) sum += static_cast<int64_t>(g_.constants[p->weight].bytes);
    return sum;
  }

  ValueId side_by_side(const std::vector<const Product*>& parts, int64_t columns) {
    const ConstData& first = g_.constants[parts[0]->weight];
    const bool transposed = parts[0]->transposed;
    const Expr k = first.type.dims[transposed ? 1 : 0];
    ConstData c;
    c.type = {first.type.dtype, transposed ? Exprs{columns, k} : Exprs{k, columns}};
    const BigArray<std::byte> data(static_cast<size_t>(bytes(parts)));
    const size_t rows = transposed ? 1 : static_cast<size_t>(*k.as_const());  // transposed: one after the other
    size_t at = 0;
    for (size_t r = 0; r < rows; ++r)
      for (const Product* p : parts) {
        const ConstData& w = g_.constants[p->weight];
        const size_t row = w.bytes / rows;
        std::memcpy(data.data() + at, w.data + r * row, row);
        at += row;
      }
    for (const Product* p : parts) c.exchangeable = c.exchangeable || g_.constants[p->weight].exchangeable;
    for (const Product* p : parts) c.name += (c.name.empty() ? "" : "+") + g_.constants[p->weight].name;
    c.data = data.data();
    c.bytes = data.size();
    c.keepalive = data.memory();
    if (rounded(*parts[0])) {
      std::vector<const ConstData*> weights;
      for (const Product* p : parts) weights.push_back(&g_.constants[p->weight]);
      ctx_.rounded_weights.add_beside(c, weights);
    }
    return g_.add_constant(std::move(c));
  }

  void merge(const std::vector<const Product*>& parts) {
    int64_t columns = 0;
    for (const Product* p : parts) columns += p->n;
    Builder b(g_);
    const Node first = g_.nodes[parts[0]->node];
    b.at(first.name, first.source);
    ValueId w = side_by_side(parts, columns);
    if (parts[0]->transposed) w = b.permute(w, {1, 0});
    const ValueId whole = b.matmul(first.inputs[0], w, g_.type(first.outputs[0]).dtype);
    int64_t begin = 0;
    for (const Product* p : parts) {
      const Node old = g_.nodes[p->node];
      b.at(old.name, old.source);
      const ValueId part = b.slice(whole, 1, begin, p->n);
      begin += p->n;
      g_.replace_all_uses(old.outputs[0], part);
      g_.nodes[p->node].dead = true;
    }
  }

  Graph& g_;
  PassContext& ctx_;
  const std::vector<std::vector<NodeId>> users_;
};

}  // namespace

/// Products of one matrix with several constant weights (q, k, v) become one product with the weights side by side, used in slices of
/// columns: the loop stage finishes each slice with an epilogue of its own. Products whose results meet again in pointwise ops (gate and
/// up) stay apart: there the later one's epilogue takes the earlier one's result.
void merge_products(Graph& g, PassContext& ctx) { Merger(g, ctx).run(ctx.fold_limit_bytes); }

}  // namespace aotc::passes
