#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace aotc::cli {

/// Indented. Bytes that are no UTF-8, as paths may hold, become U+FFFD.
std::string json_text(const nlohmann::json& j);
/// On stdout, with a line end. Throws std::system_error where that cannot be written.
void print_json(const nlohmann::json& j);

}  // namespace aotc::cli
