#include "forms/layout.h"

#include <limits>

#include "forms/list.h"

namespace aotc::forms {
namespace {

/// The convolution as a kernel, as far as estimates look at it: without its epilogue.
loop::ConvKernel kernel_of(const Graph& g, const Node& n, bool channels_last) {
  loop::ConvKernel k;
  k.name = n.name;
  k.syms = g.syms;
  const TensorType &x = g.type(n.inputs[0]), &w = g.type(n.inputs[1]);
  k.x = k.params.push({"x", loop::ParamRole::input, x.dtype, x.dims});
  k.w = k.params.push({"w", loop::ParamRole::input, w.dtype, w.dims});
  k.w_constant = g.values[n.inputs[1]].kind == ValueKind::constant;
  k.channels_last = channels_last;
  k.x_dims = x.dims, k.out_dims = g.type(n.outputs[0]).dims;
  for (size_t i = 2; i < w.dims.size(); ++i) k.kernel.push_back(w.dims[i].as_const().value_or(1));
  k.stride = n.get<Ints>(Attr::stride), k.dilation = n.get<Ints>(Attr::dilation);
  k.padding = n.get<Ints>(Attr::padding), k.padding_hi = n.get<Ints>(Attr::padding_hi);
  k.groups = n.get<int64_t>(Attr::groups);
  k.in = x.dtype, k.acc = loop::accumulator_type(x.dtype);
  return k;
}

/// The product of the pixels of a convolution with its weights.
loop::MatmulKernel product_of(const Graph& g, const Node& n) {
  const Exprs &x = g.type(n.inputs[0]).dims, &w = g.type(n.inputs[1]).dims;
  loop::MatmulKernel k;
  k.name = n.name;
  k.syms = g.syms;
  k.in = g.type(n.inputs[0]).dtype, k.acc = loop::accumulator_type(k.in);
  k.a.param = k.params.push({"a", loop::ParamRole::input, k.in, x});
  k.b.param = k.params.push({"b", loop::ParamRole::input, k.in, w});
  k.m = x[0] * product(Exprs(x.begin() + 2, x.end())), k.n = w[0], k.k = x[1];
  k.a.row_stride = k.k, k.a.col_stride = 1;
  k.b.row_stride = 1, k.b.col_stride = k.k;
  k.b_constant = g.values[n.inputs[1]].kind == ValueKind::constant;
  k.segments.push_back({0, k.n, {}});
  return k;
}

}  // namespace

std::function<double(const Graph&, const Node&, ConvAs)> conv_costs(const Machine& machine) {
  return [machine](const Graph& g, const Node& n, ConvAs as) {
    loop::Kernel kernel;
    if (as == ConvAs::product)
      kernel = product_of(g, n);
    else
      kernel = kernel_of(g, n, as == ConvAs::channels_last);
    const std::vector<Candidate> all = candidates({kernel, g.syms, machine});
    return all.empty() || !all.front().fit ? std::numeric_limits<double>::infinity() : all.front().cost_ns;
  };
}

}  // namespace aotc::forms
