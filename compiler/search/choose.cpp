#include "search/choose.h"

#include "plan/interface.h"

namespace aotc::search {

namespace {

template <class Kernel>
plan::Choice choose(const Kernel& k, const SymTable& syms, const Target& target, const Tuned& tuned) {
  const auto contract = contract_of(k, syms);
  if (auto it = tuned.find(key_of(contract)); it != tuned.end()) return it->second;
  const auto all = candidates(contract, target);
  AOTC_CHECK(!all.empty() && all.front().fit, "no candidate fits {}", key_of(contract));
  return all.front().choice;
}

}  // namespace

plan::ChooseFn chooser(const Target& target, Tuned tuned) {
  return [target, tuned = std::move(tuned)](const loop::Kernel& kernel, const SymTable& syms) -> plan::Choice {
    if (const auto* m = std::get_if<loop::MatmulKernel>(&kernel)) return choose(*m, syms, target, tuned);
    if (const auto* v = std::get_if<loop::ConvKernel>(&kernel)) return choose(*v, syms, target, tuned);
    if (const auto* a = std::get_if<loop::AttentionKernel>(&kernel)) return choose(*a, syms, target, tuned);
    return {};
  };
}

}  // namespace aotc::search
