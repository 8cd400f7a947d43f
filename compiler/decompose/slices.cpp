// Bounds of slices, and writing one; bags of indices.
#include "decompose/indexing.h"

namespace aotc::decompose {

Expr slice_bound(Rule& r, std::string_view name, const Expr& size, const Expr& fallback) {
  if (r.none(name)) return fallback;
  const SymTable& s = r.b.syms();
  Expr e = s.simplify(r.sym(name));
  // A bound of INT64_MAX means "to the end".
  if (auto c = e.as_const(); c && *c >= INT64_MAX / 2) return size;
  if (auto c = e.as_const(); c && *c <= -(INT64_MAX / 2)) return 0;
  e = r.cut_from_start(e, size);
  return s.proves_le(e, size) ? s.simplify(e) : s.simplify(min(e, size));
}

Expr slice_step(Rule& r) {
  if (!r.has("step") || r.none("step")) return 1;
  if (r.read_integer("step")) r.refuse("a gradient of a slice in steps that are read out of a tensor");
  const Expr step = r.b.syms().simplify(r.sym("step"));
  if (const auto c = step.as_const(); c && *c < 1) throw r.fault(fmt::format("a step of {}", *c));
  r.b.require(ShapeGuard::Kind::le, 1, step, "the step of a slice");
  return step;
}

T slice_of(const T& x, int d, const Expr& start, const Expr& size, const Expr& step) {
  if (const auto c = step.as_const()) return x.slice(d, start, size, *c);
  std::vector<Expr> dims = x.dims(), strides(dims.size(), Expr(1));
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  const auto k = static_cast<size_t>(d);
  const Expr first = start * strides[k];
  dims[k] = size;
  strides[k] = strides[k] * step;
  return {x.b(), x.b().strided(x, dims, strides, first)};
}

Expr slice_length(Rule& r, const Expr& start, const Expr& end, const Expr& step) {
  return r.b.syms().simplify(max(ceildiv(end - start, step), 0));
}

Expr wrap_index(Rule& r, const Expr& index, const Expr& size) { return r.from_start(r.b.syms().simplify(index), size); }

Expr diagonal_length(Rule& r, const Expr& rows, const Expr& columns, int64_t k) {
  return r.b.syms().simplify(max(k >= 0 ? min(rows, columns - k) : min(rows + k, columns), 0));
}

T places_of(const ReadSlice& s, const Expr& size) {
  Builder& b = s.start.b();
  const T first = where(s.start < 0.0, s.start + scalar_of(b, size, DType::i64), s.start);
  return from_start(iota(b, {s.length}, 0) * s.step + first, size);
}

std::optional<ReadSlice> read_slice(Rule& r, const Expr& size, const Expr& length) {
  const auto start = r.read_integer("start"), by = r.has("step") ? r.read_integer("step") : std::nullopt;
  if (r.has("length"))
    return start ? std::optional(ReadSlice{T(r.b, *start), scalar_of(r.b, 1, DType::i64), r.sym("length")}) : std::nullopt;
  const SymTable& s = r.b.syms();
  const Expr first = r.none("start") ? Expr(0) : r.sym("start"), end = r.none("end") ? Expr(kInf) : r.sym("end");
  const bool open = end.as_const().value_or(0) >= INT64_MAX / 2;  // "to the end"
  if (!start && !by && (open || !r.read_integer(end))) return std::nullopt;
  const Expr known = by ? Expr(1) : slice_step(r);
  const T step = by ? T(r.b, *by) : scalar_of(r.b, known, DType::i64);
  const Expr n = open || by ? end : s.simplify(ceildiv(end - first, known));
  if (start && !by && !open && !r.read_integer(n) && s.proves_le(0, n) && s.proves_le(n, size) && s.proves_eq(n, length))
    return ReadSlice{T(r.b, *start), step, n};
  if (by) r.check(step >= 1.0, fmt::format("{}: a slice in steps of less than 1", r.node.name));
  const T apart = by ? maximum(step, 1.0) : step;
  // Bounds beyond the tensor are its ends, and how much lies between them the run finds.
  const T most = scalar_of(r.b, size, DType::i64);
  const auto within = [&](const T& i) { return minimum(maximum(where(i < 0.0, i + most, i), 0.0), most); };
  const auto number = [&](const Expr& e) {
    const auto read = r.read_integer(e);
    return read ? T(r.b, *read) : scalar_of(r.b, e, DType::i64);
  };
  const T from = within(number(first)), to = open ? most : within(number(end));
  const T count = where(to > from, binary(Op::div_floor, to - from - 1.0, apart) + 1.0, 0.0);
  return ReadSlice{from, step, r.found(length, count, size)};
}

T write_along(const T& x, const T& src, const T& places, int dim) {
  Builder& b = x.b();
  return {b, b.make1(Op::index_put, {x, src, places}, {{Attr::dims, Ints{dim}}, {Attr::out_pos, int64_t{dim}}, {Attr::accumulate, false}})};
}

T write_slice(const T& x, const T& src, int d, const Expr& start, const Expr& step) {
  Builder& b = x.b();
  SymTable& s = b.syms();
  const Expr size = x.dim(d), n = src.dim(d);
  if (n.is(0)) return x;
  if (step.is(1)) {
    std::vector<ValueId> parts;
    const Expr end = s.simplify(start + n), rest = s.simplify(size - end);
    if (!start.is(0)) parts.push_back(x.slice(d, 0, start));
    parts.push_back(src);
    if (!rest.is(0)) parts.push_back(x.slice(d, end, rest));
    return {b, b.cat(parts, d)};
  }
  return write_within(x, src, d, start, step);
}

T write_within(const T& x, const T& src, int d, const Expr& start, const Expr& step) {
  Builder& b = x.b();
  const Expr size = x.dim(d), n = src.dim(d);
  const T from = iota(b, {size}, 0) - scalar_of(b, start, DType::i64), by = scalar_of(b, step, DType::i64);
  const T place = binary(Op::div_floor, from, by);
  const T last = scalar_of(b, n - 1, DType::i64);
  const T inside = (from >= 0.0) & (place <= last) & (binary(Op::remainder, from, by) == 0.0);
  const T wide(b, b.index(src, {minimum(maximum(place, 0.0), last)}, {d}, d));
  std::vector<Expr> column(static_cast<size_t>(x.rank()), Expr(1));
  column[static_cast<size_t>(d)] = size;
  return where(inside.reshape(column), wide, x);
}

T write_strided(const T& x, const T& src, const std::vector<Expr>& strides, const Expr& start) {
  Builder& b = x.b();
  T place = scalar_of(b, start, DType::i64).expand(src.dims());
  for (int d = 0; d < src.rank(); ++d)
    place = place + iota(b, src.dims(), d) * scalar_of(b, strides.at(static_cast<size_t>(d)), DType::i64);
  return write_places(x, src, place);
}

T write_places(const T& x, const T& src, const T& places) {
  Builder& b = x.b();
  const Expr n = product(src.dims());
  if (n.is(0)) return x;
  const bool boolean = is_bool(x.dtype());
  const T to = boolean ? x.to(DType::u8) : x, from = src.to(to.dtype());
  const std::vector<ValueId> in = {to.reshape({product(x.dims())}), places.reshape({n}), from.reshape({n})};
  const T y(b, b.make1(Op::scatter, in, {{Attr::dim, int64_t{0}}, {Attr::reduce, std::string("none")}, {Attr::include_self, true}}));
  return y.to(x.dtype()).reshape(x.dims());
}

T add_at(const T& x, const T& values, const T& index, int d) {
  Builder& b = x.b();
  const T to = x.up(), v = values.to(to.dtype());
  const T y(b, b.make1(Op::index_put, {to, v, index.to(DType::i64)},
                       {{Attr::dims, Ints{d}}, {Attr::out_pos, int64_t{d}}, {Attr::accumulate, true}}));
  return y.to(x.dtype());
}

T bags_of(const T& offsets, const Expr& n) {
  Builder& b = offsets.b();
  const T starts(b, full(b, DType::i64, {n + 1}, 0.0));  // a bag may begin behind the last index
  const T begun = add_at(starts, T(b, full(b, DType::i64, offsets.dims(), 1.0)), offsets, 0);
  return T(b, b.scan(ReduceKind::sum, begun, 0)).slice(0, 0, n) - 1.0;
}

}  // namespace aotc::decompose
