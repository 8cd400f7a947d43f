#include "plan/module_passes.h"

#include <algorithm>

#include "forms/joining_passes.h"
#include "plan/share_weights.h"
#include "plan/slab_weights.h"

namespace aotc::plan {
namespace {

constexpr ModulePass kPasses[] = {
    {Arch::x86_64, "share_weights", [](loop::Module& m, const Goal&) { share_weights(m); }},
    {Arch::cuda, "slab_weights", [](loop::Module& m, const Goal&) { slab_weights(m); }},
    {Arch::cuda, "pair_products", forms::pair_products, true},
    {Arch::cuda, "finish_mates", forms::finish_mates, true},
    {Arch::cuda, "rows_in_products", forms::compute_rows_in_products, true},
    {Arch::cuda, "fuse_puts", forms::fuse_puts, true},
};

using Calls = std::vector<loop::Call>;
bool same_calls(const Calls& a, const Calls& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const loop::Call& x, const loop::Call& y) { return x.kernel == y.kernel && x.args == y.args; });
}

}  // namespace

std::span<const ModulePass> module_passes() { return kPasses; }

bool joins_calls(Arch arch) {
  return std::any_of(std::begin(kPasses), std::end(kPasses), [&](const ModulePass& p) { return p.arch == arch && p.joins; });
}

std::optional<size_t> join_calls_for(loop::Module& m, size_t from, const SymTable& syms, const Goal& goal) {
  const SymTable whole = m.syms;
  const size_t made = m.other_calls.size();
  m.other_calls.push_back(m.calls);  // kept while the passes drop what no list names
  m.calls = m.other_calls[from];
  m.syms = syms;
  for (const ModulePass& pass : kPasses)
    if (pass.arch == goal.machine.arch && pass.joins) pass.run(m, goal);
  m.syms = whole;
  std::swap(m.calls, m.other_calls[made]);
  const Calls joined = m.other_calls[made];
  const bool modules = same_calls(joined, m.calls);
  size_t same = from + 1;
  while (same < made && !same_calls(joined, m.other_calls[same])) ++same;
  if (!modules && same == made) return made;
  m.other_calls.pop_back();
  return modules ? std::nullopt : std::optional(same);
}

}  // namespace aotc::plan
