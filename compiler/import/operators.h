#pragma once
// Operator schemas as LibTorch knows them, without its headers.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "import/program.h"

namespace aotc::import {

enum class ParamType : uint8_t {
  tensor,
  tensor_list,
  opt_tensor_list,
  integer,
  int_list,
  real,
  real_list,
  boolean,
  bool_list,
  text,
  text_list,
  scalar,  ///< int, float, bool or complex
  dtype,
  layout,
  device,
  memory_format,
  other,
};
std::string_view param_type_name(ParamType t);

struct OpParam {
  std::string name;
  ParamType type = ParamType::other;
  bool optional = false;  ///< None is allowed
  std::optional<Arg> fallback;
  std::string alias;     ///< alias set ("a"), shared with the results that may be views of it; empty: none
  bool written = false;  ///< the operator changes the tensor
};
struct OpResult {
  ParamType type = ParamType::other;
  std::string alias;
};
struct OpSchema {
  std::vector<OpParam> params;
  std::vector<OpResult> results;
  const OpParam* find(std::string_view name) const;
};

/// Schemas by target ("aten.add.Tensor"), asked once each.
class OpTable {
 public:
  const OpSchema* find(const std::string& target);  ///< null when LibTorch does not know the operator

 private:
  std::map<std::string, std::optional<OpSchema>> known_;
};

}  // namespace aotc::import
