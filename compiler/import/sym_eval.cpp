#include "import/sym_eval.h"

#include <algorithm>
#include <cmath>
#include <variant>

namespace aotc::import {
namespace {

/// Thrown where Python raises, and where this reader does not follow.
struct Stop {
  Truth why;
};
[[noreturn]] void raise() { throw Stop{Truth::error}; }
[[noreturn]] void unknown() { throw Stop{Truth::unknown}; }

/// A Python number. A bool is an int of 0 or 1.
using Number = std::variant<int64_t, double>;
using Args = std::vector<Number>;

constexpr int64_t kExact = int64_t{1} << 53;

bool is_int(const Number& n) { return std::holds_alternative<int64_t>(n); }
double real(const Number& n) {
  if (const double* d = std::get_if<double>(&n)) return *d;
  const int64_t i = std::get<int64_t>(n);
  if (i > kExact || i < -kExact) unknown();
  return static_cast<double>(i);
}
int64_t whole(const Number& n) {
  const int64_t* i = std::get_if<int64_t>(&n);
  if (!i) unknown();
  return *i;
}
Number to_int(double d) {
  if (!std::isfinite(d)) raise();
  if (std::abs(d) >= 0x1p62) unknown();
  return static_cast<int64_t>(d);
}

Number add(const Number& a, const Number& b) {
  if (!is_int(a) || !is_int(b)) return real(a) + real(b);
  int64_t r = 0;
  if (__builtin_add_overflow(whole(a), whole(b), &r)) unknown();
  return r;
}
Number multiply(const Number& a, const Number& b) {
  if (!is_int(a) || !is_int(b)) return real(a) * real(b);
  int64_t r = 0;
  if (__builtin_mul_overflow(whole(a), whole(b), &r)) unknown();
  return r;
}
int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) raise();
  if (b == -1 && a == INT64_MIN) unknown();
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
int64_t modulo(int64_t a, int64_t b) {
  if (b == 0) raise();
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
Number power(const Number& a, const Number& b) {
  if (is_int(a) && is_int(b) && whole(b) >= 0) {
    if (whole(b) > 64) unknown();
    Number r = int64_t{1};
    for (int64_t i = 0; i < whole(b); ++i) r = multiply(r, a);
    return r;
  }
  const double x = real(a), y = real(b);
  if (x == 0 && y < 0) raise();
  if (x < 0) unknown();
  return std::pow(x, y);
}
template <class Compare>
Number pick(const Args& a, Compare better) {
  Number r = a[0];
  for (size_t i = 1; i < a.size(); ++i)
    if (better(a[i], r)) r = a[i];
  return r;
}
bool less(const Number& a, const Number& b) { return is_int(a) && is_int(b) ? whole(a) < whole(b) : real(a) < real(b); }
bool equal(const Number& a, const Number& b) { return is_int(a) && is_int(b) ? whole(a) == whole(b) : real(a) == real(b); }
Number truth(bool b) { return int64_t{b}; }

template <Number (*F)(const Number&, const Number&)>
Number fold(const Args& a) {
  Number r = a[0];
  for (size_t i = 1; i < a.size(); ++i) r = F(r, a[i]);
  return r;
}
template <double (*F)(double)>
Number rounded(const Args& a) {
  return is_int(a[0]) ? a[0] : to_int(F(real(a[0])));
}

struct Function {
  std::string_view name;
  size_t least, most;
  Number (*fn)(const Args&);
};
constexpr size_t kMany = SIZE_MAX;
constexpr Function kFunctions[] = {
    {"Add", 1, kMany, fold<add>},
    {"Mul", 1, kMany, fold<multiply>},
    {"Max", 1, kMany, [](const Args& a) { return pick(a, [](const Number& x, const Number& y) { return less(y, x); }); }},
    {"Min", 1, kMany, [](const Args& a) { return pick(a, less); }},
    {"Pow", 2, 2, [](const Args& a) { return power(a[0], a[1]); }},
    {"TrueDiv", 2, 2,
     [](const Args& a) -> Number {
       if (real(a[1]) == 0) raise();
       return real(a[0]) / real(a[1]);
     }},
    {"FloorDiv", 2, 2, [](const Args& a) -> Number { return floor_div(whole(a[0]), whole(a[1])); }},
    {"CeilDiv", 2, 2, [](const Args& a) -> Number { return -floor_div(-whole(a[0]), whole(a[1])); }},
    {"Mod", 2, 2, [](const Args& a) -> Number { return modulo(whole(a[0]), whole(a[1])); }},
    {"ModularIndexing", 3, 3, [](const Args& a) -> Number { return modulo(floor_div(whole(a[0]), whole(a[1])), whole(a[2])); }},
    {"Abs", 1, 1, [](const Args& a) { return less(a[0], int64_t{0}) ? multiply(a[0], int64_t{-1}) : a[0]; }},
    {"ToFloat", 1, 1, [](const Args& a) -> Number { return real(a[0]); }},
    {"FloorToInt", 1, 1, rounded<std::floor>},
    {"CeilToInt", 1, 1, rounded<std::ceil>},
    {"TruncToInt", 1, 1, rounded<std::trunc>},
    {"RoundToInt", 1, 1, rounded<std::nearbyint>},
    {"sqrt", 1, 1,
     [](const Args& a) -> Number {
       if (real(a[0]) < 0) raise();
       return std::sqrt(real(a[0]));
     }},
    {"log2", 1, 1,
     [](const Args& a) -> Number {
       if (real(a[0]) <= 0) raise();
       return std::log2(real(a[0]));
     }},
    {"Eq", 2, 2, [](const Args& a) { return truth(equal(a[0], a[1])); }},
    {"Ne", 2, 2, [](const Args& a) { return truth(!equal(a[0], a[1])); }},
    {"Lt", 2, 2, [](const Args& a) { return truth(less(a[0], a[1])); }},
    {"Le", 2, 2, [](const Args& a) { return truth(!less(a[1], a[0])); }},
    {"Gt", 2, 2, [](const Args& a) { return truth(less(a[1], a[0])); }},
    {"Ge", 2, 2, [](const Args& a) { return truth(!less(a[0], a[1])); }},
    {"Not", 1, 1, [](const Args& a) { return truth(equal(a[0], int64_t{0})); }},
    {"True", 0, 0, [](const Args&) { return truth(true); }},
    {"False", 0, 0, [](const Args&) { return truth(false); }},
};

class Evaluator {
 public:
  explicit Evaluator(const std::function<std::optional<int64_t>(const std::string&)>& size) : size_(size) {}

  Number value(const SymNode& n) const {
    switch (n.kind) {
      case SymNode::Kind::integer: return n.integer;
      case SymNode::Kind::real: return n.real;
      case SymNode::Kind::symbol: {
        const auto v = size_(n.name);
        if (!v) unknown();
        return *v;
      }
      case SymNode::Kind::call: break;
    }
    // These do not look at what they do not need.
    if (n.name == "And" || n.name == "Or") {
      for (const SymNode& a : n.args)
        if (equal(value(a), int64_t{0}) == (n.name == "And")) return truth(n.name == "Or");
      return truth(n.name == "And");
    }
    if (n.name == "Where" && n.args.size() == 3) return value(n.args[equal(value(n.args[0]), int64_t{0}) ? 2 : 1]);
    for (const Function& f : kFunctions) {
      if (f.name != n.name || n.args.size() < f.least || n.args.size() > f.most) continue;
      Args args;
      for (const SymNode& a : n.args) args.push_back(value(a));
      return f.fn(args);
    }
    unknown();
  }

 private:
  const std::function<std::optional<int64_t>(const std::string&)>& size_;
};

}  // namespace

Truth evaluate_condition(const SymNode& tree, const std::function<std::optional<int64_t>(const std::string&)>& size) {
  try {
    return equal(Evaluator(size).value(tree), int64_t{0}) ? Truth::no : Truth::yes;
  } catch (const Stop& s) { return s.why; }
}

}  // namespace aotc::import
