#pragma once
// What products with int8 weights make of their rows where an artifact may round those, too (Numerics::int8_rows), for the oracle of
// verify.
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/reference.h"

namespace aotc::import {

class RoundedRows {
 public:
  /// errors: where each product adds what it lost, or null.
  explicit RoundedRows(std::map<std::string, RowError>* errors) : errors_(errors) {}
  /// Products of this tensor, or of views of it, round the rows that they multiply.
  void add(const std::string& name, const at::Tensor& weight);
  /// The arguments of a call of `target` with the rows as they are multiplied.
  void apply(std::string_view target, std::vector<c10::IValue>& arguments) const;

 private:
  std::map<const void*, std::string> weights_;  // by their memory
  std::map<std::string, RowError>* errors_;
};

}  // namespace aotc::import
