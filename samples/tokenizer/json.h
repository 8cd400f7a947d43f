#pragma once
// Reads JSON: what a tokenizer.json needs, no more.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "utf8.h"

namespace tok {

/// A value. Members of an object keep their order; a missing one is null.
struct Json {
  enum class Kind { null, boolean, number, text, list, object } kind = Kind::null;
  double number = 0;  ///< booleans too
  std::string text;
  std::vector<Json> list;
  std::vector<std::pair<std::string, Json>> members;

  const Json& operator[](std::string_view name) const {
    static const Json kNull;
    for (const auto& [key, value] : members)
      if (key == name) return value;
    return kNull;
  }
  bool flag(bool otherwise) const { return kind == Kind::boolean ? number != 0 : otherwise; }
};

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}
  Json read() {
    Json v = value(0);
    if (peek() != '\0') fail("text after the end");
    return v;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw std::runtime_error("JSON, byte " + std::to_string(at_) + ": " + what); }
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) { return peek() == c ? ++at_, true : false; }
  void want(char c) {
    if (!accept(c)) fail(std::string("expected ") + c);
  }
  bool word(std::string_view w) { return text_.substr(at_, w.size()) == w ? at_ += w.size(), true : false; }

  Json value(int depth) {
    if (depth > 64) fail("too deep");
    Json v;
    const char c = peek();
    if (c == '{') {
      ++at_;
      v.kind = Json::Kind::object;
      if (accept('}')) return v;
      do {
        if (peek() != '"') fail("expected a name");
        std::string key = string();
        want(':');
        v.members.emplace_back(std::move(key), value(depth + 1));
      } while (accept(','));
      want('}');
    } else if (c == '[') {
      ++at_;
      v.kind = Json::Kind::list;
      if (accept(']')) return v;
      do v.list.push_back(value(depth + 1));
      while (accept(','));
      want(']');
    } else if (c == '"') {
      v.kind = Json::Kind::text;
      v.text = string();
    } else if (word("true") || word("false")) {
      v.kind = Json::Kind::boolean;
      v.number = text_[at_ - 2] == 'u';
    } else if (!word("null")) {
      const size_t end = text_.find_first_not_of("+-.0123456789eE", at_);
      const std::string digits(text_.substr(at_, end == std::string_view::npos ? end : end - at_));
      if (digits.empty()) fail("expected a value");
      v.kind = Json::Kind::number;
      v.number = std::strtod(digits.c_str(), nullptr);
      at_ += digits.size();
    }
    return v;
  }

  uint32_t four_digits() {
    uint32_t c = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char d = at_ < text_.size() ? text_[at_] : '\0';
      const int v = d >= '0' && d <= '9' ? d - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10 : d >= 'A' && d <= 'F' ? d - 'A' + 10 : -1;
      if (v < 0) fail("expected four hexadecimal digits");
      c = c * 16 + static_cast<uint32_t>(v);
    }
    return c;
  }

  std::string string() {
    std::string s;
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      if (text_[at_] != '\\') {
        const size_t end = std::min(text_.find_first_of("\"\\", at_), text_.size());
        s += text_.substr(at_, end - at_);
        at_ = end;
        continue;
      }
      const char c = ++at_ < text_.size() ? text_[at_++] : '\0';
      constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
      if (const size_t i = kFrom.find(c); i != std::string_view::npos) {
        s += kTo[i];
      } else if (c == 'u') {
        uint32_t code = four_digits();
        if (code >= 0xd800 && code < 0xdc00 && word("\\u")) {
          const uint32_t low = four_digits();
          if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        } else if (code >= 0xd800 && code < 0xe000) {
          fail("half of a surrogate pair");
        }
        append_utf8(s, code);
      } else {
        fail("unknown escape");
      }
    }
    if (at_++ >= text_.size()) fail("a string has no end");
    for (size_t i = 0, n; i < s.size(); i += n)
      if (code_at(s, i, &n) == 0xfffd && s.compare(i, n, "\xef\xbf\xbd") != 0) fail("a string that is no UTF-8 ends here");
    return s;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace tok
