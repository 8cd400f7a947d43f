#pragma once
// shapes.json (schemas/shapes.schema.json) and its meeting with an archive.
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "import/program.h"

namespace aotc::import {

struct DimSpec {
  int64_t min = 0;             ///< 0: the archive's
  std::optional<int64_t> max;  ///< empty: the archive's
  int64_t multiple_of = 1;
  std::vector<int64_t> tune;
};
using InputDim = std::variant<int64_t, std::string>;
/// One bucket: a range for some of the named dims; a dim not named keeps its whole range.
using VariantSpec = std::map<std::string, DimSpec>;

struct ShapesSpec {
  std::string file;
  std::map<std::string, DimSpec> dims;
  std::map<std::string, std::vector<InputDim>> inputs;
  std::vector<VariantSpec> variants;  ///< empty: one variant for the whole range
};

/// Throws Diagnostic with the file and JSON path.
ShapesSpec parse_shapes(const std::string& text, const std::string& file_name);
/// Binds the named dims to the archive's symbols: renames them, narrows their ranges, replaces those that became one number.
/// Widening, unknown inputs, wrong ranks and conflicts are Diagnostics that quote the archive's constraint.
/// Returns, per variant, the ranges of all symbols of the inputs, min and max always set (max may be kInf); at least one variant, the
/// last covers everything.
struct VariantRange {
  std::map<SymId, DimSpec> ranges;
};
std::vector<VariantRange> apply_shapes(Program& program, const std::optional<ShapesSpec>& spec);
/// Of the sizes and the integers that the inputs are.
std::set<SymId> input_symbols(const Program& program);

}  // namespace aotc::import
