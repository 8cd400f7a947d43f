#pragma once
// The Plan IR: what a run does, as data. One Plan a variant; plan/build.h makes it from a loop Module, artifact/tables.h writes it as the C
// tables of runtime/include/aotc/detail/plan_format.h. A new member needs a row in plan/fields.h, and is printed and parsed then.
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "forms/joined.h"
#include "forms/list.h"
#include "forms/strips.h"
#include "loop/loop.h"
#include "sym/expr.h"

namespace aotc::plan {

enum class PlanBufferId : uint32_t {};  ///< a buffer of one Plan; number of aotc_variant.buffers

/// Half-open, in steps. An in-place step ends its source where its destination begins, so that the two may share an offset.
struct LiveRange {
  int begin = 0, end = 0;
  friend bool operator==(const LiveRange&, const LiveRange&) = default;
};

enum class Place : uint8_t { input, output, weight, arena, state, state_next };

struct PlannedBuffer {
  std::string name;  ///< the loop buffer's
  loop::BufferId buffer =
      kNone<loop::BufferId>;  ///< several planned buffers may stand for one: a weight in two forms, a result copied at the end
  Place place = Place::arena;
  uint32_t index = 0;  ///< input, output, weight or state number
  Expr bytes;
  LiveRange live;
  Expr offset;                              ///< arena only; over symbols, 64-byte aligned
  std::optional<PlanBufferId> in_place_of;  ///< shares storage with this buffer, whose life ends where this one's begins
};

using forms::StepKind;

/// A call of a kernel: how (StepSpec, from the form), and on what.
struct Step : forms::StepSpec {
  loop::KernelId kernel = kNone<loop::KernelId>;  ///< cpu, cuda
  std::vector<PlanBufferId> args;
  int config = -1;  ///< index into PlanSet::configs
  std::string label;
  std::string note;  ///< of several kernels: why they are one step (explain)
};

/// A kernel with one choice: what needs an instance of its own, a config struct on a CPU (kernels of the library), a function on a GPU.
/// Steps of several variants may share it.
struct KernelConfig {
  loop::KernelId kernel = kNone<loop::KernelId>;  ///< none: of strips, or of joined kernels
  forms::Choice choice;
  std::optional<forms::Strips> strips;  ///< of a step of several kernels, which have configs before this one
  std::optional<forms::Joined> joined;  ///< of a launch of several kernels, which are its parts
  std::string symbol;                   ///< cuda: the function's name
  int64_t max_smem_bytes = 0;           ///< cuda: over all steps
  int plan = 0;  ///< cuda: of PlanSet::plans, the one for whose sizes its text is; that of all that use it is the same
};

struct SymRange {
  SymId sym = kNone<SymId>;
  int64_t min = 0, max = kInf, multiple_of = 1;
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
