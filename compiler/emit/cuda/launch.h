#pragma once
// What the CUDA text of a kernel depends on, beside the kernel: decisions as data, made by the forms (forms/cuda).
#include <string>
#include <string_view>
#include <vector>

#include "loop/loop.h"

namespace aotc::emit::cuda {

/// How the points of a LoopKernel map to threads.
enum class Mapping : uint8_t {
  flat,    ///< a thread a point of outer x inner: no reduction, no scan, no local
  row,     ///< a block an outer point; the threads share the inner points, also those of a scan
  serial,  ///< a thread an outer point, or several neighbours; the inner points in order (scans; reductions whose loads run along the
           ///< outer loop)
};

struct LoopLaunch {
  Mapping mapping = Mapping::flat;
  int threads = 256;    ///< of a block
  bool across = false;  ///< flat mapping: a thread takes the whole last outer loop, see store_across()
  int lanes = 1;        ///< consecutive points of lane_var() that a thread takes at once, when pointers are aligned
  int rows = 1;         ///< row mapping: of a block; of several, each is a warp's (threads: 32)
  int blocks = 1;       ///< row mapping: of a cluster, which share a row, each `part` neighbours of it
  Expr part = 0;
  int pieces = 1;                  ///< serial mapping: threads that share an outer point's inner ones, see scans_in_pieces()
  int each = 1;                    ///< neighbours of a thread in a scan over such a row
  int steps = 0;                   ///< row mapping: a thread's groups of lanes, all held in registers; 0: a loop, scratch in shared memory
  int resident = 1;                ///< blocks of one processor that registers must allow
  bool streams = false;            ///< more is written than the cache would keep
  bool shared = false;             ///< there are locals, in dynamic shared memory behind handed_bytes(), row_bytes for each row of a block
  bool global = false;             ///< or in the scratch of the run, row_bytes for each block
  std::vector<Expr> local_offset;  ///< bytes in that memory, by ParamId; only locals are meaningful
  Expr row_bytes = 0;
  /// What blocks that share a row hand each other (kernels/cuda/rows.cuh): two places, in turns.
  int handed_bytes() const { return blocks > 1 ? 2 * place_bytes() : 0; }
  int place_bytes() const { return 16 * threads / 32 * blocks; }
};

/// The loop variable whose neighbours a thread may take at once; null: there is none.
const loop::LoopVar* lane_var(const loop::LoopKernel& k, Mapping m);
/// An instruction whose result is the same whatever `lane` is, and which may be computed before all those that are not.
bool same_in_lanes(const loop::LoopKernel& k, loop::InstId id, SymId lane);
/// A load or store that moves `lanes` consecutive elements at once: neighbours along `lane`, at a multiple of lanes. A load may have a mask
/// that is the same for them.
bool is_wide(const loop::LoopKernel& k, loop::InstId id, SymId lane, int lanes);

/// Where the loads of a flat kernel run along the last loop and its only store along that and the loop before it, a short one, together (a
/// channels-last image of few channels out of one whose channels are first): that store, for threads that take `lanes` neighbours and all
/// of the short loop, or kNone. The short loop: the last outer one.
loop::InstId store_across(const loop::LoopKernel& k, int lanes);

/// Whether the scans of a serial kernel may run in pieces: one loop over the inner points, each scan of values that need no other one,
/// nothing stored beside.
bool scans_in_pieces(const loop::LoopKernel& k);

/// Tile of the tensor-core product (kernels/cuda/gemm.cuh): block_m x block_n x block_k, warps of warp_m x warp_n, k_warps of them for the
/// same piece of the output, stages of shared memory, a cluster of `split` blocks that share k.
struct MatmulTile {
  int block_m = 64, block_n = 64, block_k = 32, warp_m = 32, warp_n = 32, k_warps = 1, stages = 4, split = 1;
  int resident = 1;  ///< blocks of one processor that registers must allow
  int products = 3;  ///< of TF32, for one of float32: 3 or 1
  int threads() const { return block_m / warp_m * (block_n / warp_n) * k_warps * 32; }
  int smem_bytes(int elem_bytes) const {
    const int ring = stages * (block_m + block_n) * (block_k * elem_bytes + 16);
    const bool sums_parts = k_warps > 1 || split > 1;
    const int sums = k_warps * block_m * (block_n + 4) * 4;
    return sums_parts && sums > ring ? sums : ring;
  }
};

/// Tile of a product on the ordinary units (kernels/cuda/simt.cuh): a thread computes thread_m x thread_n of block_m x block_n.
struct SimtTile {
  int block_m = 64, block_n = 64, block_k = 16, thread_m = 4, thread_n = 4;
  int threads() const { return block_m / thread_m * (block_n / thread_n); }
};

/// Tile of a product of few rows (kernels/cuda/vector.cuh): a warp a column.
struct VectorTile {
  int warps = 4, rows = 1, deep = 8, split = 1;
  int resident = 1;  ///< blocks of one processor that registers must allow
  int columns() const { return warps / split; }
  int threads() const { return warps * 32; }
};

/// Tile of a product of few rows on tensor cores (kernels/cuda/stream.cuh, which says what its parts are); the numbers of bytes are those
/// of StreamTile there.
struct StreamTile {
  int warps = 8, along = 2, strips = 1, run = 1, depth = 4, split = 1;
  int chunk = 0;  ///< 0: all rounds of a block
  /// Of the kernel: rows at most, products that are finished together, k of a column, of few bits: bits, k of a scale, bytes of a scale
  /// with its offset.
  int rows = 8, sums = 1;
  int64_t k = 64;
  bool made = false;  ///< rows are computed by each block, dense, and are taken from there
  int bits = 16;
  int64_t group = 0;
  int scale_bytes = 0, scales = 0;  ///< of one; scales and offsets of a column's group: 0, 1 or 2
  int resident = 1;                 ///< blocks of one processor that registers must allow
  static constexpr int kStrip = 16, kRowTile = 8, kPiece = 8, kMostRows = 64;  ///< columns, rows; numbers of 16 bytes
  int threads() const { return warps * 32; }
  int items() const { return warps / along * strips * kStrip; }  ///< columns of a block, or pairs of mates
  int deep() const { return scales ? 512 / bits : 64; }          ///< k of a slab
  int slab_bytes() const { return scales ? 1024 : 2048; }
  int row_tiles() const { return (rows + kRowTile - 1) / kRowTile; }
  /// Of a thread, at most about: addresses, sums, operands; of few bits, their words, scales and numbers.
  int registers() const {
    const int all = strips * sums;
    return 44 + 12 * all + (4 * all + 6) * row_tiles() + (scales ? 6 + 6 * all : 0);
  }
  /// Whether they are more than a thread may have: what registers() says is up to 32 too many.
  bool spills() const { return registers() > (threads() > 256 ? 65536 / threads() : 255) + 32; }
  int64_t steps() const { return (k + run * deep() - 1) / (run * deep()); }
  int64_t part() const { return (steps() + split - 1) / split; }  ///< steps of a block
  int64_t rounds() const { return (part() + along - 1) / along; }
  int64_t depth_used() const { return depth < rounds() ? depth : rounds(); }
  int64_t chunk_used() const { return chunk && chunk < rounds() ? chunk : rounds(); }
  int64_t ring_bytes() const { return int64_t{warps} * depth_used() * strips * sums * run * slab_bytes(); }
  int64_t row_bytes() const {  ///< of shared memory, of the rows
    return (chunk_used() < rounds() ? 2 : 1) * rows * (chunk_used() * along * run * deep() + 8) * 2;
  }
  int64_t made_bytes() const { return made ? (rows * k * 2 + 15) / 16 * 16 : 0; }
  int64_t scales_bytes() const {
    if (!scales) return 0;
    const int64_t all = (k + group - 1) / group, of_slab = group < deep() && group < k ? deep() / group : 1;
    const int64_t whole = (all + of_slab - 1) / of_slab * of_slab;
    const int64_t groups = split == 1 || all == 1 ? whole : (part() * run * deep() + group - 1) / group + 4;
    return int64_t{scales} * sums * items() * scale_bytes * 4 * ((groups + 3) / 4 | 1);
  }
  int64_t smem_bytes() const {
    const int64_t parts = int64_t{along} * sums * row_tiles() * kRowTile * (items() + 4) * 4,
                  all = ring_bytes() + row_bytes() + scales_bytes();
    return (parts > all ? parts : all) + made_bytes();
  }
};

/// Tile of attention on tensor cores (kernels/cuda/attention.cuh): row_warps * 16 rows, k_warps that share them, each with `keys` keys a
/// step; a cluster of `split` blocks that share the keys. head_dim, v_dim: of the kernel.
struct AttentionTile {
  int head_dim = 64, v_dim = 64;
  int row_warps = 4, k_warps = 1, keys = 64, stages = 2, split = 1;
  int products = 3;  ///< of TF32, for one of float32: 3 or 1
  int rows() const { return row_warps * 16; }
  int threads() const { return row_warps * k_warps * 32; }
  /// elem_bytes: of a query's number; stored_bytes: of one of keys and values; scaled: these have a float32 a row.
  int smem_bytes(int elem_bytes, int stored_bytes, bool scaled) const {
    const int e = (head_dim + 15) / 16 * 16, v = (v_dim + 15) / 16 * 16;
    const int ring = rows() * (e * elem_bytes + 16) + stages * k_warps * keys * ((e + v) * stored_bytes + 32 + (scaled ? 8 : 0));
    const int sums = k_warps * split > 1 ? k_warps * rows() * (v + 6) * 4 : 0;
    return sums > ring ? sums : ring;
  }
};

/// Tile of attention on Hopper's tensor cores (kernels/cuda/attention_wgmma.cuh, which says what its parts are); the numbers of bytes are
/// those of AttnWgmmaTile there. head_dim, v_dim: of the kernel.
struct AttentionWgmmaTile {
  int head_dim = 64, v_dim = 64;
  int keys = 128, groups = 2, stages = 2, positions = 64, heads = 1;
  int resident = 1;    ///< blocks of one processor that registers must allow
  bool bytes = false;  ///< keys and values are stored in bytes
  int threads() const { return groups > 1 ? 128 * (groups + 1) : 128; }
  int smem_bytes() const {
    const int e_boxes = (head_dim + 63) / 64, v_boxes = (v_dim + 63) / 64;
    const int e = (head_dim + 15) / 16 * 16, v = (v_dim + 15) / 16 * 16;
    return groups * (e_boxes + (groups > 1)) * 8192 + stages * (e_boxes + v_boxes) * keys * 128 + 16 + 32 * stages +
           (bytes ? keys * (2 * (e > v ? e : v) + 16) : 0);
  }
};

/// Tile of Hopper's product (kernels/cuda/wgmma.cuh, which says what its parts are); the numbers of bytes are those of WgmmaTile there.
struct WgmmaTile {
  int warp_m = 64, cols = 128, groups = 2, ping_pong = 0, stages = 4, split = 1, swap = 0;
  int resident = 1;  ///< blocks of one processor that registers must allow
  int products = 1;  ///< of TF32, for one of float32: 3 (the right operand in two parts) or 1
  /// Of three: the right operand lies in memory whole, with k as the contiguous index or across it; the kernel takes it apart.
  enum class Apart : uint8_t { no, along_k, across_k } apart = Apart::no;
  int left_bits = 0;  ///< 8 or 4: the left operand is a weight of so many bits (with `swap`); 0: whole elements
  bool twin = false;  ///< half of cols are columns of a second matrix
  int rows() const { return ping_pong ? warp_m : warp_m * groups; }
  int m_tile() const { return swap ? cols : rows(); }
  int n_tile() const { return swap ? rows() : columns(); }
  int columns() const { return twin ? cols / 2 : cols; }  ///< right lines that are of the output
  int threads() const { return groups * 128 + (groups > 1 ? 128 : 32); }
  int pieces() const { return warp_m / 64 * columns() / 8; }  ///< of 8 columns, of a warpgroup
  int right_lines() const { return products > 1 ? 2 * cols : cols; }
  int left_bytes() const { return rows() * (left_bits ? 64 : 128); }
  int stage_bytes() const { return left_bytes() + (right_lines() + (apart == Apart::across_k ? cols : 0)) * 128; }
  int other_bytes() const {  ///< beside the ring
    return groups * 4 * (swap ? 2560 : 2048) + (apart == Apart::no ? 16 : 24) * stages + (split > 1 ? 32 * groups : 8);
  }
  /// What the ring must hold when it has been read: the sums that blocks which share k hand each other.
  int sums_bytes() const { return split > 1 ? pieces() * groups * 2048 / split * (2 * split - 1) : 0; }
  int smem_bytes() const { return stages * stage_bytes() + other_bytes(); }
};

/// Tile of a convolution of few channels (kernels/cuda/conv_few.cuh); the numbers of bytes are those of FewTile there.
struct FewTile {
  static constexpr int kThreads = 384, kHigh = 16, kWide = 8;  ///< outputs of a tile
  int channels = 3, cols = 64;                                 ///< cols: output channels, filled up
  int kernel[2] = {7, 7}, stride[2] = {2, 2};
  int stages = 3;
  int resident = 1;  ///< blocks of one processor that registers must allow
  int pixel() const { return 8 / stride[1]; }
  int deep() const { return (kernel[1] * pixel() + 15) / 16 * 16; }
  int patch_bytes() const {
    const int across = (kWide - 1) * stride[1] + deep() / pixel(), pitch = (across * pixel() * 2 + 15) / 16 * 16;
    return (((kHigh - 1) * stride[0] + kernel[0]) * pitch + 127) / 128 * 128;
  }
  int smem_bytes() const { return kernel[0] * deep() * cols * 2 + stages * (patch_bytes() + 32) + 8 * 2048; }
};

/// Tile of a convolution out of patches (kernels/cuda/conv_patch.cuh); the numbers of bytes are those of PatchTile there.
struct PatchTile {
  static constexpr int kThreads = 128;
  int rank = 2;
  int tile[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};  ///< the first `rank` of them
  int groups = 1, channels = 16, outputs = 16;   ///< groups of a block; channels and outputs of one
  int cols = 16;                                 ///< output channels of a block
  int resident = 1;                              ///< blocks of one processor that registers must allow
  int elem_bytes = 2;                            ///< 2 or 4
  int products = 3;                              ///< of TF32, for one of float32: 3 or 1
  int chunk() const { return 16 / elem_bytes; }  ///< channels of a slot
  int across(int d) const { return (tile[d] - 1) * stride[d] + (kernel[d] - 1) * dilation[d] + 1; }
  int pixels() const { return tile[0] * tile[1] * tile[2]; }
  int64_t points() const { return int64_t{across(0)} * across(1) * across(2); }
  int64_t taps() const { return int64_t{kernel[0]} * kernel[1] * kernel[2]; }
  int slots() const { return (groups * channels + chunk() - 1) / chunk(); }
  int64_t steps() const { return (taps() * slots() + 1) / 2; }
  int64_t smem_bytes() const {
    const int64_t pitch = slots() % 2 ? slots() : slots() + 1;
    return (cols * (steps() * 2 + 1) + points() * pitch + 1) * 16;
  }
};

/// Shape symbols that a kernel's code needs, sorted by id: its int64 arguments.
std::vector<SymId> size_symbols(const loop::LoopKernel& k);
std::vector<SymId> size_symbols(const loop::MatmulKernel& k);
std::vector<SymId> size_symbols(const loop::ConvKernel& k);
std::vector<SymId> size_symbols(const loop::AttentionKernel& k);

}  // namespace aotc::emit::cuda
