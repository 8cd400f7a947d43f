#pragma once
// Pointwise operators as expressions of C over the operator's arguments: statements "name = expression;", then the result's expression.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "graph/ops.h"

namespace aotc::own {

/// An expression: children by their places among Pointwise::parts, which come before it.
struct Part {
  enum class Kind : uint8_t {
    integer,  ///< `integer`
    real,     ///< `real`
    name,     ///< an argument, `name`
    local,    ///< what a statement named: kids[0]
    op,       ///< a core operator on the kids
    negate,   ///< of one
    logic_and,
    logic_or,
    logic_not,
    bits_not,
    quotient,  ///< of two: of integers towards zero
    cast,      ///< of one, to `dtype`
    choice,    ///< of three: c ? a : b
  };
  Kind kind = Kind::integer;
  Op op = Op::add;
  DType dtype = DType::f32;
  int64_t integer = 0;
  double real = 0;
  std::string name;
  std::vector<uint32_t> kids;
};
struct Pointwise {
  std::string text, path;
  std::vector<Part> parts;  ///< the last is the result
};

constexpr size_t kMostPointwiseChars = 4000;

/// Throws Diagnostic (bad_input) at `file`, `path`.
Pointwise parse_pointwise(std::string_view text, const std::string& file, const std::string& path);

}  // namespace aotc::own
