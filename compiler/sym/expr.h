#pragma once
// Symbolic integers: shapes, index expressions, arena offsets and guards all use these, and one simplifier serves all.
//
// An Expr is an immutable value in canonical polynomial form: an ordered sum of (coefficient * product of atoms), where an
// atom is a symbol, floordiv(Expr, Expr), mod(Expr, Expr), min(Expr, Expr) or max(Expr, Expr). Two Exprs that are equal as
// polynomials over the same atoms compare equal. Division rounds towards minus infinity, mod has the sign of the divisor
// (Python's // and %). Arithmetic saturates to an AOTC_CHECK on overflow of int64.
// Construction folds constants and rules that hold for all integers; rules that need ranges are in simplify().
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/ids.h"

namespace aotc {

inline constexpr int64_t kInf = INT64_MAX;  ///< an upper bound that is not known

class Expr;
class SymTable;
namespace sym {
class Simplified;  // detail.h
}
using SymMap = std::map<SymId, Expr>;

class Expr {
 public:
  struct Rep;  // in expr.cpp
  enum class AtomKind : uint8_t { symbol, floordiv, mod, min, max };
  struct Atom;
  struct Term;

  Expr() : Expr(int64_t{0}) {}
  Expr(int64_t c);  // NOLINT: implicit on purpose
  Expr(int c) : Expr(static_cast<int64_t>(c)) {}
  static Expr symbol(SymId s);

  std::optional<int64_t> as_const() const;
  bool is_const() const { return as_const().has_value(); }
  bool is(int64_t c) const {
    auto v = as_const();
    return v && *v == c;
  }
  std::optional<SymId> as_symbol() const;  ///< set when this is exactly one symbol with coefficient 1
  const std::vector<Term>& terms() const;  ///< canonical order; a constant is a term without atoms; zero has no term

  std::set<SymId> symbols() const;
  bool depends_on(SymId s) const;
  Expr substitute(const SymMap& with) const;  ///< simultaneous
  int64_t eval(const std::function<int64_t(SymId)>& value_of) const;
  std::optional<int64_t> try_eval(const std::function<std::optional<int64_t>(SymId)>& value_of) const;
  /// d(this)/d(s) when this is affine in s (s not inside any floordiv/mod/min/max nor multiplied by itself).
  std::optional<Expr> linear_coefficient(SymId s) const;

  std::string str(const SymTable& names) const;  ///< infix text: "batch*1024 + floordiv(s0, 2)"
  size_t hash() const;
  /// Total order on structure (for canonical output), not on values.
  static int compare(const Expr& a, const Expr& b);

  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a);
  friend bool operator==(const Expr& a, const Expr& b) { return compare(a, b) == 0; }
  friend bool operator!=(const Expr& a, const Expr& b) { return compare(a, b) != 0; }
  Expr& operator+=(const Expr& o) { return *this = *this + o; }
  Expr& operator-=(const Expr& o) { return *this = *this - o; }
  Expr& operator*=(const Expr& o) { return *this = *this * o; }

 private:
  explicit Expr(std::shared_ptr<const Rep> rep) : rep_(std::move(rep)) {}
  std::shared_ptr<const Rep> rep_;
  friend struct ExprFactory;
};

/// One factor of a term. kind==symbol uses sym; the others use a and b.
struct Expr::Atom {
  AtomKind kind;
  SymId sym;
  Expr a, b;
};
struct Expr::Term {
  int64_t coef;
  std::vector<Atom> atoms;  ///< sorted; a power is a repeated atom
};

Expr floordiv(const Expr& a, const Expr& b);  ///< b must not be the constant 0
Expr mod(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);
Expr ceildiv(const Expr& a, const Expr& b);  ///< floordiv(a + b - 1, b)
Expr align_up(const Expr& a, int64_t to);    ///< ceildiv(a, to) * to
Expr product(const std::vector<Expr>& xs);

enum class SymKind : uint8_t {
  shape,  ///< a dimension of the model's inputs (or an unbacked one), known when run() starts
  loop,   ///< a loop variable of a kernel: 0 <= v < extent
  value,  ///< an integer loaded from memory inside a kernel (indirect index)
};

struct SymInfo {
  std::string name;
  SymKind kind = SymKind::shape;
  int64_t min = 0;     ///< inclusive
  int64_t max = kInf;  ///< inclusive; kInf: unbounded
  int64_t multiple_of = 1;
  std::optional<int64_t> exported;  ///< of the example inputs that the program was exported with
  std::optional<Expr> extent;       ///< for loop and value symbols: v <= extent - 1, also where extent is symbolic
  std::vector<int64_t> tune;        ///< sizes worth tuning for (shape symbols)
};

/// Inclusive interval; min may be INT64_MIN and max kInf when nothing is known.
struct Interval {
  int64_t min, max;
};

/// The symbols of one graph (and, extended, of its kernels). Copied freely; not thread-safe while being added to.
class SymTable {
 public:
  SymTable();
  SymId add(SymInfo info);  ///< name must be unique, else a suffix is added
  const SymInfo& operator[](SymId s) const { return syms_[s]; }
  SymInfo& edit(SymId s);  ///< to be written before anything else is asked of the table
  std::optional<SymId> find(std::string_view name) const;
  size_t size() const { return syms_.size(); }

  Interval interval(const Expr& e) const;  ///< sound: every value lies within
  Expr simplify(const Expr& e) const;      ///< with ranges, extents and divisibility
  // Proofs: true means proved; false means unknown.
  bool proves_eq(const Expr& a, const Expr& b) const;
  bool proves_ne(const Expr& a, const Expr& b) const;
  bool proves_le(const Expr& a, const Expr& b) const;  ///< a <= b for every value of the symbols
  bool proves_lt(const Expr& a, const Expr& b) const;
  bool proves_divisible(const Expr& a, int64_t by) const;
  /// A representative size for cost estimates: the largest `tune` value, else max when bounded by 4096, else max(min, 128).
  int64_t hint(const Expr& e) const;
  /// Its value at the sizes that the program was exported with; none where one of them is not known.
  std::optional<int64_t> exported(const Expr& e) const;

 private:
  IdVec<SymId, SymInfo> syms_;
  /// What simplify() has found; copies share it until one of them is changed.
  std::shared_ptr<sym::Simplified> simplified_;
};

/// Parses the text of Expr::str(). Unknown names are an error (Diagnostic with the column).
Expr parse_expr(std::string_view text, const SymTable& names);

}  // namespace aotc
