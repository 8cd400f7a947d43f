#pragma once
// JSON as untrusted input: strict parsing, and access that says where and what was expected.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostic.h"

namespace aotc::import {

using Json = nlohmann::ordered_json;

/// Refuses (Diagnostic with line and column, or path) syntax errors, depth above 64, duplicate keys, NaN and numbers that no double holds.
/// Integers beyond 64 bits are doubles, which are none where an integer is asked for.
Json parse_json(std::string_view text, const std::string& file);

/// A value with its path, for messages. Cheap to copy; the document must outlive it.
class JsonRef {
 public:
  JsonRef(const Json& value, std::string file) : JsonRef(value, std::make_shared<const std::string>(std::move(file)), "$") {}
  const Json& raw() const { return *value_; }
  const std::string& path() const { return path_; }

  bool has(std::string_view key) const { return value_->is_object() && value_->contains(key) && !value_->at(std::string(key)).is_null(); }
  JsonRef operator[](std::string_view key) const;  ///< must be an object with this key
  JsonRef at(size_t i) const;
  size_t size() const { return array().size(); }
  const Json& array() const;
  const Json& object() const;
  JsonRef member(const std::string& key, const Json& value) const { return {value, file_, path_ + "." + key}; }
  std::optional<JsonRef> member(std::string_view key) const;  ///< of an object, if it has the key
  /// Refuses an object that has others.
  void check_keys(std::initializer_list<std::string_view> known) const;
  std::string text() const;
  int64_t integer() const;
  int64_t nearest_integer() const;  ///< of numbers beyond 64 bits the ends of these
  double number() const;
  bool boolean() const;
  /// The one key of a tagged union ({"as_int": 3}), skipping null members.
  std::pair<std::string, JsonRef> tagged() const;

  [[nodiscard]] Diagnostic fault(std::string message) const { return {Loc{.file = *file_, .path = path_}, std::move(message)}; }

 private:
  [[nodiscard]] Diagnostic expected(const char* what) const;
  JsonRef(const Json& value, std::shared_ptr<const std::string> file, std::string path)
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}
  const Json* value_;
  std::shared_ptr<const std::string> file_;
  std::string path_;
};

}  // namespace aotc::import
