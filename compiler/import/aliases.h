#pragma once
// Which results of an operator share memory with an operand: what LibTorch's kernels do, by the operator and by sizes and strides. (The
// schemas say less: lists of views are not marked, nor are operators that return an operand where there is nothing to do.)
#include <map>
#include <string>
#include <vector>

#include "import/program.h"

namespace aotc::import {

struct Alias {
  enum Kind : uint8_t {
    none,     ///< memory of its own
    same,     ///< the operand itself
    view,     ///< a view of the operand
    unclear,  ///< shared or copied, which the symbolic sizes and strides leave open
  };
  Kind kind = none;
  std::string of;  ///< the operand
};

/// Names of a node's tensor results, in order.
std::vector<std::string> result_names(const PNode& node);
/// The result is a view of the memory that the operand lies in, not of the operand.
bool views_memory(const PNode& node);
/// For each of result_names. An operator that is not listed has results of its own.
std::vector<Alias> aliases_of(const PNode& node, const std::map<std::string, TensorMeta>& tensors, const SymTable& syms);
/// Whether the operator is one whose results may share memory with an operand.
bool may_alias(std::string_view target);

/// "x.t_()" gives x another shape instead of other content: the functional form ("aten.t.default"), or nothing.
std::string_view functional_view(std::string_view target);

}  // namespace aotc::import
