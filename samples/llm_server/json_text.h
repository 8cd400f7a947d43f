#pragma once
// JSON of somebody else's.
#include <nlohmann/json.hpp>
#include <utility>

namespace llm {

/// The value of a text or a stream; discarded (is_discarded()) where that is no JSON. What lies more than `depth` deep is left out, and
/// *deeper, which may be null, says so: to print or to copy it would take as deep a stack.
template <class Input>
nlohmann::json parse_json(Input&& input, int depth, bool* deeper = nullptr) {
  bool deep = false;
  auto json = nlohmann::json::parse(
      std::forward<Input>(input),
      [&](int at, nlohmann::json::parse_event_t, nlohmann::json&) {
        deep = deep || at > depth;
        return at <= depth;
      },
      false);
  if (deeper) *deeper = deep;
  return json;
}

}  // namespace llm
