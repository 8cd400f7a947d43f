#pragma once
// A value of tokenizer.json with its JSON path, which every refusal names.
#include "json.h"

namespace tok {

class Field {
 public:
  Field(const Json& j, std::string path) : j_(j), path_(std::move(path)) {}

  const Json& json() const { return j_; }
  const std::string& path() const { return path_; }
  bool is_null() const { return j_.kind == Json::Kind::null; }
  Field operator[](std::string_view name) const { return {j_[name], path_.empty() ? std::string(name) : path_ + "." + std::string(name)}; }
  std::vector<Field> list() const {
    want(Json::Kind::list, "a list");
    std::vector<Field> out;
    for (size_t i = 0; i < j_.list.size(); ++i) out.emplace_back(j_.list[i], path_ + "[" + std::to_string(i) + "]");
    return out;
  }
  const std::string& text() const { return want(Json::Kind::text, "a text").text; }
  bool flag(bool otherwise) const { return is_null() ? otherwise : want(Json::Kind::boolean, "true or false").number != 0; }
  /// An integer from 0 to `most`.
  int64_t count(int64_t most) const {
    const double x = want(Json::Kind::number, "an integer").number;
    if (!(x >= 0 && x <= static_cast<double>(most)) || x != static_cast<double>(static_cast<int64_t>(x)))
      wrong("expected an integer from 0 to " + std::to_string(most));
    return static_cast<int64_t>(x);
  }
  /// One character: its code point.
  uint32_t character() const {
    size_t n = 0;
    const uint32_t c = text().empty() ? 0 : code_at(j_.text, 0, &n);
    if (n == 0 || n != j_.text.size()) wrong("expected one character");
    return c;
  }
  [[noreturn]] void wrong(const std::string& what) const { throw std::runtime_error(path_ + ": " + what); }
  /// That this value's `type` is none of the known ones, which are rows of a table with their names first.
  template <class Table>
  [[noreturn]] void unknown_type(const Table& table) const {
    std::string known;
    for (const auto& row : table) known += (known.empty() ? "" : ", ") + std::string(row.type);
    const Json& type = j_["type"];
    throw std::runtime_error(path_ + ".type: " + (type.text.empty() ? "there is none" : type.text + " is not supported") +
                             "; known: " + known);
  }

  /// Of a step, or a "Sequence" of steps in `member`: take(step, row) for each, with its row of a table as above. Of null: none.
  template <class Table, class Take>
  void each_step(const Table& table, const char* member, const Take& take, int depth = 0) const {
    if (is_null()) return;
    const std::string& type = (*this)["type"].json().text;
    if (type == "Sequence") {
      if (depth == 16) wrong("too deep");
      for (const Field& each : (*this)[member].list()) each.each_step(table, member, take, depth + 1);
      return;
    }
    for (const auto& row : table)
      if (row.type == type) return take(*this, row);
    unknown_type(table);
  }

 private:
  const Json& want(Json::Kind kind, const char* what) const {
    if (j_.kind != kind) wrong(std::string("expected ") + what);
    return j_;
  }
  const Json& j_;
  std::string path_;
};

/// A token id of a file; ids beyond it would be made room for.
constexpr int64_t kMostId = (1 << 24) - 1;

}  // namespace tok
