// Text of expressions: infix, floordiv(a, b), mod(a, b), min(a, b), max(a, b).
#include <cctype>

#include "sym/detail.h"

namespace aotc {

using namespace sym;  // NOLINT

std::string Expr::str(const SymTable& names) const {
  if (terms().empty()) return "0";
  std::string s;
  for (const Term& t : terms()) {
    const bool negative = t.coef < 0;
    if (s.empty())
      s = negative ? "-" : "";
    else
      s += negative ? " - " : " + ";
    std::string product;
    for (const Atom& a : t.atoms) {
      if (!product.empty()) product += '*';
      if (a.kind == AtomKind::symbol) {
        product += names[a.sym].name;
      } else {
        static constexpr std::string_view kNames[] = {"", "floordiv", "mod", "min", "max"};
        product += fmt::format("{}({}, {})", kNames[static_cast<size_t>(a.kind)], a.a.str(names), a.b.str(names));
      }
    }
    const uint64_t magnitude = negative ? -static_cast<uint64_t>(t.coef) : static_cast<uint64_t>(t.coef);
    if (product.empty())
      s += fmt::format("{}", magnitude);
    else
      s += magnitude == 1 ? product : fmt::format("{}*{}", product, magnitude);
  }
  return s;
}

namespace {

class Parser {
 public:
  Parser(std::string_view text, const SymTable& names) : text_(text), names_(names) {}

  Expr parse() {
    Expr e = sum();
    skip();
    if (at_ != text_.size()) fail("expected an operator");
    return e;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Diagnostic(Loc{{}, fmt::format("column {}", at_ + 1), {}, {}}, fmt::format("{} in \"{}\"", what, text_));
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("expected '{}'", c));
  }
  Expr sum() {
    Expr e = term();
    for (;;) {
      if (take('+'))
        e += term();
      else if (take('-'))
        e -= term();
      else
        return e;
    }
  }
  Expr term() {
    Expr e = unary();
    while (take('*')) e *= unary();
    return e;
  }
  Expr unary() {
    const Nesting one(*this);
    if (take('-')) return -unary();
    if (take('(')) {
      Expr e = sum();
      expect(')');
      return e;
    }
    skip();
    if (at_ >= text_.size()) fail("expected an expression");
    if (std::isdigit(static_cast<unsigned char>(text_[at_]))) return number();
    return name();
  }
  Expr number() {
    int64_t v = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
      if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, text_[at_] - '0', &v)) fail("the number is too large");
    }
    return v;
  }
  Expr name() {
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.')) ++at_;
    if (at_ == start) fail("expected a number, a name or '('");
    const std::string_view id = text_.substr(start, at_ - start);
    if (take('(')) {
      const Expr a = sum();
      expect(',');
      const Expr b = sum();
      expect(')');
      if (id == "min") return min(a, b);
      if (id == "max") return max(a, b);
      if (id != "floordiv" && id != "mod") {
        at_ = start;
        fail(fmt::format("unknown function '{}' (known: floordiv, mod, min, max)", id));
      }
      if (b.is(0)) fail("division by zero");
      return id == "mod" ? mod(a, b) : floordiv(a, b);
    }
    if (auto s = names_.find(id)) return Expr::symbol(*s);
    at_ = start;
    fail(fmt::format("unknown symbol '{}'", id));
  }

  /// Each level of brackets or signs is one of the stack, too.
  struct Nesting {
    explicit Nesting(Parser& p) : depth(p.depth_) {
      if (++depth > 200) p.fail("the expression is nested too deeply");
    }
    ~Nesting() { --depth; }
    int& depth;
  };

  std::string_view text_;
  const SymTable& names_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr parse_expr(std::string_view text, const SymTable& names) { return Parser(text, names).parse(); }

}  // namespace aotc
