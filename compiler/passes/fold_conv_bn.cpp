#include "passes/passes.h"

#include "graph/builder.h"
#include "graph/constant_store.h"
#include "graph/scalar.h"
#include "passes/per_channel.h"
#include "passes/rewrite.h"
#include "passes/seen_weight.h"

namespace aotc::passes {
namespace {

/// Which numbers of a product's constant weight belong to output channel c.
struct Weight {
  ConstId data;
  ValueId value;     ///< the constant
  int64_t channels;  ///< output channels
  int64_t dim;       ///< the weight's dim of output channels; transposed convolutions with groups: within a group
  int64_t groups;    ///< > 1: transposed convolution, dim 0 is split into so many
};

/// What stands behind a product, per output channel.
struct Folded {
  Channels scale, shift;
  bool exchangeable = false;  ///< some of it is
  bool shifts = false;        ///< whatever the values are
};

int channel_dim(const Node& n, int rank) { return n.op == Op::matmul ? rank - 1 : 1; }

class ScaleFolder {
 public:
  ScaleFolder(Graph& g, const PassContext& ctx) : g_(g), b_(g), ctx_(ctx) {}

  void run() {
    users_ = g_.users();
    const std::vector<NodeId> order = g_.order;
    for (NodeId id : order)
      if (const Op op = g_.nodes[id].op; op_class(op) == OpClass::contraction && op != Op::attention && op != Op::grouped_matmul) visit(id);
    g_.compact();
  }

 private:
  std::optional<Weight> weight_of(const Node& n) const {
    const std::optional<SeenWeight> w = seen_weight(g_, n.inputs[1]);
    if (!w || (n.op != Op::matmul && !w->perm.empty()) || !has_data(g_.constants[w->constant])) return {};
    if (ctx_.rounded_weights.find(g_.constants[w->constant])) return {};  // few bits cannot say what a scale makes of them
    const TensorType& type = g_.type(w->source);
    if (type.dtype != DType::f32 && type.dtype != DType::f64) return {};  // rounding a scaled 16-bit weight would cost accuracy
    Weight out{w->constant, w->source, 0, 0, 1};
    if (n.op == Op::matmul) out.dim = w->perm.empty() ? type.rank() - 1 : w->perm.back();
    if (n.op == Op::conv_transpose) {
      out.dim = 1;
      out.groups = n.get<int64_t>(Attr::groups);
    }
    out.channels = *type.dims[out.dim].as_const() * out.groups;
    return out;
  }

  void visit(NodeId id) {
    const Node n = g_.nodes[id];
    const auto w = weight_of(n);
    const ValueId product = n.outputs[0];
    if (!w || g_.type(product).dtype != g_.type(w->value).dtype) return;
    const int dim = channel_dim(n, g_.type(product).rank());
    Channels scale(w->channels, 1), shift(w->channels, 0);
    bool scaled = false;
    Folded folded;
    ValueId last = product;
    while (users_[idx(last)].size() == 1 && users_[idx(last)][0] != kNone<NodeId>) {
      const Node& u = g_.nodes[users_[idx(last)][0]];
      const bool left = u.inputs.size() == 2 && u.inputs[0] == last;
      if (u.inputs.size() != 2 || u.inputs[0] == u.inputs[1]) break;
      const ValueId other = u.inputs[left ? 1 : 0];
      if (n.op == Op::matmul && u.op != Op::add && u.op != Op::sub && splat_value(g_, other)) break;  // an epilogue does it for nothing
      const auto c = per_channel(g_, other, dim, w->channels);
      if (!c || !then(u.op, left, *c, scale, shift)) break;
      scaled = scaled || u.op == Op::mul || u.op == Op::div || !left;
      const bool exchangeable = exchangeable_channels(g_, other);
      folded.exchangeable = folded.exchangeable || exchangeable;
      folded.shifts = folded.shifts || (exchangeable && (u.op == Op::add || u.op == Op::sub));
      last = u.outputs[0];
    }
    if (!scaled) return;
    folded.scale = std::move(scale), folded.shift = std::move(shift);
    rebuild(n, *w, dim, folded, last);
  }

  void rebuild(const Node& n, const Weight& w, int dim, const Folded& folded, ValueId last) {
    b_.at(n.name, n.source);
    std::vector<ValueId> inputs = n.inputs;
    const ValueId scaled = b_.constant(scaled_weight(w, folded));
    const Node* p = g_.def(n.inputs[1]);
    inputs[1] = p ? b_.permute(scaled, Ints(p->get<Ints>(Attr::perm))) : scaled;
    const TensorType type = g_.type(n.outputs[0]);
    ValueId y = b_.make1(n.op, std::move(inputs), n.attrs, &type);
    bool any_shift = folded.shifts;
    for (double s : folded.shift) any_shift = any_shift || s != 0;
    if (any_shift) {
      ConstData c = channels_constant(g_.constants[w.data].name + ".shift", type.dtype, type.rank(), dim, folded.shift);
      c.exchangeable = folded.exchangeable;
      y = b_.binary(Op::add, y, b_.expand(b_.constant(c), type.dims));
    }
    g_.replace_all_uses(last, y);
  }

  ConstData scaled_weight(const Weight& w, const Folded& folded) const {
    const ConstData& from = g_.constants[w.data];
    const int64_t width = dtype_bytes(from.type.dtype);
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < from.type.rank(); ++i) {
      if (i < w.dim) outer *= *from.type.dims[i].as_const();
      if (i > w.dim) inner *= *from.type.dims[i].as_const();
    }
    const int64_t per_group = w.channels / w.groups;
    auto bytes = std::make_shared<std::vector<std::byte>>(from.bytes);
    std::vector<double> row(inner);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t c = 0; c < per_group; ++c) {
        const int64_t at = (o * per_group + c) * inner * width;
        const double s = folded.scale[w.groups == 1 ? c : o / (outer / w.groups) * per_group + c];
        load_f64(from.type.dtype, from.data + at, row.data(), inner);
        for (double& x : row) x *= s;
        store_f64(from.type.dtype, row.data(), bytes->data() + at, inner);
      }
    return {from.name + ".scaled", from.type, bytes, bytes->data(), bytes->size(), from.exchangeable || folded.exchangeable};
  }

  Graph& g_;
  Builder b_;
  const PassContext& ctx_;
  std::vector<std::vector<NodeId>> users_;
};

}  // namespace

/// Folds scales and shifts per output channel into the constant weights of the convolution or matrix product before them: each weight is
/// rounded once more. Only f32 and f64 weights.
void fold_conv_bn(Graph& g, PassContext& ctx) { ScaleFolder(g, ctx).run(); }

}  // namespace aotc::passes
