#pragma once
// The second stage: what a kernel by itself cannot tell. The best few choices of the heaviest contracts are timed inside the whole module,
// where they find the caches as its other kernels leave them.
#include "search/jobs.h"

namespace aotc::search {

/// By contract, of those that were measured in this search.
using Measured = std::map<std::string, TuningRecord>;

/// Puts choices that make the whole faster in place of those that won by themselves, in `measured` and result.tuned, within the budget. A
/// choice must win twice: among the others, each in the place of one, and then together with all that did.
void choose_in_whole(const std::vector<SymTable>& syms, const Jobs& jobs, const TuneOptions& options, const Budget& budget,
                     Measured& measured, TuneResult& result);

}  // namespace aotc::search
