// Reading through indices, and masks.
#include <algorithm>
#include <cmath>
#include <limits>

#include "decompose/families.h"
#include "decompose/indexing.h"
#include "decompose/matrices.h"
#include "decompose/reduction.h"
#include "decompose/selection.h"
#include "graph/scalar.h"

namespace aotc::decompose {

/// The places where a constant bool tensor is true, one literal a dim; nothing when the mask is not constant.
static std::optional<std::vector<ValueId>> constant_mask(Builder& b, ValueId mask) {
  const Value& v = b.graph().values[mask];
  if (v.kind != ValueKind::constant) return std::nullopt;
  const ConstData& c = b.graph().constants[v.constant];
  std::vector<int64_t> dims;
  for (const Expr& e : c.type.dims) dims.push_back(e.as_const().value_or(0));
  std::vector<Ints> at(dims.size());
  for (size_t i = 0; i < c.bytes; ++i) {
    if (c.data[i] == std::byte{0}) continue;
    size_t rest = i;
    for (size_t d = dims.size(); d-- > 0;) {
      at[d].push_back(static_cast<int64_t>(rest % static_cast<size_t>(dims[d])));
      rest /= static_cast<size_t>(dims[d]);
    }
  }
  std::vector<ValueId> out;
  for (const Ints& places : at) out.push_back(literal(b, places));
  return out;
}

/// Where the dims of the indices stand: neighbouring ones stay where they are, others move to the front.
static int index_place(const Ints& dims) {
  const bool adjacent = dims.back() - dims.front() + 1 == static_cast<int64_t>(dims.size());
  return adjacent ? static_cast<int>(dims.front()) : 0;
}

IndexPlan index_plan(Rule& r, const T& x, std::string_view name, bool selects) {
  IndexPlan plan;
  std::vector<std::optional<T>> masks;  // by entry of the plan: what the indices are the places of
  int64_t indexed = 0;
  for (const std::optional<ValueId>& i : r.opt_tensors(name)) {
    if (!i) {
      ++indexed;
      continue;
    }
    const DType t = r.b.dtype(*i);
    if (t == DType::boolean || t == DType::u8) {
      const std::optional<std::vector<ValueId>> places = r.b.rank(*i) > 0 ? constant_mask(r.b, *i) : std::nullopt;
      if (!places && r.b.rank(*i) == 0) r.refuse("indexing with one bool", "use torch.where or multiply by the mask");
      for (int d = 0; d < r.b.rank(*i); ++d) {
        plan.dims.push_back(indexed++);
        plan.indices.push_back(places ? places->at(static_cast<size_t>(d)) : kNone<ValueId>);
        masks.push_back(places ? std::nullopt : std::optional(T(r.b, *i)));
      }
      continue;
    }
    plan.dims.push_back(indexed++);
    plan.indices.push_back(r.b.cast(*i, DType::i64));
    masks.push_back(std::nullopt);
  }
  if (indexed > x.rank()) r.refuse("more indices than dimensions");
  if (plan.indices.empty()) return plan;
  plan.out_pos = index_place(plan.dims);
  for (size_t i = 0; i < masks.size(); ++i) {
    if (!masks[i] || plan.indices[i] != kNone<ValueId>) continue;
    // Places of masks are a line; what the result has last of the index dims is its length.
    std::optional<Expr> size;
    size_t rank = 1;
    for (size_t k = 0; k < masks.size(); ++k)
      if (!masks[k]) rank = std::max(rank, r.b.dims(plan.indices[k]).size());
    if (selects) size = r.meta_result().dims.at(static_cast<size_t>(plan.out_pos) + rank - 1);
    const std::vector<T> at = coordinates_where(r, *masks[i], size);
    for (size_t d = 0; d < at.size(); ++d) plan.indices.at(i + d) = at[d];
  }
  plan.index_dims = broadcast_all(r.b, plan.indices);
  return plan;
}

T from_start(const T& index, const Expr& extent) {
  const T i = index.to(DType::i64);
  return where(i < 0.0, scalar_of(i.b(), extent, DType::i64), i);
}

T take_index(const T& x, const T& index, int dim) { return {x.b(), x.b().index(x, {index.to(DType::i64)}, {dim}, dim)}; }

namespace {

void index(Rule& r) {
  const T x = tensor(r, "self");
  const IndexPlan p = index_plan(r, x, "indices", true);
  if (p.indices.empty()) return r.set(x);
  r.set(r.b.index(x, p.indices, p.dims, p.out_pos));
}

void embedding(Rule& r) {
  const T w = tensor(r, "weight");
  r.set(take_index(w, from_start(tensor(r, "indices"), w.dim(0)), 0));
}

/// The rows that are asked for are scaled where they are longer than max_norm.
void embedding_renorm(Rule& r) {
  const T w = tensor(r, "self"), at = tensor(r, "indices");
  const T i = from_start(at.reshape({product(at.dims())}), w.dim(0));
  const T rows = take_index(w, i, 0), y = rows.up();
  const double limit = r.number("max_norm");
  const T n = vector_norm(y, r.number("norm_type"), {1});
  const T scaled = (y * where(n > limit, limit / (n + 1e-7), n.like(1.0))).to(w.dtype());
  r.set(T(r.b, r.b.make1(Op::index_put, {w, scaled, i}, {{Attr::dims, Ints{0}}, {Attr::out_pos, int64_t{0}}, {Attr::accumulate, false}})));
}

/// How many of n indices each bag has, up to where the next one begins.
T bag_sizes(const T& offsets, const Expr& n) {
  Builder& b = offsets.b();
  const T end = scalar_of(b, n, DType::i64).expand({Expr(1)});
  return T(b, b.cat({offsets.slice(0, 1, offsets.dim(0) - 1), end}, 0)) - offsets;
}

/// The largest of the rows of each bag as PyTorch's loop finds it: a NaN stays where it comes first and is passed over elsewhere.
T bag_maxima(const T& rows, const T& bag, const T& counts) {
  Builder& b = rows.b();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Expr n = rows.dim(0);
  const T none(b, full(b, DType::i64, counts.dims(), std::numeric_limits<int32_t>::max()));
  const auto extreme = [&](const T& into, const T& values, const char* reduce) {
    const T at = values.rank() == 1 ? bag : bag.unsqueeze(1).expand(values.dims());
    return T(b, b.make1(Op::scatter, {into, at, values},
                        {{Attr::dim, int64_t{0}}, {Attr::reduce, std::string(reduce)}, {Attr::include_self, true}}));
  };
  const T place = iota(b, {n}, 0), first = extreme(none, place, "amin");
  const T leads = take_index(first, bag, 0) == place;
  const T passed = where(unary(Op::isnan, rows) & !leads.unsqueeze(1), -kInf, rows);
  return extreme(T(b, full(b, rows.dtype(), {counts.dim(0), rows.dim(1)}, -kInf)), passed, "amax");
}

/// How many indices each of the bags has where their offsets are 0, k, 2 k .. and k bags times are all n: so it is with 2-d indices.
std::optional<Expr> bag_length(const T& offsets, const Expr& bags, const Expr& n) {
  const Graph& g = offsets.b().graph();
  const auto behind = [&](ValueId v) {  // what is repeated or only called otherwise
    const Node* d = g.def(v);
    while (d && (d->op == Op::expand || d->op == Op::reshape || (d->op == Op::cast && dtype_bytes(g.type(d->outputs[0]).dtype) >= 4)))
      d = g.def(d->inputs[0]);
    return d;
  };
  const Node* d = behind(offsets);
  if (!d) return std::nullopt;
  Expr length = 1;
  if (d->op == Op::mul) {
    const Node *a = behind(d->inputs[0]), *b = behind(d->inputs[1]);
    if (a && a->op != Op::iota) std::swap(a, b);
    if (!a || !b || (b->op != Op::full && b->op != Op::sym)) return std::nullopt;
    const int64_t* number = b->op == Op::full ? std::get_if<int64_t>(&b->attrs.at(Attr::value)) : nullptr;
    if (b->op == Op::full && !number) return std::nullopt;
    length = number ? Expr(*number) : b->get<Expr>(Attr::expr);
    d = a;
  }
  if (d->op != Op::iota) return std::nullopt;
  const std::vector<Expr>& counted = g.type(d->outputs[0]).dims;
  const SymTable& syms = offsets.b().syms();
  const bool fits = counted.size() == 1 && syms.proves_eq(counted[0], offsets.dim(0)) && syms.proves_eq(n, bags * length);
  return fits ? std::optional(length) : std::nullopt;
}

/// What embeddings are summed over: of n indices, those that begin at `offsets`.
struct Bags {
  Rule& r;
  T w, at, offsets;
  int64_t mode, padding;
  bool with_last;
  Expr bags, n;
  bool others() const { return padding >= 0 || with_last || !r.b.syms().proves_le(1, offsets.dim(0)); }
  /// What counts for no bag goes into a row behind them.
  Expr lines() const { return others() ? offsets.dim(0) + 1 : bags; }
  T members() const { return padding < 0 ? T(r.b, full(r.b, DType::boolean, {n}, 1.0)) : at != static_cast<double>(padding); }
  T lines_of() const {
    const T bag = bags_of(offsets, n);
    return padding < 0 ? bag : where(members(), bag, scalar_of(r.b, offsets.dim(0), DType::i64));
  }
  /// How many indices each line has.
  T counts(const T& line, DType t) const {
    if (!others()) return bag_sizes(offsets, n).to(t);
    return add_at(T(r.b, full(r.b, t, {lines()}, 0.0)), members().to(t), line, 0);
  }
  /// The rows that the indices say, each with its weight.
  T rows() const {
    const T x = take_index(w, from_start(at, w.dim(0)), 0).up();
    const auto s = opt_tensor(r, "per_sample_weights");
    return s ? x * s->to(x.dtype()).unsqueeze(1) : x;
  }
};

/// Sums, means or maxima of embeddings over bags; 2-d indices make one bag a row.
T of_bags(const Bags& of, DType result) {
  Builder& b = of.r.b;
  const T rows = of.rows();  // [n, d]
  if (const auto length = of.mode == 2 ? std::nullopt : bag_length(of.offsets, of.bags, of.n)) {
    const T each = of.members(), kept = of.padding >= 0 ? where(each.unsqueeze(1), rows, 0.0) : rows;
    const T sum = kept.reshape({of.bags, *length, rows.dim(1)}).sum({1}, false);
    if (of.mode == 0) return sum.to(result);
    const T count = each.to(rows.dtype()).reshape({of.bags, *length}).sum({1}, true);
    return (sum / maximum(count, 1.0)).to(result);
  }
  if (of.mode == 2 && !of.others()) {
    const ValueId none = full(b, rows.dtype(), {of.bags, of.w.dim(1)}, 0.0);  // what an empty bag has
    return T(b,
             b.make1(Op::add_rows, {none, of.w, from_start(of.at, of.w.dim(0)), of.offsets}, {{Attr::begins, true}, {Attr::largest, true}}))
        .to(result);
  }
  const T line = of.lines_of(), counts = of.counts(line, rows.dtype()), count = counts.slice(0, 0, of.bags).unsqueeze(1);
  if (of.mode == 2) return where(count == 0.0, 0.0, bag_maxima(rows, line, counts).slice(0, 0, of.bags)).to(result);
  const T zeros(b, full(b, rows.dtype(), {of.lines(), rows.dim(1)}, 0.0));
  const T sum = add_at(zeros, rows, line, 0).slice(0, 0, of.bags);
  return (of.mode == 0 ? sum : sum / maximum(count, 1.0)).to(result);
}

/// The index of each bag's largest row, column by column: of equal ones the first; 0 of empty bags.
T largest_indices(const Bags& of, const Expr& size) {
  Builder& b = of.r.b;
  const T rows = of.rows(), line = of.lines_of(), counts = of.counts(line, rows.dtype());
  const T most = take_index(bag_maxima(rows, line, counts), line, 0);
  const T hit = (rows == most) | (unary(Op::isnan, rows) & unary(Op::isnan, most));
  const T last = scalar_of(b, of.n - 1, DType::i64), place = iota(b, rows.dims(), 0);
  const T none(b, full(b, DType::i64, {of.lines(), rows.dim(1)}, std::numeric_limits<int32_t>::max()));
  const std::vector<ValueId> in = {none, line.unsqueeze(1).expand(rows.dims()), where(hit, place, last.expand(rows.dims()))};
  const T first(b, b.make1(Op::scatter, in, {{Attr::dim, int64_t{0}}, {Attr::reduce, std::string("amin")}, {Attr::include_self, true}}));
  const T index = take_index(of.at, minimum(first.slice(0, 0, size), last), 0);
  return where(counts.slice(0, 0, size).unsqueeze(1) == 0.0, 0.0, index);
}

/// With what its gradient needs where that is used: the bag of each index (nothing where PyTorch leaves it out), bags' sizes, and which
/// indices were the largest.
void embedding_bag(Rule& r) {
  const TensorType t = r.meta_result();
  const T offsets = tensor(r, "offsets").to(DType::i64), at = tensor(r, "indices").to(DType::i64);
  const bool with_last = r.boolean_or("include_last_offset", false);
  must_hold(r, (offsets == 0.0) | (iota(r.b, offsets.dims(), 0) > 0.0), "the first offset is not 0");
  if (t.rank() != 2) throw r.fault(fmt::format("a result of {} dimensions", t.rank()));
  const Expr bags = r.agree(offsets.dim(0) - int64_t{with_last}, t.dims[0], "the bags");
  const Bags of{r, tensor(r, "weight"), at, offsets, r.integer("mode"), r.integer_or("padding_idx", -1), with_last, bags, at.dim(0)};
  if (r.wants(0) && !r.none("per_sample_weights") && of.mode != 0) r.refuse("per_sample_weights with a mode other than sum");
  r.set(0, of_bags(of, t.dtype));
  const auto none = [&](size_t i) { return T(r.b, full(r.b, DType::i64, r.meta_result(i).dims, 0.0)); };
  const auto give = [&](size_t i, const T& v) { r.set(i, v.to(r.meta_result(i).dtype)); };
  if (r.wants(1)) give(1, r.meta_result(1).dims.at(0).is(0) ? none(1) : bags_of(offsets, of.n));
  if (of.mode == 0) {
    if (r.wants(2)) give(2, none(2));
    if (r.wants(3)) give(3, none(3));
    return;
  }
  // PyTorch counts a bag more where the last offset is an end.
  const auto size = [&](size_t i) { return r.b.syms().proves_eq(r.meta_result(i).dims.at(0), bags) ? bags : offsets.dim(0); };
  const auto sizes = [&](size_t i) { return of.counts(of.lines_of(), DType::i64).slice(0, 0, size(i)); };
  if (r.wants(2)) give(2, sizes(2));
  if (r.wants(3)) give(3, of.mode == 2 ? largest_indices(of, size(3)) : sizes(3));
}

void index_select(Rule& r) {
  const T x = tensor(r, "self");
  T i = tensor(r, "index");
  if (i.rank() == 0) i = i.reshape({1});
  if (x.rank() == 0) return r.set(x);
  const int d = r.dim("dim", x.rank());
  r.set(take_index(x, from_start(i, x.dim(d)), d));
}

void take(Rule& r) {
  const T x = tensor(r, "self");
  r.set(take_index(x.reshape({r.b.type(x).elems()}), tensor(r, "index"), 0));
}

void gather(Rule& r) {
  const T x = tensor(r, "self"), i = tensor(r, "index").to(DType::i64);
  const TensorType t = r.meta_result();
  if (t.elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  const int d = r.dim("dim", x.rank());
  const T x1 = x.rank() == 0 ? x.reshape({1}) : x, i1 = i.rank() == 0 ? i.reshape({1}) : i;
  r.set(T(r.b, r.b.gather(x1, from_start(i1, x1.dim(d)), d)).reshape(t.dims));
}

void take_along_dim(Rule& r) {
  T x = tensor(r, "self"), i = tensor(r, "indices").to(DType::i64);
  if (r.none("dim")) {
    const Expr n = r.b.type(x).elems();
    return r.set(take_index(x.reshape({n}), from_start(i, n).reshape({r.b.type(i).elems()}), 0));
  }
  const int d = r.dim("dim", x.rank());
  std::vector<Expr> dx = x.dims(), di = i.dims();
  dx[static_cast<size_t>(d)] = di[static_cast<size_t>(d)] = Expr(1);
  const std::vector<Expr> common = broadcast_dims(r.b.syms(), dx, di);
  dx = di = common;
  dx[static_cast<size_t>(d)] = x.dim(d);
  di[static_cast<size_t>(d)] = i.dim(d);
  // Any index is taken, modulo the size.
  const T place = binary(Op::remainder, i, scalar_of(r.b, x.dim(d), DType::i64));
  r.set(r.b.gather(x.expand(dx), place.expand(di), d));
}

void one_hot(Rule& r) {
  const T x = tensor(r, "self");
  const TensorType t = r.meta_result();
  r.constant(t.dims.back(), "the number of classes");
  const T classes = iota(r.b, {t.dims.back()}, 0);
  // Looked up among the classes: others are reported.
  r.set((take_index(classes, from_start(x, t.dims.back()), 0).unsqueeze(-1) == classes).to(t.dtype));
}

void masked_fill(Rule& r) {
  const T x = tensor(r, "self"), mask = tensor(r, "mask").to(DType::boolean);
  const T v(r.b, materialize(r.b, operand(r, "value"), x.dtype()));
  r.set(where(mask, v, x));
}

/// Elements of source in order where the mask is true.
void masked_scatter(Rule& r) {
  const T source = tensor(r, "source");
  std::vector<ValueId> both = {r.tensor("self"), tensor(r, "mask").to(DType::boolean)};
  broadcast_all(r.b, both);
  const T x(r.b, both[0]), mask(r.b, both[1]);
  if (x.rank() > 0 && r.b.type(x).elems().is(0)) return r.set(x);
  const T flat = mask.reshape({r.b.type(mask).elems()});
  const T nth = T(r.b, r.b.scan(ReduceKind::sum, flat.to(DType::i64), 0)) - 1.0;
  T from = source.reshape({r.b.type(source).elems()}).to(x.dtype()), at = nth;
  // Places that nothing is written to read something, too.
  if (!r.b.syms().proves_le(1, from.dim(0))) {
    from = {r.b, r.b.pad(from, {1}, {0}, 0.0)};
    at = nth + 1.0;
  }
  // More places than elements are an index out of range.
  const T v = take_index(from, where(flat, at, 0.0), 0).reshape(x.dims());
  r.set(where(mask, v, x));
}

constexpr int64_t kFewestBoundaries = 64;              ///< are compared one after another, with many values at a time
constexpr int64_t kFewBoundaries = 1024;               ///< are all compared with each value
constexpr int64_t kMostBoundaries = int64_t{1} << 24;  ///< beyond as many, or where their number has no bound, all are bisected
constexpr int64_t kMostElements = int64_t{1} << 47;    ///< of any tensor: what a process can address

bool may_have_nan(const T& x) {
  if (!is_float(x.dtype())) return false;
  const Value& v = x.b().graph().values[x];
  if (v.kind != ValueKind::constant) return true;
  const ConstData& c = x.b().graph().constants[v.constant];
  if (c.exchangeable) return true;
  std::vector<double> data(c.bytes / static_cast<size_t>(dtype_bytes(c.type.dtype)));
  load_f64(c.type.dtype, c.data, data.data(), static_cast<int64_t>(data.size()));
  return std::any_of(data.begin(), data.end(), [](double e) { return std::isnan(e); });
}

/// Where PyTorch's bisection of n boundaries ends, step by step: where they are in no order (as with NaN among them) that is its path's
/// matter. `below`: whether the boundary at a place (within them) lies below the value.
template <class Below>
T bisected(Builder& b, std::vector<Expr> dims, const Expr& n, int64_t most, const Below& below) {
  const T last = scalar_of(b, n - 1, DType::i64);
  T start(b, full(b, DType::i64, dims, 0.0)), end = scalar_of(b, n, DType::i64).expand(dims);
  for (int64_t left = std::min(most, kMostElements); left > 0; left /= 2) {
    const T mid = binary(Op::shr, start + end, 1.0);
    const T beyond = (start < end) & below(minimum(mid, last));
    start = where(beyond, mid + 1.0, start);
    end = where(beyond, end, mid);
  }
  return start;
}

/// How many boundaries lie below each value (at or below it for the right side).
void search(Rule& r, const T& sorted0, const T& values0, bool right) {
  const TensorType t = r.meta_result();
  const DType common = result_type(r.b, {sorted0, values0});
  const T s = sorted0.to(common), v = values0.to(common);
  const Expr n = s.dim(-1);
  if (t.elems().is(0) || n.is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  const auto give = [&](const T& places) { r.set(places.to(t.dtype).reshape(t.dims)); };
  const auto reaches = [&](const T& boundary, const T& value) { return right ? boundary > value : boundary >= value; };
  const Interval sizes = r.b.syms().interval(n);
  if (sizes.min > kFewBoundaries || sizes.max > kMostBoundaries)
    return give(bisected(r.b, v.dims(), n, sizes.max, [&](const T& place) {
      return !reaches(s.rank() == 1 ? take_index(s, place, 0) : T(r.b, r.b.gather(s, place, s.rank() - 1)), v);
    }));
  if (s.rank() == 1 && sizes.max <= kFewestBoundaries && sizes.min == sizes.max && !may_have_nan(sorted0)) {
    std::optional<T> below;
    for (int64_t j = 0; j < sizes.max; ++j) {
      const T hit = (!reaches(s.select(0, j).expand(v.dims()), v)).to(DType::i32);
      below = below ? *below + hit : hit;
    }
    return give(*below);
  }
  const T line = s.rank() > 1 ? s.unsqueeze(-2) : s, nan = unary(Op::isnan, line);
  const auto count = [&](const T& hit) { return hit.to(DType::i64).sum({hit.rank() - 1}, false); };
  const T beyond = !reaches(line, v.unsqueeze(-1));
  if (!may_have_nan(sorted0)) return give(count(beyond));
  // NaN, which stand last, let the bisection pass: they count as below every value.
  const T c = count(beyond & !nan), numbers = count(!nan);
  give(bisected(r.b, v.dims(), n, sizes.max, [&](const T& place) { return (place < c) | (place >= numbers); }));
}

void bucketize(Rule& r) {
  const TensorType t = r.meta_result();
  const T bounds = tensor(r, "boundaries");
  const T v(r.b, materialize(r.b, operand(r, "self"), r.is_tensor("self") ? r.b.dtype(r.tensor("self")) : bounds.dtype()));
  search(r, bounds, v, r.boolean_or("right", false));
}

void searchsorted(Rule& r) {
  T s = tensor(r, "sorted_sequence");
  if (auto sorter = opt_tensor(r, "sorter")) s = {r.b, r.b.gather(s, from_start(*sorter, s.dim(-1)), s.rank() - 1)};
  const T v(r.b, materialize(r.b, operand(r, "self"), r.is_tensor("self") ? r.b.dtype(r.tensor("self")) : s.dtype()));
  search(r, s, v, r.boolean_or("right", false) || r.text_or("side", "left") == "right");
}

void isin(Rule& r) {
  const std::string_view a = r.has("elements") ? "elements" : "element", b = r.has("test_elements") ? "test_elements" : "test_element";
  const Operand ops[] = {operand(r, a), operand(r, b)};
  const DType t = result_type(r.b, ops);
  const T x(r.b, materialize(r.b, ops[0], t)), y(r.b, materialize(r.b, ops[1], t));
  const T flat = y.reshape({r.b.type(y).elems()});
  if (flat.dim(0).is(0)) return r.set(full(r.b, DType::boolean, x.dims(), r.boolean("invert") ? 1.0 : 0.0));
  const T eq = x.unsqueeze(-1) == flat;
  const T any = eq.reduce(ReduceKind::max, {eq.rank() - 1}, false);
  r.set(r.boolean("invert") ? !any : any);
}

constexpr RuleRow kRows[] = {
    {"aten.index.Tensor aten._unsafe_index.Tensor", index},
    {"aten.embedding.default", embedding},
    {"aten.embedding_renorm.default", embedding_renorm},
    {"aten._embedding_bag.default aten._embedding_bag_forward_only.default aten.embedding_bag.padding_idx aten.embedding_bag.default",
     embedding_bag},
    {"aten.index_select.default", index_select},
    {"aten.take.default", take},
    {"aten.gather.default", gather},
    {"aten.take_along_dim.default", take_along_dim},
    {"aten.one_hot.default", one_hot},
    {"aten.masked_fill.Scalar aten.masked_fill.Tensor", masked_fill},
    {"aten.masked_scatter.default", masked_scatter},
    {"aten.bucketize.Tensor aten.bucketize.Scalar", bucketize},
    {"aten.searchsorted.Tensor aten.searchsorted.Scalar", searchsorted},
    {"aten.isin.Tensor_Tensor aten.isin.Tensor_Scalar aten.isin.Scalar_Tensor", isin},
};
}  // namespace

RuleTable index_rules() { return kRows; }

}  // namespace aotc::decompose
