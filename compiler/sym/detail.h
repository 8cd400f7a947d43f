#pragma once
// Shared by the files of sym/; nothing outside includes this.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sym/expr.h"

namespace aotc {

struct Expr::Rep {
  std::vector<Term> terms;
  size_t hash = 0;
  int64_t parts = 0;  ///< see parts()
  uint64_t mask = 0;  ///< bit (id mod 64) of every symbol, also of those inside atoms
  bool plain = true;  ///< no atom but symbols
};

/// Makes Exprs from parts.
struct ExprFactory {
  /// Terms in any order, atoms sorted within each; equal products are merged.
  static Expr from_terms(std::vector<Expr::Term> terms);
  /// Terms in canonical order, without duplicates or zeros.
  static Expr from_canonical(std::vector<Expr::Term> terms);
  static Expr atom(Expr::AtomKind kind, const Expr& a, const Expr& b);
  static Expr atom(const Expr::Atom& a);
  static Expr term(const Expr::Term& t);
  static const Expr::Rep& rep(const Expr& e) { return *e.rep_; }
  static bool same(const Expr& a, const Expr& b) { return a.rep_ == b.rep_; }
};

namespace sym {

using Atom = Expr::Atom;
using Term = Expr::Term;
using AtomKind = Expr::AtomKind;
using Atoms = std::vector<Atom>;

int compare_atoms(const Atom& a, const Atom& b);
int compare_products(const Atoms& a, const Atoms& b);  ///< higher degree first
/// What atoms are simplified to with the symbols of one table, as the sizes of a program are made of the same few. Thread-safe.
class Simplified {
 public:
  struct Key {
    int depth;
    bool of_simplified;  ///< its operands are simplified
    Expr atom;
    bool operator<(const Key& o) const {
      const auto order = [](const Key& k) { return std::tuple(k.atom.hash(), k.depth, k.of_simplified); };
      if (const auto a = order(*this), b = order(o); a != b) return a < b;
      return Expr::compare(atom, o.atom) < 0;
    }
  };
  std::optional<Expr> find(const Key& k) {
    const std::lock_guard lock(mutex_);
    const auto it = known_.find(k);
    return it == known_.end() ? std::nullopt : std::optional(it->second);
  }
  void add(Key k, const Expr& e) {
    constexpr size_t kMost = 1 << 14;
    const std::lock_guard lock(mutex_);
    if (known_.size() >= kMost) known_.clear();
    known_.emplace(std::move(k), e);
  }

 private:
  std::mutex mutex_;
  std::map<Key, Expr> known_;
};

inline bool is_plain(const Expr& e) { return ExprFactory::rep(e).plain; }
inline uint64_t symbol_mask(const Expr& e) { return ExprFactory::rep(e).mask; }

int64_t checked_add(int64_t a, int64_t b);
int64_t checked_mul(int64_t a, int64_t b);
int64_t floor_div(int64_t a, int64_t b);
int64_t floor_mod(int64_t a, int64_t b);

/// The coefficient of exactly this product in e; 0 when it does not occur.
int64_t coefficient(const Expr& e, const Atoms& product);
/// The constant term.
int64_t constant_part(const Expr& e);
Expr without_constant(const Expr& e);
/// True when `part` occurs in `whole`, term by term with equal coefficients.
bool contains_terms(const Expr& whole, const Expr& part);
/// t / by when that is a product again.
std::optional<Term> divide_term(const Term& t, const Term& by);
/// a / b when b divides a as a polynomial.
std::optional<Expr> divide_exact(const Expr& a, const Expr& b);
/// a = q * b + r by leading terms; q may be zero.
std::pair<Expr, Expr> polynomial_divide(const Expr& a, const Expr& b);
/// When e is exactly one atom with coefficient 1 of that kind: that atom.
const Atom* single_atom(const Expr& e, AtomKind kind);

// ---- intervals; INT64_MIN and kInf are infinities
Interval add(Interval a, Interval b);
Interval mul(Interval a, Interval b);
Interval scale(Interval a, int64_t by);

/// Proofs and bounds over one table. Never wrong; may fail to prove what is true.
class Prover {
 public:
  explicit Prover(const SymTable& syms) : syms_(syms) {}
  Interval symbol(SymId s) const;
  Interval interval(const Expr& e) const;  ///< every atom on its own: fast
  bool nonneg(const Expr& e) const { return nonneg(e, 0); }
  bool positive(const Expr& e) const { return interval(e).min >= 1 || nonneg(e - 1); }
  bool in_range(const Expr& e, const Expr& below) const { return nonneg(e) && nonneg(below - 1 - e); }  ///< 0 <= e < below
  /// A number that divides every value of e; 0 when e is always 0.
  int64_t multiple_of(const Expr& e) const;
  int64_t multiple_of(const Atom& a) const;
  /// A bound of e without symbols that have an extent; nullopt when none was found.
  std::optional<Expr> bound(const Expr& e, bool upper, int depth = 0) const;

 private:
  Interval atom(const Atom& a) const;
  bool nonneg(const Expr& e, int depth) const;
  bool bound_is_free(const Expr& e) const;   ///< no symbol with an extent
  int64_t shifted_min(const Expr& e) const;  ///< lower bound with every atom written as its minimum plus something not negative
  std::optional<Expr> relax_division(const Expr& e) const;
  const SymTable& syms_;
};

}  // namespace sym
}  // namespace aotc
