#include "sym/text_reader.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace aotc {

namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)); }
bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

}  // namespace

bool TextReader::next_line() {
  while (!rest_.empty()) {
    const size_t end = rest_.find('\n');
    line_ = rest_.substr(0, end);
    rest_ = end == std::string_view::npos ? std::string_view() : rest_.substr(end + 1);
    ++number_;
    pos_ = token_ = 0;
    if (!at_end()) return true;
  }
  pos_ = token_ = line_.size();
  return false;
}
void TextReader::need_line() {
  if (!next_line()) fail("the text ends too early");
}
bool TextReader::at_end() {
  token();
  return pos_ >= line_.size() || line_[pos_] == '#';
}
void TextReader::end_line() {
  if (!at_end()) fail("unexpected text at the end of the line");
}

void TextReader::fail(const Place& at, std::string_view what) const {
  Loc loc;
  loc.file = std::string(file_);
  loc.path = fmt::format("{}:{}", at.number, at.column + 1);
  throw Diagnostic(std::move(loc), std::string(what)).note("the line is: " + std::string(at.line));
}
void TextReader::fail_whole(std::string_view file, std::string_view what) {
  Loc loc;
  loc.file = std::string(file);
  throw Diagnostic(std::move(loc), std::string(what));
}

void TextReader::token() {
  while (pos_ < line_.size() && is_space(line_[pos_])) ++pos_;
  token_ = pos_;
}
char TextReader::peek() {
  token();
  return pos_ < line_.size() ? line_[pos_] : '\0';
}
bool TextReader::accept(char c) {
  if (peek() != c) return false;
  ++pos_;
  return true;
}
void TextReader::want(char c) {
  if (!accept(c)) fail(fmt::format("expected '{}'", c));
}
bool TextReader::accept_word(std::string_view w) {
  token();
  if (line_.substr(pos_, w.size()) != w) return false;
  const size_t end = pos_ + w.size();
  if (end < line_.size() && is_word_char(line_[end])) return false;
  pos_ = end;
  return true;
}
void TextReader::want_word(std::string_view w) {
  if (!accept_word(w)) fail(fmt::format("expected '{}'", w));
}
std::string_view TextReader::word() {
  token();
  while (pos_ < line_.size() && is_word_char(line_[pos_])) ++pos_;
  if (pos_ == token_) fail("expected a name");
  return line_.substr(token_, pos_ - token_);
}
std::string TextReader::string() {
  token();
  if (peek() != '"') fail("expected a \"string\"");
  std::string s;
  for (++pos_; pos_ < line_.size() && line_[pos_] != '"'; ++pos_) {
    if (line_[pos_] == '\\' && pos_ + 1 < line_.size()) {
      ++pos_;
      s += line_[pos_] == 'n' ? '\n' : line_[pos_];
    } else {
      s += line_[pos_];
    }
  }
  if (pos_ >= line_.size()) fail("the string does not end");
  ++pos_;
  return s;
}
std::string TextReader::word_or_string() { return peek() == '"' ? string() : std::string(word()); }

std::string_view TextReader::chunk() {
  token();
  int depth = 0;
  for (; pos_ < line_.size(); ++pos_) {
    const char c = line_[pos_];
    if (depth == 0 && (c == ',' || c == ')' || c == ']' || c == '}' || c == '"')) break;
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
  }
  size_t end = pos_;
  while (end > token_ && is_space(line_[end - 1])) --end;
  if (end == token_) fail("expected an expression");
  return line_.substr(token_, end - token_);
}

int64_t TextReader::integer(int64_t min, int64_t max) {
  token();
  const char* const last = line_.data() + line_.size();
  int64_t v = 0;
  const auto [end, error] = std::from_chars(line_.data() + pos_, last, v);
  if (error == std::errc::result_out_of_range) fail("the number is too large");
  if (error != std::errc() || (end != last && is_word_char(*end))) fail("expected an integer");
  if (v < min || v > max) fail(max == INT64_MAX ? fmt::format("expected at least {}", min) : fmt::format("expected {} to {}", min, max));
  pos_ = static_cast<size_t>(end - line_.data());
  return v;
}
int64_t TextReader::bound() { return accept_word("inf") ? kInf : integer(); }

double TextReader::real() {
  token();
  while (pos_ < line_.size() && (is_word_char(line_[pos_]) || line_[pos_] == '-' || line_[pos_] == '+')) ++pos_;
  const std::string s(line_.substr(token_, pos_ - token_));
  char* end = nullptr;
  const double v = std::strtod(s.c_str(), &end);
  if (s.empty() || end != s.c_str() + s.size()) fail("expected a number");
  return v;
}
bool TextReader::boolean() {
  if (accept_word("true")) return true;
  if (accept_word("false")) return false;
  fail("expected true or false");
}

Expr TextReader::expr(const SymTable& syms) {
  const std::string_view text = chunk();
  try {
    return parse_expr(text, syms);
  } catch (const Diagnostic& d) { fail(d.message()); } catch (const InternalError& e) {  // numbers that overflow
    fail(e.what());
  }
}

SymInfo TextReader::symbol(const SymTable& syms) {
  SymInfo s;
  s.name = std::string(word());
  if (std::isdigit(static_cast<unsigned char>(s.name[0]))) fail("a symbol's name does not start with a digit");
  if (syms.find(s.name)) fail(fmt::format("symbol {} is defined twice", s.name));
  constexpr int64_t kMost = int64_t{1} << 48;
  if (accept('[')) {
    s.min = integer(-kMost, kMost);
    want(',');
    s.max = accept_word("inf") ? kInf : integer(-kMost, kMost);
    if (s.max < s.min) fail("the range is empty");
    want(']');
  }
  if (accept_word("multiple_of")) s.multiple_of = integer(1, kMost);
  if (accept_word("tune")) s.tune = list([&] { return integer(-kMost, kMost); });
  return s;
}

std::string quoted_text(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}
std::string list_text(const std::vector<int64_t>& v) { return fmt::format("[{}]", fmt::join(v, ", ")); }
std::string list_text(const std::vector<Expr>& v, const SymTable& syms) {
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + v[i].str(syms);
  return s + "]";
}
std::string bound_text(int64_t v) { return v == kInf ? "inf" : fmt::format("{}", v); }
std::string real_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  std::string s = fmt::format("{}", v);
  if (s.find_first_of(".en") == std::string::npos) s += ".0";
  return s;
}
std::string symbol_text(const SymInfo& s) {
  std::string text = fmt::format("sym {} [{}, {}]", s.name, s.min, bound_text(s.max));
  if (s.multiple_of != 1) text += fmt::format(" multiple_of {}", s.multiple_of);
  if (!s.tune.empty()) text += " tune " + list_text(s.tune);
  return text;
}

}  // namespace aotc
