#include "import/sym_text.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "import/decimal.h"

namespace aotc::import {
namespace {

struct Refusal {
  std::string why;
};

/// num / den, den > 0: sympy mixes rationals and floats with integers, a floor makes them whole again.
struct Fraction {
  Expr num;
  int64_t den = 1;
  /// Python computes this in float64, for sizes of much less than 53 bits. A division that rounds leaves its quotient where it is whole
  /// (and so exact) or farther from a whole number than it was rounded; the same after a sum with an exact fraction of a power of two
  /// or a product with a power of two, so its floor is the exact one's. Other arithmetic on it may end on another side.
  /// A number that float64 holds only nearly (1.7) stands for a fraction that is off by at most 2^-54 of it: a whole number of times it
  /// rounds to the fraction's multiple wherever that is whole, so such a product is as a division that rounds. One that is off by more
  /// (0.7) is beside it: whole numbers times it have a floor of their own.
  enum class Float : uint8_t { exact, nearly, beside, rounded, unclear } as_float = Float::exact;
  std::optional<Decimal> decimal;  ///< where it is beside
  std::optional<Rounded> rounded;  ///< a product with one that is beside, or a quotient by one; the rest of it is unclear
};

bool power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

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
bool exact(const Fraction& f) { return f.as_float == Fraction::Float::exact; }
/// `r` as what Python computes from a and b by an operation that keeps a rounded operand's floor only where `harmless`.
Fraction computed(Fraction r, const Fraction& a, const Fraction& b, bool harmless) {
  if (exact(a) && exact(b)) return r;
  const auto once = [](const Fraction& f) { return f.as_float == Fraction::Float::exact || f.as_float == Fraction::Float::rounded; };
  const bool rounded_once = once(a) && once(b);
  r.as_float = rounded_once && harmless ? Fraction::Float::rounded : Fraction::Float::unclear;
  return r;
}
Fraction add(const Fraction& a, const Fraction& b) {
  const bool harmless = (exact(a) && power_of_two(a.den)) || (exact(b) && power_of_two(b.den));
  if (a.den == b.den) return computed(reduced(a.num + b.num, a.den), a, b, harmless);
  return computed(reduced(a.num * b.den + b.num * a.den, checked_mul(a.den, b.den)), a, b, harmless);
}
bool scales_exactly(const Fraction& f) {
  const int64_t n = f.num.as_const().value_or(0);
  return exact(f) && power_of_two(f.den) && (power_of_two(n) || n == -1);
}
bool times_of_nearly(const Fraction& f, const Fraction& times) {
  return f.as_float == Fraction::Float::nearly && exact(times) && power_of_two(times.den) && times.den <= 1024;
}
/// What float64 has for `other` times f, which is beside, or by it; none where that is not known.
std::optional<Rounded> with_decimal(const SymTable& syms, const Fraction& f, const Fraction& other, bool divided) {
  constexpr double kMost = 0x1p36, kMostWithDivisor = 0x1p50;
  constexpr int64_t kMostDivisor = 1 << 19;
  if (!f.decimal || f.decimal->num <= 0 || !exact(other) || !power_of_two(other.den) || other.den > kMostDivisor) return std::nullopt;
  const Decimal& d = *f.decimal;
  const Interval range = syms.interval(other.num);
  const int64_t by = divided ? d.num : d.den;
  if (range.min < 0 || by > kMostDivisor / other.den) return std::nullopt;
  const double factor = static_cast<double>(d.num) / static_cast<double>(d.den),
               largest = static_cast<double>(range.max) / static_cast<double>(other.den),
               most = std::min(
                   {kMost, kMostWithDivisor / static_cast<double>(by * other.den), (divided ? largest / factor : largest * factor) + 1});
  return (divided ? quotient_by : product_with)(d, other.num, other.den, static_cast<int64_t>(most));
}
Fraction multiply(const SymTable& syms, const Fraction& a, const Fraction& b) {
  Fraction r = computed(reduced(a.num * b.num, checked_mul(a.den, b.den)), a, b, scales_exactly(a) || scales_exactly(b));
  if (times_of_nearly(a, b) || times_of_nearly(b, a)) r.as_float = Fraction::Float::rounded;
  r.rounded = a.decimal ? with_decimal(syms, a, b, false) : with_decimal(syms, b, a, false);
  return r;
}
Fraction divide_exactly(const Fraction& a, const Fraction& b) {
  const auto c = b.num.as_const();
  if (!c || *c == 0) throw Refusal{"a true division by a symbol"};
  const int64_t sign = *c < 0 ? -1 : 1;
  return computed(reduced(a.num * (b.den * sign), checked_mul(a.den, *c * sign)), a, b, scales_exactly(b));
}
Fraction true_division(const SymTable& syms, const Fraction& a, const Fraction& b) {
  Fraction r = divide_exactly(a, b);
  if (exact(r) && !power_of_two(r.den)) r.as_float = Fraction::Float::rounded;
  if (times_of_nearly(b, a)) r.as_float = Fraction::Float::rounded;  // off by at most 2^-54 of it, as a product is
  r.rounded = with_decimal(syms, b, a, true);
  return r;
}
Expr whole(const Fraction& f) {
  if (f.den != 1 || f.as_float == Fraction::Float::unclear) throw Refusal{"a value that may not be an integer"};
  return f.num;
}
const Fraction& not_unclear(const Fraction& f) {
  if (f.as_float == Fraction::Float::unclear || f.decimal) throw Refusal{"arithmetic of floating point numbers that rounds"};
  return f;
}
Expr floor_of(const Fraction& f) {
  if (f.rounded) return f.rounded->floor;
  return not_unclear(f).den == 1 ? f.num : floordiv(f.num, f.den);
}
Expr ceil_of(const Fraction& f) {
  if (f.rounded) return f.rounded->ceil;
  return not_unclear(f).den == 1 ? f.num : ceildiv(f.num, f.den);
}
/// Towards zero: the floor of |x|, with x's sign.
Expr trunc_of(const Fraction& f) {
  if (f.den == 1 || f.rounded) return floor_of(f);
  return max(floor_of(f), Expr(0)) + min(ceil_of(f), Expr(0));
}
Expr nonzero(const Expr& e) {
  if (e.is(0)) throw Refusal{"a division by zero"};
  return e;
}
/// base^n for n from 0 to `most`, as the sum of what each step of n adds.
Expr power_of_symbol(const Expr& base, const Expr& n, int64_t most) {
  constexpr int64_t kMost = 40;  // steps
  if (most > kMost) throw Refusal{fmt::format("a power by a size that has no bound of at most {}", kMost)};
  Expr r(1), last(1);
  for (int64_t i = 0; i < most; ++i) {
    r += last * (base - 1) * min(max(n - i, 0), 1);
    last *= base;
  }
  return r;
}
Fraction power(const SymTable& syms, const Fraction& base, const Fraction& exponent) {
  if (exponent.den != 1) throw Refusal{"a power that is not whole"};
  const auto n = whole(exponent).as_const();
  if (!n && exact(base) && base.den == 1) {
    const Interval range = syms.interval(whole(exponent));
    if (range.min < 0) throw Refusal{"a power that may be negative"};
    return {power_of_symbol(base.num, exponent.num, range.max)};
  }
  if (!n || *n < -1 || *n > 8) throw Refusal{"a power other than -1 to 8"};
  if (*n == -1) return divide_exactly({1}, base);
  Fraction r{1};
  for (int64_t i = 0; i < *n; ++i) r = multiply(syms, r, base);
  return r;
}
Fraction real(double d) {
  for (int64_t den = 1; den <= (1 << 20); den *= 2)
    if (const double scaled = d * static_cast<double>(den); scaled == std::floor(scaled) && std::abs(scaled) < 1e12)
      return {static_cast<int64_t>(scaled), den};
  if (const std::optional<Decimal> f = decimal(d)) {
    if (rounds_to_multiples(*f)) return {f->num, f->den, Fraction::Float::nearly};
    return {f->num, f->den, Fraction::Float::beside, f};
  }
  throw Refusal{fmt::format("the number '{}', which is neither a fraction of powers of two nor near enough to one of small numbers", d)};
}
int64_t shift(const Fraction& by) {
  const auto n = whole(by).as_const();
  if (!n || *n < 0 || *n > 30) throw Refusal{"a shift by a symbol"};
  return int64_t{1} << *n;
}

/// A tree read as an expression. Divisors that are not numbers are noted: the tree has no value where one is zero.
class Reader {
 public:
  Reader(const SymTable& syms, const SymbolOf& symbol) : syms_(syms), symbol_(symbol) {}
  std::vector<Expr> divisors;

  Fraction value(const SymNode& n) {
    switch (n.kind) {
      case SymNode::Kind::integer: return {n.integer};
      case SymNode::Kind::real: return real(n.real);
      case SymNode::Kind::symbol: return {symbol_(n.name)};
      case SymNode::Kind::call: break;
    }
    for (const Function& f : kFunctions)
      if (f.name == n.name) return apply(f, n);
    throw Refusal{fmt::format("the function {}", n.name)};
  }

 private:
  using Args = std::vector<Fraction>;
  struct Function {
    std::string_view name;
    int arity;  ///< -1: two or more
    Fraction (*fn)(Reader&, const Args&);
  };

  Fraction apply(const Function& f, const SymNode& n) {
    if (f.arity < 0 ? n.args.size() < 2 : n.args.size() != static_cast<size_t>(f.arity))
      throw Refusal{fmt::format("{} with {} arguments", f.name, n.args.size())};
    Args args;
    for (const SymNode& a : n.args) args.push_back(value(a));
    return f.fn(*this, args);
  }

  template <Fraction (*F)(const Fraction&, const Fraction&)>
  static Fraction fold(Reader&, const Args& a) {
    Fraction r = a[0];
    for (size_t i = 1; i < a.size(); ++i) r = F(r, a[i]);
    return r;
  }
  static Fraction product(Reader& r, const Args& a) {
    Fraction all = a[0];
    for (size_t i = 1; i < a.size(); ++i) all = multiply(r.syms_, all, a[i]);
    return all;
  }
  static Fraction quotient(Reader& r, const Args& a) { return true_division(r.syms_, a[0], a[1]); }
  static Fraction min2(const Fraction& a, const Fraction& b) { return {min(whole(a), whole(b))}; }
  static Fraction max2(const Fraction& a, const Fraction& b) { return {max(whole(a), whole(b))}; }
  const Expr& divisor(const Expr& e) {
    if (!nonzero(e).is_const()) divisors.push_back(e);
    return e;
  }
  static Fraction floor_div(Reader& r, const Args& a) {
    if (a[1].num.is_const()) return {floor_of(divide_exactly(a[0], a[1]))};
    return {floordiv(whole(a[0]), r.divisor(whole(a[1])))};
  }
  static Fraction power_of(Reader& r, const Args& a) { return power(r.syms_, a[0], a[1]); }
  /// 1 where b - a is at least 0, else 0.
  static Expr at_most(const Fraction& a, const Fraction& b) { return min(max(whole(b) - whole(a) + 1, 0), 1); }
  static Expr differ(const Fraction& a, const Fraction& b) {
    const Expr d = whole(a) - whole(b);
    return min(max(d, -d), 1);
  }
  static Fraction chosen(Reader&, const Args& a) { return {whole(a[2]) + whole(a[0]) * (whole(a[1]) - whole(a[2]))}; }
  static Fraction modulo(Reader& r, const Args& a) { return {mod(whole(a[0]), r.divisor(whole(a[1])))}; }

  static constexpr Function kFunctions[] = {
      {"Add", -1, fold<add>},
      {"Mul", -1, product},
      {"Max", -1, fold<max2>},
      {"Min", -1, fold<min2>},
      {"Pow", 2, power_of},
      {"Rational", 2, [](Reader&, const Args& a) { return divide_exactly(a[0], a[1]); }},
      {"TrueDiv", 2, quotient},
      {"FloorDiv", 2, floor_div},
      {"CeilDiv", 2, [](Reader& r, const Args& a) { return Fraction{ceildiv(whole(a[0]), r.divisor(whole(a[1])))}; }},
      {"Mod", 2, modulo},
      {"ModularIndexing", 3,
       [](Reader& r, const Args& a) { return Fraction{mod(floordiv(whole(a[0]), r.divisor(whole(a[1]))), r.divisor(whole(a[2])))}; }},
      {"Abs", 1, [](Reader&, const Args& a) { return Fraction{max(whole(a[0]), -whole(a[0]))}; }},
      {"ToFloat", 1, [](Reader&, const Args& a) { return a[0]; }},
      {"FloorToInt", 1, [](Reader&, const Args& a) { return Fraction{floor_of(a[0])}; }},
      {"CeilToInt", 1, [](Reader&, const Args& a) { return Fraction{ceil_of(a[0])}; }},
      {"TruncToInt", 1, [](Reader&, const Args& a) { return Fraction{trunc_of(a[0])}; }},
      {"LShift", 2, [](Reader&, const Args& a) { return Fraction{whole(a[0]) * shift(a[1])}; }},
      // A condition is 1 or 0.
      {"Where", 3, chosen},
      {"Eq", 2, [](Reader&, const Args& a) { return Fraction{1 - differ(a[0], a[1])}; }},
      {"Ne", 2, [](Reader&, const Args& a) { return Fraction{differ(a[0], a[1])}; }},
      {"Le", 2, [](Reader&, const Args& a) { return Fraction{at_most(a[0], a[1])}; }},
      {"Lt", 2, [](Reader&, const Args& a) { return Fraction{1 - at_most(a[1], a[0])}; }},
      {"Ge", 2, [](Reader&, const Args& a) { return Fraction{at_most(a[1], a[0])}; }},
      {"Gt", 2, [](Reader&, const Args& a) { return Fraction{1 - at_most(a[0], a[1])}; }},
      {"And", -1, fold<min2>},
      {"Or", -1, fold<max2>},
      {"Not", 1, [](Reader&, const Args& a) { return Fraction{1 - whole(a[0])}; }},
      {"True", 0, [](Reader&, const Args&) { return Fraction{1}; }},
      {"False", 0, [](Reader&, const Args&) { return Fraction{0}; }},
      {"RShift", 2, [](Reader&, const Args& a) { return Fraction{floordiv(whole(a[0]), shift(a[1]))}; }},
  };

  const SymTable& syms_;
  const SymbolOf& symbol_;
};

/// A tree read as a condition.
class Conditions {
 public:
  Conditions(const SymTable& syms, const SymbolOf& symbol) : reader_(syms, symbol) {}

  std::vector<ShapeGuard> read(const SymNode& n) {
    conjunction(n);
    for (const Expr& d : reader_.divisors) not_equal(d, 0);
    return std::move(guards_);
  }

 private:
  enum class Relation : uint8_t { eq, ne, le, lt, ge, gt };
  struct Named {
    std::string_view name;
    Relation relation;
  };
  static constexpr Named kRelations[] = {{"Eq", Relation::eq}, {"Ne", Relation::ne}, {"Le", Relation::le},
                                         {"Lt", Relation::lt}, {"Ge", Relation::ge}, {"Gt", Relation::gt}};
  struct Comparison {
    Relation relation;
    Expr a, b;
  };

  static bool is_condition(const SymNode& n) {
    if (n.kind != SymNode::Kind::call) return false;
    for (const std::string_view name : {"And", "Or", "Not", "True", "False"})
      if (n.name == name) return true;
    return relation_of(n).has_value();
  }
  static std::optional<Relation> relation_of(const SymNode& n) {
    for (const Named& r : kRelations)
      if (r.name == n.name && n.args.size() == 2) return r.relation;
    return std::nullopt;
  }

  std::optional<Comparison> comparison(const SymNode& n) {
    std::optional<Relation> r = relation_of(n);
    if (!r) return std::nullopt;
    if (is_condition(n.args[0]) || is_condition(n.args[1])) throw Refusal{"a comparison of conditions"};
    Fraction a = reader_.value(n.args[0]), b = reader_.value(n.args[1]);
    for (const Fraction* f : {&a, &b})
      if (!exact(*f)) throw Refusal{"a comparison of floating point numbers that were rounded"};
    if (*r == Relation::ge || *r == Relation::gt) {
      std::swap(a, b);
      r = *r == Relation::ge ? Relation::le : Relation::lt;
    }
    return Comparison{*r, a.num * b.den, b.num * a.den};
  }

  void not_equal(const Expr& a, const Expr& b) { guards_.push_back({ShapeGuard::Kind::le, 1, max(a - b, b - a), {}}); }

  /// Every part of it becomes a guard of its own.
  void conjunction(const SymNode& n) {
    if (n.name == "And" && n.kind == SymNode::Kind::call) {
      for (const SymNode& a : n.args) conjunction(a);
      return;
    }
    if (n.name == "True" && n.kind == SymNode::Kind::call) return;
    const std::optional<Comparison> c = comparison(n);
    if (!c) {
      guards_.push_back({ShapeGuard::Kind::le, 1, indicator(n), {}});
      return;
    }
    switch (c->relation) {
      case Relation::eq: guards_.push_back({ShapeGuard::Kind::eq, c->a, c->b, {}}); break;
      case Relation::ne: not_equal(c->a, c->b); break;
      case Relation::le: guards_.push_back({ShapeGuard::Kind::le, c->a, c->b, {}}); break;
      default: guards_.push_back({ShapeGuard::Kind::le, c->a + 1, c->b, {}});
    }
  }

  /// 1 where the condition holds, else 0.
  Expr indicator(const SymNode& n) {
    if (n.kind != SymNode::Kind::call) throw Refusal{"a number in place of a condition"};
    if (n.name == "True") return 1;
    if (n.name == "False") return 0;
    if (n.name == "Not" && n.args.size() == 1) return Expr(1) - indicator(n.args[0]);
    if ((n.name == "And" || n.name == "Or") && !n.args.empty()) {
      Expr r = indicator(n.args[0]);
      for (size_t i = 1; i < n.args.size(); ++i) r = n.name == "And" ? min(r, indicator(n.args[i])) : max(r, indicator(n.args[i]));
      return r;
    }
    const std::optional<Comparison> c = comparison(n);
    if (!c) throw Refusal{fmt::format("the function {} in place of a condition", n.name)};
    const auto above_zero = [](const Expr& e) { return min(max(e, 0), 1); };
    switch (c->relation) {
      case Relation::eq: return Expr(1) - above_zero(max(c->a - c->b, c->b - c->a));
      case Relation::ne: return above_zero(max(c->a - c->b, c->b - c->a));
      case Relation::le: return above_zero(c->b - c->a + 1);
      default: return above_zero(c->b - c->a);
    }
  }

  Reader reader_;
  std::vector<ShapeGuard> guards_;
};

template <class R, class Fn>
Result<R> caught(const Fn& fn) {
  try {
    return fn();
  } catch (const Refusal& r) { return Result<R>::fail(r.why); } catch (const InternalError& e) {
    return Result<R>::fail(e.what());
  }
}

}  // namespace

Result<Expr> expr_of(const SymNode& tree, const SymTable& syms, const SymbolOf& symbol) {
  return caught<Expr>([&] { return whole(Reader(syms, symbol).value(tree)); });
}

Result<Expr> parse_sym_text(std::string_view text, const SymTable& syms, const SymbolOf& symbol) {
  const Result<SymNode> tree = parse_sym(text);
  return tree ? expr_of(*tree, syms, symbol) : Result<Expr>::fail(tree.why());
}

Result<std::vector<ShapeGuard>> guards_of(const SymNode& tree, const SymTable& syms, const SymbolOf& symbol) {
  return caught<std::vector<ShapeGuard>>([&] { return Conditions(syms, symbol).read(tree); });
}

}  // namespace aotc::import
