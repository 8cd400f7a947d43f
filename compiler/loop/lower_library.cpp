// Attention and whole-tensor algorithms.
#include <algorithm>

#include "graph/infer.h"
#include "graph/op_table.h"
#include "loop/index.h"
#include "loop/lower.h"
#include "loop/lower_detail.h"

namespace aotc::loop {
namespace {

/// Parameters of a kernel that is not made of loops.
class Params {
 public:
  Params(const Partition& p, Buffers& buffers, IdVec<ParamId, Param>& params) : p_(p), buffers_(buffers), params_(params) {}
  ParamId add(ValueId v, ParamRole role) {
    const Exprs zero(p_.g.type(v).dims.size(), Expr(0));
    const BufferId b = buffers_.of(p_.locate(v, zero, p_.g.syms).first);
    const TensorType& t = buffers_[b].type;
    args.push_back(b);
    return params_.push({"p" + std::to_string(args.size() - 1), role, t.dtype, t.dims});
  }
  std::vector<BufferId> args;

 private:
  const Partition& p_;
  Buffers& buffers_;
  IdVec<ParamId, Param>& params_;
};

/// A node's sizes as its library kernel takes them, in the order of aotc/detail/library_abi.h.
using Sizes = Exprs (*)(const Graph&, const Node&);

void append(Exprs& to, const Exprs& dims) { to.insert(to.end(), dims.begin(), dims.end()); }

/// outer, n, inner around the dim.
Exprs lines(const Graph& g, const Node& n) {
  const Exprs& x = g.type(n.inputs[0]).dims;
  const size_t d = static_cast<size_t>(n.get<int64_t>(Attr::dim));
  Expr outer = 1, inner = 1, length = 1;
  for (size_t i = 0; i < x.size(); ++i) (i < d ? outer : i == d ? length : inner) *= x[i];
  return {outer, length, inner};
}
Exprs lines_and_k(const Graph& g, const Node& n) {
  Exprs s = lines(g, n);
  s.push_back(n.get<Expr>(Attr::k));
  return s;
}

/// The rank, the dims of every operand.
Exprs all_dims(const Graph& g, const Node& n) {
  Exprs s = {static_cast<int64_t>(g.type(n.inputs[0]).rank())};
  for (ValueId v : n.inputs) append(s, g.type(v).dims);
  return s;
}

Exprs indexed_places(const Graph& g, const Node& n) {
  const Exprs &x = g.type(n.inputs[0]).dims, &at = g.type(n.inputs[2]).dims;
  const Ints& indexed = n.get<Ints>(Attr::dims);
  Exprs s = {static_cast<int64_t>(x.size())};
  append(s, x);
  s.push_back(static_cast<int64_t>(indexed.size()));
  append(s, Exprs(indexed.begin(), indexed.end()));
  s.push_back(static_cast<int64_t>(at.size()));
  append(s, at);
  s.push_back(n.get<int64_t>(Attr::out_pos));
  return s;
}

/// Rows of x, columns, rows of the table, indices, whether rows say where theirs begin (2: the largest are taken), whether each has a
/// factor.
Exprs added_rows(const Graph& g, const Node& n) {
  const Exprs &x = g.type(n.inputs[0]).dims, &table = g.type(n.inputs[1]).dims;
  const int64_t begins = n.get<bool>(Attr::largest) ? 2 : n.get<bool>(Attr::begins) ? 1 : 0;
  return {x[0], x[1], table[0], g.type(n.inputs[2]).dims[0], begins, int64_t{n.inputs.size() == 5}};
}

/// Lines around the dim, outer and inner; the numbers given of each; the length of the transform.
Exprs transforms(const Graph& g, const Node& n) {
  const Exprs s = lines(g, n);
  return {s[0], s[2], s[1], n.get<Expr>(Attr::k)};
}

/// Matrices, rows, columns of the last operand.
Exprs matrices(const Graph& g, const Node& n) {
  const Exprs& x = g.type(n.inputs.back()).dims;
  Expr count = 1;
  for (size_t i = 0; i + 2 < x.size(); ++i) count *= x[i];
  return {count, x[x.size() - 2], x.back()};
}

/// The dims of every operand and result, then the operator's other sizes.
Exprs custom_sizes(const Graph& g, const Node& n) {
  Exprs s;
  size_t dims = 0;
  for (ValueId v : n.inputs) append(s, g.type(v).dims);
  for (ValueId v : n.outputs) append(s, g.type(v).dims), dims += g.type(v).dims.size();
  const Exprs& sizes = n.get<Exprs>(Attr::sizes);
  s.insert(s.end(), sizes.begin() + static_cast<std::ptrdiff_t>(dims), sizes.end());
  return s;
}

struct Algorithm {
  Op op;
  Sizes sizes;
  size_t results_after = SIZE_MAX;  ///< operands that stand before the results; the others follow them
  size_t weight = SIZE_MAX;         ///< the operand that forms may store as they like where it is a constant
};
constexpr Algorithm kAlgorithms[] = {
    {Op::sort, lines},          {Op::topk, lines_and_k},
    {Op::scatter, all_dims},    {Op::index_put, indexed_places, 2},
    {Op::add_rows, added_rows}, {Op::recurrence, recurrence_sizes, SIZE_MAX, 1},
    {Op::cholesky, matrices},   {Op::solve_triangular, matrices},
    {Op::fourier, transforms},  {Op::lu, matrices},
    {Op::qr, matrices},         {Op::svd, matrices},
    {Op::check, all_dims},      {Op::exclude, matrices},
    {Op::custom, custom_sizes},
};
static_assert(Fits<misfit(kAlgorithms, {OpClass::opaque})>::value);

}  // namespace

Exprs recurrence_sizes(const Graph& g, const Node& n) {
  const Exprs &x = g.type(n.inputs[0]).dims, &w = g.type(n.inputs[1]).dims;
  const Expr hidden = floordiv(x[2], recurrence_gates(n.get<std::string>(Attr::cell)));
  if (n.get<int64_t>(Attr::dim) == 1) return {x[1], x[0], hidden, w[0], 1, x[1]};
  return {x[0], x[1], hidden, w[0], x[1], 1};
}

Lowered lower_attention(const Partition& p, GroupId id, Buffers& buffers) {
  const Graph& g = p.g;
  const Group& gr = p.groups[id];
  const Node& n = g.nodes[gr.node];
  AttentionKernel k;
  k.syms = g.syms;
  const Exprs &q = g.type(n.inputs[0]).dims, &kk = g.type(n.inputs[1]).dims;
  k.batch = q[0];
  k.heads = q[1];
  k.kv_heads = kk[1];
  k.q_len = q[2];
  k.kv_len = kk[2];
  k.head_dim = q[3];
  k.v_dim = g.type(n.inputs[2]).dims[3];
  k.dtype = g.type(n.inputs[0]).dtype;
  k.scale = n.get<double>(Attr::scale);
  k.causal = n.get_or<bool>(Attr::causal, false);
  k.nan_rows = n.get_or<bool>(Attr::nan_rows, false);
  Params params(p, buffers, k.params);
  auto stride = [](const Affine& f, const std::vector<SymId>& vars, SymId v) {
    for (size_t i = 0; i < vars.size(); ++i)
      if (vars[i] == v && v != kNone<SymId>) return f.coefs[i];
    return Expr(0);
  };
  auto view = [&](ValueId value, const Exprs& value_at, ParamRole role, SymId b, SymId h, SymId s, SymId e) {
    std::vector<SymId> vars;
    for (SymId v : {b, h, s, e})
      if (v != kNone<SymId>) vars.push_back(v);
    const auto [root, offset] = p.locate_offset(value, value_at, gr.syms);
    const auto f = affine(offset, vars);
    AOTC_CHECK(f, "an operand of {} is not strided", n.name);
    return AttentionKernel::View{params.add(root, role), f->base, stride(*f, vars, b), stride(*f, vars, h), stride(*f, vars, s),
                                 stride(*f, vars, e)};
  };
  const AttentionAxes& x = gr.axes;
  k.q = view(gr.operands[0].base, gr.operands[0].idx, ParamRole::input, x.b, x.h, x.l, x.e);
  k.k = view(gr.operands[1].base, gr.operands[1].idx, ParamRole::input, x.b, x.hkv, x.s, x.e);
  k.v = view(gr.operands[2].base, gr.operands[2].idx, ParamRole::input, x.b, x.hkv, x.s, x.ev);
  const AttentionInputs in = attention_inputs(g, n);
  if (in.mask) k.mask = view(gr.operands[in.mask].base, gr.operands[in.mask].idx, ParamRole::input, x.b, x.h, x.l, x.s);
  k.mask_fills = k.mask && !is_bool(k.params[k.mask->param].dtype) && n.get_or<bool>(Attr::mask_fills, false);
  const auto of_rows = [&](size_t i) {
    return view(gr.operands[i].base, gr.operands[i].idx, ParamRole::input, x.b, x.h, x.l, kNone<SymId>);
  };
  if (in.from) {
    const AttentionKernel::View from = of_rows(in.from);
    k.shown = AttentionKernel::Shown{from, of_rows(in.end)};
  }
  if (in.sinks) k.sinks = of_rows(in.sinks);
  if (in.scales) {
    const auto of_keys = [&](size_t i) {
      return view(gr.operands[i].base, gr.operands[i].idx, ParamRole::input, x.b, x.hkv, x.s, kNone<SymId>);
    };
    const AttentionKernel::View of_k = of_keys(in.scales);
    k.row_scales = AttentionKernel::RowScales{of_k, of_keys(in.scales + 1)};
  }
  const StoreAt& s = gr.stores.at(0);
  SymId by_dim[4];
  for (size_t d = 0; d < 4; ++d) by_dim[d] = gr.result_idx[d].as_symbol().value_or(kNone<SymId>);
  k.out = view(s.value, s.idx, ParamRole::output, by_dim[0], by_dim[1], by_dim[2], by_dim[3]);
  return {std::move(k), params.args};
}

Lowered lower_library(const Partition& p, GroupId id, Buffers& buffers) {
  const Group& gr = p.groups[id];
  const Node& n = p.g.nodes[gr.node];
  const Algorithm& algorithm = row_of(kAlgorithms, n.op);
  LibraryKernel k;
  k.syms = p.g.syms;
  k.algorithm = op_name(n.op);
  k.attrs = n.attrs;
  if (n.op == Op::svd) {
    const std::vector<std::vector<NodeId>> users = p.g.users();
    k.attrs[Attr::vectors] = !users[idx(n.outputs[0])].empty() || !users[idx(n.outputs[2])].empty();
  }
  if (n.op == Op::custom) {
    Ints ranks;  // of the operands, too: buffers are as others see them
    for (ValueId v : n.inputs) ranks.push_back(p.g.type(v).rank());
    for (ValueId v : n.outputs) ranks.push_back(p.g.type(v).rank());
    k.attrs[Attr::ranks] = std::move(ranks);
    k.attrs.erase(Attr::sizes);
  }
  k.sizes = algorithm.sizes(p.g, n);
  Params params(p, buffers, k.params);
  const size_t before = std::min(algorithm.results_after, gr.operands.size());
  for (size_t i = 0; i < before; ++i) params.add(gr.operands[i].base, ParamRole::input);
  for (ValueId v : n.outputs) params.add(v, ParamRole::output);
  for (size_t i = before; i < gr.operands.size(); ++i) params.add(gr.operands[i].base, ParamRole::input);
  const size_t w = algorithm.weight;
  if (w < before && p.g.values[gr.operands[w].base].kind == ValueKind::constant) k.weight = static_cast<ParamId>(w);
  return {std::move(k), params.args};
}

}  // namespace aotc::loop
