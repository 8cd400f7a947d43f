// Results whose sizes depend on data: what is selected, what is unequal, how often.
#include "decompose/families.h"
#include "decompose/indexing.h"
#include "decompose/selection.h"

namespace aotc::decompose {
namespace {

/// [n, rank], a row an element.
void nonzero_rows(Rule& r) {
  const T x = tensor(r, "self");
  if (x.rank() == 0) return r.set(places_where(r, x, r.meta_result().dims.at(0)).unsqueeze(1).slice(1, 0, 0));  // a row or none, no columns
  const std::vector<T> at = coordinates_where(r, x, r.meta_result().dims.at(0));
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

/// What is unequal along dim 0 of x, whose equal rows (elements, of a line) follow each other, `order` being their places in the tensor
/// (nothing: as they are): results 0 to 2 are the rows, `dim` being theirs, for each place of the tensor which one it is, and how often
/// each is there.
void distinct(Rule& r, const T& x, const std::optional<T>& order, std::vector<Expr> whole, int dim = 0) {
  Builder& b = r.b;
  const Expr n = x.dim(0);
  const T at = iota(b, {n}, 0);
  const T before = take_index(x, maximum(at - 1.0, 0.0), 0);
  T differs = x != before;  // NaN is unlike any
  Ints within;
  for (int d = 1; d < x.rank(); ++d) within.push_back(d);
  if (!within.empty()) differs = differs.reduce(ReduceKind::max, within, false);
  const T begins = (at == 0.0) | differs;
  const T first = places_where(r, begins, r.meta_result().dims.at(static_cast<size_t>(dim)));
  Ints back = within;
  back.insert(back.begin() + dim, 0);
  const T rows = take_index(x, first, 0).to(r.meta_result().dtype);
  r.set(0, dim == 0 ? rows : rows.permute(back));
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

/// Bools are compared as bytes.
T comparable(const T& x) { return is_bool(x.dtype()) ? x.to(DType::u8) : x; }
/// Elements of any number of dims are a line.
T as_line(const T& x) { return comparable(x).reshape({product(x.dims())}); }

struct Sorted {
  T x, order;
};
Sorted sorted(const T& line) {
  const std::vector<ValueId> both =
      line.b().make(Op::sort, {line}, {{Attr::dim, int64_t{0}}, {Attr::descending, false}, {Attr::stable, true}});
  return {{line.b(), both[0]}, {line.b(), both[1]}};
}

constexpr int64_t kMostColumns = 64;  ///< of rows that are sorted: a sort each

/// Rows of x along dim 0 by their first elements, by the second ones where these are equal, and so on: the order.
T order_of_rows(Rule& r, const T& x) {
  const T table = x.reshape({x.dim(0), product(std::vector<Expr>(x.dims().begin() + 1, x.dims().end()))});
  const int64_t columns = r.constant(table.dim(1), "the length of rows that are compared as wholes");
  if (columns > kMostColumns) r.refuse(fmt::format("rows of {} numbers that are compared as wholes; up to {} are", columns, kMostColumns));
  T order = iota(r.b, {x.dim(0)}, 0);
  for (int64_t c = columns; c-- > 0;) order = take_index(order, sorted(take_index(table.select(1, c), order, 0)).order, 0);
  return order;
}

/// Nothing where all elements are compared.
std::optional<int> dim_of_rows(Rule& r, const T& x) {
  if (!r.has("dim") || r.none("dim") || x.rank() < 2) return std::nullopt;
  return r.dim("dim", x.rank());
}
T rows_first(const T& x, int dim) {
  Ints p = {dim};
  for (int d = 0; d < x.rank(); ++d)
    if (d != dim) p.push_back(d);
  return comparable(dim == 0 ? x : x.permute(p));
}

void unique(Rule& r) {
  const T x = tensor(r, "self");
  if (const auto dim = dim_of_rows(r, x)) {
    const T rows = rows_first(x, *dim), order = order_of_rows(r, rows);
    return distinct(r, take_index(rows, order, 0), order, {rows.dim(0)}, *dim);
  }
  const Sorted line = sorted(as_line(x));
  distinct(r, line.x, line.order, x.dims());
}

void unique_consecutive(Rule& r) {
  const T x = tensor(r, "self");
  if (const auto dim = dim_of_rows(r, x)) {
    if (r.meta_result().rank() != x.rank())
      r.refuse("the archive says that the rows have another rank, as torch.export does where the dim is negative",
               "count the dim from the front");
    const T rows = rows_first(x, *dim);
    return distinct(r, rows, std::nullopt, {rows.dim(0)}, *dim);
  }
  distinct(r, as_line(x), std::nullopt, x.dims());
}

/// The first `size` places of what is not zero, a row each; those that are not there are rows of a number.
void nonzero_static(Rule& r) {
  Builder& b = r.b;
  const T x = tensor(r, "self"), hit = nonzero(x).reshape({product(x.dims())});
  const Expr size = r.sym("size"), n = hit.dim(0);
  const TensorType t = r.meta_result();
  if (x.rank() == 0 || size.is(0) || n.is(0)) return r.set(full(b, t.dtype, t.dims, static_cast<double>(r.integer_or("fill_value", -1))));
  // Each place goes to its rank among those that are not zero, what is not there or beyond into a row behind all.
  const T place = T(b, b.scan(ReduceKind::sum, hit.to(DType::i64), 0)) - 1.0, beyond = scalar_of(b, size, DType::i64);
  const T to = where(hit & (place < beyond), place, beyond.expand(place.dims()));
  const std::vector<ValueId> in = {full(b, DType::i64, {size + 1}, -1.0), to, iota(b, {n}, 0)};
  const T picked(b, b.make1(Op::scatter, in, {{Attr::dim, int64_t{0}}, {Attr::reduce, std::string("amax")}, {Attr::include_self, true}}));
  const T at = picked.slice(0, 0, size), there = at >= 0.0;
  std::vector<ValueId> columns;
  for (const T& c : coordinates(maximum(at, 0.0), x.dims()))
    columns.push_back(where(there, c, static_cast<double>(r.integer_or("fill_value", -1))).unsqueeze(1));
  r.set(b.cat(columns, 1));
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
    {"aten.nonzero.default aten.argwhere.default", nonzero_rows},
    {"aten.nonzero_numpy.default aten.where.default", nonzero_columns},
    {"aten.masked_select.default", masked_select},
    {"aten._unique2.default aten.unique_dim.default", unique},
    {"aten.unique_consecutive.default aten.unique_dim_consecutive.default", unique_consecutive},
    {"aten.nonzero_static.default", nonzero_static},
    {"aten.bincount.default", bincount},
};
}  // namespace

RuleTable by_data_rules() { return kRows; }

}  // namespace aotc::decompose
