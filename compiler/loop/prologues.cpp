#include "loop/prologues.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/pointwise.h"

namespace aotc::loop {
namespace {

constexpr int64_t kMacsPerOp = 16;  ///< multiply-adds of an element for one simple operation on it
constexpr const char* kRows = "the kernel of a reduction goes over its rows";
constexpr int kIndexCost = 4;  ///< a lookup: the index, its check, a load that jumps

class Finder {
 public:
  using R = Result<PrologueRule>;
  Finder(const Partition& p, const std::vector<std::vector<NodeId>>& users, const IdVec<ValueId, Ints>& row_dims)
      : p_(p), g_(p.g), users_(users), row_dims_(row_dims) {
    for (size_t i = 0; i < g_.order.size(); ++i)
      for (ValueId v : g_.nodes[g_.order[i]].outputs) position_[v] = i;
  }

  R run(ValueId v, int64_t macs) {
    if (p_.is_leaf(v)) return R::fail("");
    const OpClass c = op_class(g_.def(v)->op);
    if (c == OpClass::contraction || c == OpClass::opaque || c == OpClass::reduce || c == OpClass::scan) return R::fail("");
    if (p_.anchor[v] != kNone<NodeId>) return R::fail("");  // an epilogue, or a view of a result
    if (g_.type(v).elems().is(0)) return R::fail("");
    if (const size_t n = users_[idx(v)].size(); n != 1) return R::fail(fmt::format("it has {} uses", n));
    push(v, false);
    while (!work_.empty()) {
      const ValueId u = work_.rbegin()->second;
      work_.erase(std::prev(work_.end()));
      if (p_.is_leaf(u)) continue;
      if (const std::string why = take(u, u == v); !why.empty()) return R::fail(why);
    }
    if (!works_) return R::fail("");
    if (!made_of_constants(g_, v) && rule_.cost * kMacsPerOp > macs)
      return R::fail(fmt::format("it costs {} an element, which serves {} multiply-adds", rule_.cost, macs));
    return std::move(rule_);
  }

 private:
  void push(ValueId v, bool repeated) {
    bool& r = repeated_[v];
    r = r || repeated;
    if (!p_.is_leaf(v)) work_.insert({position_.at(v), v});
  }

  /// All uses of a value come before it is taken.
  std::string take(ValueId u, bool first) {
    const Node& n = *g_.def(u);
    const auto& readers = users_[idx(u)];
    const bool ours = first || std::all_of(readers.begin(), readers.end(),
                                           [&](NodeId r) { return r != kNone<NodeId> && mine_.count(g_.nodes[r].outputs[0]) != 0; });
    const bool repeated = repeated_.at(u);
    switch (op_class(n.op)) {
      case OpClass::nullary: return {};
      case OpClass::unary:
      case OpClass::binary:
      case OpClass::ternary:
        if (!ours || repeated || p_.anchor[u] != kNone<NodeId>) return {};  // stored, or so cheap that it is computed everywhere
        if (!row_dims_[u].empty()) return std::string(kRows);
        join(u, pointwise_info(n.op).cost);
        works_ = true;
        for (ValueId x : n.inputs) push(x, false);
        return {};
      case OpClass::view: {
        if (p_.is_segment(u)) return {};  // stored by the product that it is columns of
        if (ours) join(u, 0);
        works_ = works_ || n.op == Op::pad || n.op == Op::window || n.op == Op::flip;
        push(n.inputs[0], repeated || !ours || n.op == Op::expand || n.op == Op::window);
        return {};
      }
      case OpClass::cat:
        if (!ours || repeated) return {};
        join(u, static_cast<int>(n.inputs.size()));
        // Parts that nobody else uses would be computed in their place.
        for (ValueId x : n.inputs) works_ = works_ || p_.is_leaf(x) || users_[idx(x)].size() > 1;
        for (ValueId x : n.inputs) push(x, false);
        return {};
      case OpClass::index:
        if (!ours || repeated) return {};
        join(u, first && picks_matrices(n) ? p_.rules.matrix_lookup : kIndexCost);
        works_ = true;
        for (size_t i = 1; i < n.inputs.size(); ++i) push(n.inputs[i], true);
        return {};
      case OpClass::reduce:
      case OpClass::scan: return std::string(kRows);
      default: return {};
    }
  }

  /// One lookup serves a matrix of the operand: what it picks is copied as the operand itself would be.
  bool picks_matrices(const Node& n) const {
    if (n.op != Op::index) return false;
    const Ints& dims = n.get<Ints>(Attr::dims);
    const int found = g_.type(n.inputs[1]).rank(), rank = g_.type(n.outputs[0]).rank();
    return n.get<int64_t>(Attr::out_pos) + found <= rank - 2 &&
           std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d < g_.type(n.inputs[0]).rank() - 2; });
  }

  void join(ValueId v, int cost) {
    mine_.insert(v);
    rule_.values.push_back(v);
    rule_.cost = std::min(rule_.cost + cost, 10000);
  }

  const Partition& p_;
  const Graph& g_;
  const std::vector<std::vector<NodeId>>& users_;
  const IdVec<ValueId, Ints>& row_dims_;
  std::map<ValueId, size_t> position_;
  std::set<std::pair<size_t, ValueId>> work_;  ///< latest last
  std::map<ValueId, bool> repeated_;           ///< read several times an element: not worth computing each time
  std::set<ValueId> mine_;
  PrologueRule rule_;
  bool works_ = false;  ///< without a prologue there would be a kernel
};

}  // namespace

namespace {

/// The constants that v is made of; nullopt where a run brings something.
std::optional<std::vector<ValueId>> constants_of(const Graph& g, ValueId v) {
  std::set<ValueId> seen;
  std::vector<ValueId> left = {v}, constants;
  while (!left.empty()) {
    const ValueId u = left.back();
    left.pop_back();
    if (!seen.insert(u).second) continue;
    if (g.values[u].kind == ValueKind::constant) {
      constants.push_back(u);
      continue;
    }
    const Node* n = g.def(u);
    if (!n || n->op == Op::sym) return std::nullopt;
    left.insert(left.end(), n->inputs.begin(), n->inputs.end());
  }
  return constants;
}

}  // namespace

bool made_of_constants(const Graph& g, ValueId v) { return constants_of(g, v).has_value(); }

bool made_of_few_bits(const Graph& g, ValueId v) {
  const auto all = constants_of(g, v);
  const auto elems = g.type(v).elems().as_const();
  return all && elems && std::any_of(all->begin(), all->end(), [&](ValueId c) {
           return dtype_bytes(g.type(c).dtype) < dtype_bytes(g.type(v).dtype) && 2 * g.type(c).elems().as_const().value_or(0) >= *elems;
         });
}

Result<PrologueRule> find_prologue(const Partition& p, const std::vector<std::vector<NodeId>>& users, const IdVec<ValueId, Ints>& row_dims,
                                   ValueId v, int64_t macs) {
  return Finder(p, users, row_dims).run(v, macs);
}

}  // namespace aotc::loop
