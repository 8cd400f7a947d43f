#include "description.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace llm {

Description read_description(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + ": cannot be opened (samples/llm/export.py writes it)");
  try {
    const nlohmann::json j = nlohmann::json::parse(in);
    Description d;
    j.at("name").get_to(d.name);
    j.at("vocabulary").get_to(d.vocabulary);
    j.at("slots").get_to(d.slots);
    j.at("cache").get_to(d.cache);
    j.at("chunk").get_to(d.chunk);
    j.at("hidden").get_to(d.hidden);
    d.adapters = j.value("adapters", int64_t{0});
    d.rank = j.value("rank", int64_t{0});
    if (d.adapters < 0 || (d.adapters && d.rank < 1)) throw std::runtime_error(path + ": adapters of rank " + std::to_string(d.rank));
    j.at("ends").get_to(d.ends);
    j.at("prefix").get_to(d.prefix);
    const nlohmann::json& chat = j.at("chat");
    if (chat.is_null()) {
      d.chat.missing = j.value("chat_missing", "");
      if (d.chat.missing.empty()) d.chat.missing = "none was exported";
    } else {
      chat.at("start").get_to(d.chat.start);
      chat.at("between").get_to(d.chat.between);
      chat.at("end").get_to(d.chat.end);
      chat.at("strip").get_to(d.chat.strip);
    }
    return d;
  } catch (const nlohmann::json::exception& e) { throw std::runtime_error(path + ": " + e.what()); }
}

}  // namespace llm
