#pragma once
// The Plan IR: what a run does, as data. One Plan a variant; plan/build.h makes it from a loop Module, emit/tables.h writes it as the C
// tables of runtime/include/aotc/detail/plan_format.h.
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "loop/loop.h"
#include "plan/choice.h"
#include "sym/expr.h"

namespace aotc::plan {

enum class PlanBufferId : uint32_t {};  ///< a buffer of one Plan; number of aotc_variant.buffers

/// Half-open, in steps. An in-place step ends its source where its destination begins, so that the two may share an offset.
struct LiveRange {
  int begin = 0, end = 0;
};

enum class Place : uint8_t { input, output, weight, arena, state, state_next };

struct PlannedBuffer {
  loop::BufferId buffer;  ///< several planned buffers may stand for one: a weight in two forms, a result copied at the end
  Place place = Place::arena;
  uint32_t index = 0;  ///< input, output, weight or state number
  Expr bytes;
  LiveRange live;
  Expr offset;                              ///< arena only; over symbols, 64-byte aligned
  std::optional<PlanBufferId> in_place_of;  ///< shares storage with this buffer, whose life ends where this one's begins
};

enum class StepKind : uint8_t { cpu, cuda, copy, zero };
struct Step {
  StepKind kind = StepKind::cpu;
  loop::KernelId kernel = kNone<loop::KernelId>;  ///< cpu, cuda
  std::string symbol;                             ///< CPU: KernelInterface::symbol; CUDA: function name
  bool library = false;                           ///< CPU: a kernel of the library, one symbol an instruction set
  std::vector<PlanBufferId> args;
  std::vector<Expr> sizes;
  int config = -1;  ///< index into PlanSet::configs
  Expr work = 1, grain = 1;
  Expr scratch_bytes = 0;  ///< per thread
  Expr grid[3] = {1, 1, 1};
  int block[3] = {1, 1, 1};
  Expr smem_bytes = 0;
  std::string label;
};

/// What an emitter needs for one config struct. Steps of several variants may share it.
struct KernelConfig {
  loop::KernelId kernel;
  Choice choice;
  bool packed = false;  ///< the constant operand is in panel form
};

struct SymRange {
  SymId sym;
  int64_t min, max, multiple_of;
};

struct Plan {
  std::string name;  ///< "default", "batch=1", "batch in [2, 64] by 2"
  std::vector<SymRange> ranges;
  std::vector<ShapeGuard> guards;  ///< the graph's: it is run only where they hold
  IdVec<PlanBufferId, PlannedBuffer> buffers;
  std::vector<Step> steps;
  Expr arena_bytes;
  Expr scratch_bytes;           ///< per thread, over all steps
  int64_t arena_bytes_max = 0;  ///< at the top of the ranges (at the hint where unbounded)
  int64_t sum_bytes_max = 0;    ///< all arena buffers without any reuse
  int64_t live_bytes_max = 0;   ///< largest live set: the lower bound
};

}  // namespace aotc::plan
