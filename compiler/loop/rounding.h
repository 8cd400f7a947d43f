#pragma once
// Where values are rounded that kernels compute: 16-bit floats, and products in differences.
//
// A value of the graph whose type is f16 or bf16 is a number of that type wherever it is looked at, in memory or not: what kernels compute
// in f32 is rounded once where the graph has a value of a 16-bit type, by a cast to the type (and back, where more is computed from it).
// The graph says where that is: a rule that computes in f32 and rounds at its end, as PyTorch's kernel does, casts to f32 first.
//
// A rounding is left out only where it provably changes nothing:
//   - the value is a number of the type already (what 16-bit numbers give under the operators of representable(): extremes, choices,
//     signs, whole parts);
//   - the value goes to memory of its type, and the store rounds.
// Contractions are outside of this: their sums are of another order than PyTorch's in any type, and attention holds its scores in f32.
#include <cstdint>
#include <vector>

#include "loop/loop.h"

namespace aotc::loop {

/// The 16-bit types whose numbers a value consists of, as far as instructions show it. Instructions must be asked for after those that they
/// use were made (ids rise).
class Representable {
 public:
  bool is(const IdVec<InstId, Inst>& insts, InstId i, DType half);
  /// An instruction of a 16-bit type whose result, computed in f32, has to be rounded to the type.
  bool must_round(const IdVec<InstId, Inst>& insts, InstId i);

 private:
  void look(const IdVec<InstId, Inst>& insts, InstId i);
  std::vector<uint8_t> computed_;  ///< by InstId, bits of kF16 and kBf16: what is computed
  std::vector<uint8_t> known_;     ///< what is left of it, after rounding to the instruction's type
};

/// The f32 and f64 products that are to be rounded before a difference is made of them, by InstId. Elsewhere a product and a sum may become
/// one instruction that leaves the product unrounded; but x * y - m must be what is between numbers that both exist, where m may be the
/// rounded product: 0, not what rounding cut off, which may have any exponential (softmax) or a square root (E(x^2) - E(x)^2), or a sign
/// (a * d - b * c). Sums with what is negated are differences. A product with a constant is rounded only where m is made of a row, or
/// loaded the same for many elements (the largest of a row); nothing is rounded beside a constant.
std::vector<bool> products_to_round(const LoopKernel& k);

}  // namespace aotc::loop
