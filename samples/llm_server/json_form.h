#pragma once
// JSON schemas as grammars: response_format of OpenAI's API.
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "grammar.h"

namespace llm {

/// A schema that cannot be held to: the message begins with the JSON path of what is wrong.
struct SchemaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The grammar of texts that are valid by a schema, and its root. Not of all of them: members come in the order of `properties` and none
/// beside them where there are some, a number has 15 digits before and after its point at most, and spaces are a model's usual ones. `path`
/// begins the paths of messages. Throws SchemaError for keywords that are not supported.
std::pair<Grammar, Grammar::Id> json_grammar(const nlohmann::ordered_json& schema, const std::string& path);

/// Constraints by their schemas: the latest are kept, with what they learned of the vocabulary.
class Forms {
 public:
  explicit Forms(std::vector<std::string> bytes_of_token) : vocabulary_(std::make_shared<Vocabulary>(std::move(bytes_of_token))) {}
  /// Any thread. Throws SchemaError.
  std::shared_ptr<Constraint> of(const nlohmann::ordered_json& schema, const std::string& path);

 private:
  static constexpr size_t kKept = 8;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<Constraint>>> kept_;  ///< the latest first
};

}  // namespace llm
