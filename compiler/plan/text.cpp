#include "plan/text.h"

#include <algorithm>

namespace aotc::plan {

namespace {

std::string_view place_name(Place p) {
  switch (p) {
    case Place::input: return "input";
    case Place::output: return "output";
    case Place::weight: return "weight";
    case Place::arena: return "arena";
    case Place::state: return "state";
    case Place::state_next: return "state_next";
  }
  return "?";
}

std::string bytes_text(int64_t b) {
  if (b == kInf) return "unbounded";
  if (b >= 10 << 20) return fmt::format("{:.1f} MB", static_cast<double>(b) / (1 << 20));
  if (b >= 10 << 10) return fmt::format("{:.1f} KB", static_cast<double>(b) / (1 << 10));
  return fmt::format("{} B", b);
}

/// One row a buffer, by offset; a column is one or more steps, a letter where the buffer lives.
std::string arena_map(const Plan& plan, const loop::Module& module) {
  constexpr int kColumns = 72;
  std::vector<PlanBufferId> arena;
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    if (plan.buffers.raw()[i].place == Place::arena) arena.push_back(static_cast<PlanBufferId>(i));
  if (arena.empty()) return {};
  auto at = [&](PlanBufferId b) { return module.syms.hint(plan.buffers[b].offset); };
  std::stable_sort(arena.begin(), arena.end(), [&](PlanBufferId a, PlanBufferId b) {
    return std::pair(at(a), plan.buffers[a].live.begin) < std::pair(at(b), plan.buffers[b].live.begin);
  });
  const int steps = static_cast<int>(plan.steps.size()), per = (steps + kColumns - 1) / kColumns, columns = (steps + per - 1) / per;
  std::string s = fmt::format("arena, by offset; a column is {} step{}:\n", per, per == 1 ? "" : "s");
  for (PlanBufferId id : arena) {
    const PlannedBuffer& b = plan.buffers[id];
    std::string row(static_cast<size_t>(columns), '.');
    for (int c = b.live.begin / per; c <= (std::max(b.live.end, b.live.begin + 1) - 1) / per; ++c)
      row[static_cast<size_t>(c)] = b.in_place_of ? '=' : '#';
    s += fmt::format("  {:>10} {:>10} |{}| {}\n", at(id), bytes_text(module.syms.hint(b.bytes)), row, module.buffers[b.buffer].name);
  }
  return s;
}

}  // namespace

std::string summary(const Plan& plan) {
  const double over = plan.live_bytes_max > 0 && plan.live_bytes_max != kInf
                          ? 100.0 * (static_cast<double>(plan.arena_bytes_max) / static_cast<double>(plan.live_bytes_max) - 1)
                          : 0;
  return fmt::format("arena {} ({:+.1f} % of the largest live set {}), all buffers {}", bytes_text(plan.arena_bytes_max), over,
                     bytes_text(plan.live_bytes_max), bytes_text(plan.sum_bytes_max));
}

std::string print(const Plan& plan, const loop::Module& module) {
  const SymTable& syms = module.syms;
  std::string s = fmt::format("plan \"{}\"\n", plan.name);
  for (const SymRange& r : plan.ranges)
    s += fmt::format("  sym {} [{}, {}] multiple_of {}\n", syms[r.sym].name, r.min, r.max == kInf ? "inf" : fmt::format("{}", r.max),
                     r.multiple_of);
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlannedBuffer& b = plan.buffers.raw()[i];
    s += fmt::format("  b{} {} {}", i, module.buffers[b.buffer].name, place_name(b.place));
    s += b.place == Place::arena ? fmt::format(" at {}", b.offset.str(syms)) : fmt::format(" {}", b.index);
    s += fmt::format(" bytes {} live [{}, {})", b.bytes.str(syms), b.live.begin, b.live.end);
    if (b.in_place_of) s += fmt::format(" in_place_of b{}", idx(*b.in_place_of));
    s += '\n';
  }
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& x = plan.steps[i];
    static constexpr std::string_view kKinds[] = {"cpu", "cuda", "copy", "zero"};
    s += fmt::format("  step {} {} {}(", i, kKinds[static_cast<size_t>(x.kind)], x.symbol);
    for (size_t a = 0; a < x.args.size(); ++a) s += fmt::format("{}b{}", a ? ", " : "", idx(x.args[a]));
    s += ")";
    if (!x.sizes.empty()) {
      s += " sizes [";
      for (size_t a = 0; a < x.sizes.size(); ++a) s += fmt::format("{}{}", a ? ", " : "", x.sizes[a].str(syms));
      s += "]";
    }
    if (x.kind == StepKind::cpu) s += fmt::format(" work {} grain {}", x.work.str(syms), x.grain.str(syms));
    if (x.kind == StepKind::cuda)
      s += fmt::format(" grid [{}, {}, {}] block [{}, {}, {}]", x.grid[0].str(syms), x.grid[1].str(syms), x.grid[2].str(syms), x.block[0],
                       x.block[1], x.block[2]);
    if (!x.scratch_bytes.is(0)) s += fmt::format(" scratch {}", x.scratch_bytes.str(syms));
    if (x.config >= 0) s += fmt::format(" config {}", x.config);
    if (!x.label.empty()) s += fmt::format("  # {}", x.label);
    s += '\n';
  }
  s += fmt::format("  arena_bytes {}\n  scratch_bytes {}\n  {}\n", plan.arena_bytes.str(syms), plan.scratch_bytes.str(syms), summary(plan));
  return s + arena_map(plan, module);
}

std::string print(const PlanSet& set, const loop::Module& module) {
  std::string s;
  for (const Plan& p : set.plans) s += print(p, module);
  for (size_t i = 0; i < set.configs.size(); ++i) {
    const KernelConfig& c = set.configs[i];
    s += fmt::format("config {} kernel {}", i, idx(c.kernel));
    if (const auto* g = std::get_if<GemmChoice>(&c.choice))
      s += fmt::format(" gemm mr {} nv {} mc {} nc {} kc {} kp {} pack_a {}", g->mr, g->nv, g->mc, g->nc, g->kc, g->kp, g->pack_a);
    if (const auto* v = std::get_if<ConvChoice>(&c.choice))
      s += fmt::format(" conv algo {} mc {} nc {} kc {} kp {}", v->algo, v->mc, v->nc, v->kc, v->kp);
    if (const auto* a = std::get_if<AttnChoice>(&c.choice)) s += fmt::format(" attention q_block {} kv_block {}", a->q_block, a->kv_block);
    s += c.packed ? " packed\n" : "\n";
  }
  for (size_t i = 0; i < set.weights.size(); ++i)
    s += fmt::format("weight {} {} offset {} bytes {}\n", i, set.weights[i].name, set.weights[i].offset, set.weights[i].bytes);
  return s;
}

}  // namespace aotc::plan
