#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace aotc::cli {

/// Parses "batch=8", of --dim. Throws Diagnostic (usage).
std::map<std::string, int64_t> parse_dims(const std::vector<std::string>& args);

}  // namespace aotc::cli
