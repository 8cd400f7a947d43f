#include <chrono>

#include "graph/verify.h"
#include "passes/passes.h"

namespace aotc::passes {
namespace {

constexpr Pass kPasses[] = {
#define AOTC_PASS(name, targets, what) {#name, name, what, For::targets},
#include "passes/passes.def"
#undef AOTC_PASS
};

bool runs_for(const Pass& pass, const Target& target) {
  return pass.targets == For::all || (pass.targets == For::gpus) == target.traits().device_code;
}

/// Changes when nodes, their inputs, constants, guards or names do.
size_t fingerprint(const Graph& g) {
  size_t h = g.guards.size() * 31 + g.constants.size();
  auto mix = [&h](size_t x) { h = (h ^ x) * 0x100000001b3u; };
  for (NodeId id : g.order) {
    mix(idx(id));
    for (ValueId v : g.nodes[id].inputs) mix(idx(v));
    mix(std::hash<std::string>()(g.nodes[id].name));
  }
  for (const OutputInfo& o : g.outputs) mix(idx(o.value));
  return h;
}

}  // namespace

std::span<const Pass> pass_list() { return kPasses; }

const Pass* find_pass(std::string_view name) {
  for (const Pass& p : kPasses)
    if (p.name == name) return &p;
  return nullptr;
}

void run_pass(const Pass& pass, Graph& g, PassContext& ctx) {
  const size_t before = ctx.after ? fingerprint(g) : 0;
  const auto start = std::chrono::steady_clock::now();
  if (runs_for(pass, ctx.target)) pass.fn(g, ctx);
  if (pass.fn != dce) dce(g, ctx);  // what a rewrite leaves behind would count as a use to the next pass
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  verify(g, pass.name);
  verify_live(g, pass.name);
  if (ctx.after) ctx.after(pass.name, g, fingerprint(g) != before, seconds);
}

void run_passes(Graph& g, PassContext& ctx, const std::function<bool(std::string_view pass)>& left_out) {
  for (const Pass& p : kPasses)
    if (!left_out || !left_out(p.name)) run_pass(p, g, ctx);
}

}  // namespace aotc::passes
