// Results whose sizes depend on data: what is selected, what is unequal, how often.
#include "decompose/families.h"
#include "decompose/indexing.h"
#include "decompose/selection.h"

namespace aotc::decompose {
namespace {

/// [n, rank], a row an element.
void nonzero_rows(Rule& r) {
  const T x = tensor(r, "self");
  const std::vector<T> at = coordinates_where(r, x, r.meta_result().dims.at(0));
  if (at.empty()) r.refuse("the places of a number, which has none", "reshape it to one dimension");
  std::vector<ValueId> columns;
  for (const T& c : at) columns.push_back(c.unsqueeze(1));
  r.set(r.b.cat(columns, 1));
}

/// A tensor a dim.
void nonzero_columns(Rule& r) {
  T x = tensor(r, r.has("condition") ? "condition" : "self");
  if (x.rank() == 0) x = x.reshape({1});
  std::vector<ValueId> columns;
  for (const T& c : coordinates_where(r, x, r.meta_result().dims.at(0))) columns.push_back(c);
  r.set_list(0, columns);
}

void masked_select(Rule& r) {
  std::vector<ValueId> both = {r.tensor("self"), tensor(r, "mask").to(DType::boolean)};
  broadcast_all(r.b, both);
  const T x(r.b, both[0]), mask(r.b, both[1]);
  const Expr n = product(x.dims());
  r.set(take_index(x.reshape({n}), places_where(r, mask, r.meta_result().dims.at(0)), 0));
}

/// What is unequal of a line whose equal elements follow each other, `order` being their places in the tensor (nothing: as they are):
/// results 0 to 2 are the elements, for each place of the tensor which one it is, and how often each is there.
void distinct(Rule& r, const T& line, const std::optional<T>& order, std::vector<Expr> whole) {
  Builder& b = r.b;
  const Expr n = line.dim(0);
  const T at = iota(b, {n}, 0);
  const T before = take_index(line, maximum(at - 1.0, 0.0), 0);
  const T begins = (at == 0.0) | (line != before);  // NaN is unlike any
  const T first = places_where(r, begins, r.meta_result().dims.at(0));
  r.set(0, take_index(line, first, 0).to(r.meta_result().dtype));
  if (r.wants(1)) {
    const TensorType t = r.meta_result(1);
    const T number = T(b, b.scan(ReduceKind::sum, begins.to(DType::i64), 0)) - 1.0;
    const T numbers = order ? write_places(T(b, full(b, DType::i64, {n}, 0.0)), number, *order) : number;
    const bool asked = r.boolean("return_inverse");
    r.set(1, asked ? numbers.reshape(std::move(whole)) : T(b, full(b, t.dtype, t.dims, 0.0)));
  }
  if (r.wants(2)) {
    const TensorType t = r.meta_result(2);
    if (!r.boolean("return_counts")) return r.set(2, full(b, t.dtype, t.dims, 0.0));
    const Expr size = first.dim(0);
    const T next = iota(b, {size}, 0) + 1.0, last = scalar_of(b, size, DType::i64);
    const T follows = take_index(first, maximum(minimum(next, last - 1.0), 0.0), 0);
    r.set(2, where(next < last, follows, scalar_of(b, n, DType::i64)) - first);
  }
}

/// Elements of any number of dims are a line; bools are compared as bytes.
T as_line(const T& x) { return (is_bool(x.dtype()) ? x.to(DType::u8) : x).reshape({product(x.dims())}); }

void of_one_dim(Rule& r) {
  if (r.has("dim") && !r.none("dim") && tensor(r, "self").rank() > 1)
    r.refuse("rows that are compared as wholes are not compiled", "compare numbers that stand for the rows");
}

void unique(Rule& r) {
  of_one_dim(r);
  const T x = tensor(r, "self"), line = as_line(x);
  const std::vector<ValueId> sorted =
      r.b.make(Op::sort, {line}, {{Attr::dim, int64_t{0}}, {Attr::descending, false}, {Attr::stable, true}});
  distinct(r, T(r.b, sorted[0]), T(r.b, sorted[1]), x.dims());
}

void unique_consecutive(Rule& r) {
  of_one_dim(r);
  const T x = tensor(r, "self");
  distinct(r, as_line(x), std::nullopt, x.dims());
}

/// How often each number from zero to the largest is there, or the sums of what belongs to it.
void bincount(Rule& r) {
  Builder& b = r.b;
  const T x = tensor(r, "self").to(DType::i64);
  const TensorType t = r.meta_result();
  const T none(b, full(b, DType::i64, {1}, -1.0));
  const T most = T(b, b.cat({x, none}, 0)).reduce(ReduceKind::max, {0}, false) + 1.0;
  const Expr size = r.found_within_largest(t.dims.at(0), maximum(most, scalar_of(b, r.sym("minlength"), DType::i64)));
  const T each = r.is_tensor("weights") ? tensor(r, "weights").to(t.dtype) : T(b, full(b, t.dtype, x.dims(), 1.0));
  r.set(add_at(T(b, full(b, t.dtype, {size}, 0.0)), each, from_start(x, size), 0));
}

constexpr RuleRow kRows[] = {
    {"aten.nonzero.default", nonzero_rows},
    {"aten.argwhere.default", nonzero_rows},
    {"aten.nonzero_numpy.default", nonzero_columns},
    {"aten.where.default", nonzero_columns},
    {"aten.masked_select.default", masked_select},
    {"aten._unique2.default", unique},
    {"aten.unique_dim.default", unique},
    {"aten.unique_consecutive.default", unique_consecutive},
    {"aten.bincount.default", bincount},
};
}  // namespace

RuleTable by_data_rules() { return kRows; }

}  // namespace aotc::decompose
