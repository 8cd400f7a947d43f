#pragma once
// The pass list: run_passes(g, ctx) runs all of passes/list.cpp in order; `aotc opt --passes=a,b` runs some by name.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/target.h"
#include "graph/graph.h"

namespace aotc::passes {

/// What a pass may know; options travel here, never in globals.
struct PassContext {
  Target target;
  int64_t fold_limit_bytes = int64_t{1} << 30;  ///< constants larger than this are not folded
  /// Called after each pass: name, whether the graph changed, seconds. May be empty.
  std::function<void(std::string_view name, const Graph& g, bool changed, double seconds)> after;
};

using PassFn = void (*)(Graph&, PassContext&);
struct Pass {
  std::string_view name;
  PassFn fn;
  std::string_view what;
};

std::span<const Pass> pass_list();  ///< in the order in which they run
const Pass* find_pass(std::string_view name);
void run_passes(Graph& g, PassContext& ctx);  ///< all, verifying after each

}  // namespace aotc::passes
