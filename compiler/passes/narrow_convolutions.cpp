#include "base/uarch.h"
#include "passes/passes.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

constexpr int64_t kTogether = 8;  ///< channels come in a multiple of these

/// What a convolution becomes.
struct Narrow {
  int64_t channels, places, filled;  ///< of x; of the kernel's moved dims; channels * places, filled up
  size_t kept;                       ///< spatial dims before those that are moved
  Ints stride, padding, padding_hi, dilation;
  std::map<Attr, AttrValue> attrs() const {
    return {{Attr::stride, stride},
            {Attr::padding, padding},
            {Attr::padding_hi, padding_hi},
            {Attr::dilation, dilation},
            {Attr::groups, int64_t{1}}};
  }
  bool is_product() const { return kept == 0; }
};

/// With the last `moved` dims of its kernel as channels.
std::optional<Narrow> narrow(const Graph& g, const Node& n, size_t moved, const Uarch& u) {
  if (n.op != Op::conv || n.get<int64_t>(Attr::groups) != 1 || n.get_or<bool>(Attr::channels_last, false)) return std::nullopt;
  if (g.values[n.inputs[1]].kind != ValueKind::constant || n.has(Attr::value)) return std::nullopt;
  const Exprs& w = g.type(n.inputs[1]).dims;
  const auto channels = g.type(n.inputs[0]).dims[1].as_const();
  if (!channels || *channels < 1 || *channels >= u.narrow_channels || w.size() < moved + 2) return std::nullopt;
  Narrow r{*channels,
           1,
           0,
           w.size() - 2 - moved,
           n.get<Ints>(Attr::stride),
           n.get<Ints>(Attr::padding),
           n.get<Ints>(Attr::padding_hi),
           n.get<Ints>(Attr::dilation)};
  for (size_t d = r.kept; d < r.kept + moved; ++d) {
    const auto extent = w[d + 2].as_const();
    if (!extent) return std::nullopt;
    r.places *= *extent;
    r.stride[d] = r.dilation[d] = 1, r.padding[d] = r.padding_hi[d] = 0;
  }
  if (r.places < 2) return std::nullopt;
  r.filled = (r.channels * r.places + kTogether - 1) / kTogether * kTogether;
  return r;
}

Exprs image_dims(const Graph& g, const Node& n, const Narrow& to) {
  Exprs dims = g.type(n.inputs[0]).dims;
  dims[1] = to.filled;
  for (size_t d = to.kept + 2; d < dims.size(); ++d) dims[d] = g.type(n.outputs[0]).dims[d];
  return dims;
}
Exprs weight_dims(const Graph& g, const Node& n, const Narrow& to) {
  Exprs dims = g.type(n.inputs[1]).dims;
  dims[1] = to.filled;
  for (size_t d = to.kept + 2; d < dims.size(); ++d) dims[d] = 1;
  return dims;
}

/// In nanoseconds, the reorder included, which writes every element of the new images.
double cost(const Graph& g, const Node& n, const Narrow& to, const PassContext& ctx) {
  Graph ask;
  ask.syms = g.syms;
  const DType t = g.type(n.inputs[0]).dtype;
  const ValueId x = ask.add_input("x", {t, image_dims(g, n, to)});
  ConstData w;
  w.name = "w", w.type = {t, weight_dims(g, n, to)};
  const ValueId y = Builder(ask).make1(Op::conv, {x, ask.add_constant(std::move(w))}, to.attrs(), &g.type(n.outputs[0]));
  return ctx.conv_ns(ask, *ask.def(y), to.is_product() ? ConvAs::product : ConvAs::channels_last) +
         uarch_of(ctx.target).reorder_ns_per_byte * static_cast<double>(g.syms.hint(product(image_dims(g, n, to)))) * dtype_bytes(t);
}

ValueId place(Graph& g, Builder& b, const Node& n, const Narrow& to) {
  const TensorType result = g.type(n.outputs[0]);
  const int rank = static_cast<int>(to.stride.size()), kept = static_cast<int>(to.kept);
  const auto filled = [&](ValueId v, int dim) {
    Exprs none(static_cast<size_t>(rank) + 2, 0), more = none;
    more[static_cast<size_t>(dim)] = to.filled - to.channels * to.places;
    return more[static_cast<size_t>(dim)].is(0) ? v : b.pad(v, none, more, 0.0);
  };
  const auto moved = [&](Attr a) {
    const Ints all = n.get<Ints>(a);
    return Ints(all.begin() + kept, all.end());
  };
  Ints kernel;
  for (int d = kept; d < rank; ++d) kernel.push_back(*g.type(n.inputs[1]).dims[static_cast<size_t>(d) + 2].as_const());
  // Images [N, C, S.., M..] to [N, S.., M's places.., kernel.. * C]; where all dims move, to C * kernel..: then whole runs of a window's
  // lines are read and written.
  ValueId x = b.window(n.inputs[0], kernel, moved(Attr::stride), moved(Attr::padding), moved(Attr::dilation),
                       Exprs(result.dims.begin() + 2 + kept, result.dims.end()), 0.0);
  Ints behind{0};
  for (int d = 2; d < rank + (rank - kept) + 2; ++d) behind.push_back(d);
  behind.insert(to.is_product() ? behind.begin() + rank + 1 : behind.end(), 1);
  x = b.permute(x, behind);
  Exprs dims = b.dims(x);
  dims.resize(static_cast<size_t>(rank) + 2);
  dims.back() = to.channels * to.places;
  x = filled(b.reshape(x, dims), rank + 1);
  Ints before{0, rank + 1};
  for (int d = 1; d <= rank; ++d) before.push_back(d);
  x = b.permute(x, before);
  // Weights [Co, C, K.., M..] to [Co, M.. * C, K.., 1..], in the same order.
  Ints places_first{0};
  for (int d = kept; d < rank; ++d) places_first.push_back(d + 2);
  places_first.insert(to.is_product() ? places_first.begin() + 1 : places_first.end(), 1);
  for (int d = 0; d < kept; ++d) places_first.push_back(d + 2);
  Exprs w_dims = weight_dims(g, n, to);
  w_dims[1] = to.channels * to.places;
  const ValueId w = filled(b.reshape(b.permute(n.inputs[1], places_first), w_dims), 1);
  return b.make1(Op::conv, {x, w}, to.attrs(), &result);
}

/// Whichever is fastest, by estimate.
std::optional<Narrow> best(const Graph& g, const Node& n, const PassContext& ctx) {
  std::optional<Narrow> found;
  double least = 0;
  for (size_t moved = 1; n.op == Op::conv && moved + 2 <= g.type(n.inputs[1]).dims.size(); ++moved) {
    std::optional<Narrow> to = narrow(g, n, moved, uarch_of(ctx.target));
    if (!to) continue;
    if (least == 0) least = std::min(ctx.conv_ns(g, n, ConvAs::channels_first), ctx.conv_ns(g, n, ConvAs::channels_last));
    if (const double ns = cost(g, n, *to, ctx); ns < least) least = ns, found = std::move(to);
  }
  return found;
}

}  // namespace

/// Of convolutions of few channels the columns of the windows become channels, or their last dims, or all of them, where PassContext says
/// that this and the reorder that it takes are faster: conv(x, w) is a convolution of a window of w's last dims at every place, whose
/// kernel has one place along them; with all of them it is a product. Requires folded constants; leaves views of constants.
void narrow_convolutions(Graph& g, PassContext& ctx) {
  if (!ctx.conv_ns) return;
  Rewriter(g).sweep([&](Rewriter& r, const Node& n) -> std::optional<ValueId> {
    const auto to = best(g, n, ctx);
    if (!to) return std::nullopt;
    return place(g, r.b, n, *to);
  });
}

}  // namespace aotc::passes
