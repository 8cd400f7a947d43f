#include "forms/layout.h"

#include <limits>

#include "base/uarch.h"
#include "forms/list.h"
#include "loop/lower.h"

namespace aotc::forms {
namespace {

/// Of the second operand, where the first is of type `in`.
DType weight_type(const Graph& g, const Node& n, DType in) { return g.type(n.inputs[0]).dtype == in ? g.type(n.inputs[1]).dtype : in; }

/// The convolution as a kernel, as far as estimates look at it: without its epilogue.
loop::ConvKernel kernel_of(const Graph& g, const Node& n, bool channels_last, DType in) {
  loop::ConvKernel k;
  k.name = n.name;
  k.syms = g.syms;
  const TensorType &x = g.type(n.inputs[0]), &w = g.type(n.inputs[1]);
  k.x = k.params.push({"x", loop::ParamRole::input, in, x.dims});
  k.w = k.params.push({"w", loop::ParamRole::input, weight_type(g, n, in), w.dims});
  k.w_constant = g.values[n.inputs[1]].kind == ValueKind::constant;
  k.transposed = n.op == Op::conv_transpose;
  k.channels_last = channels_last;
  k.x_dims = x.dims, k.out_dims = g.type(n.outputs[0]).dims;
  for (size_t i = 2; i < w.dims.size(); ++i) k.kernel.push_back(w.dims[i].as_const().value_or(1));
  k.stride = n.get<Ints>(Attr::stride), k.dilation = n.get<Ints>(Attr::dilation);
  k.padding = n.get<Ints>(Attr::padding), k.padding_hi = n.get<Ints>(Attr::padding_hi);
  k.groups = n.get<int64_t>(Attr::groups), k.around = n.get_or<int64_t>(Attr::value, 0);
  k.in = in, k.acc = loop::accumulator_type(in);
  return k;
}

/// The product of the pixels of a convolution with its weights; transposed: with those of all taps.
loop::MatmulKernel product_of(const Graph& g, const Node& n, DType in) {
  const Exprs &x = g.type(n.inputs[0]).dims, &w = g.type(n.inputs[1]).dims;
  loop::MatmulKernel k;
  k.name = n.name;
  k.syms = g.syms;
  k.in = in, k.acc = loop::accumulator_type(in);
  k.a.param = k.params.push({"a", loop::ParamRole::input, k.in, x});
  k.b.param = k.params.push({"b", loop::ParamRole::input, weight_type(g, n, in), w});
  k.m = x[0] * product(Exprs(x.begin() + 2, x.end())), k.n = n.op == Op::conv ? w[0] : product(Exprs(w.begin() + 1, w.end())), k.k = x[1];
  k.a.row_stride = k.k, k.a.col_stride = 1;
  k.b.row_stride = 1, k.b.col_stride = k.k;
  k.b_constant = g.values[n.inputs[1]].kind == ValueKind::constant;
  k.segments.push_back({0, k.n, {}});
  return k;
}

/// A constant, or a view of one that packing reads through.
bool is_weight(const Graph& g, ValueId v) {
  if (const Node* d = g.def(v); d && d->op == Op::permute) v = d->inputs[0];
  return g.values[v].kind == ValueKind::constant;
}

loop::MatmulKernel matmul_of(const Graph& g, const Node& n, DType in) {
  const Exprs &a = g.type(n.inputs[0]).dims, &b = g.type(n.inputs[1]).dims;
  const size_t batch = a.size() - 2;
  loop::MatmulKernel k;
  k.name = n.name;
  k.syms = g.syms;
  k.in = in, k.acc = loop::accumulator_type(in);
  k.a.param = k.params.push({"a", loop::ParamRole::input, in, a});
  k.b.param = k.params.push({"b", loop::ParamRole::input, weight_type(g, n, in), b});
  k.m = a[batch], k.k = a[batch + 1], k.n = b[batch + 1];
  k.a.row_stride = k.k, k.a.col_stride = 1;
  k.b.row_stride = k.n, k.b.col_stride = 1;
  // The order of k matters to 8-bit operands alone.
  if (const Node* d = g.def(n.inputs[1]);
      is_float8(in) && d && d->op == Op::permute && d->get<Ints>(Attr::perm).back() + 2 == static_cast<int64_t>(b.size()))
    k.b.row_stride = 1, k.b.col_stride = k.k;
  if (batch > 0) {
    k.batch = {product(Exprs(a.begin(), a.end() - 2))};
    k.a.batch_strides = {k.m * k.k}, k.b.batch_strides = {k.k * k.n};
  }
  k.b_constant = is_weight(g, n.inputs[1]);
  k.segments.push_back({0, k.n, {}});
  return k;
}

loop::AttentionKernel attention_of(const Graph& g, const Node& n, DType in) {
  const auto dims = [&](size_t i) -> const Exprs& { return g.type(n.inputs[i]).dims; };
  loop::AttentionKernel k;
  k.name = n.name;
  k.syms = g.syms;
  k.batch = dims(0)[0], k.heads = dims(0)[1], k.kv_heads = dims(1)[1], k.q_len = dims(0)[2], k.kv_len = dims(1)[2];
  k.head_dim = dims(0)[3], k.v_dim = dims(2)[3];
  k.dtype = in, k.scale = n.get<double>(Attr::scale), k.causal = n.get<bool>(Attr::causal), k.nan_rows = n.get<bool>(Attr::nan_rows);
  const auto dense = [&](std::string_view name, loop::ParamRole role, const Exprs& d) {
    const loop::ParamId p = k.params.push({std::string(name), role, in, d});
    return loop::AttentionKernel::View{p, 0, d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
  };
  k.q = dense("q", loop::ParamRole::input, dims(0)), k.k = dense("k", loop::ParamRole::input, dims(1));
  k.v = dense("v", loop::ParamRole::input, dims(2)), k.out = dense("out", loop::ParamRole::output, g.type(n.outputs[0]).dims);
  return k;
}

/// `in`: what the state's weight is of.
loop::LibraryKernel recurrence_of(const Graph& g, const Node& n, DType in) {
  loop::LibraryKernel k;
  k.name = n.name;
  k.algorithm = op_name(n.op);
  k.syms = g.syms;
  k.attrs = n.attrs;
  k.sizes = loop::recurrence_sizes(g, n);
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const TensorType& t = g.type(n.inputs[i]);
    k.params.push({fmt::format("p{}", i), loop::ParamRole::input, i == 1 ? in : t.dtype, t.dims});
  }
  for (ValueId v : n.outputs) k.params.push({"out", loop::ParamRole::output, g.type(v).dtype, g.type(v).dims});
  if (is_weight(g, n.inputs[1])) k.weight = loop::ParamId{1};
  return k;
}

double best_ns(const loop::Kernel& kernel, const SymTable& syms, const Goal& goal) {
  const std::vector<Candidate> all = candidates({kernel, syms, goal.machine, goal.numerics});
  return all.empty() || !all.front().fit ? std::numeric_limits<double>::infinity() : all.front().cost_ns;
}

double conv_ns(const Graph& g, const Node& n, ConvAs as, DType in, const Goal& goal) {
  if (as == ConvAs::product) return best_ns(product_of(g, n, in), g.syms, goal);
  return best_ns(kernel_of(g, n, as == ConvAs::channels_last, in), g.syms, goal);
}

}  // namespace

std::function<double(const Graph&, const Node&, ConvAs)> conv_costs(const Goal& goal) {
  return [goal](const Graph& g, const Node& n, ConvAs as) { return conv_ns(g, n, as, g.type(n.inputs[0]).dtype, goal); };
}

std::function<double(const Graph&, const Node&, DType)> contraction_costs(const Goal& goal) {
  return [goal](const Graph& g, const Node& n, DType in) {
    if (n.op == Op::matmul) return best_ns(matmul_of(g, n, in), g.syms, goal);
    if (n.op == Op::attention) return best_ns(attention_of(g, n, in), g.syms, goal);
    if (n.op == Op::recurrence) return best_ns(recurrence_of(g, n, in), g.syms, goal);
    const double first = conv_ns(g, n, ConvAs::channels_first, in, goal);
    return n.op == Op::conv_transpose ? first : std::min(first, conv_ns(g, n, ConvAs::channels_last, in, goal));
  };
}

}  // namespace aotc::forms
