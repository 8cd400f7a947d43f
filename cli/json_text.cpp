#include "json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace aotc::cli {

std::string json_text(const nlohmann::json& j) { return j.dump(1, ' ', false, nlohmann::json::error_handler_t::replace); }

void print_json(const nlohmann::json& j) { fmt::print("{}\n", json_text(j)); }

}  // namespace aotc::cli
