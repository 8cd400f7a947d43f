#pragma once
// Conditions on shape symbols: when they hold, how they read, and what they say about ranges.
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace aotc {

using SymbolValues = std::function<std::optional<int64_t>(SymId)>;

/// Whether the condition holds at these sizes. Where it divides by zero or overflows it does not.
bool guard_holds(const ShapeGuard& g, const SymbolValues& value_of);
bool guards_hold(const std::vector<ShapeGuard>& guards, const SymbolValues& value_of);
/// "batch*4 <= 128"
std::string guard_text(const ShapeGuard& g, const SymTable& syms);

/// True: it holds at all sizes of the symbols' ranges. False: at none. Nothing: neither is proved.
std::optional<bool> decided(const ShapeGuard& g, const SymTable& syms);

/// Takes what guards say about one symbol alone into its range: that it is a multiple of 8 ...
void narrow_multiples(SymTable& syms, const std::vector<ShapeGuard>& guards);
/// ... and its bounds too (s*2 - 6 >= 0, s == 4). False when that leaves a symbol no value.
bool narrow_ranges(SymTable& syms, const std::vector<ShapeGuard>& guards);

/// A guard that no sizes within the ranges meet together with those on its symbols alone; null where each can be met, and where the ranges
/// hold more sizes than are tried.
const ShapeGuard* met_by_none(const SymTable& syms, const std::vector<ShapeGuard>& guards);

using Sizes = std::map<SymId, int64_t>;
/// Sizes within the ranges at which all guards hold: `wanted` itself, or near it, or small ones. `fixed` keep their wanted value. Nothing
/// where a search of some thousand sizes finds none.
std::optional<Sizes> sizes_near(const SymTable& syms, const std::vector<ShapeGuard>& guards, const Sizes& wanted,
                                const std::set<SymId>& fixed = {});

}  // namespace aotc
