#pragma once
// Contracts and choices as JSON: the measuring worker's requests and the tuning database (schemas/tuning.schema.json).
#include <nlohmann/json.hpp>
#include <variant>

#include "base/diagnostic.h"
#include "plan/choice.h"
#include "search/contract.h"

namespace aotc::search {

using Contract = std::variant<GemmContract, ConvContract, AttnContract>;

nlohmann::json to_json(const Contract& c);
nlohmann::json to_json(const plan::Choice& c);
/// Fails with the JSON path of what is wrong; accepts only values that the kernels can run with.
Result<Contract> contract_from(const nlohmann::json& j);
Result<plan::Choice> choice_from(const nlohmann::json& j);

inline std::string key_of(const Contract& c) {
  return std::visit([](const auto& x) { return key_of(x); }, c);
}

}  // namespace aotc::search
