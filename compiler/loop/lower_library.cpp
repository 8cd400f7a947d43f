// Attention and whole-tensor algorithms.
#include "graph/infer.h"
#include "loop/index.h"
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

}  // namespace

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
  if (gr.operands.size() > 3) k.mask = view(gr.operands[3].base, gr.operands[3].idx, ParamRole::input, x.b, x.h, x.l, x.s);
  const StoreAt& s = gr.stores.at(0);
  SymId by_dim[4];
  for (size_t d = 0; d < 4; ++d) by_dim[d] = gr.result_idx[d].as_symbol().value_or(kNone<SymId>);
  k.out = view(s.value, s.idx, ParamRole::output, by_dim[0], by_dim[1], by_dim[2], by_dim[3]);
  return {std::move(k), params.args};
}

Lowered lower_library(const Partition& p, GroupId id, Buffers& buffers) {
  const Graph& g = p.g;
  const Group& gr = p.groups[id];
  const Node& n = g.nodes[gr.node];
  LibraryKernel k;
  k.syms = g.syms;
  k.algorithm = op_name(n.op);
  k.attrs = n.attrs;
  Params params(p, buffers, k.params);
  // The order of aotc/detail/library_abi.h: results last, but before the indices of index_put, however many there are.
  for (const OperandAt& o : gr.operands) {
    if (n.op == Op::index_put && params.args.size() == 2) params.add(n.outputs[0], ParamRole::output);
    params.add(o.base, ParamRole::input);
  }
  auto dims_of = [&](ValueId v) -> const Exprs& { return g.type(v).dims; };
  auto append = [&](const Exprs& dims) { k.sizes.insert(k.sizes.end(), dims.begin(), dims.end()); };
  const Exprs& x = dims_of(n.inputs[0]);
  switch (n.op) {
    case Op::sort:
    case Op::topk: {
      const size_t d = static_cast<size_t>(n.get<int64_t>(Attr::dim));
      Expr outer = 1, inner = 1, length = 1;
      for (size_t i = 0; i < x.size(); ++i) (i < d ? outer : i == d ? length : inner) *= x[i];
      k.sizes = {outer, length, inner};
      if (n.op == Op::topk) k.sizes.push_back(n.get<Expr>(Attr::k));
      break;
    }
    case Op::scatter: {
      k.sizes.push_back(static_cast<int64_t>(x.size()));
      append(x);
      append(dims_of(n.inputs[1]));
      append(dims_of(n.inputs[2]));
      break;
    }
    case Op::index_put: {
      const Ints& indexed = n.get<Ints>(Attr::dims);
      k.sizes.push_back(static_cast<int64_t>(x.size()));
      append(x);
      k.sizes.push_back(static_cast<int64_t>(indexed.size()));
      for (int64_t d : indexed) k.sizes.push_back(d);
      const Exprs& i = dims_of(n.inputs[2]);
      k.sizes.push_back(static_cast<int64_t>(i.size()));
      append(i);
      k.sizes.push_back(n.get<int64_t>(Attr::out_pos));
      break;
    }
    case Op::recurrence: {
      const Exprs& w = dims_of(n.inputs[1]);
      k.sizes = {x[0], x[1], floordiv(x[2], recurrence_gates(n.get<std::string>(Attr::cell))), w[0]};
      break;
    }
    default: AOTC_CHECK(false, "{} has no library kernel", op_name(n.op));
  }
  if (n.op != Op::index_put)
    for (ValueId v : n.outputs) params.add(v, ParamRole::output);
  return {std::move(k), params.args};
}

}  // namespace aotc::loop
