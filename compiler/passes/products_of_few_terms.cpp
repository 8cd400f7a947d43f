#include "passes/passes.h"

#include <algorithm>

#include "base/uarch.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

constexpr int64_t kLeastLanes = 2;  ///< rows that are neighbours in the result

/// Element `at` of dim d, which stays, with extent 1: out of the part of a cat that has it.
ValueId element(Rewriter& r, ValueId v, int64_t d, int64_t at) {
  for (const Node* n = r.def(v, Op::cat); n && n->get<int64_t>(Attr::dim) == d; n = r.def(v, Op::cat)) {
    ValueId part = kNone<ValueId>;
    int64_t begin = 0;
    for (ValueId u : n->inputs) {
      const auto extent = r.dims(u)[static_cast<size_t>(d)].as_const();
      if (!extent) break;
      if (at < begin + *extent) {
        part = u;
        break;
      }
      begin += *extent;
    }
    if (part == kNone<ValueId>) break;
    v = part, at -= begin;
  }
  return r.b.slice(v, static_cast<int>(d), at, 1);
}

/// What v shows, it shows many times.
bool read_often(const Rewriter& r, ValueId v, const CpuCosts& u) {
  const int64_t shown = r.g.syms.hint(product(r.dims(v)));
  for (const Node* n = r.g.def(v); n && (n->op == Op::expand || n->op == Op::reshape || n->op == Op::permute); n = r.g.def(v))
    v = n->inputs[0];
  return shown >= u.sum_often * std::max<int64_t>(1, r.g.syms.hint(product(r.dims(v))));
}

/// Whether a CPU's tiles are slower than the sums.
bool better_on_cpu(const Rewriter& r, const Node& n, int64_t k, int64_t columns, const Uarch& uarch) {
  const CpuCosts& u = uarch.cpu;
  const ValueId a = n.inputs[0], b = n.inputs[1];
  const DType t = r.dtype(a);
  const Exprs out = r.dims(n.outputs[0]);
  if (columns > u.sum_columns) return false;
  const int64_t rows = r.g.syms.hint(out[out.size() - 2]);
  const bool many_rows = rows >= u.sum_many_rows || read_often(r, b, u);
  if (many_rows && k > u.sum_short && t == DType::f32) return false;
  if (t == DType::f64 && columns == u.sum_columns) return false;  // whole vectors of halves: tiles are faster with AVX2
  // Rows get the lanes: as few as columns, or such as are copied into their order.
  if (columns == 1 && (rows < kLeastLanes || (rows > u.sum_columns && !read_often(r, a, u)))) return false;
  return columns != 2 || !many_rows;
}

/// Whether a GPU's tiles would be mostly padding.
bool better_on_gpu(const Rewriter& r, const Node& n, int64_t k, int64_t columns, const Uarch& uarch) {
  const GpuCosts& u = uarch.gpu;
  const Exprs out = r.dims(n.outputs[0]);
  return k <= u.sum_few_terms || std::min(columns, r.g.syms.hint(out[out.size() - 2])) <= u.sum_few_lines;
}

std::optional<ValueId> written_out(Rewriter& r, const Node& n, const Uarch& u) {
  const auto operands = float_operands(r, n);
  if (!operands) return std::nullopt;
  const auto [a, b] = *operands;
  const Exprs da = r.dims(a), db = r.dims(b), out = r.dims(n.outputs[0]);
  if (da.size() < 2 || da.size() != out.size() || db.size() > out.size() || db.size() < 2) return std::nullopt;
  const int64_t terms = static_cast<int64_t>(da.size()) - 1, rows_of_b = static_cast<int64_t>(db.size()) - 2;
  const auto k = da.back().as_const(), columns = db.back().as_const();
  if (!k || *k < 1 || *k > u.sum_terms || !columns || *columns < 1) return std::nullopt;
  if (!(u.is_gpu ? better_on_gpu : better_on_cpu)(r, n, *k, *columns, u)) return std::nullopt;
  if (r.g.syms.hint(product(out)) < u.sum_least_rows * *columns) return std::nullopt;
  ValueId sum = r.b.full({r.dtype(n.outputs[0]), out}, 0);  // of products that are all -0.0, too
  for (int64_t i = 0; i < *k; ++i) {
    ValueId y = element(r, b, rows_of_b, i);
    Exprs one(out.size() - db.size(), Expr(1));
    for (const Expr& e : r.dims(y)) one.push_back(e);
    if (one.size() != db.size()) y = r.b.reshape(y, one);
    const ValueId x = r.b.expand(element(r, a, terms, i), out);
    const ValueId term = r.b.binary(Op::mul, x, r.b.expand(y, out));
    sum = r.b.binary(Op::add, term, sum);
  }
  return sum;
}

}  // namespace

/// Products of few terms are written out as sums of products: on CPUs those of few columns (of points with a rotation, of small matrices
/// each with its own), whose operands tiles would take longer to copy than to multiply; on GPUs those whose tiles would be mostly padding.
void products_of_few_terms(Graph& g, PassContext& ctx) {
  Rewriter(g).sweep([&u = uarch_of(ctx.target)](Rewriter& r, const Node& n) { return written_out(r, n, u); });
}

}  // namespace aotc::passes
