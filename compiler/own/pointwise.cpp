#include "own/pointwise.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/diagnostic.h"

namespace aotc::own {
namespace {

using Kind = Part::Kind;

struct Alias {
  std::string_view name;
  Op op;
};
constexpr Alias kAliases[] = {{"min", Op::minimum}, {"max", Op::maximum}, {"fmin", Op::minimum}, {"fmax", Op::maximum}, {"fabs", Op::abs}};

size_t arity_of(Op op) { return op_class(op) == OpClass::unary ? 1 : op_class(op) == OpClass::binary ? 2 : 3; }

/// The core operator that a function of expressions is.
std::optional<Op> function_of(std::string_view name) {
  for (const Alias& a : kAliases)
    if (a.name == name) return a.op;
  const std::optional<Op> op = parse_op(name);
  const bool hidden = op && (*op == Op::cast || *op == Op::bitcast || *op == Op::philox);
  return op && is_pointwise(*op) && !hidden ? op : std::nullopt;
}

struct Sign {
  std::string_view text;
  Kind kind;
  Op op;
};
using Level = std::initializer_list<Sign>;

class Parser {
 public:
  Parser(std::string_view text, const std::string& file, const std::string& path) : text_(text), file_(file), path_(path) {}

  Pointwise parse() {
    Pointwise p{std::string(text_), path_, {}};
    for (;;) {
      const size_t start = at_;
      const std::string name = word();
      if (!name.empty() && take_assignment()) {
        if (locals_.count(name)) fail(start, fmt::format("'{}' is named twice", name));
        const uint32_t value = choice();
        if (!take(";")) fail(at_, "expected ';' at the end of the statement");
        locals_[name] = value;
        continue;
      }
      at_ = start;
      const uint32_t result = choice();
      take(";");
      skip();
      if (at_ < text_.size()) fail(at_, "expected an operator, or the end: the result's expression comes last");
      if (result + 1 != parts_.size()) add({.kind = Kind::local, .kids = {result}});
      p.parts = std::move(parts_);
      return p;
    }
  }

 private:
  [[noreturn]] void fail(size_t at, const std::string& what) const {
    const size_t from = at > 20 ? at - 20 : 0;
    throw Diagnostic(Loc{file_, path_, "", ""}, fmt::format("{} at column {}: \"{}\"", what, at + 1, text_.substr(from, 60)));
  }
  uint32_t add(Part p) {
    constexpr size_t kMostParts = 2000;
    if (parts_.size() >= kMostParts) fail(at_, fmt::format("more than {} operations", kMostParts));
    parts_.push_back(std::move(p));
    return static_cast<uint32_t>(parts_.size() - 1);
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  /// One of C's signs, not the beginning of a longer one.
  bool take(std::string_view sign) {
    skip();
    if (text_.substr(at_, sign.size()) != sign) return false;
    const char next = at_ + sign.size() < text_.size() ? text_[at_ + sign.size()] : '\0';
    if (sign.size() == 1 && ((sign[0] == next && std::string_view("&|<>").find(next) != std::string_view::npos) ||
                             (next == '=' && std::string_view("<>!").find(sign[0]) != std::string_view::npos)))
      return false;
    at_ += sign.size();
    return true;
  }
  bool take_assignment() {
    skip();
    if (at_ >= text_.size() || text_[at_] != '=' || text_.substr(at_, 2) == "==") return false;
    ++at_;
    return true;
  }
  void expect(std::string_view sign) {
    if (!take(sign)) fail(at_, fmt::format("expected '{}'", sign));
  }
  std::string word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      if (at_ == start && std::isdigit(static_cast<unsigned char>(text_[at_]))) break;
      ++at_;
    }
    return std::string(text_.substr(start, at_ - start));
  }

  uint32_t choice() {
    const Nesting one(*this);
    const uint32_t c = binary(0);
    if (!take("?")) return c;
    const uint32_t a = choice();
    expect(":");
    const uint32_t b = choice();
    return add({.kind = Kind::choice, .kids = {c, a, b}});
  }

  /// C's binary operators, the weakest first.
  uint32_t binary(size_t level) {
    static const Level kLevels[] = {
        {{"||", Kind::logic_or, {}}},
        {{"&&", Kind::logic_and, {}}},
        {{"|", Kind::op, Op::bit_or}},
        {{"^", Kind::op, Op::bit_xor}},
        {{"&", Kind::op, Op::bit_and}},
        {{"==", Kind::op, Op::eq}, {"!=", Kind::op, Op::ne}},
        {{"<=", Kind::op, Op::le}, {">=", Kind::op, Op::ge}, {"<", Kind::op, Op::lt}, {">", Kind::op, Op::gt}},
        {{"<<", Kind::op, Op::shl}, {">>", Kind::op, Op::shr}},
        {{"+", Kind::op, Op::add}, {"-", Kind::op, Op::sub}},
        {{"*", Kind::op, Op::mul}, {"/", Kind::quotient, {}}, {"%", Kind::op, Op::fmod}},
    };
    if (level == std::size(kLevels)) return unary();
    uint32_t left = binary(level + 1);
    for (bool more = true; more;) {
      more = false;
      for (const Sign& s : kLevels[level])
        if (take(s.text)) {
          const uint32_t right = binary(level + 1);
          left = add({.kind = s.kind, .op = s.op, .kids = {left, right}});
          more = true;
          break;
        }
    }
    return left;
  }

  uint32_t unary() {
    const Nesting one(*this);
    if (take("-")) return add({.kind = Kind::negate, .kids = {unary()}});
    if (take("+")) return unary();
    if (take("!")) return add({.kind = Kind::logic_not, .kids = {unary()}});
    if (take("~")) return add({.kind = Kind::bits_not, .kids = {unary()}});
    if (take("(")) {
      const uint32_t e = choice();
      expect(")");
      return e;
    }
    skip();
    const size_t start = at_;
    const std::string name = word();
    if (name.empty()) return number();
    if (take("(")) return call(name, start);
    if (const auto it = locals_.find(name); it != locals_.end()) return add({.kind = Kind::local, .kids = {it->second}});
    return add({.kind = Kind::name, .name = name});
  }

  uint32_t call(const std::string& name, size_t start) {
    std::vector<uint32_t> args;
    if (!take(")")) {
      do args.push_back(choice());
      while (take(","));
      expect(")");
    }
    const auto takes = [&](size_t n) {
      if (args.size() != n) fail(start, fmt::format("{} takes {} argument{}, not {}", name, n, n == 1 ? "" : "s", args.size()));
    };
    if (const auto type = parse_dtype(name)) {
      takes(1);
      return add({.kind = Kind::cast, .dtype = *type, .kids = args});
    }
    if (name == "clamp") {
      takes(3);
      const uint32_t above = add({.kind = Kind::op, .op = Op::maximum, .kids = {args[0], args[1]}});
      return add({.kind = Kind::op, .op = Op::minimum, .kids = {above, args[2]}});
    }
    const std::optional<Op> op = function_of(name);
    if (!op)
      fail(start,
           fmt::format("'{}' is no function here: those are the scalar operators of core graphs (exp, erf, sigmoid, where, min ..), clamp, "
                       "and casts such as float32(x)",
                       name));
    takes(arity_of(*op));
    if (*op == Op::where) return add({.kind = Kind::choice, .kids = args});
    return add({.kind = Kind::op, .op = *op, .kids = args});
  }

  uint32_t number() {
    const size_t start = at_;
    const auto digit = [&](size_t i) { return i < text_.size() && std::isdigit(static_cast<unsigned char>(text_[i])) != 0; };
    const auto is = [&](size_t i, std::string_view any) { return i < text_.size() && any.find(text_[i]) != std::string_view::npos; };
    if (!digit(start) && !(is(start, ".") && digit(start + 1))) fail(start, "expected a number, an argument, a function or '('");
    while (digit(at_)) ++at_;
    const bool fraction = is(at_, ".");
    if (fraction)
      for (++at_; digit(at_);) ++at_;
    const bool power = is(at_, "eE") && (digit(at_ + 1) || (is(at_ + 1, "+-") && digit(at_ + 2)));
    if (power)
      for (at_ += 2; digit(at_);) ++at_;
    const std::string digits(text_.substr(start, at_ - start));
    if ((fraction || power) && is(at_, "fF")) ++at_;
    if (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      fail(start, "a number runs into a name");
    if (fraction || power) {
      const double real = std::strtod(digits.c_str(), nullptr);
      if (!std::isfinite(real)) fail(start, "expected a number that float64 holds");
      return add({.kind = Kind::real, .real = real});
    }
    int64_t whole = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), whole).ec != std::errc()) fail(start, "the integer is too large");
    return add({.kind = Kind::integer, .integer = whole});
  }

  /// Each level of brackets or signs is one of the stack, too.
  struct Nesting {
    explicit Nesting(Parser& p) : depth(p.depth_) {
      if (++depth > 200) p.fail(p.at_, "the expression is nested too deeply");
    }
    ~Nesting() { --depth; }
    int& depth;
  };

  std::string_view text_;
  const std::string &file_, &path_;
  std::vector<Part> parts_;
  std::map<std::string, uint32_t> locals_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Pointwise parse_pointwise(std::string_view text, const std::string& file, const std::string& path) {
  if (text.size() > kMostPointwiseChars)
    throw Diagnostic(Loc{file, path, "", ""}, fmt::format("an expression of {} characters; at most {}", text.size(), kMostPointwiseChars));
  return Parser(text, file, path).parse();
}

}  // namespace aotc::own
