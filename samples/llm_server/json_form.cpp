#include "json_form.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace llm {

namespace {

using Json = nlohmann::ordered_json;
using Id = Grammar::Id;

constexpr int64_t kDigits = 15;  // that every reader of JSON keeps
constexpr int64_t kMostCount = 1 << 30;
constexpr size_t kMostNodes = 200000;
constexpr int kMostDepth = 100;

[[noreturn]] void wrong(const std::string& path, const std::string& what) { throw SchemaError(path + ": " + what); }

std::string text_of(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string member_path(const std::string& path, const std::string& name) {
  const bool plain =
      !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '$'; });
  return plain ? path + "." + name : path + "[" + text_of(Json(name)) + "]";
}
std::string item_path(const std::string& path, size_t i) { return path + "[" + std::to_string(i) + "]"; }

/// What texts of JSON are made of.
class Pieces {
 public:
  explicit Pieces(Grammar& grammar) : g(grammar) {
    const Id blank = g.bytes(of(" \t"));
    space = g.optional(g.choice({g.text(" "), g.sequence({g.text("\n"), g.repeat(blank, 0, 24)})}));
    digit = g.bytes(range('0', '9'));
    first_digit = g.bytes(range('1', '9'));
    fraction = g.sequence({g.text("."), g.repeat(digit, 1, kDigits)});
    whole = g.choice({g.text("0"), g.sequence({first_digit, g.repeat(digit, 0, kDigits - 1)})});
    const Id exponent = g.sequence({g.bytes(of("eE")), g.optional(g.bytes(of("+-"))), g.repeat(digit, 1, 2)});
    integer = g.sequence({g.optional(g.text("-")), whole});
    number = g.sequence({integer, g.optional(fraction), g.optional(exponent)});
    boolean = g.choice({g.text("true"), g.text("false")});
    null = g.text("null");
    character = make_character();
    comma = g.sequence({g.text(","), space});
    any = g.rule();
    object = map_of(any);
    g.define(any, g.choice({object, list(g.repeat(item(any), 0, -1), any), string(0, -1), number, boolean, null}));
  }

  static Grammar::Bytes range(int first, int last) {
    Grammar::Bytes b;
    for (int i = first; i <= last; ++i) b.set(static_cast<size_t>(i));
    return b;
  }
  static Grammar::Bytes of(const char* all) {
    Grammar::Bytes b;
    for (; *all; ++all) b.set(static_cast<unsigned char>(*all));
    return b;
  }

  Id string(int64_t least, int64_t most) { return g.sequence({g.text("\""), g.repeat(character, least, most), g.text("\"")}); }
  /// Another item after one.
  Id item(Id value) { return g.sequence({comma, value}); }
  /// Items: the first, and what may follow it; or none.
  Id list(Id more, Id first) { return bracketed("[", g.optional(g.sequence({first, more})), "]"); }
  Id bracketed(const char* open, Id content, const char* close) { return g.sequence({g.text(open), space, content, space, g.text(close)}); }
  Id member(Id key, Id value) { return g.sequence({key, g.text(":"), space, value}); }
  Id map_of(Id value) {
    const Id one = member(string(0, -1), value);
    return bracketed("{", g.optional(g.sequence({one, g.repeat(item(one), 0, -1)})), "}");
  }

  Grammar& g;
  Id space, digit, first_digit, fraction, whole, integer, number, boolean, null, character, comma, any, object;

 private:
  /// UTF-8 without what JSON escapes, or an escape; half a pair of \u is none.
  Id make_character() {
    const Id more = g.bytes(range(0x80, 0xbf));
    Grammar::Bytes plain = range(0x20, 0x7f);
    plain.reset('"'), plain.reset('\\');
    const Id hex = g.bytes(of("0123456789abcdefABCDEF"));
    const Id unpaired = g.choice({g.sequence({g.bytes(of("0123456789abcefABCEF")), hex, hex, hex}),
                                  g.sequence({g.bytes(of("dD")), g.bytes(range('0', '7')), hex, hex})});
    const Id pair = g.sequence(
        {g.bytes(of("dD")), g.bytes(of("89abAB")), hex, hex, g.text("\\u"), g.bytes(of("dD")), g.bytes(of("cdefCDEF")), hex, hex});
    const auto long_one = [&](int first, int last, int second, int until, int rest) {
      std::vector<Id> parts{g.bytes(range(first, last)), g.bytes(range(second, until))};
      parts.insert(parts.end(), static_cast<size_t>(rest), more);
      return g.sequence(std::move(parts));
    };
    return g.choice({g.bytes(plain), long_one(0xc2, 0xdf, 0x80, 0xbf, 0), long_one(0xe0, 0xe0, 0xa0, 0xbf, 1),
                     long_one(0xe1, 0xec, 0x80, 0xbf, 1), long_one(0xed, 0xed, 0x80, 0x9f, 1), long_one(0xee, 0xef, 0x80, 0xbf, 1),
                     long_one(0xf0, 0xf0, 0x90, 0xbf, 2), long_one(0xf1, 0xf3, 0x80, 0xbf, 2), long_one(0xf4, 0xf4, 0x80, 0x8f, 2),
                     g.sequence({g.text("\\"), g.bytes(of("\"\\/bfnrt"))}), g.sequence({g.text("\\u"), g.choice({unpaired, pair})})});
  }
};

/// Decimal numbers of a range.
class Range {
 public:
  explicit Range(Pieces& p) : p_(p), g_(p.g) {}

  /// Whole numbers from 0 <= least to most, without leading zeros.
  Id between(int64_t least, int64_t most) {
    std::vector<Id> parts;
    for (int64_t from = least; from <= most;) {
      const std::string a = std::to_string(from);
      const int64_t end = std::min(most, power(a.size()) - 1);
      parts.push_back(same_length(a, std::to_string(end)));
      from = end + 1;
    }
    return g_.choice(std::move(parts));
  }

 private:
  static int64_t power(size_t n) {
    int64_t x = 1;
    while (n-- > 0) x *= 10;
    return x;
  }
  Id digits(size_t n) { return g_.repeat(p_.digit, static_cast<int64_t>(n), static_cast<int64_t>(n)); }
  Id between_digits(char a, char b) { return g_.bytes(Pieces::range(a, b)); }
  /// Texts of digits from a to b, as long as both.
  Id same_length(const std::string& a, const std::string& b) {
    size_t same = 0;
    while (same < a.size() && a[same] == b[same]) ++same;
    if (same == a.size()) return g_.text(a);
    const std::string rest_a = a.substr(same + 1), rest_b = b.substr(same + 1);
    std::vector<Id> parts{g_.sequence({between_digits(a[same], a[same]), from(rest_a)}),
                          g_.sequence({between_digits(b[same], b[same]), to(rest_b)})};
    if (a[same] + 1 < b[same])
      parts.push_back(g_.sequence({between_digits(static_cast<char>(a[same] + 1), static_cast<char>(b[same] - 1)), digits(rest_a.size())}));
    return g_.sequence({g_.text(a.substr(0, same)), g_.choice(std::move(parts))});
  }
  /// Digits not less than a's.
  Id from(const std::string& a) {
    if (a.empty()) return g_.text("");
    std::vector<Id> parts{g_.sequence({g_.text(a.substr(0, 1)), from(a.substr(1))})};
    if (a[0] < '9') parts.push_back(g_.sequence({between_digits(static_cast<char>(a[0] + 1), '9'), digits(a.size() - 1)}));
    return g_.choice(std::move(parts));
  }
  Id to(const std::string& b) {
    if (b.empty()) return g_.text("");
    std::vector<Id> parts{g_.sequence({g_.text(b.substr(0, 1)), to(b.substr(1))})};
    if (b[0] > '0') parts.push_back(g_.sequence({between_digits('0', static_cast<char>(b[0] - 1)), digits(b.size() - 1)}));
    return g_.choice(std::move(parts));
  }

  Pieces& p_;
  Grammar& g_;
};

/// Keywords of each kind of value; a schema without `type` is of the kinds that its keywords speak of.
struct Kind {
  const char* type;
  std::vector<std::string> keywords;
};
const std::vector<Kind> kKinds = {{"object", {"properties", "required", "additionalProperties"}},
                                  {"array", {"items", "prefixItems", "minItems", "maxItems"}},
                                  {"string", {"minLength", "maxLength"}},
                                  {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
                                  {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
                                  {"boolean", {}},
                                  {"null", {}}};
/// What says nothing of a value.
const std::vector<std::string> kNotes = {"title",   "description", "default",    "examples", "example",   "$schema", "$id",
                                         "$anchor", "$comment",    "deprecated", "readOnly", "writeOnly", "$defs",   "definitions"};

bool among(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

class Builder {
 public:
  Builder(Grammar& g, const Json& root, std::string path) : g_(g), p_(g), root_(root), path_(std::move(path)) {}
  Id build() { return schema(root_, path_, 0); }

 private:
  Id nothing() { return g_.choice({}); }

  Id schema(const Json& s, const std::string& path, int depth) {
    if (depth > kMostDepth) wrong(path, "schemas lie within each other more than " + std::to_string(kMostDepth) + " deep");
    if (g_.size() > kMostNodes) wrong(path, "the schema is too large");
    if (s.is_boolean()) return s.get<bool>() ? p_.any : nothing();
    if (!s.is_object()) wrong(path, "expected a schema: an object, true or false");
    if (s.contains("$ref")) return alone(s, "$ref", {}, path), reference(s["$ref"], path + ".$ref", depth);
    for (const char* name : {"anyOf", "allOf"})
      if (s.contains(name)) return alone(s, name, {}, path), combined(s[name], name, path + "." + name, depth);
    if (s.contains("const")) return alone(s, "const", {"type", "enum"}, path), values(s, Json::array({s["const"]}), path + ".const");
    if (s.contains("enum")) {
      alone(s, "enum", {"type"}, path);
      if (!s["enum"].is_array()) wrong(path + ".enum", "expected a list of values");
      return values(s, s["enum"], path + ".enum");
    }
    std::vector<std::string> types = types_of(s, path);
    std::vector<Id> parts;
    for (const std::string& t : types) parts.push_back(of_type(t, s, path, depth));
    return g_.choice(std::move(parts));
  }

  /// Refuses keywords beside `name` that are not in `known`.
  static void alone(const Json& s, const std::string& name, const std::vector<std::string>& known, const std::string& path) {
    for (const auto& [key, value] : s.items())
      if (key != name && !among(known, key) && !among(kNotes, key)) wrong(member_path(path, key), "is not supported beside " + name);
  }

  static std::vector<std::string> types_of(const Json& s, const std::string& path) {
    const auto known = [](const std::string& name) {
      return std::any_of(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return name == k.type; });
    };
    std::vector<std::string> types;
    if (const auto it = s.find("type"); it != s.end()) {
      for (const Json& t : it->is_array() ? *it : Json::array({*it})) {
        if (!t.is_string() || !known(t.get<std::string>())) wrong(path + ".type", text_of(t) + " is no type");
        types.push_back(t.get<std::string>());
      }
      if (among(types, "number")) types.erase(std::remove(types.begin(), types.end(), "integer"), types.end());
    }
    std::vector<std::string> implied;
    for (const auto& [key, value] : s.items()) {
      if (key == "type" || among(kNotes, key)) continue;
      if (key == "uniqueItems" && value == false) continue;
      bool any = false;
      for (const Kind& k : kKinds)
        if (among(k.keywords, key)) {
          any = true;
          if (!among(implied, k.type) && std::string(k.type) != "integer") implied.emplace_back(k.type);
        }
      if (!any) wrong(member_path(path, key), "is not supported");
    }
    if (s.contains("type")) return types;
    if (!implied.empty()) return implied;
    return {"object", "array", "string", "number", "boolean", "null"};
  }

  Id of_type(const std::string& type, const Json& s, const std::string& path, int depth) {
    if (type == "object") return object(s, path, depth);
    if (type == "array") return array(s, path, depth);
    if (type == "string") {
      const int64_t least = count(s, "minLength", 0, path), most = count(s, "maxLength", -1, path);
      return most >= 0 && most < least ? nothing() : p_.string(least, most);
    }
    if (type == "boolean") return p_.boolean;
    if (type == "null") return p_.null;
    return number(s, path, type == "integer");
  }

  static int64_t count(const Json& s, const char* name, int64_t otherwise, const std::string& path) {
    const auto it = s.find(name);
    if (it == s.end()) return otherwise;
    if (!it->is_number() || it->get<double>() < 0 || it->get<double>() != std::floor(it->get<double>()))
      wrong(path + "." + name, "expected an integer from 0 on");
    return static_cast<int64_t>(std::min(it->get<double>(), static_cast<double>(kMostCount)));
  }

  Id values(const Json& s, const Json& list, const std::string& path) {
    std::vector<Id> parts;
    const auto fits = [&](const Json& v) {
      if (s.contains("enum") && s["enum"].is_array() && std::find(s["enum"].begin(), s["enum"].end(), v) == s["enum"].end()) return false;
      if (!s.contains("type")) return true;
      for (const Json& t : s["type"].is_array() ? s["type"] : Json::array({s["type"]})) {
        const bool whole = v.is_number() && v.get<double>() == std::floor(v.get<double>());
        if ((t == "object" && v.is_object()) || (t == "array" && v.is_array()) || (t == "string" && v.is_string()) ||
            (t == "number" && v.is_number()) || (t == "integer" && whole) || (t == "boolean" && v.is_boolean()) ||
            (t == "null" && v.is_null()))
          return true;
      }
      return false;
    };
    if (s.contains("type")) (void)types_of(Json{{"type", s["type"]}}, path.substr(0, path.rfind('.')));
    for (const Json& v : list)
      if (fits(v)) parts.push_back(g_.text(text_of(v)));
    return g_.choice(std::move(parts));
  }

  Id combined(const Json& list, const std::string& name, const std::string& path, int depth) {
    if (!list.is_array() || list.empty()) wrong(path, "expected a list of schemas");
    if (name == "allOf" && list.size() > 1) wrong(path, "is not supported for more than one schema");
    std::vector<Id> parts;
    for (size_t i = 0; i < list.size(); ++i) parts.push_back(schema(list[i], item_path(path, i), depth + 1));
    return g_.choice(std::move(parts));
  }

  Id reference(const Json& ref, const std::string& path, int depth) {
    if (!ref.is_string()) wrong(path, "expected a text");
    const std::string& to = ref.get_ref<const std::string&>();
    if (to.empty() || to[0] != '#') wrong(path, "only references within the schema are supported (#/$defs/name), not " + text_of(ref));
    if (const auto it = rules_.find(to); it != rules_.end()) return it->second;
    const Json* target = nullptr;
    try {
      target = &root_.at(Json::json_pointer(unescaped(to.substr(1))));
    } catch (const Json::exception&) { wrong(path, "there is nothing at " + text_of(ref)); }
    const Id rule = rules_[to] = g_.rule();
    g_.define(rule, schema(*target, path, depth + 1));
    return rule;
  }

  /// %20 and the like.
  static std::string unescaped(const std::string& pointer) {
    std::string out;
    for (size_t i = 0; i < pointer.size(); ++i) {
      const bool escape = pointer[i] == '%' && i + 2 < pointer.size() && std::isxdigit(static_cast<unsigned char>(pointer[i + 1])) &&
                          std::isxdigit(static_cast<unsigned char>(pointer[i + 2]));
      out += escape ? static_cast<char>(std::stoi(pointer.substr(i + 1, 2), nullptr, 16)) : pointer[i];
      if (escape) i += 2;
    }
    return out;
  }

  Id object(const Json& s, const std::string& path, int depth) {
    struct Member {
      std::string name;
      Id value;
      bool required;
    };
    constexpr size_t kMostMembers = 1000;
    std::vector<Member> members;
    std::vector<std::string> required;
    if (const auto it = s.find("required"); it != s.end()) {
      if (!it->is_array()) wrong(path + ".required", "expected a list of names");
      for (const Json& name : *it) {
        if (!name.is_string()) wrong(path + ".required", "expected a list of names");
        if (!among(required, name.get<std::string>())) required.push_back(name.get<std::string>());
      }
    }
    if (const auto it = s.find("properties"); it != s.end()) {
      if (!it->is_object()) wrong(path + ".properties", "expected an object of schemas");
      for (const auto& [name, each] : it->items())
        members.push_back({name, schema(each, member_path(path + ".properties", name), depth + 1), among(required, name)});
    }
    const auto more = s.find("additionalProperties");
    const Id other = more == s.end() ? p_.any : schema(*more, path + ".additionalProperties", depth + 1);
    for (const std::string& name : required)
      if (std::none_of(members.begin(), members.end(), [&](const Member& m) { return m.name == name; }))
        members.push_back({name, other, true});
    if (members.size() > kMostMembers) wrong(path + ".properties", "has more than " + std::to_string(kMostMembers) + " members");
    if (members.empty()) return more != s.end() && *more == false ? p_.bracketed("{", g_.text(""), "}") : p_.map_of(other);
    // What may follow from each member on, behind another one and behind none.
    Id behind = g_.text(""), first = behind;
    for (size_t i = members.size(); i-- > 0;) {
      const Id one = p_.member(g_.text(text_of(Json(members[i].name))), members[i].value);
      const Id then = g_.sequence({p_.comma, one, behind}), begins = g_.sequence({one, behind});
      behind = members[i].required ? then : g_.choice({then, behind});
      first = members[i].required ? begins : g_.choice({begins, first});
    }
    return p_.bracketed("{", first, "}");
  }

  Id array(const Json& s, const std::string& path, int depth) {
    const int64_t least = count(s, "minItems", 0, path), most = count(s, "maxItems", -1, path);
    if (most >= 0 && most < least) return nothing();
    std::vector<Id> fixed;
    if (const auto it = s.find("prefixItems"); it != s.end()) {
      if (!it->is_array()) wrong(path + ".prefixItems", "expected a list of schemas");
      for (size_t i = 0; i < it->size(); ++i) fixed.push_back(schema((*it)[i], item_path(path + ".prefixItems", i), depth + 1));
    }
    const Id other = s.contains("items") ? schema(s["items"], path + ".items", depth + 1) : p_.any;
    const auto n = static_cast<int64_t>(fixed.size());
    const auto value = [&](int64_t i) { return i < n ? fixed[static_cast<size_t>(i)] : other; };
    // From the end: what may follow i items.
    const int64_t begin = std::max<int64_t>(n, 1);
    Id follows = most >= 0 && most <= begin ? (least > begin ? nothing() : g_.text(""))
                                            : g_.repeat(p_.item(other), std::max<int64_t>(0, least - begin), most < 0 ? -1 : most - begin);
    for (int64_t i = begin - 1; i >= 1; --i) {
      const Id one_more = g_.sequence({p_.item(value(i)), follows});
      follows = most >= 0 && i >= most ? g_.text("") : i < least ? one_more : g_.optional(one_more);
    }
    const Id some = g_.sequence({value(0), follows});
    return p_.bracketed("[", most == 0 ? g_.text("") : least > 0 ? some : g_.optional(some), "]");
  }

  Id number(const Json& s, const std::string& path, bool integer) {
    double least = -HUGE_VAL, most = HUGE_VAL;  // whole numbers
    bool bounded = false;
    for (const auto& [name, lower, open] : {std::tuple("minimum", true, false), std::tuple("exclusiveMinimum", true, true),
                                            std::tuple("maximum", false, false), std::tuple("exclusiveMaximum", false, true)}) {
      const auto it = s.find(name);
      if (it == s.end()) continue;
      if (!it->is_number()) wrong(path + "." + name, "expected a number");
      const double x = it->get<double>();
      bounded = true;
      if (lower)
        least = std::max(least, open ? std::floor(x) + 1 : std::ceil(x));
      else
        most = std::min(most, open ? std::ceil(x) - 1 : std::floor(x));
    }
    if (!bounded) return integer ? p_.integer : p_.number;
    constexpr double kLimit = 999999999999999.0;  // kDigits of them
    least = std::max(least, -kLimit), most = std::min(most, kLimit);
    if (least > most) {
      if (integer) return nothing();
      wrong(path, "a range of numbers that holds no integer is not supported");
    }
    const auto whole = [](double x) { return static_cast<int64_t>(x); };
    Range ranges(p_);
    // From a to b, of one sign; between them with a fraction, too.
    const auto of_sign = [&](int64_t a, int64_t b) {
      if (integer) return ranges.between(a, b);
      std::vector<Id> parts{ranges.between(b, b)};
      if (a < b) parts.push_back(g_.sequence({ranges.between(a, b - 1), g_.optional(p_.fraction)}));
      return g_.choice(std::move(parts));
    };
    std::vector<Id> parts;
    if (most >= 0) parts.push_back(of_sign(whole(std::max(least, 0.0)), whole(most)));
    if (least < 0) {
      const int64_t a = most < 0 ? whole(-most) : integer ? 1 : 0;
      if (a <= whole(-least)) parts.push_back(g_.sequence({g_.text("-"), of_sign(a, whole(-least))}));
    }
    return g_.choice(std::move(parts));
  }

  Grammar& g_;
  Pieces p_;
  const Json& root_;
  std::string path_;
  std::map<std::string, Id> rules_;
};

}  // namespace

std::pair<Grammar, Grammar::Id> json_grammar(const Json& schema, const std::string& path) {
  Grammar g;
  const Id root = Builder(g, schema, path).build();
  if (!g.prune(root)) wrong(path, "no value is valid by this schema");
  return {std::move(g), root};
}

std::shared_ptr<Constraint> Forms::of(const Json& schema, const std::string& path) {
  const std::string text = text_of(schema);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = std::find_if(kept_.begin(), kept_.end(), [&](const auto& k) { return k.first == text; });
  if (it != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, it);
    return kept_.front().second;
  }
  auto [grammar, root] = json_grammar(schema, path);
  kept_.emplace_front(text, std::make_shared<Constraint>(std::move(grammar), root, vocabulary_));
  if (kept_.size() > kKept) kept_.pop_back();
  return kept_.front().second;
}

}  // namespace llm
