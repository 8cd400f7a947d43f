#include "passes/passes.h"

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// Rows of a value, counted along its dim before the last.
struct Rows {
  ValueId of;
  int64_t first;
  bool operator==(const Rows&) const = default;
};

class Chain {
 public:
  Chain(const Rewriter& r, ValueId last) : r_(r), rank_(static_cast<int64_t>(r.dims(last).size())) {}

  /// The matrix before its first step, where `last` is what the last step made of it.
  std::optional<ValueId> matrix(ValueId last) const {
    if (rank_ < 2) return {};
    const auto n = extent(last, rank_ - 2), columns = extent(last, rank_ - 1);
    if (!n || n != columns || *n <= 2) return {};
    for (int64_t row = *n - 1; row > 0; --row) {
      const auto before = step(last, row, *n);
      if (!before) return {};
      last = *before;
    }
    return last;
  }

 private:
  std::optional<int64_t> extent(ValueId v, int64_t dim) const { return r_.dims(v)[static_cast<size_t>(dim)].as_const(); }
  ValueId behind_reshape(ValueId v) const {
    const Node* n = r_.def(v, Op::reshape);
    return n ? n->inputs[0] : v;
  }
  /// v as `size` entries of another value from `first` on, along dim.
  std::optional<Rows> slice_of(ValueId v, int64_t dim, int64_t size) const {
    const Node* n = r_.def(v, Op::slice);
    if (!n || n->get<int64_t>(Attr::dim) != dim || n->get<int64_t>(Attr::step) != 1 || extent(v, dim) != size) return {};
    const auto first = n->get<Expr>(Attr::start).as_const();
    return first ? std::optional(Rows{n->inputs[0], *first}) : std::nullopt;
  }
  /// Where rows come from, seen through slices of rows and through cats of which they are within one part.
  Rows origin(Rows rows, int64_t size) const {
    for (const Node* n = r_.g.def(rows.of); n; n = r_.g.def(rows.of)) {
      if (const auto outer = slice_of(rows.of, rank_ - 2, extent(rows.of, rank_ - 2).value_or(-1))) {
        rows = {outer->of, outer->first + rows.first};
        continue;
      }
      if (n->op != Op::cat || n->get<int64_t>(Attr::dim) != rank_ - 2) break;
      int64_t begin = 0;
      ValueId part = kNone<ValueId>;
      for (ValueId u : n->inputs) {
        const auto there = extent(u, rank_ - 2);
        if (!there) return rows;
        if (rows.first >= begin && rows.first + size <= begin + *there) part = u;
        if (part != kNone<ValueId>) break;
        begin += *there;
      }
      if (part == kNone<ValueId>) break;
      rows = {part, rows.first - begin};
    }
    return rows;
  }
  bool are_rows(ValueId v, Rows want, int64_t size) const {
    return extent(v, rank_ - 2) == size && origin({v, 0}, size) == origin(want, size);
  }

  /// The matrix before row `row` of n was solved.
  std::optional<ValueId> step(ValueId after, int64_t row, int64_t n) const {
    const Node* rows = r_.def(after, Op::cat);
    const bool has_tail = row < n - 1;
    if (!rows || rows->get<int64_t>(Attr::dim) != rank_ - 2 || rows->inputs.size() != (has_tail ? 3u : 2u)) return {};
    const auto head = slice_of(rows->inputs[0], rank_ - 2, row);
    if (!head || head->first != 0 || extent(rows->inputs[1], rank_ - 2) != 1) return {};
    const ValueId before = head->of;
    if (r_.dims(before).size() != static_cast<size_t>(rank_) || extent(before, rank_ - 2) != n) return {};
    if (has_tail && !are_rows(rows->inputs[2], {before, row + 1}, n - 1 - row)) return {};
    // The row: what is solved, and what stays.
    const Node* parts = r_.def(behind_reshape(rows->inputs[1]), Op::cat);
    if (!parts || parts->inputs.size() != 2) return {};
    const int64_t along = parts->get<int64_t>(Attr::dim);
    if (along != static_cast<int64_t>(r_.dims(parts->outputs[0]).size()) - 1) return {};
    const auto rest = slice_of(parts->inputs[1], along, n - row);
    if (!rest || rest->first != row) return {};
    if (!are_rows(behind_reshape(rest->of), {before, row}, 1)) return {};
    const Node* sum = r_.def(parts->inputs[0], Op::add);
    if (!sum) return {};
    for (int side : {0, 1}) {
      const ValueId part = sum->inputs[static_cast<size_t>(side)];
      const auto solved = slice_of(part, along, row);
      if (solved && solved->first == 0 && solved->of == rest->of &&
          is_product(sum->inputs[static_cast<size_t>(1 - side)], part, before, row))
        return before;
    }
    return {};
  }

  /// Whether v is part @ before[:row, :row].
  bool is_product(ValueId v, ValueId part, ValueId before, int64_t row) const {
    auto is_square = [&](ValueId x) {
      for (const bool columns_last : {true, false}) {
        const int64_t outer = columns_last ? rank_ - 1 : rank_ - 2, inner = columns_last ? rank_ - 2 : rank_ - 1;
        if (r_.dims(x).size() != static_cast<size_t>(rank_)) return false;
        const auto a = slice_of(x, outer, row);
        const auto b = a ? slice_of(a->of, inner, row) : std::nullopt;
        if (a && b && a->first == 0 && b->first == 0 && b->of == before) return true;
      }
      return false;
    };
    if (const Node* zero = r_.def(v, Op::add))  // a sum of one product
      for (int side : {0, 1})
        if (row == 1 && splat_value(r_.g, zero->inputs[static_cast<size_t>(side)]) == 0.0) {
          v = zero->inputs[static_cast<size_t>(1 - side)];
          break;
        }
    if (const Node* product = r_.def(behind_reshape(v), Op::matmul))
      return behind_reshape(product->inputs[0]) == part && extent(product->inputs[0], rank_ - 1) == row && is_square(product->inputs[1]);
    const Node* reduced = r_.def(v, Op::reduce);
    if (row > 1 && (!reduced || reduced->get<std::string>(Attr::kind) != "sum" || reduced->get<Ints>(Attr::dims) != Ints{rank_ - 2}))
      return false;
    const Node* product = r_.def(reduced ? reduced->inputs[0] : behind_reshape(v), Op::mul);
    if (!product) return false;
    for (int side : {0, 1}) {
      ValueId column = product->inputs[static_cast<size_t>(side)];
      if (const Node* wide = r_.def(column, Op::expand)) column = wide->inputs[0];
      // A column: [.., row, 1].
      if (r_.dims(column).size() == static_cast<size_t>(rank_) && extent(column, rank_ - 1) == 1 && behind_reshape(column) == part &&
          is_square(product->inputs[static_cast<size_t>(1 - side)]))
        return true;
    }
    return false;
  }

  const Rewriter& r_;
  int64_t rank_;
};

std::optional<ValueId> solved(Rewriter& r, const Node& n) {
  if (n.op != Op::cat) return {};
  const DType t = r.dtype(n.outputs[0]);
  if (t != DType::f32 && t != DType::f64) return {};
  const auto matrix = Chain(r, n.outputs[0]).matrix(n.outputs[0]);
  if (!matrix) return {};
  return r.b.make1(Op::solve_triangular, {r.b.unary(Op::neg, *matrix), *matrix},
                   {{Attr::upper, false}, {Attr::unit, true}, {Attr::below, true}});
}

}  // namespace

/// Rows that are solved one after the other, a[.., i, :i] += a[.., i, :i] @ a[.., :i, :i] for i from 1 to the last, become one
/// solve_triangular: chunks of gated delta nets write a triangular system so, in as many copies of the matrix as it has rows. f32 and f64.
/// Changes
/// rounding: sums are taken in double. Requires canonical views.
void forward_substitution(Graph& g, PassContext&) { Rewriter(g).sweep(solved); }

}  // namespace aotc::passes
