#pragma once
// Accuracy for time: choices that the goal's Numerics do not allow by themselves (minimal filtering F(4x4), Strassen's products), taken
// where they are faster and the outputs of the whole program stay within the accuracy rule on sample inputs.
#include "search/jobs.h"

namespace aotc::search {

/// Puts what it takes into result.tuned, beside what that has, and tells it in result.trades. What the database has of this program is
/// taken as it is; otherwise it is measured and judged within the budget and put there. Where that ends early, what was judged is taken,
/// and a later build with a measurer begins anew.
void trade_accuracy(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, const Budget& budget,
                    TuningDb& db, TuneResult& result);

/// Whether the outputs stay within the bound with `tuned`, in which what was traded is joined by other choices. The references are ready.
bool trades_hold(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, const Trades& trades,
                 const Tuned& tuned);

}  // namespace aotc::search
