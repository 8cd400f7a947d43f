#include "graph/infer.h"

#include "graph/infer_detail.h"
#include "graph/op_table.h"

namespace aotc {
namespace {

using Rule = infer::Types (*)(infer::Infer&);

Rule rule_of(Op op) {
  using namespace infer;
  switch (op_class(op)) {
    case OpClass::nullary: return nullary;
    case OpClass::unary: return unary;
    case OpClass::binary: return binary;
    case OpClass::ternary: return ternary;
    case OpClass::cat: return cat;
    case OpClass::reduce: return reduce;
    case OpClass::scan: return scan;
    case OpClass::view:
    case OpClass::index:
    case OpClass::contraction:
    case OpClass::opaque: break;
  }
  struct Row {
    Op op;
    Rule rule;
  };
  static constexpr Row kRules[] = {
      {Op::reshape, reshape},
      {Op::permute, permute},
      {Op::expand, expand},
      {Op::slice, slice},
      {Op::flip, flip},
      {Op::strided, strided},
      {Op::pad, pad},
      {Op::window, window},
      {Op::index, index},
      {Op::gather, gather},
      {Op::scatter, scatter},
      {Op::index_put, index_put},
      {Op::add_rows, add_rows},
      {Op::matmul, matmul},
      {Op::grouped_matmul, grouped_matmul},
      {Op::conv, conv},
      {Op::conv_transpose, conv},
      {Op::attention, attention},
      {Op::sort, sort},
      {Op::topk, sort},
      {Op::check, check},
      {Op::recurrence, recurrence},
      {Op::fourier, fourier},
      {Op::cholesky, cholesky},
      {Op::exclude, exclude},
      {Op::lu, lu},
      {Op::qr, qr},
      {Op::solve_triangular, solve_triangular},
      {Op::svd, svd},
      {Op::custom, custom},
  };
  static_assert(Fits<misfit(kRules, {OpClass::view, OpClass::index, OpClass::contraction, OpClass::opaque})>::value);
  return row_of(kRules, op).rule;
}

/// Uses guards "symbol == expression" as substitutions, of two symbols the later one's, until none changes anything: they may be chains.
Expr with_equalities(const Graph& g, Expr e) {
  constexpr int kLongestChain = 16;
  for (int round = 0; round < kLongestChain; ++round) {
    const Expr before = e;
    for (const ShapeGuard& q : g.guards) {
      if (q.kind != ShapeGuard::Kind::eq) continue;
      const auto s = q.a.as_symbol(), t = q.b.as_symbol();
      if (s && !q.b.depends_on(*s) && !(t && *s < *t)) {
        e = e.substitute({{*s, q.b}});
      } else if (t && !q.a.depends_on(*t)) {
        e = e.substitute({{*t, q.a}});
      }
    }
    if (e == before) break;
  }
  return g.syms.simplify(e);
}

bool proves(const SymTable& s, ShapeGuard::Kind kind, const Expr& a, const Expr& b) {
  switch (kind) {
    case ShapeGuard::Kind::eq: return s.proves_eq(a, b);
    case ShapeGuard::Kind::le: return s.proves_le(a, b);
    case ShapeGuard::Kind::divisible: {
      const auto by = b.as_const();
      if (a == b) return true;
      if (by && *by == 0) return false;
      return by ? s.proves_divisible(a, *by) : s.proves_eq(mod(a, b), 0);
    }
  }
  return false;
}

/// Whether a guard says so, as it is or as a difference.
bool stated(const Graph& g, ShapeGuard::Kind kind, const Expr& a, const Expr& b) {
  const Expr diff = g.syms.simplify(a - b);
  return std::any_of(g.guards.begin(), g.guards.end(), [&](const ShapeGuard& q) {
    if (q.kind == kind && q.a == a && q.b == b) return true;
    if (kind == ShapeGuard::Kind::divisible) return false;
    const Expr known = g.syms.simplify(q.a - q.b);
    if (q.kind == ShapeGuard::Kind::eq && (known == diff || known == -diff)) return true;
    return q.kind == ShapeGuard::Kind::le && kind == ShapeGuard::Kind::le && g.syms.proves_le(diff, known);
  });
}

}  // namespace

bool holds(const Graph& g, ShapeGuard::Kind kind, const Expr& a, const Expr& b) {
  if (proves(g.syms, kind, a, b)) return true;
  if (g.guards.empty()) return false;
  if (stated(g, kind, a, b)) return true;
  const Expr x = with_equalities(g, a), y = with_equalities(g, b);
  return proves(g.syms, kind, x, y) || ((x != a || y != b) && stated(g, kind, x, y));
}

bool same_dims(const Graph& g, const Exprs& a, const Exprs& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!holds(g, ShapeGuard::Kind::eq, a[i], b[i])) return false;
  return true;
}

std::vector<TensorType> infer_types(const Graph& g, const Node& node, const TensorType* given, std::vector<ShapeGuard>& needed) {
  infer::Infer r{g, node, given, needed};
  infer::Types out = rule_of(node.op)(r);
  if (given) {
    r.require(given->dtype == out[0].dtype, "the result is {}, not {}", dtype_name(out[0].dtype), dtype_name(given->dtype));
    out[0].dims = r.equal(out[0].dims, given->dims, "result dims");
  }
  return out;
}

std::vector<TensorType> infer_types(const Graph& g, const Node& node, const TensorType* given) {
  std::vector<ShapeGuard> needed;
  std::vector<TensorType> out = infer_types(g, node, given, needed);
  if (!needed.empty()) {
    const ShapeGuard& q = needed.front();
    throw InternalError(fmt::format("{}: needs a guard on {} and {} ({})", op_name(node.op), q.a.str(g.syms), q.b.str(g.syms), q.why));
  }
  return out;
}

}  // namespace aotc
