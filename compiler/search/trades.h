#pragma once
// Accuracy for time: choices that Machine does not allow by themselves (minimal filtering F(4x4), Strassen's products), taken where they
// are faster and the outputs of the whole program stay within the accuracy rule on sample inputs.
#include "search/tune.h"

namespace aotc::search {

/// Whether the module has contracts with such choices.
bool can_trade(const loop::Module& module, const std::vector<SymTable>& syms, const Machine& machine);
/// Puts what it takes into result.tuned, which has everything else already, and tells it in result.trades. What the database has of this
/// program is taken as it is; otherwise it is measured and judged in about `seconds` and put there.
void trade_accuracy(const loop::Module& module, const std::vector<SymTable>& syms, const TuneOptions& options, double seconds, TuningDb& db,
                    TuneResult& result);

}  // namespace aotc::search
