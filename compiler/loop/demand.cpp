#include "loop/demand.h"

#include <map>

namespace aotc::loop {
namespace {

Expr elems(const Param& p) { return product(p.dims); }

class Counter {
 public:
  explicit Counter(const IdVec<ParamId, Param>& params) : params_(params) {}

  void reads(ParamId p, const Expr& points) {
    if (params_.contains(p)) read_[p] += points;
  }
  /// Numbers of which so many are in a byte.
  void reads_packed(ParamId p, const Expr& points, int64_t in_byte) {
    if (params_.contains(p)) demand.read_bytes += ceildiv(points, in_byte);
  }
  void writes(ParamId p, const Expr& points) {
    if (params_.contains(p)) written_[p] += points;
  }
  /// A kernel of loops, by itself or of a contraction, whose parameters come first.
  void loops(const LoopKernel& k) {
    const Expr outer = k.outer_points(), inner = k.inner_points();
    for (const Block& b : k.blocks) {
      const Expr points = b.over_inner ? outer * inner : outer;
      for (InstId id : b.insts) {
        const Inst& i = k.insts[id];
        const bool argument = (i.kind == InstKind::load || i.kind == InstKind::store) && takes_argument(k.params[i.param].role);
        if (i.kind == InstKind::op || i.kind == InstKind::reduce || i.kind == InstKind::scan) demand.operations += points;
        if (argument) (i.kind == InstKind::load ? read_ : written_)[i.param] += b.over_inner ? met(k, i, points) : points;
      }
    }
  }
  Demand take() {
    for (const auto& [p, points] : read_) demand.read_bytes += bytes(p, points);
    for (const auto& [p, points] : written_) demand.written_bytes += bytes(p, points);
    return demand;
  }

  Demand demand;

 private:
  /// Elements that an access meets: along loops that its place does not depend on they are the same.
  static Expr met(const LoopKernel& k, const Inst& i, const Expr& points) {
    Expr n = 1;
    for (SymId s : i.index.symbols())
      if (k.syms[s].kind == SymKind::value) return points;
    for (const auto* vars : {&k.outer, &k.inner})
      for (const LoopVar& v : *vars)
        if (i.index.depends_on(v.sym)) n *= v.extent;
    return n;
  }
  Expr bytes(ParamId p, const Expr& points) const {
    const Expr all = elems(params_[p]);
    const auto a = all.as_const(), b = points.as_const();
    const Expr least = a && b ? Expr(std::min(*a, *b)) : all == points ? all : min(all, points);
    return least * static_cast<int64_t>(dtype_bytes(params_[p].dtype));
  }

  const IdVec<ParamId, Param>& params_;
  std::map<ParamId, Expr> read_, written_;
};

Demand demand(const LoopKernel& k) {
  Counter c(k.params);
  c.loops(k);
  return c.take();
}

/// Of few bits: the numbers as they are stored, scales and offsets; to make weights of them is no work of the program's.
void operand(Counter& c, const Operand& o, const std::optional<QuantisedWeight>& q, const Expr& points) {
  if (q && q->bits < 8) {
    c.reads_packed(q->values, points, 8 / q->bits);
  } else if (q) {
    c.reads(q->values, points);
  }
  if (q)
    for (ParamId p : {q->scales, q->offsets}) c.reads(p, floordiv(points, q->group));
  else if (o.prologue)
    c.loops(*o.prologue);
  else
    c.reads(o.param, points);
}

Demand demand(const MatmulKernel& k) {
  Counter c(k.params);
  const Expr batch = product(k.batch);
  c.demand.in = k.in;
  c.demand.products = batch * k.m * k.n * k.k * (k.twin ? 2 : 1);
  operand(c, k.a, {}, batch * k.m * k.k);
  operand(c, k.b, k.b_quantised, (k.runs ? min(k.runs->count, k.m) : batch) * k.k * k.n);
  if (k.runs) c.reads(k.runs->ends, k.runs->count);
  if (k.twin) operand(c, *k.twin, k.twin_quantised, batch * k.k * k.n);
  for (const Segment& s : k.segments) c.loops(s.epilogue);
  return c.take();
}

Demand demand(const ConvKernel& k) {
  Counter c(k.params);
  const Exprs& dims = k.transposed ? k.x_dims : k.out_dims;  // whose elements meet a whole window each
  const Expr channels = floordiv(k.transposed ? k.out_dims.at(1) : k.x_dims.at(1), k.groups);
  Expr window = 1;
  for (int64_t n : k.kernel) window *= n;
  c.demand.in = k.in;
  c.demand.products = product(dims) * channels * window;
  c.reads(k.x, elems(k.params[k.x]));
  c.reads(k.w, elems(k.params[k.w]));
  c.loops(k.epilogue);
  return c.take();
}

Demand demand(const AttentionKernel& k) {
  Counter c(k.params);
  const Expr scores = k.batch * k.heads * k.q_len * k.kv_len, all = scores * (k.head_dim + k.v_dim);
  c.demand.in = k.dtype;
  c.demand.products = k.causal ? floordiv(all, 2) : all;
  c.reads(k.q.param, k.batch * k.heads * k.q_len * k.head_dim);
  c.reads(k.k.param, k.batch * k.kv_heads * k.kv_len * k.head_dim);
  c.reads(k.v.param, k.batch * k.kv_heads * k.kv_len * k.v_dim);
  if (k.mask) c.reads(k.mask->param, scores);
  if (k.shown)
    for (const AttentionKernel::View* v : {&k.shown->from, &k.shown->end}) c.reads(v->param, k.batch * k.heads * k.q_len);
  if (k.sinks) c.reads(k.sinks->param, k.batch * k.heads * k.q_len);
  if (k.row_scales)
    for (const AttentionKernel::View* v : {&k.row_scales->k, &k.row_scales->v}) c.reads(v->param, k.batch * k.kv_heads * k.kv_len);
  c.writes(k.out.param, k.batch * k.heads * k.q_len * k.v_dim);
  return c.take();
}

Demand demand(const LibraryKernel& k) {
  Counter c(k.params);
  for (uint32_t i = 0; i < k.params.size(); ++i) {
    const ParamId p = static_cast<ParamId>(i);
    const Expr all = elems(k.params[p]);
    if (k.params[p].role == ParamRole::input)
      c.reads(p, all);
    else
      c.writes(p, all);
  }
  if (k.algorithm == "recurrence") {  // every row of every step meets the state's weight once (detail/library_abi.h)
    const Param& w = k.params.raw().at(1);
    c.demand.in = w.dtype;
    c.demand.products = k.sizes.at(0) * k.sizes.at(1) * elems(w);
  }
  return c.take();
}

}  // namespace

Demand demand_of(const Kernel& k) {
  return std::visit([](const auto& x) { return demand(x); }, k);
}

Demand operator+(const Demand& a, const Demand& b) {
  return {a.products + b.products, a.products.is(0) ? b.in : a.in, a.operations + b.operations, a.read_bytes + b.read_bytes,
          a.written_bytes + b.written_bytes};
}

}  // namespace aotc::loop
