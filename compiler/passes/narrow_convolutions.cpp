#include "passes/narrow_convolutions.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/builder.h"

namespace aotc::passes {
namespace {

constexpr int64_t kFewChannels = 16;
constexpr int64_t kTogether = 8;  ///< channels come in a multiple of these

/// What a convolution becomes.
struct Narrow {
  int64_t channels, columns, filled;  ///< of x; of the kernel; channels * columns, filled up
  Ints stride, padding, padding_hi, dilation;
  std::map<Attr, AttrValue> attrs() const {
    return {{Attr::stride, stride},
            {Attr::padding, padding},
            {Attr::padding_hi, padding_hi},
            {Attr::dilation, dilation},
            {Attr::groups, int64_t{1}}};
  }
};

std::optional<Narrow> narrow(const Graph& g, const Node& n) {
  if (n.op != Op::conv || n.get<int64_t>(Attr::groups) != 1 || n.get_or<bool>(Attr::channels_last, false)) return std::nullopt;
  const auto channels = g.type(n.inputs[0]).dims[1].as_const(), columns = g.type(n.inputs[1]).dims.back().as_const();
  if (!channels || !columns || *channels < 1 || *channels >= kFewChannels || *columns < 2) return std::nullopt;
  if (g.values[n.inputs[1]].kind != ValueKind::constant) return std::nullopt;
  Narrow r{*channels,
           *columns,
           (*channels * *columns + kTogether - 1) / kTogether * kTogether,
           n.get<Ints>(Attr::stride),
           n.get<Ints>(Attr::padding),
           n.get<Ints>(Attr::padding_hi),
           n.get<Ints>(Attr::dilation)};
  r.stride.back() = r.dilation.back() = 1, r.padding.back() = r.padding_hi.back() = 0;
  return r;
}

Exprs image_dims(const Graph& g, const Node& n, const Narrow& to) {
  Exprs dims = g.type(n.inputs[0]).dims;
  dims[1] = to.filled, dims.back() = g.type(n.outputs[0]).dims.back();
  return dims;
}
Exprs weight_dims(const Graph& g, const Node& n, const Narrow& to) {
  Exprs dims = g.type(n.inputs[1]).dims;
  dims[1] = to.filled, dims.back() = 1;
  return dims;
}

/// In nanoseconds, the reorder included.
double cost(const Graph& g, const Node& n, const Narrow& to, const PassContext& ctx) {
  Graph ask;
  ask.syms = g.syms;
  const DType t = g.type(n.inputs[0]).dtype;
  const ValueId x = ask.add_input("x", {t, image_dims(g, n, to)});
  ConstData w;
  w.name = "w", w.type = {t, weight_dims(g, n, to)};
  const ValueId y = Builder(ask).make1(Op::conv, {x, ask.add_constant(std::move(w))}, to.attrs(), &g.type(n.outputs[0]));
  return ctx.conv_ns(ask, *ask.def(y), ConvAs::channels_last) +
         ctx.reorder_ns_per_byte * static_cast<double>(g.syms.hint(product(image_dims(g, n, to)))) * dtype_bytes(t);
}

ValueId place(Graph& g, Builder& b, const Node& n, const Narrow& to) {
  const TensorType result = g.type(n.outputs[0]);
  const int rank = static_cast<int>(to.stride.size());
  const auto filled = [&](ValueId v, int dim) {
    Exprs none(static_cast<size_t>(rank) + 2, 0), more = none;
    more[static_cast<size_t>(dim)] = to.filled - to.channels * to.columns;
    return more[static_cast<size_t>(dim)].is(0) ? v : b.pad(v, none, more, 0.0);
  };
  // Images [N, C, S.., W] to [N, S.., places, columns * C].
  ValueId x = b.window(n.inputs[0], {to.columns}, {n.get<Ints>(Attr::stride).back()}, {n.get<Ints>(Attr::padding).back()},
                       {n.get<Ints>(Attr::dilation).back()}, {result.dims.back()}, 0.0);
  Ints behind{0};
  for (int d = 2; d < rank + 3; ++d) behind.push_back(d);
  behind.push_back(1);
  x = b.permute(x, behind);
  Exprs dims = b.dims(x);
  dims.pop_back();
  dims.back() = to.channels * to.columns;
  x = filled(b.reshape(x, dims), rank + 1);
  Ints before{0, rank + 1};
  for (int d = 1; d <= rank; ++d) before.push_back(d);
  x = b.permute(x, before);
  // Weights [Co, C, K.., columns] to [Co, columns * C, K.., 1].
  Ints columns_first{0, rank + 1};
  for (int d = 1; d <= rank; ++d) columns_first.push_back(d);
  Exprs w_dims = weight_dims(g, n, to);
  w_dims[1] = to.channels * to.columns;
  const ValueId w = filled(b.reshape(b.permute(n.inputs[1], columns_first), w_dims), 1);
  return b.make1(Op::conv, {x, w}, to.attrs(), &result);
}

}  // namespace

void narrow_convolutions(Graph& g, PassContext& ctx) {
  if (!ctx.conv_ns) return;
  Builder b(g);
  const std::vector<NodeId> old = g.order;
  std::vector<std::pair<ValueId, ValueId>> replaced;
  for (NodeId id : old) {
    const Node n = g.nodes[id];  // a copy: building nodes moves them
    const auto to = narrow(g, n);
    if (to && cost(g, n, *to, ctx) < std::min(ctx.conv_ns(g, n, ConvAs::channels_first), ctx.conv_ns(g, n, ConvAs::channels_last))) {
      b.at(n.name, n.source);
      replaced.emplace_back(n.outputs[0], place(g, b, n, *to));
    }
  }
  for (const auto& [from, to] : replaced) g.replace_all_uses(from, to);
  if (!replaced.empty()) g.compact();
}

}  // namespace aotc::passes
