#include "import/json.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace aotc::import {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr double kBeyond = 0x1p63;  ///< no number of 64 bits, or the lowest

/// Builds the document through nlohmann's own builder and adds the refusals.
class StrictSax : public nlohmann::json_sax<Json> {
 public:
  StrictSax(Json& root, std::string_view text, const std::string& file) : dom_(root, false), text_(text), file_(file) {}

  bool null() override { return dom_.null(); }
  bool boolean(bool v) override { return dom_.boolean(v); }
  bool number_integer(int64_t v) override { return dom_.number_integer(v); }
  bool number_unsigned(uint64_t v) override {
    if (v > static_cast<uint64_t>(INT64_MAX)) return dom_.number_float(static_cast<double>(v), std::to_string(v));
    return dom_.number_integer(static_cast<int64_t>(v));
  }
  bool number_float(double v, const std::string& s) override {
    if (!std::isfinite(v)) fail(fmt::format("the number {} does not fit into a double", s));
    return dom_.number_float(v, s);
  }
  bool string(std::string& s) override { return dom_.string(s); }
  bool binary(binary_t& b) override { return dom_.binary(b); }
  bool start_object(size_t n) override {
    push();
    keys_.emplace_back();
    return dom_.start_object(n);
  }
  bool key(std::string& k) override {
    if (!keys_.back().insert(k).second) fail(fmt::format("duplicate key \"{}\"", k));
    return dom_.key(k);
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return dom_.end_object();
  }
  bool start_array(size_t n) override {
    push();
    return dom_.start_array(n);
  }
  bool end_array() override {
    --depth_;
    return dom_.end_array();
  }
  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& e) override {
    std::string_view why = e.what();
    if (const size_t cut = why.find("syntax error"); cut != std::string_view::npos) why = why.substr(cut);
    Diagnostic d(Loc{.file = file_, .path = place(position)}, fmt::format("not JSON: {}", why));
    if (!token.empty()) d.note(fmt::format("near '{}'", token.substr(0, 60)));
    throw d;
  }

 private:
  void push() {
    if (++depth_ > kMaxDepth) fail(fmt::format("JSON nested deeper than {}", kMaxDepth));
  }
  std::string place(size_t position) const {
    const std::string_view before = text_.substr(0, std::min(position, text_.size()));
    const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
    const size_t column = before.size() - (before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1);
    return fmt::format("{}:{}", line, column);
  }
  [[noreturn]] void fail(std::string why) const { throw Diagnostic(Loc{.file = file_}, std::move(why)); }

  nlohmann::detail::json_sax_dom_parser<Json> dom_;
  std::string_view text_;
  const std::string& file_;
  size_t depth_ = 0;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& file) {
  Json root;
  StrictSax sax(root, text, file);
  Json::sax_parse(text.begin(), text.end(), &sax);
  return root;
}

JsonRef JsonRef::operator[](std::string_view key) const {
  const Json& o = object();
  auto it = o.find(key);
  if (it == o.end()) throw fault(fmt::format("missing key \"{}\"", key));
  return {*it, file_, path_ + "." + std::string(key)};
}
std::optional<JsonRef> JsonRef::member(std::string_view key) const {
  if (!object().contains(std::string(key))) return std::nullopt;
  return (*this)[key];
}

void JsonRef::check_keys(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : object().items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string names;
    for (const std::string_view k : known) names += (names.empty() ? "" : ", ") + std::string(k);
    throw member(key, value).fault("unknown key").note("known keys: " + names);
  }
}

JsonRef JsonRef::at(size_t i) const { return {array().at(i), file_, fmt::format("{}[{}]", path_, i)}; }
const Json& JsonRef::array() const {
  if (!value_->is_array()) throw expected("a list");
  return *value_;
}
const Json& JsonRef::object() const {
  if (!value_->is_object()) throw expected("an object");
  return *value_;
}
std::string JsonRef::text() const {
  if (!value_->is_string()) throw expected("a text");
  return value_->get<std::string>();
}
int64_t JsonRef::nearest_integer() const {
  if (!value_->is_number_float() || std::abs(value_->get<double>()) < kBeyond) return integer();
  return value_->get<double>() < 0 ? INT64_MIN : INT64_MAX;
}
int64_t JsonRef::integer() const {
  if (value_->is_number_float() && std::abs(value_->get<double>()) >= kBeyond) throw fault("the number does not fit into 64 bits");
  if (!value_->is_number_integer()) throw expected("an integer");
  return value_->get<int64_t>();
}
double JsonRef::number() const {
  if (value_->is_string()) {  // torch writes the values that JSON lacks as text
    const std::string s = value_->get<std::string>();
    if (s == "Infinity") return HUGE_VAL;
    if (s == "-Infinity") return -HUGE_VAL;
    if (s == "NaN") return std::nan("");
  }
  if (!value_->is_number()) throw expected("a number");
  return value_->get<double>();
}
bool JsonRef::boolean() const {
  if (!value_->is_boolean()) throw expected("true or false");
  return value_->get<bool>();
}
std::pair<std::string, JsonRef> JsonRef::tagged() const {
  const Json* found = nullptr;
  std::string tag;
  for (const auto& [k, v] : object().items()) {
    if (v.is_null()) continue;
    if (found) throw fault(fmt::format("more than one of a union's members: \"{}\" and \"{}\"", tag, k));
    found = &v;
    tag = k;
  }
  if (!found) throw fault("a union without a member");
  return {tag, JsonRef(*found, file_, path_ + "." + tag)};
}
Diagnostic JsonRef::expected(const char* what) const {
  std::string got = value_->dump();
  if (got.size() > 60) got = got.substr(0, 57) + "...";
  return fault(fmt::format("expected {}, found {}", what, got));
}

}  // namespace aotc::import
