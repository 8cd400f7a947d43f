#include "plan/weights.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "aotc/detail/library_abi.h"

namespace aotc::plan {

namespace {

constexpr uint64_t kLineBytes = 64, kPageBytes = 4096;
constexpr int64_t kPanel = AOTC_PANEL_N;

uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }

/// 16-bit types are stored as pairs of rows where the kernels multiply pairs.
bool in_pairs(DType t) { return t == DType::bf16; }
int64_t stored_rows(const Panels& p) { return in_pairs(p.dtype) ? (p.rows + 1) / 2 * 2 : p.rows; }
bool has_panel_form(DType t) { return t == DType::f32 || t == DType::f64 || t == DType::f16 || t == DType::bf16; }

/// One panel: columns [j0, j0 + 32) of a matrix, in blocks of rows so that both sides stay in cache whatever the strides.
template <class T>
void pack_panel(const T* src, const Panels& p, const Panels::Matrix& m, int64_t j0, T* dst) {
  constexpr int64_t kBlock = 64 / sizeof(T);
  const bool pairs = in_pairs(p.dtype);
  const int64_t rows = stored_rows(p), cols = std::min(m.cols - j0, kPanel);
  const T* base = src + m.begin + j0 * p.col_stride;
  T block[kBlock][kPanel];
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    const int64_t n = std::min(rows - r0, kBlock), have = std::min(p.rows - r0, n);
    if (have < n || cols < kPanel) std::memset(block, 0, sizeof block);
    if (p.col_stride == 1) {
      for (int64_t r = 0; r < have; ++r) {
        const int64_t row = r0 + r;
        std::memcpy(block[r], base + row / p.rows_inner * p.outer_stride + row % p.rows_inner * p.inner_stride,
                    static_cast<size_t>(cols) * sizeof(T));
      }
    } else {
      int64_t offset[kBlock];
      for (int64_t r = 0; r < have; ++r) {
        const int64_t row = r0 + r;
        offset[r] = row / p.rows_inner * p.outer_stride + row % p.rows_inner * p.inner_stride;
      }
      const bool dense = have == kBlock && offset[kBlock - 1] - offset[0] == kBlock - 1 && p.rows_inner >= p.rows;
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

/// A piece of work of the writer: panels [begin, end) of one matrix, or bytes of a dense weight.
struct Piece {
  const Weight* weight;
  size_t matrix;
  int64_t begin, end;
  uint64_t at;  ///< in the blob
};

template <class T>
void pack_piece(const Piece& piece, const std::byte* src, std::byte* out) {
  const Panels& p = *piece.weight->panels;
  T* dst = reinterpret_cast<T*>(out + piece.at);
  for (int64_t j = piece.begin; j < piece.end; ++j, dst += stored_rows(p) * kPanel)
    pack_panel(reinterpret_cast<const T*>(src), p, p.matrices[piece.matrix], j * kPanel, dst);
}

void write_piece(const Piece& piece, const ConstData& c, std::byte* out) {
  if (!piece.weight->panels) {
    std::memcpy(out + piece.at, c.data + piece.begin, static_cast<size_t>(piece.end - piece.begin));
    return;
  }
  switch (dtype_bytes(piece.weight->panels->dtype)) {
    case 2: return pack_piece<uint16_t>(piece, c.data, out);
    case 4: return pack_piece<uint32_t>(piece, c.data, out);
    default: return pack_piece<uint64_t>(piece, c.data, out);
  }
}

std::vector<Piece> pieces_of(const std::vector<Weight>& weights) {
  constexpr int64_t kBytes = 1 << 20;
  std::vector<Piece> all;
  for (const Weight& w : weights) {
    if (!w.panels) {
      const auto bytes = static_cast<int64_t>(w.bytes);
      for (int64_t b = 0; b < bytes; b += kBytes)
        all.push_back({&w, 0, b, std::min(bytes, b + kBytes), w.offset + static_cast<uint64_t>(b)});
      continue;
    }
    const int64_t panel = stored_rows(*w.panels) * kPanel * dtype_bytes(w.panels->dtype);
    const int64_t step = std::max<int64_t>(1, kBytes / std::max<int64_t>(1, panel));
    uint64_t at = w.offset;
    for (size_t m = 0; m < w.panels->matrices.size(); ++m) {
      const int64_t n = (w.panels->matrices[m].cols + kPanel - 1) / kPanel;
      for (int64_t b = 0; b < n; b += step) all.push_back({&w, m, b, std::min(n, b + step), at + static_cast<uint64_t>(b * panel)});
      at += static_cast<uint64_t>(n * panel);
    }
  }
  return all;
}

std::optional<std::vector<int64_t>> constants(const Exprs& xs) {
  std::vector<int64_t> r;
  for (const Expr& x : xs) {
    auto c = x.as_const();
    if (!c) return std::nullopt;
    r.push_back(*c);
  }
  return r;
}

}  // namespace

int64_t Panels::elems() const {
  int64_t n = 0;
  for (const Matrix& m : matrices) n += (m.cols + kPanel - 1) / kPanel * kPanel * stored_rows(*this);
  return n;
}

std::optional<Panels> panels_of(const loop::MatmulKernel& k, const GemmChoice& c) {
  if (!k.b_constant || !c.pack_b || !has_panel_form(k.in)) return std::nullopt;
  const auto basic = constants({k.k, k.b.base, k.b.row_stride, k.b.col_stride});
  if (!basic || (*basic)[0] == 0) return std::nullopt;
  Panels p;
  p.dtype = k.in;
  p.rows = p.rows_inner = (*basic)[0];
  p.inner_stride = (*basic)[2];
  p.col_stride = (*basic)[3];
  std::vector<int64_t> starts = {(*basic)[1]};
  for (size_t d = 0; d < k.batch.size(); ++d) {
    if (k.b.batch_strides[d].is(0)) continue;
    const auto stride = k.b.batch_strides[d].as_const(), count = k.batch[d].as_const();
    if (!stride || !count) return std::nullopt;
    std::vector<int64_t> next;
    for (int64_t s : starts)
      for (int64_t i = 0; i < *count; ++i) next.push_back(s + i * *stride);
    starts = std::move(next);
  }
  for (int64_t start : starts) {
    for (const loop::Segment& s : k.segments) {
      const auto n = constants({s.n_begin, s.n_end});
      if (!n) return std::nullopt;
      p.matrices.push_back({start + (*n)[0] * p.col_stride, (*n)[1] - (*n)[0]});
    }
  }
  if (p.matrices.empty()) return std::nullopt;
  return p;
}

std::optional<Panels> panels_of(const loop::ConvKernel& k, const ConvChoice& c) {
  if (!k.w_constant || !c.pack_w || c.algo != AOTC_CONV_GEMM || !has_panel_form(k.in)) return std::nullopt;
  const auto channels = constants({k.x_dims.at(1), k.out_dims.at(1)});
  if (!channels) return std::nullopt;
  const int64_t ci = (*channels)[0] / k.groups, co = (*channels)[1] / k.groups;
  int64_t taps = 1;
  for (int64_t x : k.kernel) taps *= x;
  Panels p;
  p.dtype = k.in;
  p.rows = ci * taps;
  if (p.rows == 0) return std::nullopt;
  p.inner_stride = 1;
  p.rows_inner = k.transposed ? taps : p.rows;
  p.outer_stride = k.transposed ? co * taps : 0;
  p.col_stride = k.transposed ? taps : p.rows;
  for (int64_t g = 0; g < k.groups; ++g) p.matrices.push_back({g * ci * co * taps, co});
  return p;
}

uint32_t WeightTable::add(ConstId source, const std::optional<Panels>& panels) {
  const ConstData& c = constants_[source];
  source = canonical_.try_emplace({c.data, c.bytes}, source).first->second;
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i].source == source && weights_[i].panels == panels) return static_cast<uint32_t>(i);
  Weight w;
  w.name = panels ? c.name + ".panels" : c.name;
  w.source = source;
  w.panels = panels;
  w.bytes = panels ? static_cast<uint64_t>(panels->elems() * dtype_bytes(panels->dtype)) : c.bytes;
  w.offset = round_up(end_, w.bytes >= 16 * kPageBytes ? kPageBytes : kLineBytes);
  end_ = w.offset + w.bytes;
  weights_.push_back(std::move(w));
  return static_cast<uint32_t>(weights_.size() - 1);
}

void write_weights(const std::vector<Weight>& weights, const IdVec<ConstId, ConstData>& constants, std::span<std::byte> out, int threads) {
  uint64_t end = 0;
  for (const Weight& w : weights) {
    AOTC_CHECK(w.offset >= end && w.offset + w.bytes <= out.size(), "weight {} lies outside the blob", w.name);
    std::memset(out.data() + end, 0, w.offset - end);
    end = w.offset + w.bytes;
  }
  std::memset(out.data() + end, 0, out.size() - end);
  const std::vector<Piece> pieces = pieces_of(weights);
  const auto n = static_cast<size_t>(std::max(1, threads));
  auto share = [&](size_t t) {
    for (size_t i = t; i < pieces.size(); i += n) write_piece(pieces[i], constants[pieces[i].weight->source], out.data());
  };
  std::vector<std::thread> others;
  for (size_t t = 1; t < n; ++t) others.emplace_back(share, t);
  share(0);
  for (std::thread& t : others) t.join();
}

}  // namespace aotc::plan
