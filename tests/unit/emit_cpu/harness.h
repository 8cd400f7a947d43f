#pragma once
// Compiles emitted functions for every instruction set of this machine and compares them with the evaluator on random data.
#include "base/target.h"
#include "isas.h"
#include "kernel_builder.h"

namespace aotc::test {

/// The instruction sets that loops are emitted for.
std::vector<Isa> loop_isas();

/// A translation unit, compiled and loaded.
class CompiledUnit {
 public:
  CompiledUnit(const std::string& source, Isa isa);
  ~CompiledUnit();
  CompiledUnit(const CompiledUnit&) = delete;
  CompiledUnit& operator=(const CompiledUnit&) = delete;
  void* symbol(const std::string& name) const;

 private:
  void* handle_ = nullptr;
  std::string dir_;
};

struct RunOptions {
  double tolerance = 1e-5;  ///< relative to 1 + |expected|
  bool specials = false;    ///< NaN, infinities, signed zeros and subnormals among the inputs
  int64_t int_range = 100;  ///< integers are drawn from [-int_range, int_range) (or [0, int_range) for u8)
  bool expect_fault = false;
};
/// Runs k at each set of sizes, in one and in several pieces of the work range, operands at and beyond a line's begin, and checks all
/// outputs.
void check_kernel(const LoopKernel& k, const std::vector<std::map<std::string, int64_t>>& sizes, const RunOptions& options = {});

}  // namespace aotc::test
