#pragma once
// What a call of a kernel has to compute and to move at least, in whatever form: what `bench --profile` holds its time against.
#include "loop/loop.h"

namespace aotc::loop {

/// Over shape symbols. Bytes: of each parameter once, and of one of which fewer elements are met than it has (a table's rows), those.
struct Demand {
  Expr products = 0;      ///< multiply-adds of contractions, attention and recurrences; of causal attention half of all
  DType in = DType::f32;  ///< of the operands of those
  Expr operations = 0;    ///< of loops, epilogues and prologues: one for each operation of an element
  Expr read_bytes = 0, written_bytes = 0;
};

/// Of whole-tensor algorithms but recurrences only the bytes are known. What an algorithm updates in place counts as written, whole.
Demand demand_of(const Kernel& k);
/// Of kernels that run as one step. Their products are of the same type.
Demand operator+(const Demand& a, const Demand& b);

}  // namespace aotc::loop
