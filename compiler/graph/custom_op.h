#pragma once
// What the attributes of Op::custom say: an operator of the user's that a kernel of his own computes.
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace aotc {

/// An argument of the operator that is no tensor.
struct CustomNumber {
  enum class Kind : uint8_t { none, integer, real, text, integers, reals };
  Kind kind = Kind::none;
  std::vector<int64_t> integers = {};  ///< one of kind integer
  std::vector<double> reals = {};      ///< one of kind real
  std::string text = {};
  int first_size = -1;  ///< of integers that are sizes: where they stand among the sizes behind the results' dims
  int sizes = 0;        ///< and how many they are
  friend bool operator==(const CustomNumber&, const CustomNumber&) = default;
};
/// Attr::numbers as text (JSON), and back. A text that is none is an InternalError.
std::string custom_numbers_text(const std::vector<CustomNumber>& numbers);
std::vector<CustomNumber> parse_custom_numbers(const std::string& text);

/// Attr::types: "float32,int64". Back: an InternalError where one is no element type.
std::string custom_types_text(const std::vector<DType>& types);
std::vector<DType> parse_custom_types(const std::string& text);

/// Attr::kind: a kernel for GPUs, as a function of CUDA code or compiled by the user. Attributes without it: there is none.
struct CustomCuda {
  std::string header;             ///< that has the function; empty: compiled
  std::vector<int64_t> binaries;  ///< own::Kernels::cuda_binaries
  std::string function;
  friend bool operator==(const CustomCuda&, const CustomCuda&) = default;
};
std::string custom_cuda_text(const CustomCuda& code);
/// An InternalError where it is none.
CustomCuda parse_custom_cuda(const std::string& text);
/// What stands for the text of a kernel that is compiled already, and back; nothing: it is the text of another.
std::string compiled_text(const CustomCuda& code);
std::optional<CustomCuda> parse_compiled_text(const std::string& text);

/// The places of Attr::launch.
struct CustomLaunch {
  enum : size_t { work, grain, scratch, grid, block = grid + 3, shared = block + 3, gpu_scratch, count };
};

}  // namespace aotc
