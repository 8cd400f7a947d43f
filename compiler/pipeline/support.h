#pragma once
// What aotc supports, told from its tables: operators by family, element types by kernel and target.
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace aotc::pipeline {

/// { "kernels": [{ "kind", "cpu": [dtype...], "cuda": [dtype...] }], "families": [{ "title", "kernels", "operators": [overload...] }] }
nlohmann::json support();
/// As compiler/decompose/OPERATORS.md.
std::string support_markdown(const nlohmann::json& support);

}  // namespace aotc::pipeline
