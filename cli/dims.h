#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

namespace aotc::cli {

/// Parses "batch=8", of --dim, for an artifact with this metadata; takes what the archive calls a dimension ("s77=8"), too. Throws
/// Diagnostic (usage).
std::map<std::string, int64_t> parse_dims(const std::vector<std::string>& args, const nlohmann::json& metadata);

/// Throws Diagnostic (usage) for a name that is in none of `known`: names of dimensions, or expressions of them.
void check_dims(const std::map<std::string, int64_t>& given, const std::set<std::string>& known);

}  // namespace aotc::cli
