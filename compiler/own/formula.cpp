#include "own/formula.h"

#include <cctype>

#include "base/words.h"

namespace aotc::own {
namespace {

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

constexpr std::string_view kFunctions = "floordiv mod min max";

/// Every name that the text has, but for functions.
SymTable names_of(std::string_view text) {
  SymTable names;
  for (size_t at = 0; at < text.size();) {
    if (!is_name_char(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_name_char(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    at = end;
    const bool function = has_word(kFunctions, word);
    if (std::isdigit(static_cast<unsigned char>(word[0])) || function || names.find(word)) continue;
    SymInfo info;
    info.name = std::string(word);
    names.add(std::move(info));
  }
  return names;
}

Diagnostic overflow(const std::string& file, const std::string& path, const std::string& text) {
  return Diagnostic(Loc{file, path, "", ""}, fmt::format("a number in \"{}\" is beyond 64 bits", text));
}

/// Refuses a divisor that may be zero or negative.
void check_divisors(const Expr& e, const SymTable& syms, const Formula& f, const std::string& file) {
  for (const Expr::Term& t : e.terms())
    for (const Expr::Atom& a : t.atoms) {
      if (a.kind == Expr::AtomKind::symbol) continue;
      check_divisors(a.a, syms, f, file);
      check_divisors(a.b, syms, f, file);
      if ((a.kind == Expr::AtomKind::floordiv || a.kind == Expr::AtomKind::mod) && syms.interval(a.b).min < 1)
        throw Diagnostic(Loc{file, f.path, "", ""}, fmt::format("\"{}\" divides by {}, which may be less than 1", f.text, a.b.str(syms)))
            .note("write max(.., 1) around it");
    }
}

}  // namespace

Formula constant_formula(int64_t value, const std::string& path) { return {fmt::format("{}", value), path, {}, Expr(value)}; }

Formula parse_formula(std::string_view text, const std::string& file, const std::string& path) {
  const Loc at{file, path, "", ""};
  if (text.size() > kMostFormulaChars)
    throw Diagnostic(at, fmt::format("an expression of {} characters; at most {}", text.size(), kMostFormulaChars));
  Formula f{std::string(text), path, names_of(text), 0};
  try {
    f.expr = parse_expr(text, f.names);
  } catch (const Diagnostic& d) {
    throw Diagnostic(at, fmt::format("{} ({})", d.message(), d.loc().path))
        .note(
            "expected an integer, or an expression such as \"x.0 * 2\": sizes x.0, x.last, x.numel, x.rank, integer arguments, + - *, "
            "floordiv, "
            "mod, min, max");
  } catch (const InternalError&) { throw overflow(file, path, f.text); }
  return f;
}

Expr resolve(const Formula& f, const SymTable& syms, const std::string& file,
             const std::function<std::optional<Expr>(const std::string& name)>& value_of) {
  SymMap with;
  for (const SymId s : f.expr.symbols()) {
    const std::string& name = f.names[s].name;
    const std::optional<Expr> value = value_of(name);
    if (!value)
      throw Diagnostic(Loc{file, f.path, "", ""}, fmt::format("\"{}\" is no size here", name))
          .note("there are ARG.0 (a size of a tensor argument), ARG.last, ARG.numel, ARG.rank, and the operator's integer arguments");
    with.emplace(s, *value);
  }
  try {
    const Expr e = f.expr.substitute(with);
    check_divisors(e, syms, f, file);
    return syms.simplify(e);
  } catch (const InternalError&) { throw overflow(file, f.path, f.text); }
}

}  // namespace aotc::own
