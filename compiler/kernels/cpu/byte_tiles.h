#pragma once
// What the kernels of bytes in tile registers have in common.
#include "byte_rows.h"
#include "tile_blocks.h"

namespace {

template <class Owner>
using ByteTiles = TileBlocks<Owner, TileUnsigned, AOTC_BYTES_TILE_SUMS>;
/// Few and long pieces of epilogues: their arithmetic takes the ports of the tile unit, and so hides little of its time.
constexpr int64_t kSliceOfBytes = kTileRows;

/// Where the copied rows begin in the scratch, behind two lots of sums.
inline uint8_t* byte_tile_rows(void* scratch) {
  return reinterpret_cast<uint8_t*>(static_cast<float*>(scratch) + 2 * AOTC_BYTES_TILE_SUMS);
}

inline TilePanel byte_tile_panel(const char* at, int64_t k) {
  const int64_t run = byte_run(k);
  return {at, nullptr, at + 2 * run, run, kTileBytes};
}

/// Whether so many columns are read for every block of rows again, so that a row's bytes are stored one after another.
inline bool stays_near(int64_t columns, int64_t panel_bytes) {
  return ceil_div(columns, int64_t{AOTC_PANEL_N}) * panel_bytes <= AOTC_BYTES_NEAR;
}

/// Rows a multiple of 512 bytes apart share cache sets; where several panels read them, a copy is worth it.
inline bool rows_share_sets(int64_t pitch, int64_t rows, int64_t columns) {
  return pitch % 512 == 0 && rows > 4 && columns > 2 * AOTC_PANEL_N;
}

/// Bytes of a row that a step reads, of runs of k.
inline int64_t step_bytes(int64_t k) { return k < kTileByteK ? max_of<int64_t>(ceil_div(k, 4) * 4, 4) : kTileByteK; }

/// How many of `rows` rows, `pitch` bytes apart, tiles may read where they lie, if `all` rows of k bytes lie there: such whose steps end
/// with the last row or before. All of them, or whole tiles.
inline int64_t whole_tiles(int64_t all, int64_t rows, int64_t pitch, int64_t k) {
  const int64_t behind = k < kTileByteK ? step_bytes(k) - k : aotc_bytes_depth(k) - k;  // bytes that a row's last step reads behind it
  if (behind > 0) all = pitch > 0 ? max_of<int64_t>(0, all - ceil_div(behind, pitch)) : 0;
  if (rows < kTileRows) return all >= rows ? rows : 0;
  return min_of(all, rows) / kTileRows * kTileRows;
}

}  // namespace
