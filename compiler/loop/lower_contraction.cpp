// Matrix products and convolutions: operands as strided views or computed by prologues, batch dims merged, results finished by epilogues.
#include <algorithm>
#include <iterator>
#include <memory>

#include "graph/constant_store.h"
#include "loop/finish.h"
#include "loop/index.h"
#include "loop/lower_detail.h"
#include "loop/quantised.h"

namespace aotc::loop {
namespace {

/// A dimension of the result's rows: extent and the strides of both operands along it.
struct Axis {
  std::vector<SymId> vars;  ///< of the group, outermost first, that this dimension runs through
  Expr extent = 1, a, b;
};

Expr coef(const Affine& f, const std::vector<SymId>& vars, SymId v) {
  const auto it = std::find(vars.begin(), vars.end(), v);
  return it == vars.end() ? Expr(0) : f.coefs[static_cast<size_t>(it - vars.begin())];
}

bool same(const SymTable& s, const Expr& x, const Expr& y) { return x == y || s.proves_eq(x, y); }

/// One loop variable in place of several: what each of them is.
void split_var(const Axis& axis, const Expr& var, SymTable& syms, SymMap& with) {
  Exprs dims;
  for (SymId v : axis.vars) dims.push_back(*syms[v].extent);
  const Exprs parts = delinearise(var, dims, syms);
  for (size_t i = 0; i < parts.size(); ++i) with[axis.vars[i]] = parts[i];
}

SymId loop_var(SymTable& syms, const char* name, const Expr& extent) {
  SymInfo s;
  s.name = name;
  s.kind = SymKind::loop;
  s.extent = extent;
  return syms.add(s);
}

/// Adds the parameter of the accumulators or of the operand, and the blocks.
LoopKernel finish_attached(const Partition& p, const KernelBuilder& b, Param own) {
  LoopKernel k = b.kernel();
  const ParamId id = k.params.push(std::move(own));
  for (Inst& i : k.insts)
    if ((i.kind == InstKind::load || i.kind == InstKind::store) && i.param == kNone<ParamId>) i.param = id;
  k.nodes.clear();
  finish(k, p.g.syms, Loops::fixed, p.rules);
  return k;
}

LoopKernel finish_epilogue(const Partition& p, KernelBuilder& b, const std::vector<StoreAt>& stores, DType acc, Exprs acc_dims) {
  for (const StoreAt& s : stores) b.store(s);
  return finish_attached(p, b, {"acc", ParamRole::acc, acc, std::move(acc_dims)});
}

/// Every epilogue and prologue gets all parameters of the contraction, in one order, and its own last.
void complete_params(LoopKernel& attached, const IdVec<ParamId, Param>& all) {
  const ParamId own = static_cast<ParamId>(attached.params.size() - 1), to = static_cast<ParamId>(all.size());
  Param last = attached.params[own];
  attached.params = all;
  attached.params.push(std::move(last));
  for (Inst& i : attached.insts)
    if (i.param == own) i.param = to;
}

/// Of a constant of bytes (loop::ByteRange).
std::optional<std::pair<int, int>> byte_range(const Graph& g, const Buffer& b) {
  if (b.kind != BufferKind::constant || !has_data(g.constants[static_cast<ConstId>(b.index)])) return std::nullopt;
  const ConstData& c = g.constants[static_cast<ConstId>(b.index)];
  std::pair<int, int> range{255, -128};
  for (size_t i = 0; i < c.bytes; ++i) {
    const int v = c.type.dtype == DType::u8 ? static_cast<int>(c.data[i]) : static_cast<int>(static_cast<int8_t>(c.data[i]));
    range = {std::min(range.first, v), std::max(range.second, v)};
  }
  return range;
}

}  // namespace

Lowered lower_matmul(const Partition& p, GroupId id, Buffers& buffers) {
  const Graph& g = p.g;
  const Group& gr = p.groups[id];
  const Node& n = g.nodes[gr.node];
  const Exprs& result = g.type(n.outputs[0]).dims;
  KernelBuilder b(p, id, buffers);
  SymTable& syms = b.syms();

  std::vector<SymId> vars = gr.outer;
  if (gr.k_var != kNone<SymId>) vars.push_back(gr.k_var);
  auto place = [&](const OperandAt& o) -> std::pair<ValueId, Expr> {
    if (o.prologue == kNone<GroupId>) return p.locate_offset(o.base, o.idx, syms);
    return {o.base, linearise(g.type(o.base).dims, o.idx, syms)};
  };
  const auto at_a = place(gr.operands[0]), at_b = place(gr.operands[1]);
  const auto fa = affine(at_a.second, vars), fb = affine(at_b.second, vars);
  AOTC_CHECK(fa && fb, "the operands of {} are not strided", n.name);

  // Axes of the result: batch dims, then rows; columns stay apart.
  std::vector<Axis> axes;
  for (size_t d = 0; d + 1 < result.size(); ++d) {
    Axis x;
    x.extent = result[d];
    if (auto v = gr.result_idx[d].as_symbol()) {
      x.vars = {*v};
      x.a = coef(*fa, vars, *v);
      x.b = coef(*fb, vars, *v);
    }
    const bool row = d + 2 == result.size();
    if (row || !x.vars.empty()) axes.push_back(std::move(x));
  }
  Axis rows = std::move(axes.back());
  axes.pop_back();
  auto join = [&](Axis& outer, Axis& inner) {  // inner takes outer in
    inner.vars.insert(inner.vars.begin(), outer.vars.begin(), outer.vars.end());
    inner.extent = outer.extent * inner.extent;
  };
  for (size_t i = axes.size(); i-- > 1;) {
    if (!same(syms, axes[i - 1].a, axes[i].a * axes[i].extent) || !same(syms, axes[i - 1].b, axes[i].b * axes[i].extent)) continue;
    join(axes[i - 1], axes[i]);
    axes.erase(axes.begin() + static_cast<long>(i) - 1);
  }
  while (!axes.empty() && axes.back().b.is(0)) {  // b is shared: more rows instead of a batch
    Axis& batch = axes.back();
    if (rows.vars.empty())
      rows.a = batch.a;
    else if (!same(syms, batch.a, rows.a * rows.extent))
      break;
    join(batch, rows);
    axes.pop_back();
  }
  AOTC_CHECK(axes.size() <= 2, "{} batch dims of {} do not merge", axes.size(), n.name);

  MatmulKernel k;
  k.syms = g.syms;
  k.in = g.type(n.inputs[0]).dtype;
  k.acc = accumulator_type(k.in);
  k.m = rows.extent;
  k.n = result.back();
  k.k = g.type(n.inputs[0]).dims.back();
  auto operand = [&](ValueId root, const Affine& f, bool is_a) {
    Operand x;
    if (gr.operands[is_a ? 0 : 1].prologue != kNone<GroupId>) return x;
    x.param = b.param(buffers.of(root), ParamRole::input);
    x.base = f.base;
    for (const Axis& t : axes) x.batch_strides.push_back(is_a ? t.a : t.b);
    const Expr along_k = gr.k_var == kNone<SymId> ? Expr(0) : coef(f, vars, gr.k_var);
    const SymId col = gr.result_idx.back().as_symbol().value_or(kNone<SymId>);
    x.row_stride = is_a ? rows.a : along_k;
    x.col_stride = is_a ? along_k : coef(f, vars, col);
    return x;
  };
  k.a = operand(at_a.first, *fa, true);
  k.b = operand(at_b.first, *fb, false);
  k.b_constant = g.values[gr.operands[1].base].kind == ValueKind::constant &&
                 std::all_of(k.b.batch_strides.begin(), k.b.batch_strides.end(), [](const Expr& e) { return e.is(0); });

  for (const Axis& t : axes) k.batch.push_back(t.extent);
  const SymId whole_column = gr.result_idx.back().as_symbol().value_or(kNone<SymId>);
  std::unique_ptr<KernelBuilder> last;  // the builders know the same parameters, each those of the ones before it
  auto next_builder = [&](GroupId of) {
    auto next = std::make_unique<KernelBuilder>(p, of, buffers);
    next->share_params(last ? *last : b);
    last = std::move(next);
    return last.get();
  };
  auto prologue = [&](const OperandAt& o, bool is_a, Operand& to) {
    if (o.prologue == kNone<GroupId>) return;
    KernelBuilder& pb = *next_builder(o.prologue);
    SymTable& sy = pb.syms();
    SymMap with;
    LoopKernel& e = pb.kernel();
    for (const Axis& t : axes) {
      const SymId v = loop_var(sy, "b", t.extent);
      e.outer.push_back({v, t.extent});
      split_var(t, Expr::symbol(v), sy, with);
    }
    const Expr n_rows = is_a ? k.m : k.k, n_columns = is_a ? k.k : k.n;
    const SymId row = loop_var(sy, "r", n_rows), column = loop_var(sy, "c", n_columns);
    e.outer.push_back({row, n_rows});
    e.inner.push_back({column, n_columns});
    if (is_a) split_var(rows, Expr::symbol(row), sy, with);
    if (!is_a && whole_column != kNone<SymId>) with[whole_column] = Expr::symbol(column);
    if (gr.k_var != kNone<SymId>) with[gr.k_var] = Expr::symbol(is_a ? column : row);
    pb.substitute(std::move(with));
    pb.operand(o.base, o.idx, Expr::symbol(row) * n_columns + Expr::symbol(column));
    to.prologue = finish_attached(p, pb, {"operand", ParamRole::operand, k.in, {n_rows, n_columns}});
  };
  prologue(gr.operands[0], true, k.a);
  prologue(gr.operands[1], false, k.b);
  auto segment = [&](KernelBuilder& sb, ValueId value, const Expr& begin, const Expr& end, SymId group_column,
                     const std::vector<StoreAt>& stores) {
    SymTable& sy = sb.syms();
    SymMap with;
    LoopKernel& e = sb.kernel();
    for (const Axis& t : axes) {
      const SymId v = loop_var(sy, "b", t.extent);
      e.outer.push_back({v, t.extent});
      split_var(t, Expr::symbol(v), sy, with);
    }
    const Expr columns = end - begin;
    const SymId row = loop_var(sy, "m", k.m), column = loop_var(sy, "n", columns);
    e.outer.push_back({row, k.m});
    e.inner.push_back({column, columns});
    split_var(rows, Expr::symbol(row), sy, with);
    if (group_column != kNone<SymId>) with[group_column] = Expr::symbol(column);
    sb.substitute(std::move(with));
    sb.accumulator(value, k.acc, Expr::symbol(row) * columns + Expr::symbol(column));
    k.segments.push_back({begin, end, finish_epilogue(p, sb, stores, k.acc, {k.m, columns})});
  };
  if (gr.segments.empty()) segment(*next_builder(id), n.outputs[0], 0, k.n, whole_column, gr.stores);
  for (uint32_t i = 0; i < gr.segments.size(); ++i) {
    const SegmentAt& part = gr.segments[i];
    std::vector<StoreAt> stores;
    std::copy_if(gr.stores.begin(), gr.stores.end(), std::back_inserter(stores), [&](const StoreAt& s) { return p.segment[s.value] == i; });
    segment(*next_builder(id), part.value, part.begin, part.end, part.column, stores);
  }
  k.params = last->kernel().params;
  for (Segment& s : k.segments) complete_params(s.epilogue, k.params);
  for (Operand* o : {&k.a, &k.b})
    if (o->prologue) complete_params(*o->prologue, k.params);
  k.b_quantised = find_quantised(k, [&](ParamId p) { return byte_range(g, buffers[last->args().at(idx(p))]); });
  return {std::move(k), last->args()};
}

Lowered lower_conv(const Partition& p, GroupId id, Buffers& buffers) {
  const Graph& g = p.g;
  const Group& gr = p.groups[id];
  const Node& n = g.nodes[gr.node];
  KernelBuilder b(p, id, buffers);
  SymTable& syms = b.syms();
  ConvKernel k;
  k.syms = g.syms;
  auto operand = [&](const OperandAt& o) {
    return b.param(buffers.of(p.locate(o.base, Exprs(g.type(o.base).dims.size(), Expr(0)), syms).first), ParamRole::input);
  };
  k.x = operand(gr.operands[0]);
  k.w = operand(gr.operands[1]);
  k.transposed = n.op == Op::conv_transpose;
  k.w_constant = g.values[gr.operands[1].base].kind == ValueKind::constant;
  k.channels_last = n.get_or<bool>(Attr::channels_last, false);
  const auto canonical = [&](Exprs d) {
    if (k.channels_last) std::rotate(d.begin() + 1, d.end() - 1, d.end());
    return d;
  };
  k.x_dims = canonical(g.type(n.inputs[0]).dims);
  k.out_dims = canonical(g.type(n.outputs[0]).dims);
  for (size_t i = 2; i < k.x_dims.size(); ++i) {
    const auto c = g.type(n.inputs[1]).dims[i].as_const();
    AOTC_CHECK(c, "the kernel size of {} is symbolic", n.name);
    k.kernel.push_back(*c);
  }
  k.stride = n.get<Ints>(Attr::stride);
  k.padding = n.get<Ints>(Attr::padding);
  k.padding_hi = n.get_or<Ints>(Attr::padding_hi, k.padding);
  k.dilation = n.get<Ints>(Attr::dilation);
  k.groups = n.get_or<int64_t>(Attr::groups, 1);
  k.in = g.type(n.inputs[0]).dtype;
  k.acc = accumulator_type(k.in);

  SymMap with;
  LoopKernel& e = b.kernel();
  const Exprs pixel_dims(k.out_dims.begin() + 2, k.out_dims.end());
  const Expr images = k.out_dims[0], channels = k.out_dims[1], pixels = product(pixel_dims);
  const Exprs extents = k.channels_last ? Exprs{images, pixels, channels} : Exprs{images, channels, pixels};
  const SymId image = loop_var(syms, "n", images), channel = loop_var(syms, "co", channels), pixel = loop_var(syms, "p", pixels);
  e.outer = {{image, images}, k.channels_last ? LoopVar{pixel, pixels} : LoopVar{channel, channels}};
  e.inner = {k.channels_last ? LoopVar{channel, channels} : LoopVar{pixel, pixels}};
  Axis spatial;
  const size_t channel_at = k.channels_last ? gr.result_idx.size() - 1 : 1;
  for (size_t d = 0; d < gr.result_idx.size(); ++d) {
    const auto v = gr.result_idx[d].as_symbol();
    if (!v) continue;
    if (d == 0)
      with[*v] = Expr::symbol(image);
    else if (d == channel_at)
      with[*v] = Expr::symbol(channel);
    else
      spatial.vars.push_back(*v);
  }
  split_var(spatial, Expr::symbol(pixel), syms, with);
  b.substitute(std::move(with));
  const Expr row = Expr::symbol(e.outer[0].sym) * extents[1] + Expr::symbol(e.outer[1].sym);
  b.accumulator(n.outputs[0], k.acc, row * extents[2] + Expr::symbol(e.inner[0].sym));
  k.epilogue = finish_epilogue(p, b, gr.stores, k.acc, extents);
  k.params = b.kernel().params;
  return {std::move(k), b.args()};
}

}  // namespace aotc::loop
