#include "passes/passes.h"

#include <algorithm>

#include "graph/builder.h"
#include "graph/constant_store.h"
#include "graph/scalar.h"
#include "passes/per_channel.h"
#include "passes/seen_weight.h"

namespace aotc::passes {
namespace {

/// What a sum adds.
struct Leaf {
  ValueId value;
  double sign;
};

/// A convolution or product by a constant weight.
struct Weighted {
  NodeId node;
  ConstId weight;
  Ints kernel, stride, padding, dilation;  ///< of spatial dims; all empty: a product
  Ints perm;                               ///< of a product whose weight is seen through a permute
  int64_t groups = 1, places = 1;          ///< places: of the kernel
};

/// One term of the sum that is made: where its kernel's first place lies in the whole kernel, per spatial dim, and how far its places are
/// apart.
struct Term {
  ConstId weight;  ///< none: `scale` per channel at one place
  Channels scale;
  double sign;
  Ints kernel, first, apart;
  bool exchangeable = false;  ///< `scale` is
};

class WeightAdder {
 public:
  WeightAdder(Graph& g, const PassContext& ctx) : g_(g), b_(g), ctx_(ctx) {}

  void run() {
    users_ = g_.users();
    const std::vector<NodeId> order = g_.order;
    for (NodeId id : order) {
      const Node& n = g_.nodes[id];
      if (sums(n) && !(only_user(n.outputs[0]) && sums(*only_user(n.outputs[0])))) visit(id);
    }
    g_.compact();
  }

 private:
  bool sums(const Node& n) const {
    return !n.dead && (n.op == Op::add || n.op == Op::sub) &&
           (g_.type(n.outputs[0]).dtype == DType::f32 || g_.type(n.outputs[0]).dtype == DType::f64);
  }
  const Node* only_user(ValueId v) const {
    if (idx(v) >= users_.size()) return nullptr;  // made by this pass
    const auto& all = users_[idx(v)];
    return all.size() == 1 && all[0] != kNone<NodeId> ? &g_.nodes[all[0]] : nullptr;
  }

  void leaves_of(const Node& n, double sign, std::vector<Leaf>& to) const {
    for (size_t i = 0; i < 2; ++i) {
      const double s = i == 1 && n.op == Op::sub ? -sign : sign;
      const Node* d = g_.def(n.inputs[i]);
      if (d && sums(*d) && only_user(n.inputs[i]))
        leaves_of(*d, s, to);
      else
        to.push_back({n.inputs[i], s});
    }
  }

  std::optional<Weighted> weighted(ValueId v) const {
    const Node* n = g_.def(v);
    if (!n || (n->op != Op::conv && n->op != Op::matmul) || !only_user(v) || n->has(Attr::value)) return {};
    Weighted w{g_.values[v].node, kNone<ConstId>, {}, {}, {}, {}, {}};
    const std::optional<SeenWeight> weight = seen_weight(g_, n->inputs[1]);
    if (!weight || n->inputs.size() != 2 || (n->op == Op::conv && !weight->perm.empty())) return {};
    w.weight = weight->constant, w.perm = weight->perm;
    const ConstData& c = g_.constants[w.weight];
    if (!has_data(c) || c.type.dtype != g_.type(v).dtype || c.type.dtype != g_.type(n->inputs[0]).dtype || ctx_.rounded_weights.find(c))
      return {};
    if (n->op == Op::matmul) return w;
    if (n->get_or<bool>(Attr::channels_last, false)) return {};
    for (size_t i = 2; i < c.type.dims.size(); ++i) w.kernel.push_back(*c.type.dims[i].as_const()), w.places *= w.kernel.back();
    w.stride = n->get<Ints>(Attr::stride), w.padding = n->get<Ints>(Attr::padding), w.dilation = n->get<Ints>(Attr::dilation);
    w.groups = n->get<int64_t>(Attr::groups);
    return w;
  }

  /// Where a kernel whose first place is `before` the output's and whose places are `dilation` apart lies in `whole`.
  static std::optional<Term> placed(const Weighted& whole, const Ints& kernel, const Ints& before, const Ints& dilation) {
    Term t{kNone<ConstId>, {}, 1, kernel, {}, {}};
    for (size_t i = 0; i < kernel.size(); ++i) {
      const int64_t step = whole.dilation[i], first = whole.padding[i] - before[i], apart = kernel[i] > 1 ? dilation[i] : step;
      if (first % step || apart % step || first < 0 || first + (kernel[i] - 1) * apart > (whole.kernel[i] - 1) * step) return {};
      t.first.push_back(first / step), t.apart.push_back(apart / step);
    }
    return t;
  }
  std::optional<Term> term(const Weighted& whole, const Weighted& w) const {
    const Node &a = g_.nodes[whole.node], &b = g_.nodes[w.node];
    if (a.op != b.op || a.inputs[0] != b.inputs[0] || whole.perm != w.perm || whole.groups != w.groups || whole.stride != w.stride)
      return {};
    const Exprs &p = g_.constants[whole.weight].type.dims, &q = g_.constants[w.weight].type.dims;
    if (p.size() != q.size() || !std::equal(p.begin(), p.begin() + (a.op == Op::conv ? 2 : p.size()), q.begin())) return {};
    std::optional<Term> t = placed(whole, w.kernel, w.padding, w.dilation);
    if (t) t->weight = w.weight;
    return t;
  }
  /// An image with a scale and a shift per channel, where v is one of what `whole` reads; the shift is added to `shift`.
  std::optional<Term> scaled(const Weighted& whole, const Leaf& leaf, Channels& shift) {
    const Node& conv = g_.nodes[whole.node];
    if (conv.op != Op::conv) return {};
    const ValueId x = conv.inputs[0];
    const auto channels = static_cast<int64_t>(shift.size());
    if (!g_.type(x).dims[1].is(channels)) return {};
    for (int64_t s : whole.stride)
      if (s != 1) return {};
    struct Step {
      Op op;
      bool left;
      Channels c;
    };
    bool exchangeable = false;
    std::vector<Step> steps;
    for (ValueId v = leaf.value; v != x;) {
      const Node* n = g_.def(v);
      if (!n || n->inputs.size() != 2 || !only_user(v)) return {};
      std::optional<Channels> c = per_channel(g_, n->inputs[1], 1, channels);
      const bool left = c.has_value();
      if (!c) c = per_channel(g_, n->inputs[0], 1, channels);
      if (!c) return {};
      exchangeable = exchangeable || exchangeable_channels(g_, n->inputs[left ? 1 : 0]);
      v = n->inputs[left ? 0 : 1];
      steps.push_back({n->op, left, std::move(*c)});
    }
    if (steps.empty()) return {};  // an image as it is costs nothing to add
    Channels scale(channels, 1), more(channels, 0);
    for (auto s = steps.rbegin(); s != steps.rend(); ++s)
      if (!then(s->op, s->left, s->c, scale, more)) return {};
    std::optional<Term> t = placed(whole, Ints(whole.kernel.size(), 1), Ints(whole.kernel.size(), 0), Ints(whole.kernel.size(), 1));
    if (!t) return {};
    for (size_t i = 0; i < shift.size(); ++i) shift[i] += leaf.sign * more[i];
    t->scale = std::move(scale);
    t->exchangeable = exchangeable;
    exchangeable_shift_ = exchangeable_shift_ || exchangeable;
    return t;
  }

  void visit(NodeId root) {
    const Node n = g_.nodes[root];
    std::vector<Leaf> leaves;
    leaves_of(n, 1, leaves);
    std::vector<std::optional<Weighted>> all;
    for (const Leaf& l : leaves) all.push_back(weighted(l.value));
    std::vector<bool> taken(leaves.size(), false);
    exchangeable_shift_ = false;
    std::optional<Channels> shift;  // along `dim` of the sum, once there is one of its terms
    int dim = 1;
    while (true) {  // the largest kernel that is left, and what can be added to it
      std::optional<size_t> at;
      for (size_t i = 0; i < leaves.size(); ++i)
        if (all[i] && (!at || all[i]->places > all[*at]->places)) at = i;
      if (!at) break;
      const Weighted whole = *all[*at];
      all[*at].reset();
      if (!gather(whole, *at, leaves, all, taken, shift)) continue;
      dim = g_.nodes[whole.node].op == Op::conv ? 1 : g_.type(n.outputs[0]).rank() - 1;
    }
    if (!shift) return;
    // What the terms' own shifts are, in one.
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (taken[i]) continue;
      const auto c = per_channel(g_, leaves[i].value, dim, static_cast<int64_t>(shift->size()));
      if (!c) continue;
      taken[i] = true;
      exchangeable_shift_ = exchangeable_shift_ || exchangeable_channels(g_, leaves[i].value);
      for (size_t k = 0; k < c->size(); ++k) (*shift)[k] += leaves[i].sign * (*c)[k];
    }
    const TensorType type = g_.type(n.outputs[0]);
    if (exchangeable_shift_ || std::any_of(shift->begin(), shift->end(), [](double s) { return s != 0; })) {
      ConstData c = channels_constant(n.name + ".shift", type.dtype, type.rank(), dim, *shift);
      c.exchangeable = exchangeable_shift_;
      leaves.push_back({b_.expand(b_.constant(std::move(c)), type.dims), 1});
      taken.push_back(false);
    }
    std::optional<ValueId> sum;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (taken[i]) continue;
      if (sum)
        sum = b_.binary(leaves[i].sign < 0 ? Op::sub : Op::add, *sum, leaves[i].value);
      else
        sum = leaves[i].sign < 0 ? b_.unary(Op::neg, leaves[i].value) : leaves[i].value;
    }
    g_.replace_all_uses(n.outputs[0], *sum);
  }

  /// Makes one of leaf `at` and of what can be added to it; false where nothing can. `shift` is what has to be added to the results'
  /// channels.
  bool gather(const Weighted& whole, size_t at, std::vector<Leaf>& leaves, std::vector<std::optional<Weighted>>& all,
              std::vector<bool>& taken, std::optional<Channels>& shift) {
    const Node n = g_.nodes[whole.node];
    const TensorType type = g_.type(n.outputs[0]);
    std::vector<Term> terms{*term(whole, whole)};
    terms[0].sign = leaves[at].sign;
    Channels more = shift ? *shift : Channels(static_cast<size_t>(*type.dims[n.op == Op::conv ? 1 : type.dims.size() - 1].as_const()), 0);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (i == at || taken[i]) continue;
      std::optional<Term> t;
      if (all[i])
        t = term(whole, *all[i]);
      else if (ctx_.target.traits().scaled_additions)
        t = scaled(whole, leaves[i], more);
      if (!t) continue;
      t->sign = leaves[i].sign;
      terms.push_back(std::move(*t));
      taken[i] = true, all[i].reset();
    }
    if (terms.size() == 1) return false;
    b_.at(n.name, n.source);
    std::vector<ValueId> inputs = n.inputs;
    inputs[1] = b_.constant(added(whole, terms));
    if (!whole.perm.empty()) inputs[1] = b_.permute(inputs[1], whole.perm);
    leaves[at] = {b_.make1(n.op, std::move(inputs), n.attrs, &type), 1};
    shift = std::move(more);
    return true;
  }

  /// The sum of the terms' weights, which are [channels of the output, of the input in a group, kernel..] or a product's.
  ConstData added(const Weighted& whole, const std::vector<Term>& terms) const {
    const ConstData& like = g_.constants[whole.weight];
    const int64_t count = static_cast<int64_t>(like.bytes) / dtype_bytes(like.type.dtype), places = whole.places;
    std::vector<double> sum(static_cast<size_t>(count), 0), from;
    bool exchangeable = false;
    for (const Term& t : terms) {
      exchangeable = exchangeable || t.exchangeable || (t.weight != kNone<ConstId> && g_.constants[t.weight].exchangeable);
      int64_t small = 1;
      for (int64_t k : t.kernel) small *= k;
      // Of each place of the term that of the whole kernel.
      std::vector<int64_t> at(static_cast<size_t>(small), 0);
      for (int64_t p = 0; p < small; ++p)
        for (int64_t i = 0, rest = p, below = small; i < static_cast<int64_t>(t.kernel.size()); ++i) {
          below /= t.kernel[i];
          at[p] = at[p] * whole.kernel[i] + t.first[i] + rest / below * t.apart[i];
          rest %= below;
        }
      if (t.weight == kNone<ConstId>) {
        const auto channels = static_cast<int64_t>(t.scale.size()), in_group = channels / whole.groups;
        for (int64_t c = 0; c < channels; ++c) sum[(c * in_group + c % in_group) * places + at[0]] += t.sign * t.scale[c];
        continue;
      }
      const ConstData& c = g_.constants[t.weight];
      from.resize(static_cast<size_t>(count / places * small));
      load_f64(c.type.dtype, c.data, from.data(), static_cast<int64_t>(from.size()));
      for (int64_t o = 0; o < count / places; ++o)
        for (int64_t p = 0; p < small; ++p) sum[o * places + at[p]] += t.sign * from[o * small + p];
    }
    auto bytes = std::make_shared<std::vector<std::byte>>(like.bytes);
    store_f64(like.type.dtype, sum.data(), bytes->data(), count);
    return {like.name + ".added", like.type, bytes, bytes->data(), bytes->size(), exchangeable};
  }

  Graph& g_;
  Builder b_;
  const PassContext& ctx_;
  std::vector<std::vector<NodeId>> users_;
  bool exchangeable_shift_ = false;  ///< of the sum that is made: some of its shift is
};

}  // namespace

/// Convolutions of the same images by constant weights whose results are added or subtracted become one, by the sum of the weights: of
/// kernels of different sizes the smaller lie where they are within the largest; an image with a scale per channel that is added is a
/// kernel of one place (branches as RepVGG and MobileOne have them; not on GPUs, whose tensor cores cut sums off: an image added by itself
/// is nearer). So do products of one matrix. Each weight is rounded once more. Only f32 and f64.
void add_weights(Graph& g, PassContext& ctx) { WeightAdder(g, ctx).run(); }

}  // namespace aotc::passes
