#pragma once
// How a generated CPU function of a LoopKernel, or of an epilogue or prologue, is called. The forms and the emitters both ask here.
#include <optional>
#include <vector>

#include "loop/loop.h"
#include "sym/expr.h"

namespace aotc::emit::cpu {

/// Lanes of one CPU vector group at most (AVX-512 f32); `local` params of kernels with lanes along outer hold this many values a point.
inline constexpr int kMaxLanes = 16;

/// The shape symbols that a LoopKernel's code needs at run time, sorted: args->size[i] is the value of the i-th.
std::vector<SymId> kernel_symbols(const loop::LoopKernel& k);
/// The same for all attached loops (loop/attached.h) of a contraction together: appended to the contraction's own sizes.
std::vector<SymId> attached_symbols(const loop::Kernel& contraction);

/// How many sizes of its own a contraction has; those of its attached loops stand behind them.
int own_sizes(const loop::Kernel& contraction);

/// A pointwise loop that reads along its lanes with strides, where what it reads is contiguous along an outer var: `block` points of that
/// var are a work unit, and registers turn what is read of them, so that whole lines are read once.
struct Turning {
  size_t outer;   ///< index of the var
  int64_t block;  ///< points, a multiple of kMaxLanes
};
std::optional<Turning> turning(const loop::LoopKernel& k);
/// The same of an epilogue or a prologue that reads or writes so (a product whose columns are rows of what is stored): its rows, the last
/// outer var, go a block at a time, and registers turn what is written and what is read of them.
std::optional<Turning> turning_rows(const loop::LoopKernel& attached);
/// Whether a load or a store is one of those.
bool is_turned(const loop::LoopKernel& k, const loop::Inst& access, SymId outer);

/// lanes == outer: the last outer var is cut into blocks of this many points, one block a work unit. 1 otherwise.
int64_t lane_block(const loop::LoopKernel& k);
/// Points of each outer var that a work unit has: 1, the lane block of the last one, the block of a turned one.
int64_t unit_points(const loop::LoopKernel& k, size_t outer);
/// Work units: product of the outer extents, each divided (rounded up) by its unit_points. Row-major over the outer vars.
Expr loop_work(const loop::LoopKernel& k);

/// Bytes of results that are written in runs of lanes.
Expr far_bytes(const loop::LoopKernel& k);
/// Whether its code can let them pass the caches by: a size of its own, behind the symbols', says whether it does. Only where there may be
/// many of them.
bool may_store_far(const loop::LoopKernel& k);

/// Where the `local` params lie in args->scratch.
struct LocalLayout {
  std::vector<Expr> offset_bytes;  ///< by ParamId; 0 for params that are not local. 64-byte aligned
  Expr bytes;                      ///< total
};
LocalLayout local_layout(const loop::LoopKernel& k);

}  // namespace aotc::emit::cpu
