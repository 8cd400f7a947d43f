#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace aotc::cli {

/// Parses "batch=8", of --dim. Throws Diagnostic (usage).
std::map<std::string, int64_t> parse_dims(const std::vector<std::string>& args);

/// Throws Diagnostic (usage) for a name that is in none of `known`: names of dimensions, or expressions of them.
void check_dims(const std::map<std::string, int64_t>& given, const std::set<std::string>& known);

}  // namespace aotc::cli
