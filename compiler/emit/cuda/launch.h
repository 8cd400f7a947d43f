#pragma once
// How a kernel is launched on a GPU: decisions as data, made before any text.
#include <string>
#include <vector>

#include "loop/loop.h"

namespace aotc::emit::cuda {

/// How the points of a LoopKernel map to threads.
enum class Mapping : uint8_t {
  flat,    ///< a thread a point of outer x inner: no reduction, no scan, no local
  row,     ///< a block an outer point; the threads share the inner points
  serial,  ///< a thread an outer point; the inner points in order (scans; reductions whose loads run along the outer loop)
};
std::string_view mapping_name(Mapping m);

struct Launch {
  Mapping mapping = Mapping::flat;
  std::vector<Expr> sizes;  ///< the kernel's int64 arguments
  Expr grid[3] = {1, 1, 1};
  int block[3] = {1, 1, 1};
  int lanes = 1;                   ///< consecutive points of the last loop variable that a thread takes at once, when pointers are aligned
  int steps = 0;                   ///< row mapping: a thread's groups of lanes, all held in registers; 0: a loop, scratch in shared memory
  int resident = 1;                ///< blocks of one processor that registers must allow
  bool streams = false;            ///< more is written than the cache would keep
  Expr smem_bytes = 0;             ///< dynamic shared memory: locals of the row mapping
  int64_t max_smem_bytes = 0;      ///< the most that smem_bytes can be
  std::vector<Expr> local_offset;  ///< bytes in shared memory, by ParamId; only locals are meaningful
};

/// Throws Diagnostic (unsupported) for kernels that have no CUDA form, naming kernel and reason.
Launch launch_of(const loop::LoopKernel& k);

/// A load or store that moves `lanes` consecutive elements at once: neighbours along `last`, at a multiple of lanes.
bool is_wide(const loop::LoopKernel& k, loop::InstId id, SymId last, int lanes);

/// Tile of the tensor-core product (kernels/cuda/gemm.cuh): block_m x block_n x block_k, warps of warp_m x warp_n, k_warps of them for the
/// same piece of the output, stages of shared memory, a cluster of `split` blocks that share k.
struct MatmulTile {
  int block_m, block_n, block_k, warp_m, warp_n, k_warps, stages, split;
  int resident = 1;  ///< blocks of one processor that registers must allow
  int threads() const { return block_m / warp_m * (block_n / warp_n) * k_warps * 32; }
  int smem_bytes(int elem_bytes) const;
};
MatmulTile tile_of(const loop::MatmulKernel& k);
Launch launch_of(const loop::MatmulKernel& k, const MatmulTile& tile);
/// Shape symbols that a kernel's code needs, sorted by id.
std::vector<SymId> size_symbols(const loop::LoopKernel& k);
std::vector<SymId> size_symbols(const loop::MatmulKernel& k);

}  // namespace aotc::emit::cuda
