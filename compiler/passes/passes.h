#pragma once
// The pass list: run_passes(g, ctx) runs all in the order of passes.def; `aotc opt --passes=a,b` runs some by name (opt/opt.h).
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/target.h"
#include "graph/constant_store.h"
#include "graph/conv_as.h"
#include "graph/graph.h"
#include "passes/cache_storage.h"
#include "passes/rounded_weights.h"
#include "passes/stored_weights.h"

namespace aotc::passes {

/// What channels_last decided.
struct LayoutChoice {
  struct Reorder {
    std::string value;
    int64_t bytes = 0;  ///< at the sizes worth tuning for
  };
  size_t convolutions = 0, channels_last = 0;  ///< all; those that have their channels last
  double gained_ns = 0;                        ///< by estimate, the reorders taken off
  std::vector<Reorder> reorders;               ///< where both layouts meet
};

/// Which numbers a contraction of float32 multiplies. asked: at each run, float32 or bf16 by an input of the graph, kPrecisionInput, that
/// has one bool for each contraction (how choices are measured).
enum class Precision : uint8_t { f32, bf16, asked };
inline constexpr std::string_view kPrecisionInput = "aotc_bf16";
/// A contraction of float32, in the order in which the pass precision finds them.
struct PrecisionStep {
  std::string name, source;
  Op op{};
  Precision precision = Precision::f32;
  double f32_ns = 0, bf16_ns = 0;  ///< estimates; 0 where nothing estimates
};

/// A value that round_streams stores as bf16.
struct RoundedStream {
  std::string name;
  int64_t bytes = 0;  ///< as bf16, at the sizes worth tuning for
};

/// What a pass may know; options travel here, never in globals.
struct PassContext {
  Target target;
  /// What a convolution should take, in nanoseconds; infinity where the target has no kernel for it. Empty: the layouts stay as they are.
  std::function<double(const Graph& g, const Node& conv, ConvAs as)> conv_ns;
  LayoutChoice* layouts = nullptr;  ///< set: filled in
  /// The precision of a contraction of float32, by its place among them. Empty: all stay as they are.
  std::function<Precision(size_t place)> precision;
  /// What a contraction with operands of the type should take, in nanoseconds. May be empty.
  std::function<double(const Graph& g, const Node& contraction, DType in)> contraction_ns;
  std::vector<PrecisionStep>* precisions = nullptr;  ///< set: filled in
  /// Values that one kernel stores and another reads. Empty: none is rounded to be stored.
  std::function<std::vector<ValueId>(const Graph& g)> handed_on;
  std::vector<RoundedStream>* rounded_streams = nullptr;  ///< set: filled in
  WeightStorage weights;
  RoundedWeights rounded_weights;   ///< filled in by round_weights
  StoredWeights* stored = nullptr;  ///< set: filled in where `weights` asks for anything
  CacheStorage cache = CacheStorage::as_is;
  std::vector<std::string> cache_names;         ///< states that other methods store so; this one may only write them
  StoredCaches* stored_caches = nullptr;        ///< set: filled in where `cache` asks for anything
  int64_t fold_limit_bytes = int64_t{1} << 30;  ///< constants larger than this are not folded
  /// Called after each pass: name, whether the graph changed, seconds. May be empty.
  std::function<void(std::string_view name, const Graph& g, bool changed, double seconds)> after;
};

using PassFn = void (*)(Graph&, PassContext&);
/// Targets that a pass runs for.
enum class For : uint8_t { all, cpus, gpus };
struct Pass {
  std::string_view name;
  PassFn fn;
  std::string_view what;
  For targets = For::all;
};

/// The passes: what one requires and leaves stands at its definition, passes/NAME.cpp.
#define AOTC_PASS(name, targets, what) void name(Graph&, PassContext&);
#include "passes/passes.def"
#undef AOTC_PASS

std::span<const Pass> pass_list();  ///< in the order in which they run
const Pass* find_pass(std::string_view name);
/// One pass, verified and reported to ctx.after; nothing but dead code goes where it is not for the target.
void run_pass(const Pass& pass, Graph& g, PassContext& ctx);
/// All of pass_list() but those of which `left_out`, which may be empty, says so by their names.
void run_passes(Graph& g, PassContext& ctx, const std::function<bool(std::string_view pass)>& left_out = {});

}  // namespace aotc::passes
