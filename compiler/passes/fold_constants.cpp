#include "passes/passes.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/effort.h"
#include "graph/big_array.h"
#include "graph/constant_store.h"
#include "graph/infer.h"
#include "graph/interp.h"
#include "passes/rewrite.h"
#include "passes/stored_bytes.h"

namespace aotc::passes {
namespace {

class Folder {
 public:
  Folder(Graph& g, const PassContext& ctx) : g_(g), b_(g), ctx_(ctx) {}

  void run() {
    find();
    users_ = g_.users();
    const std::vector<NodeId> old = std::move(g_.order);
    g_.order.clear();
    for (NodeId id : old) {
      const Node n = g_.nodes[id];
      if (!constant_[idx(n.outputs[0])]) {
        std::vector<ValueId> inputs;
        for (ValueId v : n.inputs) inputs.push_back(takes_numbers(n.op) ? number(v) : current(v));
        g_.nodes[id].inputs = std::move(inputs);
      }
      g_.order.push_back(id);  // a constant node goes with those that nothing uses
    }
    for (OutputInfo& o : g_.outputs) o.value = current(o.value);
    for (StateInfo& s : g_.states)
      if (s.updated != kNone<ValueId>) s.updated = current(s.updated);
    g_.compact();
  }

 private:
  /// Which values depend on constants alone, and how many bytes those have.
  void find() {
    constant_.assign(g_.values.size(), false);
    leaf_bytes_.assign(g_.values.size(), 0);
    for (size_t i = 0; i < g_.values.size(); ++i) {
      const Value& v = g_.values.raw()[i];
      if (v.kind != ValueKind::constant || !has_data(g_.constants[v.constant])) continue;
      constant_[i] = true;
      leaf_bytes_[i] = static_cast<int64_t>(g_.constants[v.constant].bytes);
    }
    const std::vector<bool> widens = widens_stored_bytes(g_, ctx_.target);
    for (NodeId id : g_.order) {
      const Node& n = g_.nodes[id];
      bool all = n.op != Op::sym && n.op != Op::custom && numbers_only(n) && !widens[idx(id)];
      int64_t bytes = 0;
      for (ValueId v : n.inputs) {
        all = all && constant_[idx(v)];
        bytes += leaf_bytes_[idx(v)];
      }
      for (ValueId v : n.outputs) {
        // Every dim, not their product: a tensor of [n, 0] has no elements, but no fixed dims either.
        const Exprs& dims = g_.type(v).dims;
        all = all && std::all_of(dims.begin(), dims.end(), [](const Expr& d) { return d.is_const(); }) && !is_complex(g_.type(v).dtype);
        leaf_bytes_[idx(v)] = bytes;
      }
      const bool folds = all && affordable(n);
      for (ValueId v : n.outputs) constant_[idx(v)] = folds;
    }
  }

  static bool numbers_only(const Node& n) {
    for (const auto& [a, v] : n.attrs) {
      if (auto e = std::get_if<Expr>(&v); e && !e->is_const()) return false;
      if (auto es = std::get_if<Exprs>(&v))
        for (const Expr& e : *es)
          if (!e.is_const()) return false;
    }
    return true;
  }

  /// Asked once of each node.
  bool affordable(const Node& n) {
    if (repeats(n)) return true;  // it is stored only where something is computed from it
    const auto bytes_of = [&](ValueId v) { return *g_.type(v).bytes().as_const(); };
    for (ValueId v : n.inputs)
      if (const Node* from = g_.def(v); from && repeats(*from) && bytes_of(v) > effort::kRepeatedBytes) return false;
    int64_t bytes = 0;
    for (ValueId v : n.outputs) bytes += bytes_of(v);
    const int64_t growth = bytes - 2 * leaf_bytes_[idx(n.outputs[0])];
    if (bytes > ctx_.fold_limit_bytes || growth > effort::kGrowthBytes || grown_ + growth > effort::kAllGrowthBytes) return false;
    grown_ += std::max<int64_t>(growth, 0);
    return op_class(n.op) != OpClass::contraction || multiplications(n) <= effort::kMultiplications;
  }
  double multiplications(const Node& n) const {
    auto elems = [&](ValueId v) { return static_cast<double>(g_.type(v).elems().as_const().value_or(0)); };
    if (n.op == Op::matmul) return elems(n.outputs[0]) * static_cast<double>(g_.type(n.inputs[0]).dims.back().as_const().value_or(0));
    return elems(n.outputs[0]) * elems(n.inputs[1]);
  }

  static bool repeats(const Node& n) { return n.op == Op::full || n.op == Op::iota || n.op == Op::expand; }

  /// Kernels of these take a number itself where an input is full().
  static bool takes_numbers(Op op) {
    return is_pointwise(op) || is_view(op) || op_class(op) == OpClass::cat || op_class(op) == OpClass::index;
  }

  /// What v is from now on: where it is constant, a constant or a view of one.
  ValueId current(ValueId v) {
    if (idx(v) >= constant_.size() || !constant_[idx(v)]) return v;
    if (auto it = now_.find(v); it != now_.end()) return it->second;
    return now_[v] = folded(v);
  }
  ValueId number(ValueId v) {
    const ValueId c = current(v);
    if (auto it = numbers_.find(c); it != numbers_.end()) return it->second;
    return numbers_[c] = literal(c);
  }

  ValueId folded(ValueId v) {
    const Value x = g_.values[v];
    if (x.kind == ValueKind::constant) return v;
    const Node n = g_.nodes[x.node];
    if (shows_numbers(v)) return v;
    b_.at(n.name, n.source);
    if (n.op == Op::expand) {
      const ValueId from = number(n.inputs[0]);
      return from == n.inputs[0] ? v : b_.expand(from, x.type.dims);
    }
    if (n.op == Op::permute && only_products_use(v)) {
      const ValueId from = current(n.inputs[0]);
      return from == n.inputs[0] ? v : b_.permute(from, n.get<Ints>(Attr::perm));
    }
    return computed(v);
  }

  /// A view of full() or iota(): kernels compute it from the index, and passes see what it is.
  bool shows_numbers(ValueId v) const {
    const Node* n = g_.def(v);
    while (n && is_view(n->op) && n->op != Op::pad && n->op != Op::window) n = g_.def(n->inputs[0]);
    return n && (n->op == Op::full || n->op == Op::iota);
  }

  /// Products read a permuted weight as it lies: the plan packs it.
  bool only_products_use(ValueId v) const {
    for (NodeId u : users_[idx(v)])
      if (u == kNone<NodeId> || g_.nodes[u].op != Op::matmul) return false;
    return true;
  }

  /// A constant whose elements are all equal as full(), one of consecutive positions as iota().
  ValueId literal(ValueId v) {
    const Value& x = g_.values[v];
    if (x.kind != ValueKind::constant || is_complex(x.type.dtype)) return v;
    const ConstData& c = g_.constants[x.constant];
    const size_t width = dtype_bytes(c.type.dtype);
    if (c.bytes == 0 || c.exchangeable || !has_data(c) || (c.bytes > effort::kLookedAtBytes && !computed_here_.count(v))) return v;
    if (std::memcmp(c.data, c.data + width, c.bytes - width) != 0) return positions(v);
    const TensorType t = x.type;
    return splat(b_, t, c.data);
  }

  ValueId positions(ValueId v) {
    const ConstData& c = g_.constants[g_.values[v].constant];
    if (c.type.dtype != DType::i64) return v;
    int along = -1;
    for (int i = 0; i < c.type.rank(); ++i) {
      if (c.type.dims[i].is(1)) continue;
      if (along >= 0) return v;
      along = i;
    }
    std::vector<int64_t> at(c.bytes / sizeof(int64_t));
    std::memcpy(at.data(), c.data, c.bytes);
    for (size_t i = 1; i < at.size(); ++i)
      if (at[i] != at[0] + static_cast<int64_t>(i)) return v;
    const ValueId line = b_.iota(Exprs(c.type.dims), along);
    return at[0] == 0 ? line : b_.binary(Op::add, line, b_.full_int(g_.type(line), at[0]));
  }

  /// A reshape of stored data, or a slice that is contiguous in it, needs no copy.
  std::optional<ValueId> shared_data(const Node& n) {
    const ValueId from = computed(n.inputs[0]);
    if (g_.values[from].kind != ValueKind::constant) return {};
    ConstData c = g_.constants[g_.values[from].constant];
    const Exprs in = c.type.dims;
    if (n.op == Op::slice) {
      const int64_t d = n.get<int64_t>(Attr::dim);
      for (int64_t i = 0; i < d; ++i)
        if (!in[i].is(1)) return {};
      if (n.get<int64_t>(Attr::step) != 1) return {};
      int64_t row = dtype_bytes(c.type.dtype);
      for (size_t i = d + 1; i < in.size(); ++i) row *= *in[i].as_const();
      c.data += *n.get<Expr>(Attr::start).as_const() * row;
    }
    c.type.dims = g_.type(n.outputs[0]).dims;
    c.bytes = static_cast<size_t>(*c.type.bytes().as_const());
    const ValueId v = b_.constant(std::move(c));
    done_[n.outputs[0]] = v;
    return v;
  }

  /// v as a constant with data of its own (or shared).
  ValueId computed(ValueId v) {
    if (g_.values[v].kind == ValueKind::constant) return v;
    if (auto it = done_.find(v); it != done_.end()) return it->second;
    const Node n = g_.nodes[g_.values[v].node];
    if (n.op == Op::reshape || n.op == Op::slice)
      if (auto shared = shared_data(n)) return *shared;
    std::vector<HostTensor> held;
    held.reserve(n.inputs.size());
    std::vector<const HostTensor*> inputs;
    bool exchangeable = false;
    for (ValueId i : n.inputs) {
      const ConstData& c = g_.constants[g_.values[computed(i)].constant];
      exchangeable = exchangeable || c.exchangeable;
      HostTensor t{c.type.dtype, {}, {c.data, c.data + c.bytes}};
      for (const Expr& d : c.type.dims) t.dims.push_back(*d.as_const());
      held.push_back(std::move(t));
      inputs.push_back(&held.back());
    }
    std::vector<HostTensor> results = interpret_node(g_, n, inputs);
    for (size_t i = 0; i < results.size(); ++i) {
      const BigArray<std::byte> bytes(results[i].bytes.size());
      std::copy(results[i].bytes.begin(), results[i].bytes.end(), bytes.begin());
      results[i].bytes = {};
      const TensorType type = g_.type(n.outputs[i]);
      // Masks and positions that are computed from numbers belong to the program: what is decided by them is decided once.
      const ValueId c = b_.constant({name_for(n), type, bytes.memory(), bytes.data(), bytes.size(), exchangeable && is_float(type.dtype)});
      done_[n.outputs[i]] = c;
      computed_here_.insert(c);
    }
    return done_.at(v);
  }

  /// Of the first named weight that it comes from, so that reports stay readable.
  std::string name_for(const Node& n) const {
    for (ValueId v : n.inputs) {
      auto it = done_.find(v);
      const Value& x = g_.values[it == done_.end() ? v : it->second];
      if (x.kind == ValueKind::constant && g_.constants[x.constant].type.rank() > 0) {
        const std::string& from = g_.constants[x.constant].name;
        return from.size() > 7 && from.substr(from.size() - 7) == ".folded" ? from : from + ".folded";
      }
    }
    return n.name.empty() ? "folded" : n.name + ".folded";
  }

  Graph& g_;
  Builder b_;
  const PassContext& ctx_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> constant_;  ///< by ValueId: can be computed here
  std::vector<int64_t> leaf_bytes_;
  int64_t grown_ = 0;  ///< bytes of results beyond what they are computed from
  std::map<ValueId, ValueId> now_, numbers_;
  std::map<ValueId, ValueId> done_;  ///< what was computed
  std::set<ValueId> computed_here_;  ///< constants made here: worth a look whether all elements are equal
};

}  // namespace

/// Computes nodes whose inputs are all constants. Results much larger than what they are computed from (expand, full, iota) are left to the
/// kernels; views that need no copy share their data, and permuted weights stay views of the weight.
void fold_constants(Graph& g, PassContext& ctx) { Folder(g, ctx).run(); }

}  // namespace aotc::passes
