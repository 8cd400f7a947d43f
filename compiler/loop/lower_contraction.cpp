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

/// A dimension of the result: extent and the strides of both operands along it.
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
  if (c.exchangeable) return c.bits ? std::optional(std::pair(0, (1 << c.bits) - 1)) : std::nullopt;
  std::pair<int, int> range{255, -128};
  for (size_t i = 0; i < c.bytes; ++i) {
    const int v = c.type.dtype == DType::u8 ? static_cast<int>(c.data[i]) : static_cast<int>(static_cast<int8_t>(c.data[i]));
    range = {std::min(range.first, v), std::max(range.second, v)};
  }
  return range;
}

/// A matrix product of the graph: batch dims, rows and columns of the result, and how both operands lie along them.
class Product {
 public:
  Product(const Partition& p, GroupId id, Buffers& buffers)
      : p_(p), g_(p.g), id_(id), gr_(p.groups[id]), n_(g_.nodes[gr_.node]), buffers_(buffers), b_(p, id, buffers) {}

  Lowered lower() {
    const Exprs& result = g_.type(n_.outputs[0]).dims;
    vars_ = gr_.outer;
    for (SymId v : {gr_.k_var, gr_.run_var})
      if (v != kNone<SymId>) vars_.push_back(v);
    column_ = gr_.result_idx.back().as_symbol().value_or(kNone<SymId>);
    const Place a = place(0), b = place(1);
    find_axes(a.at, b.at);
    merge_batch();
    k_.syms = g_.syms;
    k_.ordered = p_.rules.ordered_sums;
    k_.in = g_.type(n_.inputs[0]).dtype;
    k_.acc = accumulator_type(k_.in);
    k_.m = rows_.extent;
    k_.n = result.back();
    k_.k = g_.type(n_.inputs[0]).dims.back();
    for (const Axis& t : batch_) k_.batch.push_back(t.extent);
    k_.a = operand(0, a);
    k_.b = operand(1, b);
    k_.b_constant = g_.values[gr_.operands[1].base].kind == ValueKind::constant;
    if (n_.op == Op::grouped_matmul) k_.runs = runs(b.at);
    prologue(0, k_.a);
    prologue(1, k_.b);
    segments();
    k_.params = last_->kernel().params;
    for (Segment& s : k_.segments) complete_params(s.epilogue, k_.params);
    for (Operand* o : {&k_.a, &k_.b})
      if (o->prologue) complete_params(*o->prologue, k_.params);
    k_.b_quantised = find_quantised(
        k_, [&](ParamId p) { return byte_range(g_, buffers_[last_->args().at(idx(p))]); }, p_.rules.few_bits != nullptr);
    if (k_.b_quantised && buffers_[last_->args().at(idx(k_.b_quantised->values))].kind != BufferKind::constant) k_.b_quantised.reset();
    return {std::move(k_), last_->args()};
  }

 private:
  /// The tensor that an operand is a view of, and the offset as a function of vars_.
  struct Place {
    ValueId root;
    Affine at;
  };
  Place place(size_t operand) {
    const OperandAt& o = gr_.operands[operand];
    const auto [root, offset] = o.prologue == kNone<GroupId> ? p_.locate_offset(o.base, o.idx, b_.syms())
                                                             : std::pair(o.base, linearise(g_.type(o.base).dims, o.idx, b_.syms()));
    const auto f = affine(offset, vars_);
    AOTC_CHECK(f, "the operands of {} are not strided", n_.name);
    return {root, *f};
  }

  /// Batch dims that an operand runs through, then the rows; columns stay apart.
  void find_axes(const Affine& a, const Affine& b) {
    const Exprs& result = g_.type(n_.outputs[0]).dims;
    for (size_t d = 0; d + 1 < result.size(); ++d) {
      Axis x;
      x.extent = result[d];
      if (auto v = gr_.result_idx[d].as_symbol()) {
        x.vars = {*v};
        x.a = coef(a, vars_, *v);
        x.b = coef(b, vars_, *v);
      }
      const bool row = d + 2 == result.size();
      if (row || !x.vars.empty()) batch_.push_back(std::move(x));
    }
    rows_ = std::move(batch_.back());
    batch_.pop_back();
  }

  /// `inner` takes `outer` in.
  static void join(const Axis& outer, Axis& inner) {
    inner.vars.insert(inner.vars.begin(), outer.vars.begin(), outer.vars.end());
    inner.extent = outer.extent * inner.extent;
  }
  /// Fewer batch dims: those that run on in both operands become one, those that b does not know become rows.
  void merge_batch() {
    const SymTable& syms = b_.syms();
    for (size_t i = batch_.size(); i-- > 1;) {
      Axis &outer = batch_[i - 1], &inner = batch_[i];
      if (!same(syms, outer.a, inner.a * inner.extent) || !same(syms, outer.b, inner.b * inner.extent)) continue;
      join(outer, inner);
      batch_.erase(batch_.begin() + static_cast<long>(i) - 1);
    }
    while (!batch_.empty() && batch_.back().b.is(0)) {
      const Axis& shared = batch_.back();
      if (rows_.vars.empty())
        rows_.a = shared.a;
      else if (!same(syms, shared.a, rows_.a * rows_.extent))
        break;
      join(shared, rows_);
      batch_.pop_back();
    }
    AOTC_CHECK(batch_.size() <= 2, "{} batch dims of {} do not merge", batch_.size(), n_.name);
  }

  Operand operand(size_t number, const Place& from) {
    const bool is_a = number == 0;
    Operand x;
    if (gr_.operands[number].prologue != kNone<GroupId>) return x;
    x.param = b_.param(buffers_.of(from.root), ParamRole::input);
    x.base = from.at.base;
    for (const Axis& t : batch_) x.batch_strides.push_back(is_a ? t.a : t.b);
    const Expr along_k = gr_.k_var == kNone<SymId> ? Expr(0) : coef(from.at, vars_, gr_.k_var);
    x.row_stride = is_a ? rows_.a : along_k;
    x.col_stride = is_a ? along_k : coef(from.at, vars_, column_);
    return x;
  }

  Runs runs(const Affine& b) {
    const ValueId ends = gr_.operands[2].base;
    const ValueId root = p_.locate(ends, Exprs(g_.type(ends).dims.size(), Expr(0)), b_.syms()).first;
    return {b_.param(buffers_.of(root), ParamRole::input), g_.type(n_.inputs[1]).dims[0],
            gr_.run_var == kNone<SymId> ? Expr(0) : coef(b, vars_, gr_.run_var)};
  }

  /// The builder of the next prologue or epilogue; each knows the parameters of those before it.
  KernelBuilder& next_builder(GroupId of) {
    auto next = std::make_unique<KernelBuilder>(p_, of, buffers_);
    next->share_params(last_ ? *last_ : b_);
    last_ = std::move(next);
    return *last_;
  }

  /// The loops of a prologue or epilogue: batch dims, rows, columns.
  struct Nest {
    Expr row, column;
    SymMap with;  ///< what the group's variables are
  };
  Nest loops(KernelBuilder& b, const char* row_name, const Expr& rows, const char* column_name, const Expr& columns) {
    Nest made;
    LoopKernel& e = b.kernel();
    for (const Axis& t : batch_) {
      const SymId v = loop_var(b.syms(), "b", t.extent);
      e.outer.push_back({v, t.extent});
      split_var(t, Expr::symbol(v), b.syms(), made.with);
    }
    const SymId row = loop_var(b.syms(), row_name, rows), column = loop_var(b.syms(), column_name, columns);
    e.outer.push_back({row, rows});
    e.inner.push_back({column, columns});
    made.row = Expr::symbol(row);
    made.column = Expr::symbol(column);
    return made;
  }

  void prologue(size_t number, Operand& to) {
    const OperandAt& o = gr_.operands[number];
    if (o.prologue == kNone<GroupId>) return;
    const bool is_a = number == 0;
    KernelBuilder& b = next_builder(o.prologue);
    const Expr rows = is_a ? k_.m : k_.k, columns = is_a ? k_.k : k_.n;
    Nest l = loops(b, "r", rows, "c", columns);
    if (is_a) split_var(rows_, l.row, b.syms(), l.with);
    if (!is_a && column_ != kNone<SymId>) l.with[column_] = l.column;
    if (gr_.k_var != kNone<SymId>) l.with[gr_.k_var] = is_a ? l.column : l.row;
    b.substitute(std::move(l.with));
    b.operand(o.base, o.idx, l.row * columns + l.column);
    to.prologue = finish_attached(p_, b, {"operand", ParamRole::operand, k_.in, {rows, columns}});
  }

  /// `column`: of the group, that runs through these columns of the result.
  void segment(ValueId value, const Expr& begin, const Expr& end, SymId column, const std::vector<StoreAt>& stores) {
    KernelBuilder& b = next_builder(id_);
    const Expr columns = end - begin;
    Nest l = loops(b, "m", k_.m, "n", columns);
    split_var(rows_, l.row, b.syms(), l.with);
    if (column != kNone<SymId>) l.with[column] = l.column;
    b.substitute(std::move(l.with));
    b.accumulator(value, k_.acc, l.row * columns + l.column);
    k_.segments.push_back({begin, end, finish_epilogue(p_, b, stores, k_.acc, {k_.m, columns})});
  }
  void segments() {
    if (gr_.segments.empty()) segment(n_.outputs[0], 0, k_.n, column_, gr_.stores);
    for (uint32_t i = 0; i < gr_.segments.size(); ++i) {
      const SegmentAt& part = gr_.segments[i];
      std::vector<StoreAt> stores;
      std::copy_if(gr_.stores.begin(), gr_.stores.end(), std::back_inserter(stores),
                   [&](const StoreAt& s) { return p_.segment[s.value] == i; });
      segment(part.value, part.begin, part.end, part.column, stores);
    }
  }

  const Partition& p_;
  const Graph& g_;
  const GroupId id_;
  const Group& gr_;
  const Node& n_;
  Buffers& buffers_;
  KernelBuilder b_;
  std::unique_ptr<KernelBuilder> last_;
  std::vector<SymId> vars_;  ///< of the group
  SymId column_ = kNone<SymId>;
  std::vector<Axis> batch_;
  Axis rows_;
  MatmulKernel k_;
};

}  // namespace

Lowered lower_matmul(const Partition& p, GroupId id, Buffers& buffers) { return Product(p, id, buffers).lower(); }

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
  k.ordered = p.rules.ordered_sums;
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
  k.around = n.get_or<int64_t>(Attr::value, 0);
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
