#pragma once
// What the fusion and the schedule ask of a target, as data: made from the forms of its machine (forms/rules.h). The defaults are those of
// a CPU of which nothing else is known.
#include <cstdint>
#include <functional>

#include "base/diagnostic.h"
#include "base/dtype.h"
#include "sym/expr.h"

namespace aotc::loop {

struct FusionRules {
  /// Whether some form computes operand 0 (a) or 1 (b) of a product of this type in its prologue. Null: every operand.
  std::function<Fit(DType dtype, uint32_t operand)> prologue;
  /// Whether some form computes operand b of a product of this type where that is a weight of few bits (loop/quantised.h), beyond what
  /// `prologue` says. Null: none.
  std::function<Fit(DType dtype)> few_bits;
  bool ordered_sums = false;   ///< of products and convolutions (MatmulKernel::ordered)
  int64_t column_block = 128;  ///< columns of a product that one computed element of b serves at least
  int matrix_lookup = 0;       ///< simple operations for an element of a matrix that an index picks whole, in a product's prologue
  int64_t kept_columns = 256;  ///< columns for which a computed row of a is kept
  /// Rows of more points do not stay where they are fast: their values are computed again rather than kept. By the sizes worth tuning for.
  int64_t row_points = int64_t{1} << 18;
  /// Bytes that the kept values of one row may take over all shapes; beyond that they are computed again where they can be.
  int64_t row_bytes = kInf;
  int64_t lanes = 8;       ///< that run together: a loop of fewer points leaves some of them empty
  bool columns = true;     ///< a reduction across rows goes by columns, a lane each, where that takes a kernel of its own
  bool lane_steps = true;  ///< lanes may run by steps of some elements where neighbours would leave most of them empty
  /// What lanes step over is read from a copy in their order where each of its elements is read at least so often; 0: never.
  int64_t reread = 8;
  int64_t reread_far = 2;      ///< the same where lanes step so far that their lines lie in the same places of a cache
  int64_t units = 64;          ///< pieces of work that keep the machine busy
  int64_t unit_points = 1024;  ///< the least points of a row that are a piece
  /// Loops of at most so many points that have nothing to do with each other run together: starting a kernel is what each of them costs.
  int64_t small_points = int64_t{1} << 16;
};

}  // namespace aotc::loop
