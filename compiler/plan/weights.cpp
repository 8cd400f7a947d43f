#include "plan/weights.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <thread>

#include "aotc/detail/library_abi.h"
#include "base/file_pages.h"
#include "forms/slabs.h"
#include "graph/constant_store.h"
#include "graph/scalar.h"
#include "kernels/cpu/pack.h"
#include "plan/blob.h"

namespace aotc::plan {

namespace {

constexpr int64_t kPanel = AOTC_PANEL_N;

bool in_pairs(DType t) { return t == DType::bf16; }

/// One panel: columns [j0, j0 + 32) of a matrix, in blocks of rows so that both sides stay in cache whatever the strides.
template <class T>
void pack_panel(const T* src, const Panels& p, const Panels::Matrix& m, int64_t j0, T* dst) {
  constexpr int64_t kBlock = 64 / sizeof(T);
  const bool pairs = in_pairs(p.dtype);
  const Panels::Rows& map = p.rows[m.rows];
  const int64_t rows = p.stored_rows(m), cols = std::min(m.cols - j0, kPanel);
  const T* base = src + m.begin + j0 * p.col_stride;
  T block[kBlock][kPanel];
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    const int64_t n = std::min(rows - r0, kBlock), have = std::min(map.count - r0, n);
    if (have < n || cols < kPanel) std::memset(block, 0, sizeof block);
    if (p.col_stride == 1) {
      for (int64_t r = 0; r < have; ++r) std::memcpy(block[r], base + map.at(r0 + r), static_cast<size_t>(cols) * sizeof(T));
    } else {
      int64_t offset[kBlock];
      for (int64_t r = 0; r < have; ++r) offset[r] = map.at(r0 + r);
      const bool dense = have == kBlock && offset[kBlock - 1] - offset[0] == kBlock - 1 && map.inner >= map.count && map.taps.empty();
      for (int64_t j = 0; j < cols; ++j) {
        const T* column = base + j * p.col_stride;
        if (dense) {
          const T* from = column + offset[0];
          for (int64_t r = 0; r < kBlock; ++r) block[r][j] = from[r];
        } else {
          for (int64_t r = 0; r < have; ++r) block[r][j] = column[offset[r]];
        }
      }
    }
    if (pairs) {
      for (int64_t r = 0; r < n; r += 2, dst += 2 * kPanel)
        for (int64_t j = 0; j < kPanel; ++j) dst[2 * j] = block[r][j], dst[2 * j + 1] = block[r + 1][j];
    } else {
      std::memcpy(dst, block, static_cast<size_t>(n * kPanel) * sizeof(T));
      dst += n * kPanel;
    }
  }
}

/// The two TF32 numbers that a float32 is multiplied as; an infinity or NaN is low beside a high of 1 or -1 (kernels/cuda/gemm.cuh).
struct Tf32Parts {
  uint32_t high, low;
};
Tf32Parts tf32_parts(uint32_t bits) {
  constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7f800000u, kOne = 0x3f800000u, kKept = 0xffffe000u, kHalf = 0x1000u;
  if ((bits & kInfinity) == kInfinity) return {(bits & kSign) | kOne, bits};
  uint32_t high = (bits + kHalf) & kKept;
  if ((high & kInfinity) == kInfinity) high = bits & kKept;
  return {high, std::bit_cast<uint32_t>(std::bit_cast<float>(bits) - std::bit_cast<float>(high))};
}

/// One column of a matrix of column_groups, where the memory is zero already; part: of Panels::parts.
template <class T>
void pack_column(const T* src, const Panels& p, const Panels::Matrix& m, int64_t j, int part, T* dst) {
  const Panels::Rows& map = p.rows[m.rows];
  const int64_t step = p.stored_rows(m) / (map.count / map.inner);
  const T* const from = src + m.begin + j * p.col_stride;
  for (int64_t r0 = 0; r0 < map.count; r0 += map.inner, dst += step)
    for (int64_t r = 0; r < map.inner; ++r) {
      dst[r] = from[map.at(r0 + r)];
      if constexpr (std::is_same_v<T, uint32_t>)
        if (p.parts > 1) dst[r] = part ? tf32_parts(dst[r]).low : tf32_parts(dst[r]).high;
    }
}

float widened(uint32_t bits) { return std::bit_cast<float>(bits); }
float widened(uint16_t bits) { return bfloat_to_float(bits); }
void round_to(double x, uint32_t* out) { *out = std::bit_cast<uint32_t>(static_cast<float>(x)); }
void round_to(double x, uint16_t* out) { *out = float_to_bfloat(static_cast<float>(x)); }

/// A panel of the filters' transforms G g G^T, with the points of kernels/cpu/conv_winograd.h, computed in double. T: the bits of float32
/// or of bf16.
template <class T>
void transform_panel(const T* src, const Panels& p, const Panels::Matrix& m, int64_t j0, T* dst) {
  constexpr double a = 3 / 2.0, b = 11 / 16.0, a2 = a * a, b2 = b * b, at_a = 1 / (2 * a2 * (a2 - b2)), at_b = 1 / (2 * b2 * (b2 - a2));
  static const std::vector<std::array<double, 3>> kTwo = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  static const std::vector<std::array<double, 3>> kFour = {{1 / (a2 * b2), 0, 0},        {at_a, at_a * a, at_a * a2},
                                                           {at_a, -at_a * a, at_a * a2}, {at_b, at_b * b, at_b * b2},
                                                           {at_b, -at_b * b, at_b * b2}, {0, 0, 1}};
  const auto& g = p.winograd == 2 ? kTwo : kFour;
  const Panels::Rows& map = p.rows[m.rows];
  const int64_t cols = std::min(m.cols - j0, kPanel), points = static_cast<int64_t>(g.size()), group = in_pairs(p.dtype) ? 2 : 1;
  AOTC_CHECK(map.count % group == 0, "a filter's transform has {} rows", map.count);
  std::memset(dst, 0, static_cast<size_t>(p.stored_rows(m) * kPanel) * sizeof(T));
  for (int64_t r = 0; r < map.count; ++r)
    for (int64_t j = 0; j < cols; ++j) {
      const T* w = src + m.begin + map.at(r) + (j0 + j) * p.col_stride;
      T* out = dst + r / group * group * kPanel + j * group + r % group;
      for (int64_t y = 0; y < points; ++y) {
        double row[3];
        for (size_t c = 0; c < 3; ++c) row[c] = g[y][0] * widened(w[c]) + g[y][1] * widened(w[3 + c]) + g[y][2] * widened(w[6 + c]);
        for (int64_t x = 0; x < points; ++x)
          round_to(row[0] * g[x][0] + row[1] * g[x][1] + row[2] * g[x][2], out + (y * points + x) * map.count * kPanel);
      }
    }
}

/// A piece of work of the writer: panels (or columns) [begin, end) of one matrix, or bytes of a dense weight.
struct Piece {
  const Weight* weight;
  size_t matrix;
  int64_t begin, end;
  uint64_t at;   ///< in the blob
  int part = 0;  ///< of Panels::parts
};

template <class T>
void pack_piece(const Piece& piece, const std::byte* src, std::byte* out) {
  const Panels& p = *piece.weight->panels;
  const Panels::Matrix& m = p.matrices[piece.matrix];
  T* dst = reinterpret_cast<T*>(out + piece.at);
  if (p.column_groups) {
    std::memset(dst, 0, static_cast<size_t>((piece.end - piece.begin) * p.stored_rows(m)) * sizeof(T));
    for (int64_t j = piece.begin; j < piece.end; ++j, dst += p.stored_rows(m))
      pack_column(reinterpret_cast<const T*>(src), p, m, j, piece.part, dst);
    return;
  }
  if constexpr (sizeof(T) <= 4) {
    if (p.winograd) {
      for (int64_t j = piece.begin; j < piece.end; ++j, dst += p.stored_rows(m) * kPanel)
        transform_panel(reinterpret_cast<const T*>(src), p, m, j * kPanel, dst);
      return;
    }
  }
  for (int64_t j = piece.begin; j < piece.end; ++j, dst += p.stored_rows(m) * kPanel)
    pack_panel(reinterpret_cast<const T*>(src), p, m, j * kPanel, dst);
}

void pack_quant_piece(const Piece& piece, const std::byte* src, std::byte* out) {
  const Panels& p = *piece.weight->panels;
  const Panels::Matrix& m = p.matrices[piece.matrix];
  const Panels::Rows& rows = p.rows[m.rows];
  const int64_t j0 = piece.begin * kPanel, cols = std::min(m.cols, piece.end * kPanel) - j0;
  const int8_t* from = reinterpret_cast<const int8_t*>(src) + m.begin + j0 * p.col_stride;
  char* to = reinterpret_cast<char*>(out + piece.at);
  if (rows.inner >= rows.count && rows.taps.empty() && !p.line)
    return kernels::pack_quant_panels(from, rows.inner_stride, p.col_stride, rows.count, cols, p.bits, to, p.step);
  const int64_t stored = p.stored_rows(m), line = p.line ? p.line : std::max<int64_t>(1, rows.count);
  std::vector<int8_t> columns(static_cast<size_t>(stored * cols));  // a column's rows side by side, lines filled up
  for (int64_t j = 0; j < cols; ++j)
    for (int64_t r = 0; r < rows.count; ++r) {
      const int64_t at = r / line * (p.line ? stored / (rows.count / line) : 0) + r % line;
      columns[static_cast<size_t>(j * stored + at)] = from[rows.at(r) + j * p.col_stride];
    }
  kernels::pack_quant_panels(columns.data(), 1, stored, stored, cols, p.bits, to, p.step);
}

/// Whole strips of columns, where rows are neighbours.
void pack_slab_piece(const Piece& piece, const std::byte* src, std::byte* out) {
  const Panels& p = *piece.weight->panels;
  const Panels::Matrix& m = p.matrices[piece.matrix];
  const int64_t k = p.rows[m.rows].count, slabs = forms::slabs_along(k, p.bits),
                strip = p.stored_rows(m) * forms::kSlabColumns * p.bits / 8;
  std::memset(out + piece.at, 0, static_cast<size_t>((piece.end - piece.begin) * strip));
  // Of the first strip and slab; the others lie alike.
  const int64_t rows = forms::slab_rows(p.bits);
  std::vector<forms::SlabPlace<int64_t>> places;
  for (int64_t r = 0; r < rows; ++r) places.push_back(forms::slab_place(int64_t{0}, r, slabs, p.bits));
  constexpr int64_t kTile = forms::kSlabColumns * forms::kSlabBytes;
  for (int64_t j = piece.begin * forms::kSlabColumns; j < std::min(m.cols, piece.end * forms::kSlabColumns); ++j) {
    const std::byte* const column = src + m.begin + j * p.col_stride;
    std::byte* const to = out + piece.at + (j / forms::kSlabColumns - piece.begin) * strip + j % forms::kSlabColumns * forms::kSlabBytes;
    for (int64_t r = 0; r < k; ++r) {
      const auto& [byte, shift] = places[static_cast<size_t>(r % rows)];
      to[r / rows * kTile + byte] |= (p.bits == 4 ? column[r] & std::byte{15} : column[r]) << shift;
    }
  }
}

void write_piece(const Piece& piece, const ConstData& c, std::byte* out) {
  if (!piece.weight->panels) {
    std::memcpy(out + piece.at, c.data + piece.begin, static_cast<size_t>(piece.end - piece.begin));
    return;
  }
  if (piece.weight->panels->slabs) return pack_slab_piece(piece, c.data, out);
  if (piece.weight->panels->bits) return pack_quant_piece(piece, c.data, out);
  switch (dtype_bytes(piece.weight->panels->dtype)) {
    case 2: return pack_piece<uint16_t>(piece, c.data, out);
    case 4: return pack_piece<uint32_t>(piece, c.data, out);
    default: return pack_piece<uint64_t>(piece, c.data, out);
  }
}

/// A weight without elements (of a product with no batches) is zeros, whatever its form pads it to.
bool is_empty(const Weight& w, const IdVec<ConstId, ConstData>& constants) { return constants[w.source].bytes == 0; }

std::vector<Piece> pieces_of(const std::vector<Weight>& weights, const IdVec<ConstId, ConstData>& constants) {
  constexpr int64_t kBytes = 1 << 20;
  std::vector<Piece> all;
  for (const Weight& w : weights) {
    if (is_empty(w, constants)) continue;
    if (!w.panels) {
      const auto bytes = static_cast<int64_t>(w.bytes);
      for (int64_t b = 0; b < bytes; b += kBytes)
        all.push_back({&w, 0, b, std::min(bytes, b + kBytes), w.offset + static_cast<uint64_t>(b)});
      continue;
    }
    uint64_t at = w.offset;
    const Panels& p = *w.panels;
    for (size_t i = 0; i < p.matrices.size() * static_cast<size_t>(p.parts); ++i) {
      const size_t m = i % p.matrices.size();
      const int64_t columns = p.unit_columns();  // of one unit of work
      const int64_t panel = p.stored_rows(p.matrices[m]) * columns * (p.bits ? p.bits : 8 * dtype_bytes(p.dtype)) / 8;
      const int64_t step = std::max<int64_t>(1, kBytes / std::max<int64_t>(1, panel));
      const int64_t n = (p.matrices[m].cols + columns - 1) / columns;
      for (int64_t b = 0; b < n; b += step)
        all.push_back({&w, m, b, std::min(n, b + step), at + static_cast<uint64_t>(b * panel), static_cast<int>(i / p.matrices.size())});
      at += static_cast<uint64_t>(n * panel);
    }
  }
  return all;
}

}  // namespace

namespace {

/// Row and column of an element of the constant, where the panels are one matrix, all of it.
std::optional<std::pair<Expr, Expr>> row_and_column(const Panels& p, int64_t elems, const Expr& e, const SymTable& syms) {
  if (p.matrices.size() != 1 || p.matrices[0].begin != 0 || p.winograd || p.column_groups || p.line) return std::nullopt;
  const Panels::Rows& rows = p.rows[p.matrices[0].rows];
  const int64_t n = p.matrices[0].cols, k = rows.count;
  if (!rows.taps.empty() || rows.inner < k || n * k != elems) return std::nullopt;
  if (rows.inner_stride == 1 && (p.col_stride == k || n == 1)) return std::pair(syms.simplify(mod(e, k)), syms.simplify(floordiv(e, k)));
  if (p.col_stride == 1 && (rows.inner_stride == n || k == 1)) return std::pair(syms.simplify(floordiv(e, n)), syms.simplify(mod(e, n)));
  return std::nullopt;
}

}  // namespace

std::optional<Expr> panel_index(const Panels& p, int64_t elems, const Expr& e, const SymTable& syms) {
  const auto at = row_and_column(p, elems, e, syms);
  if (!at) return std::nullopt;
  const auto& [row, column] = *at;
  const int64_t stored = p.stored_rows(p.matrices[0]);
  if (p.slabs) return syms.simplify(forms::slab_place(column, row, forms::slabs_along(p.rows[0].count, p.bits), p.bits).byte);
  if (p.bits) {  // [panel of lanes][block of rows][four rows][lane][row]; of 4 bits the two halves of a block share their bytes
    constexpr int64_t kLanes = AOTC_QUANT_LANES, kBlock = AOTC_QUANT_BLOCK;
    const int64_t bytes = kBlock * p.bits / 8;  // of a block of one column
    const Expr lane = mod(column, kLanes), in_half = mod(row, bytes);
    return syms.simplify(floordiv(column, kLanes) * (stored * p.bits / 8 * kLanes) + floordiv(row, kBlock) * (bytes * kLanes) +
                         floordiv(in_half, 4) * (4 * kLanes) + lane * 4 + mod(in_half, 4));
  }
  const Expr lane = mod(column, kPanel);
  const Expr within = in_pairs(p.dtype) ? floordiv(row, 2) * (2 * kPanel) + lane * 2 + mod(row, 2) : row * kPanel + lane;
  return syms.simplify(floordiv(column, kPanel) * (stored * kPanel) + within);
}

Expr panel_shift(const Panels& p, int64_t elems, const Expr& e, const SymTable& syms) {
  if (p.bits != 4) return 0;
  const auto at = row_and_column(p, elems, e, syms);
  AOTC_CHECK(at, "panels that panel_index does not know");
  if (p.slabs) return syms.simplify(forms::slab_place(at->second, at->first, forms::slabs_along(p.rows[0].count, p.bits), p.bits).shift);
  return syms.simplify(floordiv(mod(at->first, AOTC_QUANT_BLOCK), AOTC_QUANT_BLOCK / 2) * 4);
}

uint32_t WeightTable::add(ConstId source, const std::optional<forms::WeightForm>& panels) {
  const ConstData& c = constants_[source];
  AOTC_CHECK(has_data(c), "the data of constant {} are not known", c.name);
  source = canonical(source);
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i].source == source && weights_[i].panels == panels) return static_cast<uint32_t>(i);
  Weight w;
  w.name = panels ? c.name + ".panels" : c.name;
  w.source = source;
  w.panels = panels;
  w.bytes = panels ? static_cast<uint64_t>(panels->bytes()) : c.bytes;
  w.offset = place_weight(end_, w.bytes);
  end_ = w.offset + w.bytes;
  weights_.push_back(std::move(w));
  return static_cast<uint32_t>(weights_.size() - 1);
}

ConstId WeightTable::canonical(ConstId id) {
  const ConstData& c = constants_[id];
  std::vector<ConstId>& others = by_bytes_[c.bytes];
  for (const ConstId other : others)
    if (same_constant(constants_[other], c)) return other;
  others.push_back(id);
  return id;
}

void write_weights(const std::vector<Weight>& weights, const IdVec<ConstId, ConstData>& constants, std::span<std::byte> out, int threads) {
  uint64_t end = 0;
  for (const Weight& w : weights) {
    AOTC_CHECK(w.offset >= end && w.offset + w.bytes <= out.size(), "weight {} lies outside the blob", w.name);
    if (is_empty(w, constants)) continue;
    std::memset(out.data() + end, 0, w.offset - end);
    end = w.offset + w.bytes;
  }
  std::memset(out.data() + end, 0, out.size() - end);
  const std::vector<Piece> pieces = pieces_of(weights, constants);
  const auto n = static_cast<size_t>(std::max(1, threads));
  // An archive of the machine's size is not kept in memory beside what is written.
  const FilePages archives = FilePages::of_process();
  auto share = [&](size_t t) {
    for (size_t i = t; i < pieces.size(); i += n) {
      const Piece& p = pieces[i];
      const ConstData& c = constants[p.weight->source];
      write_piece(p, c, out.data());
      if (!p.weight->panels) archives.forget(c.data + p.begin, static_cast<size_t>(p.end - p.begin));
      if (p.weight->panels && (i + 1 == pieces.size() || pieces[i + 1].weight != p.weight)) archives.forget(c.data, c.bytes);
    }
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < n; ++t) others.emplace_back(share, t);
  share(0);
  for (std::thread& t : others) t.join();
}

}  // namespace aotc::plan
