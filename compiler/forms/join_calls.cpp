#include "forms/join_calls.h"

#include <algorithm>

#include "forms/mates.h"
#include "forms/row_prologues.h"
#include "forms/twins.h"
#include "loop/tidy.h"

namespace aotc::forms {
namespace {

using Calls = std::vector<loop::Call>;

constexpr JoiningPass kPasses[] = {
    {"pair_products", pair_products}, {"finish_mates", finish_mates}, {"rows_in_products", compute_rows_in_products}};

bool same_calls(const Calls& a, const Calls& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const loop::Call& x, const loop::Call& y) { return x.kernel == y.kernel && x.args == y.args; });
}

}  // namespace

std::span<const JoiningPass> joining_passes() { return kPasses; }

std::optional<size_t> join_calls_for(loop::Module& m, size_t from, const SymTable& syms, const Machine& machine) {
  const SymTable whole = m.syms;
  const size_t made = m.other_calls.size();
  m.other_calls.push_back(m.calls);  // kept while the passes drop what no list names
  m.calls = m.other_calls[from];
  m.syms = syms;
  for (const JoiningPass& pass : kPasses) pass.run(m, machine);
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

}  // namespace aotc::forms
