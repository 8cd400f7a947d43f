#include "passes/passes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "base/effort.h"
#include "base/uarch.h"
#include "graph/builder.h"
#include "graph/infer.h"
#include "passes/rewrite.h"
#include "passes/spread_groups.h"

namespace aotc::passes {
namespace {

constexpr int kInPlace = -1;  ///< of a result whose layout no longer depends on where the channels are

/// perm that moves dim `channel` of `rank` behind the others; back: its inverse.
Ints to_last(int rank, int channel) {
  Ints perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + channel, perm.begin() + channel + 1, perm.end());
  return perm;
}
Ints from_last(int rank, int channel) {
  Ints perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::rotate(perm.begin() + channel, perm.end() - 1, perm.end());
  return perm;
}

bool is_pixel_product(const Graph& g, const Node& n) {
  const Exprs& w = g.type(n.inputs[1]).dims;
  const auto all = [&](Attr a, int64_t v) { return all_are(n.get<Ints>(a), v); };
  return std::all_of(w.begin() + 2, w.end(), [](const Expr& e) { return e.is(1); }) && all(Attr::stride, 1) && all(Attr::padding, 0) &&
         all(Attr::padding_hi, 0) && n.get<int64_t>(Attr::groups) == 1;
}

/// A transposed convolution whose windows lie side by side: an input pixel makes the outputs of its own window.
bool is_spread_product(const Graph& g, const Node& n) {
  if (n.op != Op::conv_transpose || n.get<int64_t>(Attr::groups) != 1) return false;
  const auto all = [&](Attr a, int64_t v) { return all_are(n.get<Ints>(a), v); };
  const Exprs& w = g.type(n.inputs[1]).dims;
  const Ints& stride = n.get<Ints>(Attr::stride);
  for (size_t d = 0; d < stride.size(); ++d)
    if (!w[d + 2].is(stride[d])) return false;
  return all(Attr::dilation, 1) && all(Attr::padding, 0) && all(Attr::padding_hi, 0) && all(Attr::output_padding, 0);
}

using Channels = std::map<ValueId, int>;  ///< values that are there with their channels last: which dim the channels are

/// The dim of the channels in the result of a node that is computed channels-last since one of its inputs is; nullopt: it is not.
std::optional<int> carried(const Graph& g, const Node& n, const Channels& last) {
  if (n.outputs.size() != 1) return std::nullopt;
  const auto at = [&](ValueId v) {
    const auto it = last.find(v);
    return it == last.end() ? std::optional<int>() : it->second;
  };
  std::optional<int> channel;
  for (ValueId v : n.inputs)
    if (const auto c = at(v)) {
      if (channel && *channel != *c) return std::nullopt;
      channel = c;
    }
  if (!channel) return std::nullopt;
  const int c = *channel;
  if (is_pointwise(n.op) || n.op == Op::cat) return c;
  if (!at(n.inputs[0])) return std::nullopt;
  switch (n.op) {
    case Op::expand:
    case Op::slice:
    case Op::flip:
    case Op::pad:
    case Op::scan: return c;
    case Op::window: return c < g.type(n.inputs[0]).rank() - static_cast<int>(n.get<Ints>(Attr::kernel).size()) ? channel : std::nullopt;
    case Op::reshape: {  // of what lies behind the channels: the pixels, or dims of windows
      const Exprs &from = g.type(n.inputs[0]).dims, &to = g.type(n.outputs[0]).dims;
      const auto lead = static_cast<ptrdiff_t>(c) + 1;
      if (static_cast<ptrdiff_t>(to.size()) < lead) return std::nullopt;
      return same_dims(g, Exprs(from.begin(), from.begin() + lead), Exprs(to.begin(), to.begin() + lead)) ? channel : std::nullopt;
    }
    case Op::permute: {
      const Ints& perm = n.get<Ints>(Attr::perm);
      return static_cast<int>(std::find(perm.begin(), perm.end(), c) - perm.begin());
    }
    case Op::index: {
      const Ints& dims = n.get<Ints>(Attr::dims);
      if (std::find(dims.begin(), dims.end(), c) != dims.end()) return std::nullopt;
      const int left = c - static_cast<int>(std::count_if(dims.begin(), dims.end(), [&](int64_t d) { return d < c; }));
      return n.get<int64_t>(Attr::out_pos) <= left ? left + g.type(n.inputs[1]).rank() : left;
    }
    case Op::reduce: {
      const Ints& dims = n.get<Ints>(Attr::dims);
      const ReduceKind kind = n.reduce_kind();
      const bool position = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
      const bool over = std::find(dims.begin(), dims.end(), c) != dims.end();
      if (position && over && dims.size() > 1) return std::nullopt;  // counts along the dims as they stand
      return over ? kInPlace : c - static_cast<int>(std::count_if(dims.begin(), dims.end(), [&](int64_t d) { return d < c; }));
    }
    default: return std::nullopt;
  }
}

/// Sets that grow together.
class Groups {
 public:
  explicit Groups(size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  size_t of(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(size_t a, size_t b) { parent_[of(a)] = of(b); }

 private:
  std::vector<size_t> parent_;
};

class Chooser {
 public:
  Chooser(const Graph& g, const PassContext& ctx) : g_(g), uarch_(uarch_of(ctx.target)) {
    for (NodeId id : g.order) {
      const Node& n = g.nodes[id];
      const bool spread = is_spread_product(g, n);
      if ((n.op != Op::conv && !spread) || n.get_or<bool>(Attr::channels_last, false)) continue;
      const double last = ctx.conv_ns(g, n, spread || is_pixel_product(g, n) ? ConvAs::product : ConvAs::channels_last);
      // What only one of both can compute stays, or goes, whatever the reorders take.
      if (std::isfinite(last)) gain_[id] = std::min(ctx.conv_ns(g, n, ConvAs::channels_first), kForced) - last;
    }
  }

  /// What a choice means, for explain.
  void tell(const std::set<NodeId>& chosen, LayoutChoice& to) const {
    const Split s = split(chosen);
    to.channels_last = chosen.size();
    to.gained_ns = -s.cost();
    for (ValueId v : s.reorders) {
      const Node* d = g_.def(v);
      to.reorders.push_back({d                                       ? d->name
                             : g_.values[v].kind == ValueKind::input ? g_.inputs[g_.values[v].input].name
                                                                     : "a state",
                             g_.syms.hint(g_.type(v).bytes())});
    }
  }

  /// The values that are stored with one of their dims last.
  Channels kept_last(const std::set<NodeId>& chosen) const { return split(chosen).last; }

  /// The convolutions that are to have their channels last: of all that may and of those that gain by themselves the better set, without
  /// the groups that lose, then changed one by one while that helps.
  std::set<NodeId> run() const {
    std::set<NodeId> all, gaining;
    for (const auto& [id, gain] : gain_) {
      all.insert(id);
      if (gain > 0) gaining.insert(id);
    }
    std::set<NodeId> best = without_losers(std::move(all)), other = without_losers(std::move(gaining));
    double cost = split(best).cost();
    if (split(other).cost() < cost) best = std::move(other), cost = split(best).cost();
    if (gain_.size() * g_.order.size() > effort::kLayoutTries) return best;
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [id, gain] : gain_) {
        std::set<NodeId> now = best;
        if (!now.erase(id)) now.insert(id);
        const double c = split(now).cost();
        if (c >= cost - 1) continue;
        best = std::move(now), cost = c, changed = true;
      }
    }
    return without_losers(std::move(best));
  }

 private:
  /// ns beyond those of any program, beside which an eighth of one still counts.
  static constexpr double kForced = static_cast<double>(int64_t{1} << (std::numeric_limits<double>::digits - 4));

  /// What a set of convolutions costs and gains, by group of those that are connected.
  struct Split {
    std::map<size_t, double> net;               ///< by group: what is gained
    std::vector<ValueId> reorders;              ///< values that both layouts of are needed
    std::vector<std::pair<NodeId, size_t>> of;  ///< group of each convolution
    Channels last;
    double cost() const {
      double sum = 0;
      for (const auto& [group, gained] : net) sum -= gained;
      return sum;
    }
  };

  /// A view of other dims behind the channels (tokens that are pixels) shows no other order.
  bool splits_behind(const Node& n, int channel) const {
    if (n.op != Op::reshape) return false;
    const Exprs &from = g_.type(n.inputs[0]).dims, &to = g_.type(n.outputs[0]).dims;
    const auto lead = static_cast<ptrdiff_t>(channel) + 1;
    return static_cast<ptrdiff_t>(std::min(from.size(), to.size())) > lead &&
           same_dims(g_, Exprs(from.begin(), from.begin() + lead), Exprs(to.begin(), to.begin() + lead));
  }

  /// Of bringing the value from one layout to the other.
  double reorder_ns(ValueId v, int channel) const {
    if (channel == g_.type(v).rank() - 1) return 0;
    const Node* d = g_.def(v);
    for (; d && (d->op == Op::expand || splits_behind(*d, channel)); d = g_.def(v)) v = d->inputs[0];
    // Constants are reordered beforehand; what the user has permuted is not stored yet.
    if (g_.values[v].kind == ValueKind::constant || (d && (d->op == Op::permute || d->op == Op::full))) return 0;
    // The kernel of a pool, with what rounds or clamps its result, brings that into the other order: it reads all of its windows across
    // the order they are in.
    while (d && is_pointwise(d->op) && d->inputs.size() == 1) d = g_.def(d->inputs[0]);
    if (d && d->op == Op::reduce) {
      const Node* of = g_.def(d->inputs[0]);
      while (of && of->op != Op::window && is_view(of->op)) of = g_.def(of->inputs[0]);
      if (of && of->op == Op::window) v = d->inputs[0];
    }
    return uarch_.reorder_ns_per_byte * static_cast<double>(g_.syms.hint(g_.type(v).elems())) * dtype_bytes(g_.type(v).dtype);
  }

  Split split(const std::set<NodeId>& chosen) const {
    Groups groups(g_.values.size());
    std::set<ValueId> first_too;  // of those that are last, read the other way too
    std::vector<std::pair<ValueId, double>> costs;
    std::set<std::pair<ValueId, int>> reordered;  // with the dim that is last then
    Split r;
    Channels& last = r.last;
    const auto reorder = [&](ValueId group, ValueId v, int channel) {
      const double ns = reorder_ns(v, channel);
      if (ns > 0) r.reorders.push_back(v);
      costs.emplace_back(group, ns);
    };
    for (NodeId id : g_.order) {
      const Node& n = g_.nodes[id];
      const ValueId out = n.outputs[0];
      if (chosen.count(id)) {
        const ValueId x = n.inputs[0];
        if (const auto it = last.find(x); it != last.end() && it->second == 1)
          groups.join(idx(x), idx(out));
        else if (reordered.insert({x, 1}).second)
          reorder(out, x, 1);
        last[out] = 1;
        continue;
      }
      const auto c = carried(g_, n, last);
      std::optional<int> from;
      for (ValueId v : n.inputs)
        if (const auto it = last.find(v); it != last.end()) from = it->second;
      for (ValueId v : n.inputs) {
        if (!last.count(v)) {
          if (c && !is_view(n.op) && reordered.insert({v, *from}).second) reorder(out, v, *from);
        } else if (c) {
          groups.join(idx(v), idx(out));
        } else if (first_too.insert(v).second) {
          reorder(v, v, last.at(v));
        }
      }
      if (c && n.op == Op::window) costs.emplace_back(out, -uarch_.window_ns * static_cast<double>(g_.syms.hint(g_.type(out).elems())));
      if (c && *c != kInPlace) last[out] = *c;
    }
    const auto delivered = [&](ValueId v) {
      if (last.count(v) && first_too.insert(v).second) reorder(v, v, last.at(v));
    };
    for (const OutputInfo& o : g_.outputs) delivered(o.value);
    for (const StateInfo& s : g_.states)
      if (s.updated != kNone<ValueId>) delivered(s.updated);
    for (const auto& [v, cost] : costs) r.net[groups.of(idx(v))] -= cost;
    for (NodeId id : chosen) {
      const size_t group = groups.of(idx(g_.nodes[id].outputs[0]));
      r.net[group] += gain_.at(id);
      r.of.emplace_back(id, group);
    }
    return r;
  }

  std::set<NodeId> without_losers(std::set<NodeId> chosen) const {
    while (!chosen.empty()) {
      const Split s = split(chosen);
      const size_t before = chosen.size();
      for (const auto& [id, group] : s.of)
        if (s.net.at(group) <= 0) chosen.erase(id);
      if (chosen.size() == before) break;
    }
    return chosen;
  }

  const Graph& g_;
  const Uarch& uarch_;
  std::map<NodeId, double> gain_;
};

class Placer {
 public:
  Placer(Graph& g, std::set<NodeId> chosen) : g_(g), b_(g), chosen_(std::move(chosen)) {}

  void run() {
    const std::vector<NodeId> old = std::move(g_.order);
    g_.order.clear();
    for (NodeId id : old) {
      const Node n = g_.nodes[id];  // a copy: building nodes moves them
      b_.at(n.name, n.source);
      const auto channel = chosen_.count(id) ? std::optional<int>(1) : carried(g_, n, channels_);
      if (!channel) {
        std::vector<ValueId> inputs;
        for (ValueId v : n.inputs) inputs.push_back(first(v));
        g_.nodes[id].inputs = std::move(inputs);
        g_.order.push_back(id);
        continue;
      }
      const ValueId out = n.outputs[0];
      const ValueId made = chosen_.count(id) ? conv(n) : node(n, *channel);
      if (*channel == kInPlace) {
        first_[out] = made;
      } else {
        channels_[out] = *channel;
        last_[{out, *channel}] = made;
      }
    }
    for (OutputInfo& o : g_.outputs) o.value = first(o.value);
    for (StateInfo& s : g_.states)
      if (s.updated != kNone<ValueId>) s.updated = first(s.updated);
    g_.compact();
  }

 private:
  /// The value with its dims as they were.
  ValueId first(ValueId v) {
    if (const auto it = first_.find(v); it != first_.end()) return it->second;
    const auto c = channels_.find(v);
    if (c == channels_.end()) return v;
    return first_[v] = b_.permute(last_.at({v, c->second}), from_last(g_.type(v).rank(), c->second));
  }
  ValueId last(ValueId v, int channel) {
    if (const auto it = last_.find({v, channel}); it != last_.end()) return it->second;
    return last_[{v, channel}] = b_.permute(first(v), to_last(g_.type(v).rank(), channel));
  }

  ValueId conv(const Node& n) {
    const ValueId x = last(n.inputs[0], 1), w = first(n.inputs[1]);
    if (n.op == Op::conv_transpose) return spread(n, x, w);
    if (!is_pixel_product(g_, n)) {
      std::map<Attr, AttrValue> attrs = n.attrs;
      attrs[Attr::channels_last] = true;
      TensorType t = g_.type(n.outputs[0]);
      std::rotate(t.dims.begin() + 1, t.dims.begin() + 2, t.dims.end());
      return b_.make1(Op::conv, {x, w}, std::move(attrs), &t);
    }
    Exprs dims = b_.dims(x);
    const Expr c = dims.back(), co = b_.dims(w)[0];
    dims.pop_back();
    const ValueId rows = b_.reshape(x, {product(dims), c});
    const ValueId y = b_.matmul(rows, b_.permute(b_.reshape(w, {co, c}), {1, 0}), g_.type(n.outputs[0]).dtype);
    dims.push_back(co);
    return b_.reshape(y, std::move(dims));
  }

  /// [pixel, ci] x [ci, (tap, co)], each tap's outputs brought to their place.
  ValueId spread(const Node& n, ValueId x, ValueId w) {
    const Exprs from = b_.dims(x), taps = b_.dims(w);
    const int rank = static_cast<int>(taps.size()) - 2;
    const Expr ci = taps[0], co = taps[1], each = product(Exprs(taps.begin() + 2, taps.end()));
    const ValueId weights = b_.reshape(b_.permute(w, to_last(rank + 2, 1)), {ci, each * co});
    const ValueId y = b_.matmul(b_.reshape(x, {product(Exprs(from.begin(), from.end() - 1)), ci}), weights, g_.type(n.outputs[0]).dtype);
    Exprs apart(from.begin(), from.end() - 1), together = {from[0]};
    Ints perm = {0};
    for (int d = 0; d < rank; ++d) {
      apart.push_back(taps[static_cast<size_t>(d) + 2]);
      together.push_back(from[static_cast<size_t>(d) + 1] * taps[static_cast<size_t>(d) + 2]);
      perm.insert(perm.end(), {d + 1, rank + d + 1});
    }
    apart.push_back(co), together.push_back(co), perm.push_back(2 * rank + 1);
    return b_.reshape(b_.permute(b_.reshape(y, std::move(apart)), perm), std::move(together));
  }

  /// A carried node; `channel`: of its result.
  ValueId node(const Node& n, int channel) {
    const TensorType given = g_.type(n.outputs[0]);
    if (is_view(n.op) || n.op == Op::index) {  // index maps: the way back and forth is part of them
      std::vector<ValueId> inputs;
      for (ValueId v : n.inputs) inputs.push_back(first(v));
      return b_.permute(b_.make1(n.op, std::move(inputs), n.attrs, &given), to_last(given.rank(), channel));
    }
    const auto in = std::find_if(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return channels_.count(v) != 0; });
    const int from = channels_.at(*in), rank = g_.type(*in).rank();
    std::map<Attr, AttrValue> attrs = n.attrs;
    const auto moved = [&](int64_t d) { return d < from ? d : d == from ? rank - 1 : d - 1; };
    if (n.op == Op::cat || n.op == Op::scan) attrs[Attr::dim] = moved(n.get<int64_t>(Attr::dim));
    if (n.op == Op::reduce) {
      Ints dims = n.get<Ints>(Attr::dims);
      for (int64_t& d : dims) d = moved(d);
      std::sort(dims.begin(), dims.end());
      attrs[Attr::dims] = std::move(dims);
    }
    std::vector<ValueId> inputs;
    for (ValueId v : n.inputs) inputs.push_back(last(v, from));
    TensorType t = given;
    if (channel != kInPlace) std::rotate(t.dims.begin() + channel, t.dims.begin() + channel + 1, t.dims.end());
    return b_.make1(n.op, std::move(inputs), std::move(attrs), &t);
  }

  Graph& g_;
  Builder b_;
  std::set<NodeId> chosen_;
  Channels channels_;
  std::map<ValueId, ValueId> first_;
  std::map<std::pair<ValueId, int>, ValueId> last_;
};

/// Norms of groups of channels that will lie last are computed channel by channel, but where they are one kernel as they are.
void spread_norms(Graph& g, const PassContext& ctx) {
  if (ctx.target.traits().group_norms) return;
  Graph trial = g;
  const std::vector<GroupRows> all = spread_groups(trial, [](NodeId) { return true; });
  if (all.empty()) return;
  const Chooser chooser(trial, ctx);
  const Channels last = chooser.kept_last(chooser.run());
  std::set<NodeId> which;
  for (const GroupRows& r : all)
    if (const auto it = last.find(r.of); it != last.end() && it->second == 1) which.insert(r.reshape);
  if (!which.empty()) spread_groups(g, [&](NodeId id) { return which.count(id) != 0; });
}

}  // namespace

/// The layout of activations. A tensor whose channels go last is, in the graph, a permuted one: convolutions for which
/// PassContext::conv_ns says that channels-last is faster become `conv {channels_last}` (or matmul, where the kernel is one pixel), and
/// what lies between them (pointwise nodes, reductions, views, cat) is computed on the permuted tensors, so that permutes stand only where
/// both layouts meet. Norms of groups of channels are computed channel by channel then (spread_groups.h). A connected group of such
/// convolutions is left alone where the reorders at its borders cost more than it gains.
void channels_last(Graph& g, PassContext& ctx) {
  if (!ctx.conv_ns) return;
  spread_norms(g, ctx);
  const Chooser chooser(g, ctx);
  std::set<NodeId> chosen = chooser.run();
  if (ctx.layouts) {
    *ctx.layouts = {};
    for (NodeId id : g.order) ctx.layouts->convolutions += g.nodes[id].op == Op::conv || g.nodes[id].op == Op::conv_transpose;
    chooser.tell(chosen, *ctx.layouts);
  }
  if (!chosen.empty()) Placer(g, std::move(chosen)).run();
}

}  // namespace aotc::passes
