#include "import/sym_text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace aotc::import {
namespace {

struct Refusal {
  std::string why;
};

/// num / den, den > 0: sympy mixes rationals and floats with integers, a floor makes them whole again.
struct Fraction {
  Expr num;
  int64_t den = 1;
};

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r) || r > (int64_t{1} << 40) || r < -(int64_t{1} << 40)) throw Refusal{"a number is too large"};
  return r;
}

Fraction reduced(Expr num, int64_t den) {
  if (const auto c = num.as_const()) {
    const int64_t g = std::gcd(*c, den);
    if (g > 1) return {*c / g, den / g};
  }
  return {std::move(num), den};
}
Fraction add(const Fraction& a, const Fraction& b) {
  if (a.den == b.den) return reduced(a.num + b.num, a.den);
  return reduced(a.num * b.den + b.num * a.den, checked_mul(a.den, b.den));
}
Fraction multiply(const Fraction& a, const Fraction& b) { return reduced(a.num * b.num, checked_mul(a.den, b.den)); }
Fraction divide(const Fraction& a, const Fraction& b) {
  const auto c = b.num.as_const();
  if (!c || *c == 0) throw Refusal{"a true division by a symbol"};
  const int64_t sign = *c < 0 ? -1 : 1;
  return reduced(a.num * (b.den * sign), checked_mul(a.den, *c * sign));
}
Expr whole(const Fraction& f) {
  if (f.den != 1) throw Refusal{"a value that may not be an integer"};
  return f.num;
}
Expr floor_of(const Fraction& f) { return f.den == 1 ? f.num : floordiv(f.num, f.den); }
Expr ceil_of(const Fraction& f) { return f.den == 1 ? f.num : ceildiv(f.num, f.den); }
Expr nonzero(const Expr& e) {
  if (e.is(0)) throw Refusal{"a division by zero"};
  return e;
}
Fraction power(const Fraction& base, const Fraction& exponent) {
  const auto n = whole(exponent).as_const();
  if (!n || *n < -1 || *n > 8) throw Refusal{"a power other than -1 to 8"};
  if (*n == -1) return divide({1}, base);
  Fraction r{1};
  for (int64_t i = 0; i < *n; ++i) r = multiply(r, base);
  return r;
}

using Args = std::vector<Fraction>;
struct Function {
  std::string_view name;
  int arity;  ///< -1: two or more
  Fraction (*fn)(const Args&);
};

template <Fraction (*F)(const Fraction&, const Fraction&)>
Fraction fold(const Args& a) {
  Fraction r = a[0];
  for (size_t i = 1; i < a.size(); ++i) r = F(r, a[i]);
  return r;
}
Fraction min2(const Fraction& a, const Fraction& b) { return {min(whole(a), whole(b))}; }
Fraction max2(const Fraction& a, const Fraction& b) { return {max(whole(a), whole(b))}; }
Fraction floor_div(const Args& a) {
  const Fraction q = a[1].num.is_const() ? divide(a[0], a[1]) : Fraction{};
  return {a[1].num.is_const() ? floor_of(q) : floordiv(whole(a[0]), nonzero(whole(a[1])))};
}
Fraction modulo(const Args& a) { return {mod(whole(a[0]), nonzero(whole(a[1])))}; }

constexpr Function kFunctions[] = {
    {"Add", -1, fold<add>},
    {"Mul", -1, fold<multiply>},
    {"Max", -1, fold<max2>},
    {"Min", -1, fold<min2>},
    {"Pow", 2, [](const Args& a) { return power(a[0], a[1]); }},
    {"PowByNatural", 2, [](const Args& a) { return power(a[0], a[1]); }},
    {"Integer", 1, [](const Args& a) { return a[0]; }},
    {"Rational", 2, [](const Args& a) { return divide(a[0], a[1]); }},
    {"Float", 1, [](const Args& a) { return a[0]; }},
    {"FloorDiv", 2, floor_div},
    {"CleanDiv", 2, floor_div},
    {"CeilDiv", 2, [](const Args& a) { return Fraction{ceildiv(whole(a[0]), nonzero(whole(a[1])))}; }},
    {"Mod", 2, modulo},
    {"PythonMod", 2, modulo},
    {"ModularIndexing", 3, [](const Args& a) { return Fraction{mod(floordiv(whole(a[0]), nonzero(whole(a[1]))), nonzero(whole(a[2])))}; }},
    {"IntTrueDiv", 2, [](const Args& a) { return divide(a[0], a[1]); }},
    {"FloatTrueDiv", 2, [](const Args& a) { return divide(a[0], a[1]); }},
    {"ToFloat", 1, [](const Args& a) { return a[0]; }},
    {"Identity", 1, [](const Args& a) { return a[0]; }},
    {"floor", 1, [](const Args& a) { return Fraction{floor_of(a[0])}; }},
    {"FloorToInt", 1, [](const Args& a) { return Fraction{floor_of(a[0])}; }},
    {"ceiling", 1, [](const Args& a) { return Fraction{ceil_of(a[0])}; }},
    {"CeilToInt", 1, [](const Args& a) { return Fraction{ceil_of(a[0])}; }},
    // Towards zero: the floor of |x|, with x's sign.
    {"TruncToInt", 1,
     [](const Args& a) {
       if (a[0].den == 1) return a[0];
       return Fraction{max(floor_of(a[0]), Expr(0)) + min(ceil_of(a[0]), Expr(0))};
     }},
    {"trunc", 1,
     [](const Args& a) {
       if (a[0].den == 1) return a[0];
       return Fraction{max(floor_of(a[0]), Expr(0)) + min(ceil_of(a[0]), Expr(0))};
     }},
    {"LShift", 2,
     [](const Args& a) {
       const auto n = whole(a[1]).as_const();
       if (!n || *n < 0 || *n > 30) throw Refusal{"a shift by a symbol"};
       return Fraction{whole(a[0]) * (int64_t{1} << *n)};
     }},
    {"RShift", 2,
     [](const Args& a) {
       const auto n = whole(a[1]).as_const();
       if (!n || *n < 0 || *n > 30) throw Refusal{"a shift by a symbol"};
       return Fraction{floordiv(whole(a[0]), int64_t{1} << *n)};
     }},
};

struct Comparison {
  std::string_view name;
  SymCondition::Kind kind;
  bool swapped;
};
constexpr Comparison kComparisons[] = {
    {"Equality", SymCondition::Kind::eq, false},         {"Eq", SymCondition::Kind::eq, false}, {"==", SymCondition::Kind::eq, false},
    {"Unequality", SymCondition::Kind::ne, false},       {"Ne", SymCondition::Kind::ne, false}, {"!=", SymCondition::Kind::ne, false},
    {"LessThan", SymCondition::Kind::le, false},         {"Le", SymCondition::Kind::le, false}, {"<=", SymCondition::Kind::le, false},
    {"StrictLessThan", SymCondition::Kind::lt, false},   {"Lt", SymCondition::Kind::lt, false}, {"<", SymCondition::Kind::lt, false},
    {"GreaterThan", SymCondition::Kind::le, true},       {"Ge", SymCondition::Kind::le, true},  {">=", SymCondition::Kind::le, true},
    {"StrictGreaterThan", SymCondition::Kind::lt, true}, {"Gt", SymCondition::Kind::lt, true},  {">", SymCondition::Kind::lt, true},
};
const Comparison* find_comparison(std::string_view name) {
  for (const Comparison& c : kComparisons)
    if (c.name == name) return &c;
  return nullptr;
}

class Parser {
 public:
  Parser(std::string_view text, const std::function<Expr(const std::string&)>& symbol) : text_(text), symbol_(symbol) {
    if (text.size() > 65536) throw Refusal{"an expression of more than 65536 characters"};
  }

  Expr integer() {
    const Fraction f = sum();
    finish();
    return whole(f);
  }

  SymCondition condition() {
    skip();
    const size_t start = at_;
    if (const Comparison* c = find_comparison(word()); c && take("(")) {
      const Fraction a = sum();
      if (!take(",")) throw unexpected();
      const Fraction b = sum();
      if (!take(")")) throw unexpected();
      finish();
      return compare(*c, a, b);
    }
    at_ = start;
    const Fraction a = sum();
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"})
      if (take(op)) {
        const Fraction b = sum();
        finish();
        return compare(*find_comparison(op), a, b);
      }
    throw unexpected();
  }

 private:
  static SymCondition compare(const Comparison& c, Fraction a, Fraction b) {
    if (c.swapped) std::swap(a, b);
    return {c.kind, a.num * b.den, b.num * a.den};
  }

  Fraction sum() {
    if (++depth_ > 100) throw Refusal{"an expression nested deeper than 100"};
    Fraction r = term();
    for (;;) {
      if (take("+"))
        r = add(r, term());
      else if (take("-"))
        r = add(r, multiply({-1}, term()));
      else
        break;
    }
    --depth_;
    return r;
  }
  Fraction term() {
    Fraction r = factor();
    for (;;) {
      if (peek("**")) break;
      if (take("*"))
        r = multiply(r, factor());
      else if (take("//"))
        r = floor_div({r, factor()});
      else if (take("/"))
        r = divide(r, factor());
      else if (take("%"))
        r = modulo({r, factor()});
      else
        break;
    }
    return r;
  }
  Fraction factor() {
    if (take("-")) {
      if (++depth_ > 100) throw Refusal{"an expression nested deeper than 100"};
      const Fraction f = multiply({-1}, factor());
      --depth_;
      return f;
    }
    const Fraction base = atom();
    return take("**") ? power(base, atom()) : base;
  }
  Fraction atom() {
    skip();
    if (take("(")) {
      const Fraction r = sum();
      if (!take(")")) throw unexpected();
      return r;
    }
    if (at_ < text_.size() && (std::isdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' || text_[at_] == '\''))
      return number();
    const std::string_view name = word();
    if (name.empty()) throw unexpected();
    if (!take("(")) {
      if (name == "NegativeOne") return {-1};
      if (name == "Zero") return {0};
      if (name == "One") return {1};
      return {symbol_(std::string(name))};
    }
    if (name == "Symbol") return named_symbol();
    for (const Function& f : kFunctions)
      if (f.name == name) return call(f);
    throw Refusal{fmt::format("the function {}", name)};
  }
  Fraction call(const Function& f) {
    Args args;
    do {
      if (skip_keyword()) continue;
      args.push_back(sum());
    } while (take(","));
    if (!take(")")) throw unexpected();
    if (f.arity < 0 ? args.size() < 2 : args.size() != static_cast<size_t>(f.arity))
      throw Refusal{fmt::format("{} with {} arguments", f.name, args.size())};
    return f.fn(args);
  }
  /// "precision=53": true when one was skipped.
  bool skip_keyword() {
    const size_t start = at_;
    const std::string_view name = word();
    if (!name.empty() && !peek("==") && take("=")) {
      word();
      if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) number();
      return true;
    }
    at_ = start;
    return false;
  }
  Fraction named_symbol() {
    skip();
    if (!take("'")) throw unexpected();
    const size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) throw unexpected();
    const std::string name(text_.substr(at_, end - at_));
    at_ = end + 1;
    while (take(","))
      if (!skip_keyword()) throw unexpected();
    if (!take(")")) throw unexpected();
    if (name.empty()) throw Refusal{"a symbol without a name"};
    return {symbol_(name)};
  }
  /// "12", "0.5", "'1.0e-5'": decimal numbers become exact fractions.
  Fraction number() {
    const bool quoted = take("'");
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' ||
            ((text_[at_] == '-' || text_[at_] == '+') && at_ > start && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E'))))
      ++at_;
    std::string digits(text_.substr(start, at_ - start));
    if (quoted && !take("'")) throw unexpected();
    int64_t i = 0;
    if (auto [p, e] = std::from_chars(digits.data(), digits.data() + digits.size(), i);
        e == std::errc() && p == digits.data() + digits.size())
      return {i};
    char* end = nullptr;
    const double d = std::strtod(digits.c_str(), &end);
    if (end != digits.c_str() + digits.size() || !std::isfinite(d)) throw Refusal{fmt::format("the number '{}'", digits)};
    for (int64_t den = 1; den <= (1 << 20); den *= 2)
      if (const double scaled = d * static_cast<double>(den); scaled == std::floor(scaled) && std::abs(scaled) < 1e12)
        return {static_cast<int64_t>(scaled), den};
    throw Refusal{fmt::format("the number '{}', which is not a fraction of powers of two", digits)};
  }

  std::string_view word() {
    skip();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
    return text_.substr(start, at_ - start);
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool peek(std::string_view s) {
    skip();
    return text_.substr(at_, s.size()) == s;
  }
  bool take(std::string_view s) {
    if (!peek(s)) return false;
    at_ += s.size();
    return true;
  }
  void finish() {
    skip();
    if (at_ != text_.size()) throw unexpected();
  }
  Refusal unexpected() const { return {fmt::format("unexpected text at column {}", at_ + 1)}; }

  std::string_view text_;
  const std::function<Expr(const std::string&)>& symbol_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<Expr> parse_sym_text(std::string_view text, const std::function<Expr(const std::string&)>& symbol) {
  try {
    return Parser(text, symbol).integer();
  } catch (const Refusal& r) { return Result<Expr>::fail(r.why); } catch (const InternalError&) {
    return Result<Expr>::fail("numbers that overflow 64 bits");
  }
}

Result<SymCondition> parse_sym_condition(std::string_view text, const std::function<Expr(const std::string&)>& symbol) {
  try {
    return Parser(text, symbol).condition();
  } catch (const Refusal& r) { return Result<SymCondition>::fail(r.why); } catch (const InternalError&) {
    return Result<SymCondition>::fail("numbers that overflow 64 bits");
  }
}

}  // namespace aotc::import
