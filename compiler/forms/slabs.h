#pragma once
// "Slabs": how GPUs store the integers (or float8_e4m3fn) of a weight [n, k] of few bits, whatever form multiplies it. Columns are in
// strips of 16, k is in slabs of 64 bytes a column: 64 elements of 8 bits, 128 of 4. What fills up n and k is 0. A strip's slab is a tile
// of 1,024 bytes, number strip * slabs + slab: 64 bytes for each column, 16 for each of the four lanes of a quad, in the order in which
// mma.sync.m16n8k16 and wgmma.m64k16 take their left operand from registers: of slice s (16 of k) lane t holds the rows 2t, 2t + 1, 2t + 8
// and 2t + 9. kernels/cuda reads them.
#include <cstdint>
#include <optional>

#include "forms/weight_form.h"
#include "loop/loop.h"
#include "sym/expr.h"

namespace aotc::forms {

constexpr int64_t kSlabColumns = 16;  ///< of a strip
constexpr int64_t kSlabBytes = 64;    ///< of a column in a slab
/// Of k in a slab.
constexpr int64_t slab_rows(int bits) { return kSlabBytes * 8 / bits; }
constexpr int64_t slabs_along(int64_t k, int bits) { return (k + slab_rows(bits) - 1) / slab_rows(bits); }

/// Where an element lies: in which byte, and from which bit on.
template <class Int>
struct SlabPlace {
  Int byte, shift;
};

namespace detail {
constexpr int64_t floordiv(int64_t a, int64_t b) { return a / b; }
constexpr int64_t mod(int64_t a, int64_t b) { return a % b; }

/// bits: 8 or 4. Int: int64_t or Expr.
template <class Int>
SlabPlace<Int> slab_place(const Int& column, const Int& row, int64_t slabs, int bits) {
  const int64_t rows = slab_rows(bits);
  const Int at = mod(row, rows), slice = floordiv(at, 16), in_slice = mod(at, 16);
  const Int lane = floordiv(mod(in_slice, 8), 2), second = mod(in_slice, 2), upper = floordiv(in_slice, 8);
  const Int sixteen = (floordiv(column, kSlabColumns) * slabs + floordiv(row, rows)) * (kSlabColumns * kSlabBytes) +
                      mod(column, kSlabColumns) * kSlabBytes + lane * 16;
  if (bits == 8) return {sixteen + slice * 4 + second + upper * 2, Int(0)};
  // A 32-bit word for two slices; the numbers of a pair are 16 bits apart.
  return {sixteen + floordiv(slice, 2) * 4 + mod(slice, 2) + second * 2, upper * 4};
}
}  // namespace detail

inline SlabPlace<int64_t> slab_place(int64_t column, int64_t row, int64_t slabs, int bits) {
  return detail::slab_place<int64_t>(column, row, slabs, bits);
}
/// Not simplified.
inline SlabPlace<Expr> slab_place(const Expr& column, const Expr& row, int64_t slabs, int bits) {
  return detail::slab_place<Expr>(column, row, slabs, bits);
}

/// The slabs of a product's weight of few bits (MatmulKernel::b_quantised); nullopt where it has 16 bits or none.
std::optional<Panels> slabs_of(const loop::MatmulKernel& k);

}  // namespace aotc::forms
