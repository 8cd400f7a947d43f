#include "loop/verify.h"

#include <algorithm>
#include <set>

#include "loop/quantised.h"

namespace aotc::loop {
namespace {

class Verifier {
 public:
  Verifier(const Module& m, std::string_view after) : m_(m), after_(after) {}

  void run() {
    std::set<std::string> names;
    for (const Kernel& k : m_.kernels) {
      where_ = kernel_name(k);
      AOTC_CHECK(names.insert(where_).second, "after {}: two kernels are named {}", after_, where_);
      std::visit([this](const auto& x) { check(x); }, k);
    }
    check(m_.calls);
    for (const std::vector<Call>& calls : m_.other_calls) check(calls);
  }

 private:
  void check(const std::vector<Call>& calls) {
    std::set<BufferId> written;
    for (const Call& c : calls) call(c, written);
    for (size_t i = 0; i < m_.buffers.size(); ++i) {
      const Buffer& b = m_.buffers[static_cast<BufferId>(i)];
      const bool must = b.kind == BufferKind::output || b.kind == BufferKind::state_out;
      AOTC_CHECK(!must || written.count(static_cast<BufferId>(i)), "after {}: nothing writes {}", after_, b.name);
    }
  }

  void call(const Call& c, std::set<BufferId>& written) {
    AOTC_CHECK(m_.kernels.contains(c.kernel), "after {}: a call of no kernel", after_);
    const Kernel& k = m_.kernels[c.kernel];
    const auto& params = kernel_params(k);
    size_t visible = 0;
    for (const Param& p : params) {
      if (!takes_argument(p.role)) continue;
      AOTC_CHECK(visible < c.args.size() && m_.buffers.contains(c.args[visible]), "after {}: a call of {} lacks arguments", after_,
                 kernel_name(k));
      const BufferId id = c.args[visible++];
      const Buffer& b = m_.buffers[id];
      AOTC_CHECK(p.dtype == b.type.dtype && p.dims == b.type.dims, "after {}: argument {} of {} has another type than {}", after_, b.name,
                 kernel_name(k), p.name);
      const bool fresh = b.kind == BufferKind::temp || b.kind == BufferKind::output || b.kind == BufferKind::state_out;
      if (p.role == ParamRole::input) {
        AOTC_CHECK(!fresh || written.count(id), "after {}: {} reads {} before it is written", after_, kernel_name(k), b.name);
      } else {
        AOTC_CHECK(fresh, "after {}: {} writes {}", after_, kernel_name(k), b.name);
      }
    }
    AOTC_CHECK(visible == c.args.size(), "after {}: a call of {} has too many arguments", after_, kernel_name(k));
    visible = 0;
    for (const Param& p : params) {
      if (!takes_argument(p.role)) continue;
      if (p.role != ParamRole::input) written.insert(c.args[visible]);
      ++visible;
    }
  }

  void check(const LoopKernel& k) { loop(k, nullptr); }
  void check(const MatmulKernel& k) {
    AOTC_CHECK(k.batch.size() <= 2 && !k.segments.empty(), "after {}: {}: batch dims or segments", after_, where_);
    for (const Operand* o : {&k.a, &k.b}) {
      if (o->prologue) {
        AOTC_CHECK(o->param == kNone<ParamId> && !(o == &k.b && k.b_constant), "after {}: {}: an operand is read and computed", after_,
                   where_);
        prologue(*o->prologue, k.params, k.in, k.batch.size() + 1, o == &k.a);
      } else {
        AOTC_CHECK(k.params.contains(o->param) && o->batch_strides.size() == k.batch.size() &&
                       (k.params[o->param].dtype == k.in || (o == &k.b && multiplies_bytes(k))),
                   "after {}: {}: bad operand", after_, where_);
      }
    }
    if (k.twin && k.b.prologue) {
      AOTC_CHECK(k.twin->prologue && k.segments.size() == 1 && k.b_quantised && k.twin_quantised &&
                     same_format(*k.b_quantised, k.params, *k.twin_quantised, k.params),
                 "after {}: {}: bad twin", after_, where_);
      prologue(*k.twin->prologue, k.params, k.in, k.batch.size() + 1, false);
    } else if (k.twin) {
      AOTC_CHECK(!k.twin->prologue && k.segments.size() == 1 && k.params.contains(k.twin->param) &&
                     k.twin->batch_strides.size() == k.batch.size() && k.params[k.twin->param].dtype == k.in,
                 "after {}: {}: bad twin", after_, where_);
    }
    if (k.runs)
      AOTC_CHECK(k.batch.empty() && !two_sums(k) && !k.a.prologue && !k.b.prologue && k.params.contains(k.runs->ends) &&
                     k.params[k.runs->ends].dtype == DType::i64 && is_float(k.in),
                 "after {}: {}: bad runs", after_, where_);
    if (const auto& q = k.b_quantised)
      AOTC_CHECK(k.b.prologue && k.params.contains(q->values) && q->group > 0 &&
                     (q->bits == 16 ? q->scales == kNone<ParamId> : (q->bits == 8 || q->bits == 4) && k.params.contains(q->scales)) &&
                     (q->offsets == kNone<ParamId> || k.params.contains(q->offsets)),
                 "after {}: {}: bad weight of few bits", after_, where_);
    AOTC_CHECK(k.acc == accumulator_type(k.in), "after {}: {}: its kernels do not sum in {}", after_, where_, dtype_name(k.acc));
    for (const Segment& s : k.segments) {
      AOTC_CHECK(s.mates == 0 || (s.mates > 0 && !k.twin && k.syms.proves_divisible(s.n_end - s.n_begin, 2 * s.mates)),
                 "after {}: {}: bad mates", after_, where_);
      epilogue(s.epilogue, k.params, k.acc, k.batch.size() + 1, k.twin || s.mates ? 2 : 1);
    }
  }
  void check(const ConvKernel& k) {
    const size_t s = k.kernel.size();
    AOTC_CHECK(s >= 1 && s <= 3 && k.stride.size() == s && k.padding.size() == s && k.padding_hi.size() == s && k.dilation.size() == s &&
                   k.x_dims.size() == s + 2 && k.out_dims.size() == s + 2,
               "after {}: {}: spatial dims", after_, where_);
    AOTC_CHECK(!(k.transposed && k.channels_last), "after {}: {}: transposed, and the channels last", after_, where_);
    AOTC_CHECK(k.acc == accumulator_type(k.in), "after {}: {}: its kernels do not sum in {}", after_, where_, dtype_name(k.acc));
    epilogue(k.epilogue, k.params, k.acc, 2, 1);
  }
  void check(const AttentionKernel& k) {
    for (const AttentionKernel::View* v : {&k.q, &k.k, &k.v, &k.out})
      AOTC_CHECK(k.params.contains(v->param), "after {}: {}: bad view", after_, where_);
    if (k.mask) AOTC_CHECK(k.params.contains(k.mask->param), "after {}: {}: bad view of the mask", after_, where_);
    const DType bytes = k.row_scales ? DType::i8 : DType::f8e4m3fn;
    AOTC_CHECK(k.stored() == k.params[k.v.param].dtype && (k.stored() == bytes || (k.stored() == k.dtype && !k.row_scales)),
               "after {}: {}: types of keys, values and their scales", after_, where_);
    if (k.row_scales)
      for (const AttentionKernel::View* v : {&k.row_scales->k, &k.row_scales->v})
        AOTC_CHECK(k.params.contains(v->param) && k.params[v->param].dtype == DType::f32, "after {}: {}: bad scales", after_, where_);
    if (k.sinks)
      AOTC_CHECK(k.params.contains(k.sinks->param) && k.params[k.sinks->param].dtype == accumulator_type(k.dtype),
                 "after {}: {}: bad sinks", after_, where_);
    if (!k.shown) return;
    AOTC_CHECK(k.mask && is_bool(k.params[k.mask->param].dtype), "after {}: {}: ranges of keys without a bool mask", after_, where_);
    for (const AttentionKernel::View* v : {&k.shown->from, &k.shown->end})
      AOTC_CHECK(k.params.contains(v->param) && k.params[v->param].dtype == DType::i64, "after {}: {}: bad range of keys", after_, where_);
  }
  void check(const LibraryKernel& k) { AOTC_CHECK(!k.algorithm.empty(), "after {}: {} has no algorithm", after_, where_); }

  void epilogue(const LoopKernel& e, const IdVec<ParamId, Param>& params, DType acc, size_t outer, size_t accumulators) {
    AOTC_CHECK(e.outer.size() == outer && e.inner.size() == 1, "after {}: {}: loops of the epilogue", after_, where_);
    AOTC_CHECK(e.params.size() == params.size() + accumulators &&
                   std::all_of(e.params.begin() + static_cast<long>(params.size()), e.params.end(),
                               [&](const Param& p) { return p.role == ParamRole::acc && p.dtype == acc; }),
               "after {}: {}: parameters of the epilogue", after_, where_);
    const ParamRole acc_role = ParamRole::acc;
    loop(e, &acc_role);
  }

  /// reduces: it may hold reductions.
  void prologue(const LoopKernel& p, const IdVec<ParamId, Param>& params, DType in, size_t outer, bool reduces) {
    AOTC_CHECK(p.outer.size() == outer && p.inner.size() == 1, "after {}: {}: loops of the prologue", after_, where_);
    AOTC_CHECK(
        p.params.size() == params.size() + 1 && p.params.raw().back().role == ParamRole::operand && p.params.raw().back().dtype == in,
        "after {}: {}: parameters of the prologue", after_, where_);
    const ParamRole operand_role = ParamRole::operand;
    loop(p, &operand_role);
    const ParamId to = static_cast<ParamId>(params.size());
    size_t stores = 0;
    for (const Inst& i : p.insts) {
      AOTC_CHECK((reduces || i.kind != InstKind::reduce) && i.kind != InstKind::scan, "after {}: {}: a reduction in a prologue", after_,
                 where_);
      if (i.kind != InstKind::store) continue;
      ++stores;
      const Expr at = Expr::symbol(p.outer.back().sym) * p.inner[0].extent + Expr::symbol(p.inner[0].sym);
      AOTC_CHECK(i.param == to && i.mask == kNone<InstId> && (i.index == at || p.syms.proves_eq(i.index, at)),
                 "after {}: {}: a prologue stores anything but its operand", after_, where_);
    }
    AOTC_CHECK(stores == 1, "after {}: {}: a prologue with {} stores", after_, where_, stores);
  }

  /// `attached`: the role that only this kind of loop, an epilogue or a prologue, may touch.
  void loop(const LoopKernel& k, const ParamRole* attached) {
    std::set<SymId> inner, outer, bound;
    for (const LoopVar& v : k.outer) outer.insert(v.sym);
    for (const LoopVar& v : k.inner) inner.insert(v.sym);
    std::vector<int> defined(k.insts.size(), 0);  // 1: row value, 2: point value of the current block
    size_t row_values = 0;
    for (const Block& b : k.blocks) {
      AOTC_CHECK(!b.over_inner || !k.inner.empty(), "after {}: {}: an inner block without inner loops", after_, where_);
      std::set<SymId> bound_here = bound;
      for (InstId id : b.insts) {
        AOTC_CHECK(k.insts.contains(id) && !defined[idx(id)], "after {}: {}: v{} stands twice", after_, where_, idx(id));
        const Inst& i = k.insts[id];
        auto use = [&](InstId a) {
          AOTC_CHECK(idx(a) < defined.size() && defined[idx(a)], "after {}: {}: v{} uses v{} before it is defined", after_, where_, idx(id),
                     idx(a));
        };
        for (InstId a : i.args) use(a);
        if (i.mask != kNone<InstId>) {
          use(i.mask);
          AOTC_CHECK(is_bool(k.insts[i.mask].dtype), "after {}: {}: the mask of v{} is not bool", after_, where_, idx(id));
        }
        for (SymId s : i.index.symbols()) {
          const SymKind kind = k.syms[s].kind;
          const bool known = kind == SymKind::shape || outer.count(s) || bound_here.count(s) || (b.over_inner && inner.count(s));
          AOTC_CHECK(known, "after {}: {}: v{} uses {} where it has no value", after_, where_, idx(id), k.syms[s].name);
        }
        inst(k, id, b, attached);
        if (i.bind != kNone<SymId>) {
          bound_here.insert(i.bind);
          if (!b.over_inner) bound.insert(i.bind);
        }
        defined[idx(id)] = b.over_inner && i.kind != InstKind::reduce ? 2 : 1;
        // The result of a reduction is there when its block has ended.
        if (i.kind == InstKind::reduce) defined[idx(id)] = 0, ++row_values;
      }
      for (InstId id : b.insts) {
        if (k.insts[id].kind == InstKind::reduce)
          defined[idx(id)] = 1;
        else if (b.over_inner)
          defined[idx(id)] = 0;
      }
    }
  }

  void inst(const LoopKernel& k, InstId id, const Block& b, const ParamRole* attached) {
    const Inst& i = k.insts[id];
    const bool access = i.kind == InstKind::load || i.kind == InstKind::store;
    AOTC_CHECK(access == (i.param != kNone<ParamId>), "after {}: {}: v{} and its parameter", after_, where_, idx(id));
    if (access) {
      const Param& p = k.params[i.param];
      AOTC_CHECK(p.dtype == i.dtype, "after {}: {}: v{} has another dtype than {}", after_, where_, idx(id), p.name);
      const bool reads = i.kind == InstKind::load;
      AOTC_CHECK(
          reads ? p.role != ParamRole::output && p.role != ParamRole::operand : p.role != ParamRole::input && p.role != ParamRole::acc,
          "after {}: {}: v{} may not touch {}", after_, where_, idx(id), p.name);
      AOTC_CHECK((p.role != ParamRole::acc && p.role != ParamRole::operand) || (attached && *attached == p.role),
                 "after {}: {}: accumulators outside an epilogue, or an operand outside a prologue", after_, where_);
      if (i.mask == kNone<InstId>) {
        const Interval at = k.syms.interval(i.index);
        AOTC_CHECK(at.max >= 0 || product(p.dims).is(0), "after {}: {}: v{} is always out of {}", after_, where_, idx(id), p.name);
      }
    }
    const size_t args = i.args.size();
    switch (i.kind) {
      case InstKind::op: AOTC_CHECK(args >= 1 && args <= 3, "after {}: {}: v{} has {} arguments", after_, where_, idx(id), args); break;
      case InstKind::store:
        AOTC_CHECK(args == 1 && k.insts[i.args[0]].dtype == i.dtype, "after {}: {}: v{} stores another dtype", after_, where_, idx(id));
        break;
      case InstKind::check:
        AOTC_CHECK(args == 1 && is_bool(k.insts[i.args[0]].dtype), "after {}: {}: v{} is no check", after_, where_, idx(id));
        break;
      case InstKind::reduce:
      case InstKind::scan:
        AOTC_CHECK(args == 1 && b.over_inner, "after {}: {}: v{} is not in an inner block", after_, where_, idx(id));
        break;
      default: AOTC_CHECK(args == 0, "after {}: {}: v{} has arguments", after_, where_, idx(id));
    }
  }

  const Module& m_;
  std::string_view after_;
  std::string where_;
};

}  // namespace

void verify(const Module& m, std::string_view after) { Verifier(m, after).run(); }

}  // namespace aotc::loop
