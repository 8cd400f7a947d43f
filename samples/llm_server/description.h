#pragma once
// server.json, which ../llm/export.py writes beside the program: what the artifact does not say of its model.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace llm {

/// The chat template as texts between messages, by the roles beside them (../llm/chat_template.py).
struct ChatTemplate {
  std::map<std::string, std::string> start, between, end;
  bool strip = false;        ///< contents lose the spaces around them
  std::string missing = "";  ///< why there is none; empty: there is one
};

struct Description {
  std::string name;
  int64_t vocabulary = 0, slots = 0, cache = 0, chunk = 0;
  int64_t hidden = 0;              ///< width of the second output; 0: the artifact has none
  int64_t adapters = 0, rank = 0;  ///< LoRA adapters that can be loaded at once, and their largest rank; 0: none
  std::vector<int64_t> ends, prefix;
  ChatTemplate chat;
};

/// Throws std::runtime_error that names the file and the member that is wrong.
Description read_description(const std::string& path);

}  // namespace llm
