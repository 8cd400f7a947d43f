// A fused loop as generated C++ (emit/cpu): the shape symbols are its sizes, blocks of lanes its work units. Results of many bytes may pass
// the caches by: a line that is written whole is not read first, and what others will read stays.
#include "emit/cpu/loop_call.h"
#include "forms/cpu/cost.h"
#include "forms/cpu/far_stores.h"
#include "forms/cpu/forms.h"
#include "loop/cost.h"

namespace aotc::forms::cpu {

using loop::LoopKernel;

namespace {

int64_t cost_of(const LoopKernel& k, const loop::Inst& i) {
  switch (i.kind) {
    case loop::InstKind::constant: return 0;
    case loop::InstKind::index: return 1;
    case loop::InstKind::load: return k.syms.size() && i.index.is_const() ? 0 : 1;
    case loop::InstKind::op: break;
    default: return 1;
  }
  return loop::op_cost(i.op, i.dtype);
}

Expr points(const std::vector<loop::LoopVar>& vars) {
  Expr n = 1;
  for (const loop::LoopVar& v : vars) n *= v.extent;
  return n;
}

/// Scalar operations of an outer point: once, and of each inner point.
struct PointCost {
  int64_t once = 0, each = 0;
};
PointCost point_cost(const LoopKernel& k) {
  PointCost c;
  for (const loop::Block& b : k.blocks)
    for (loop::InstId i : b.insts) (b.over_inner ? c.each : c.once) += cost_of(k, k.insts[i]);
  return c;
}

/// The slower of arithmetic and memory, which results reach after they were read; `saved` bytes do not move.
double time_ns(const LoopKernel& k, const Site& s, double saved) {
  const PointCost c = point_cost(k);
  const auto hint = [&](const Expr& e) { return static_cast<double>(s.syms.hint(e)); };
  const double ops = hint(points(k.outer)) * (hint(points(k.inner)) * static_cast<double>(c.each) + static_cast<double>(c.once));
  double bytes = -saved;
  for (const loop::Param& p : k.params)
    if (p.role != loop::ParamRole::local)
      bytes += hint(product(p.dims)) * dtype_bytes(p.dtype) * (p.role == loop::ParamRole::input ? 1 : 2);
  const double lanes = static_cast<double>(lanes_of(DType::f32, s.machine).width);
  return stream_ns(ops, lanes, bytes, s.machine);
}

class FusedLoop : public FormOf<LoopKernel> {
 public:
  std::string_view name() const override { return "loop"; }

 protected:
  std::vector<Candidate> candidates(const LoopKernel& k, const Site& s) const override {
    return {{{this, {}}, Fit::yes(), emit::cpu::may_store_far(k) ? time_ns(k, s, 0) : 0}};
  }

  StepSpec step(const LoopKernel& k, const Site& s, const Choice&) const override {
    StepSpec f;
    f.symbol = k.name;
    for (SymId sym : emit::cpu::kernel_symbols(k)) f.sizes.push_back(Expr::symbol(sym));
    if (emit::cpu::may_store_far(k)) f.sizes.push_back(far(k, s));
    f.work = emit::cpu::loop_work(k);
    const PointCost c = point_cost(k);
    int64_t unit = 1;
    for (size_t i = 0; i < k.outer.size(); ++i) unit *= emit::cpu::unit_points(k, i);
    f.grain = grain_of(cpu_costs(s.machine).grain_ops, (points(k.inner) * c.each + c.once) * unit, s.syms);
    f.scratch_bytes = emit::cpu::local_layout(k).bytes;
    return f;
  }

  /// Whether results pass the caches by: not 0.
  virtual Expr far(const LoopKernel&, const Site&) const { return 0; }
};

Expr last_extent(const LoopKernel& k) {
  const auto& vars = k.lanes == loop::LaneAxis::outer || k.inner.empty() ? k.outer : k.inner;
  return vars.empty() ? Expr(1) : vars.back().extent;
}

Fit can_store_far(const LoopKernel& k, const Site& s) {
  if (!emit::cpu::may_store_far(k)) return {false, ""};
  const int64_t bytes = s.syms.hint(emit::cpu::far_bytes(k)), row = s.syms.hint(last_extent(k));
  if (bytes < 2 * s.machine.l2_bytes) return refuse("results of {} bytes stay in the caches", bytes);
  if (row < cpu_costs(s.machine).far_row) return refuse("rows of {} elements", row);
  return Fit::yes();
}

/// The same code, told to store past the caches where a run's results are as many as they were worth it for.
class FarLoop final : public FusedLoop {
 public:
  std::string_view name() const override { return "loop_far"; }

 protected:
  Fit fits(const LoopKernel& k, const Site& s) const override {
    if (const Fit can = can_store_far(k, s); !can) return can;
    // No question for a measurement of the kernel: it does not see what reads the results next, nor whose pages they lie in.
    if (far_ns(k, s) >= time_ns(k, s, 0))
      return refuse("results of {} bytes are not what it waits for, or a cache holds them", s.syms.hint(emit::cpu::far_bytes(k)));
    return Fit::yes();
  }

  std::vector<Candidate> candidates(const LoopKernel& k, const Site& s) const override { return {{{this, {}}, Fit::yes(), far_ns(k, s)}}; }

  std::string contract(const LoopKernel& k, const Site& s) const override {
    return fmt::format("loop {} MB to memory", s.syms.hint(emit::cpu::far_bytes(k)) >> 20);
  }

  Expr far(const LoopKernel& k, const Site& s) const override {
    const Expr bytes = emit::cpu::far_bytes(k);
    return s.syms.simplify(floordiv(bytes, std::max<int64_t>(1, std::min(s.syms.hint(bytes), least(s)))));
  }

 private:
  /// A last cache of hundreds of megabytes serves many cores: a run of few has a part of it.
  static int64_t least(const Site& s) {
    return 2 * std::min(s.machine.l3_bytes,
                        std::max<int64_t>(cpu_costs(s.machine).l3_least_part, s.machine.cores * cpu_costs(s.machine).l3_part_of_core));
  }
  /// Results that the last cache could not hold are not read first; others are brought back from memory by who reads them next.
  static double far_ns(const LoopKernel& k, const Site& s) {
    const auto bytes = static_cast<double>(s.syms.hint(emit::cpu::far_bytes(k)));
    return cpu_costs(s.machine).far_waits * time_ns(k, s, bytes >= static_cast<double>(least(s)) ? bytes : -bytes);
  }
};

}  // namespace

const Form& far_loop() { return instance<FarLoop>(); }

std::optional<Choice> stored_far(const Site& s) {
  const auto* k = std::get_if<LoopKernel>(&s.kernel);
  if (!k || !s.machine.traits().far_stores || !can_store_far(*k, s)) return std::nullopt;
  return Choice{&far_loop(), {}};
}

const Form& fused_loop() { return instance<FusedLoop>(); }

}  // namespace aotc::forms::cpu
