#pragma once
// The oracle of `aotc verify` and `aotc bench --against`: the original program, node by node through LibTorch's dispatcher.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/interp.h"
#include "import/program.h"

namespace aotc::import {

/// What rounding did to the rows that a weight's products multiply: sums of squares.
struct RowError {
  double lost = 0, all = 0;
};

struct ReferenceOptions {
  bool f64 = false;  ///< weights, inputs, dtype arguments and results of floating type are float64
  int threads = 1;
  /// As the model moved to bf16 gives them: weights and inputs of float32 are bf16, what asks for float32 by name keeps it, and an operator
  /// that LibTorch has not in bf16, or not of both types at once, runs in float32 and gives bf16.
  bool bf16 = false;
  /// Products with these constants, by their names in Program::data, round the rows that they multiply to 8 bits.
  std::vector<std::string> int8_rows = {};
  /// Buffers whose written rows are rounded to 8 bits (--kv-cache), by their names in Program::data.
  std::vector<std::string> caches = {};
  bool caches_float8 = false;                             ///< to float8_e4m3fn; else to int8 with a scale a row
  std::map<std::string, RowError>* row_errors = nullptr;  ///< set: what that lost, by weight, is added in every run
  /// Constants that take more bytes together in the reference's types are widened at each use, all but the smallest: a float64 reference of
  /// 16 GB of bf16 needs no 64 GB.
  size_t kept_bytes = size_t{2} << 30;
};

class Reference {
 public:
  virtual ~Reference() = default;
  /// Tensors of the user inputs in signature order; returns the outputs in the order of Program::outputs, numbers as scalars, without those
  /// that are neither tensors nor numbers. Every run starts from the buffers as saved. Throws Diagnostic when an op fails.
  virtual std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) = 0;
};
/// `program` must outlive the result.
std::unique_ptr<Reference> make_reference(const Program& program, const ReferenceOptions& options);

/// Inputs for one assignment of the shape symbols, without data.
std::vector<HostTensor> make_shapes(const Program& program, const std::map<SymId, int64_t>& sizes);
/// Inputs for one assignment of the shape symbols: floats N(0,1), integers within what the graph can take as an index
/// (found by following the input to embedding/index/gather/one_hot), bools and masks of both values. Deterministic in `seed`.
/// Where the archive has sample inputs of these sizes and seed is 0, those.
std::vector<HostTensor> make_inputs(const Program& program, const std::map<SymId, int64_t>& sizes, uint64_t seed);

}  // namespace aotc::import
