#pragma once
// Schemas of a LibTorch's operators as a file, made with aotc. With it a .pt2 is read without loading LibTorch, which takes 0.3 s of
// processor time to make its operators known and to take them down.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/operators.h"

namespace aotc::import {

/// A schema as a line of text without tabs. None where an argument's default has no form in it.
std::optional<std::string> schema_text(const OpSchema& schema);
/// The inverse; none where the text is not of that form.
std::optional<OpSchema> parse_schema(std::string_view text);

struct NamedSchema {
  std::string target;
  OpSchema schema;
};
/// The file's text: what it is of, then a line for each operator whose schema has a text, by target.
std::string operator_table_text(const std::string& aotc_version, const std::string& torch_version, const std::vector<NamedSchema>& schemas);

class OperatorTable {
 public:
  /// Of the text of a file. Empty where that is of another aotc, or of a LibTorch of another version; a release's local part ("+cpu")
  /// does not count.
  OperatorTable(std::string text, const std::string& aotc_version, const std::string& torch_version);
  OperatorTable(const OperatorTable&) = delete;
  OperatorTable& operator=(const OperatorTable&) = delete;

  /// None where the table does not say: LibTorch may still know it.
  std::optional<OpSchema> find(std::string_view target) const;

 private:
  const std::string text_;
  std::vector<std::string_view> lines_;  ///< of text_, in the order of targets
};

}  // namespace aotc::import
