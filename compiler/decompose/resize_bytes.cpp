// Resizing of uint8 images as PyTorch's CPU kernels do it: factors of 16 bits, sums of 32 bits, each pass rounded to bytes
// (aten/src/ATen/native/cpu/UpSampleKernel.cpp, compute_index_ranges_int16_weights; after Pillow's Resample.c).
#include "decompose/resize.h"

namespace aotc::decompose {
namespace {

constexpr int kMostBits = 22;
constexpr double kFactorEnd = 1 << 15;

/// The bits behind the point, int32 of rank 0: as many as leave the largest factor below 2^15.
T point_of(const T& factors) {
  Ints all;
  for (int d = 0; d < factors.rank(); ++d) all.push_back(d);
  const T largest = factors.reduce(ReduceKind::max, all, false);
  std::optional<T> bits;
  for (int p = 1; p <= kMostBits; ++p) {
    const T fits = (largest * static_cast<double>(1 << p) + 0.5 < kFactorEnd).to(DType::i32);
    bits = bits ? *bits + fits : fits;
  }
  return *bits;
}

T power(const T& bits) { return binary(Op::shl, bits.like(1), bits); }

T fixed(const T& factor, const T& bits) {
  const T v = factor * power(bits).to(DType::f64);
  return unary(Op::trunc, where(v < 0.0, v - 0.5, v + 0.5)).to(DType::i32);
}

T bytes_of(const T& sum, const T& bits) {
  const T v = binary(Op::shr, sum + power(bits - 1.0), bits);
  return minimum(maximum(v, 0.0), 255.0).to(DType::u8);
}

/// Taps at the image's edge are one: their factors are added before they are rounded.
std::vector<ResizeTap> merged(const std::vector<ResizeTap>& taps) {
  std::vector<ResizeTap> out;
  for (size_t i = 0; i < taps.size(); ++i) {
    T weight = taps[i].weight;
    for (size_t j = i + 1; j < taps.size(); ++j) weight = weight + where(taps[j].index == taps[i].index, taps[j].weight, 0.0);
    for (size_t j = 0; j < i; ++j) weight = where(taps[j].index == taps[i].index, 0.0, weight);
    out.push_back({taps[i].index, weight});
  }
  return out;
}

}  // namespace

T bytes_by_taps(const T& x, const ResizeAxis& a, const std::vector<ResizeTap>& taps) {
  const std::vector<ResizeTap> all = merged(taps);
  std::optional<T> largest, sum;
  for (const ResizeTap& tap : all) largest = largest ? maximum(*largest, tap.weight) : tap.weight;
  const T bits = point_of(*largest);
  for (const ResizeTap& tap : all) {
    const T taken(x.b(), x.b().index(x, {tap.index}, {a.dim}, a.dim));
    const T term = taken.to(DType::i32) * along_axis(fixed(tap.weight, bits), a, x.rank());
    sum = sum ? *sum + term : term;
  }
  return bytes_of(*sum, bits);
}

T bytes_by_grid(const T& x, const ResizeAxis& a, const T& index, const T& factors) {
  const T bits = point_of(factors);
  std::vector<Expr> along(static_cast<size_t>(x.rank()) + 1, Expr(1));
  along[static_cast<size_t>(a.dim)] = factors.dim(0), along[static_cast<size_t>(a.dim) + 1] = factors.dim(1);
  const T taken(x.b(), x.b().index(x, {index}, {a.dim}, a.dim));
  return bytes_of((taken.to(DType::i32) * fixed(factors, bits).reshape(along)).sum({a.dim}, false), bits);
}

}  // namespace aotc::decompose
