#pragma once
// Parts of the type rules; only infer*.cpp include this.
#include "graph/guard.h"
#include "graph/infer.h"
#include "graph/pointwise.h"
#include "graph/type_error.h"

namespace aotc::infer {

using Types = std::vector<TensorType>;

/// One application of a rule: access to the operands, and the checks that rules share.
struct Infer {
  const Graph& g;
  const Node& n;
  const TensorType* given;
  std::vector<ShapeGuard>& needed;

  template <class... A>
  void require(bool ok, fmt::format_string<A...> text, A&&... args) const {
    if (ok) return;
    std::string operands;
    for (ValueId v : n.inputs) operands += (operands.empty() ? "" : ", ") + type_text(g.type(v));
    throw TypeError(fmt::format("{}{}{}({}): {}", op_name(n.op), n.name.empty() ? "" : " @", n.name, operands,
                                fmt::format(text, std::forward<A>(args)...)));
  }
  std::string text(const Expr& e) const { return e.str(g.syms); }
  std::string type_text(const TensorType& t) const {
    std::string s(dtype_name(t.dtype));
    s += '[';
    for (size_t i = 0; i < t.dims.size(); ++i) s += (i ? ", " : "") + text(t.dims[i]);
    return s + ']';
  }

  size_t arity() const { return n.inputs.size(); }
  void arity(size_t lo, size_t hi) const { require(arity() >= lo && arity() <= hi, "takes {} to {} inputs, has {}", lo, hi, arity()); }
  void arity(size_t count) const { require(arity() == count, "takes {} inputs, has {}", count, arity()); }
  const TensorType& in(size_t i) const { return g.type(n.inputs[i]); }
  const TensorType& result() const {
    require(given != nullptr, "needs its result type given");
    return *given;
  }
  int dim(int rank) const {
    const int64_t d = n.get<int64_t>(Attr::dim);
    require(d >= 0 && d < rank, "dim {} is not within rank {}", d, rank);
    return static_cast<int>(d);
  }
  const Ints& increasing_dims(int rank) const {
    const Ints& dims = n.get<Ints>(Attr::dims);
    for (size_t i = 0; i < dims.size(); ++i)
      require(dims[i] >= 0 && dims[i] < rank && (i == 0 || dims[i] > dims[i - 1]), "dims must be increasing and within rank {}", rank);
    return dims;
  }
  const Ints& per_spatial(Attr a, size_t count, int64_t least) const {
    const Ints& v = n.get<Ints>(a);
    require(v.size() == count, "{} must have {} entries", attr_name(a), count);
    for (int64_t x : v) require(x >= least, "{} must be at least {}", attr_name(a), least);
    return v;
  }

  void fact(ShapeGuard::Kind kind, const Expr& a, const Expr& b, std::string_view what) const {
    if (holds(g, kind, a, b)) return;
    const Expr diff = g.syms.simplify(a - b);
    const bool refuted =
        (kind == ShapeGuard::Kind::eq && g.syms.proves_ne(a, b)) || (kind == ShapeGuard::Kind::le && g.syms.proves_lt(b, a)) ||
        (kind != ShapeGuard::Kind::divisible && diff.is_const()) || (kind == ShapeGuard::Kind::divisible && a.is_const() && b.is_const());
    const char* relation = kind == ShapeGuard::Kind::eq ? "equal" : kind == ShapeGuard::Kind::le ? "at most" : "a multiple of";
    require(!refuted, "{}: {} is not {} {}", what, text(a), relation, text(b));
    needed.push_back({kind, a, b, {}});
    needed.back().why =
        fmt::format("{}: {}, {}", n.name.empty() ? std::string(op_name(n.op)) : n.name, what, guard_text(needed.back(), g.syms));
  }
  /// The common value; a constant where one of the two is.
  Expr equal(const Expr& a, const Expr& b, std::string_view what) const {
    fact(ShapeGuard::Kind::eq, a, b, what);
    return b.is_const() ? b : a;
  }
  void at_most(const Expr& a, const Expr& b, std::string_view what) const { fact(ShapeGuard::Kind::le, a, b, what); }
  Exprs equal(const Exprs& a, const Exprs& b, std::string_view what) const {
    require(a.size() == b.size(), "{}: ranks {} and {} differ", what, a.size(), b.size());
    Exprs out;
    for (size_t i = 0; i < a.size(); ++i) out.push_back(equal(a[i], b[i], what));
    return out;
  }
};

Types nullary(Infer&);
Types unary(Infer&);
Types binary(Infer&);
Types ternary(Infer&);
Types reshape(Infer&);
Types permute(Infer&);
Types expand(Infer&);
Types slice(Infer&);
Types flip(Infer&);
Types strided(Infer&);
Types pad(Infer&);
Types window(Infer&);
Types cat(Infer&);
Types index(Infer&);
Types index_put(Infer&);
Types add_rows(Infer&);
Types gather(Infer&);
Types scatter(Infer&);
Types matmul(Infer&);
Types grouped_matmul(Infer&);
Types conv(Infer&);
Types attention(Infer&);
Types reduce(Infer&);
Types scan(Infer&);
Types sort(Infer&);
Types check(Infer&);
Types recurrence(Infer&);
Types fourier(Infer&);
Types cholesky(Infer&);
Types exclude(Infer&);
Types lu(Infer&);
Types qr(Infer&);
Types svd(Infer&);
Types solve_triangular(Infer&);
Types custom(Infer&);

}  // namespace aotc::infer
