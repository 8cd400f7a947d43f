#include "sym/c_text.h"

namespace aotc {
namespace {

std::string literal(int64_t v, const char* suffix) {
  return v == INT64_MIN ? fmt::format("(-9223372036854775807{} - 1)", suffix) : fmt::format("{}{}", v, suffix);
}

}  // namespace

std::string c_text(const Expr& e, const SymTable& syms, const CHelpers& h, const std::function<std::string(SymId)>& name_of) {
  auto sub = [&](const Expr& x) { return c_text(x, syms, h, name_of); };
  auto nonnegative = [&](const Expr& a, const Expr& b) { return syms.interval(a).min >= 0 && syms.interval(b).min > 0; };
  auto call = [&](const char* f, const Expr::Atom& x) { return fmt::format("{}({}, {})", f, sub(x.a), sub(x.b)); };
  auto divided = [&](const char* f, const char* narrow, char c_operator, const Expr::Atom& x) {
    if (!nonnegative(x.a, x.b)) return call(f, x);
    const bool fits = narrow && syms.interval(x.a).max <= UINT32_MAX && syms.interval(x.b).max <= UINT32_MAX;
    return fits ? call(narrow, x) : fmt::format("(({}) {} ({}))", sub(x.a), c_operator, sub(x.b));
  };
  auto atom = [&](const Expr::Atom& x) -> std::string {
    switch (x.kind) {
      case Expr::AtomKind::symbol: return name_of(x.sym);
      case Expr::AtomKind::floordiv: return divided(h.floordiv, h.narrow_div, '/', x);
      case Expr::AtomKind::mod: return divided(h.floormod, h.narrow_mod, '%', x);
      case Expr::AtomKind::min: return call(h.min, x);
      case Expr::AtomKind::max: return call(h.max, x);
    }
    return {};
  };
  std::string sum;
  for (const Expr::Term& t : e.terms()) {
    std::string term = t.coef == 1 && !t.atoms.empty() ? "" : literal(t.coef, h.suffix);
    for (const Expr::Atom& x : t.atoms) term += (term.empty() ? "" : " * ") + atom(x);
    sum += (sum.empty() ? "" : " + ") + term;
  }
  return sum.empty() ? literal(0, h.suffix) : sum;
}

std::vector<uint32_t> characters(std::string_view text) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
    const uint32_t first = byte(i);
    const size_t more = first >= 0xf0 && first < 0xf5 ? 3 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xc2 && first < 0xe0 ? 1 : 0;
    uint32_t code = more == 3 ? first & 7 : more == 2 ? first & 15 : more == 1 ? first & 31 : first;
    bool valid = true;
    for (size_t k = 1; k <= more; ++k) {
      valid = valid && (byte(i + k) & 0xc0) == 0x80;
      code = code << 6 | (byte(i + k) & 0x3f);
    }
    out.push_back(valid ? code : first);
    i += valid ? more + 1 : 1;
  }
  return out;
}

std::string c_comment(std::string_view text) {
  std::string out;
  for (const uint32_t c : characters(text)) {
    const char before = out.empty() ? ' ' : out.back();
    if (c < 32 || c == 127)
      out += fmt::format("\\x{:02x}", c);
    else if (c > 127)
      out += fmt::format("\\u{:04x}", c);
    else if ((before == '*' && c == '/') || (before == '/' && (c == '*' || c == '/')) || (before == '?' && c == '?'))
      out += {' ', static_cast<char>(c)};
    else
      out += static_cast<char>(c);
  }
  if (!out.empty() && (out.back() == '\\' || out.back() == '*' || out.back() == '/')) out += ' ';
  return out;
}

}  // namespace aotc
