#pragma once
#include "passes/rewrite.h"

namespace aotc::passes {
/// An index or gather at positions that are consecutive along one dim each (or one fixed position) as slices; nothing where the indices
/// are data or may be out of range.
std::optional<ValueId> lookup_as_slice(Rewriter& r, const Node& n);
}  // namespace aotc::passes
