// At their bounds: operators that move elements, or read and write them at places that tensors say.
#include "decompose/at_bounds.h"
#include "decompose/indexing.h"
#include "graph/guard.h"
#include "graph/infer.h"

namespace aotc::decompose {
void AtBounds::index(At& a) {
  const Ints dims = a.n.get<Ints>(Attr::dims);
  for (size_t k = 0; k < dims.size(); ++k) {
    const Expr& size = a.x()[static_cast<size_t>(dims[k])];
    T i = input(a, k + 1);
    if (found(size)) i = settled(i, size, bound(a, size));
    if (const auto valid = there(a, *a.in[k + 1])) i = elsewhere(a, i, *valid, static_cast<int>(dims[k]));
    a.n.inputs[k + 1] = i;
  }
  keep(a);
}

T AtBounds::elsewhere(At& a, const T& i, const T& valid, int dim) {
  const T x = input(a, 0);
  if (g_.syms.proves_le(1, x.dim(dim))) return where(valid, i, 0.0);
  const T size = scalar_of(b_, x.dim(dim), DType::i64);
  a.n.inputs[0] = one_more(x, dim);
  return where(valid, where(i >= size, i + 1.0, i), size);
}

T AtBounds::one_more(const T& x, int dim) {
  Exprs none(static_cast<size_t>(x.rank()), Expr(0)), one = none;
  one[static_cast<size_t>(dim)] = 1;
  return {b_, b_.pad(x, none, one, 0.0)};
}

T AtBounds::picked(const T& x, const T& places, int dim) {
  return take_index(g_.syms.proves_le(1, x.dim(dim)) ? x : one_more(x, dim), places, dim);
}

void AtBounds::gather(At& a) {
  const Expr& size = a.x()[static_cast<size_t>(a.n.get<int64_t>(Attr::dim))];
  T i = input(a, 1);
  if (found(size)) i = settled(i, size, bound(a, size));
  if (const auto valid = there(a, *a.in[1])) i = elsewhere(a, i, *valid, static_cast<int>(a.n.get<int64_t>(Attr::dim)));
  a.n.inputs[1] = i;
  keep(a);
}

/// What is written at places that the indices do not have goes to one behind the others, which is left out again.
void AtBounds::scatter(At& a) {
  const int64_t d = a.n.get<int64_t>(Attr::dim);
  const Expr& size = a.x()[static_cast<size_t>(d)];
  const Expr most = bound(a, size);
  T i = input(a, 1);
  const auto valid = there(a, *a.in[1]);
  if (found(size)) i = settled(i, size, valid ? most + 1 : most);
  if (!valid) {
    a.n.inputs[1] = i;
    return keep(a);
  }
  const T x = input(a, 0);
  Exprs none(static_cast<size_t>(x.rank()), Expr(0)), one = none;
  one[static_cast<size_t>(d)] = 1;
  if (!found(size)) i = where(i >= value(size), scalar_of(b_, most + 1, DType::i64), i);
  const T wide(b_, b_.pad(x, none, one, 0.0)), to = where(*valid, i, scalar_of(b_, most, DType::i64));
  const T y(b_, b_.make1(Op::scatter, {wide, to, a.n.inputs[2]}, a.n.attrs));
  give(a, 0, y.slice(static_cast<int>(d), 0, most));
}

void AtBounds::index_put(At& a) {
  const Ints dims = a.n.get<Ints>(Attr::dims);
  const auto valid = there(a, *a.in[2]);
  std::vector<ValueId> in = {a.n.inputs[0], a.n.inputs[1]};
  for (size_t k = 0; k < dims.size(); ++k) {
    const Expr& size = a.x()[static_cast<size_t>(dims[k])];
    const Expr most = bound(a, size);
    const bool widened = valid && k == 0;
    T i = input(a, k + 2);
    if (found(size) || widened) i = settled(i, size, widened ? most + 1 : most);
    if (valid) i = where(*valid, i, scalar_of(b_, widened ? most : Expr(0), DType::i64));
    in.push_back(i);
  }
  if (!valid) {
    a.n.inputs = in;
    return keep(a);
  }
  const T x = input(a, 0);
  Exprs none(static_cast<size_t>(x.rank()), Expr(0)), one = none;
  one[static_cast<size_t>(dims[0])] = 1;
  in[0] = b_.pad(x, none, one, 0.0);
  const T y(b_, b_.make1(Op::index_put, in, a.n.attrs));
  give(a, 0, y.slice(static_cast<int>(dims[0]), 0, x.dim(static_cast<int>(dims[0]))));
}

/// Elements keep their places where each dim of such a size has as many elements before it as before; else each is looked up.
void AtBounds::reshape(At& a) {
  const Exprs &from = a.x(), &to = *a.out[0];
  const SymTable& syms = g_.syms;
  const auto befores = [&](const Exprs& dims) {
    std::vector<Expr> out;
    Expr before = 1;
    for (const Expr& e : dims) {
      if (found(e))
        out.push_back(before), before = 1;
      else
        before *= e;
    }
    return out;
  };
  const std::vector<Expr> was = befores(from), is = befores(to);
  bool stay = was.size() == is.size();
  for (size_t i = 0; stay && i < was.size(); ++i) stay = syms.proves_eq(was[i], is[i]);
  // Within dims that follow each other, one such dim takes in those behind it.
  if (stay && was.size() > 1) {
    size_t f = 0, t = 0;
    for (size_t i = 0; stay && i < was.size(); ++i, ++f, ++t) {
      while (!found(from[f])) ++f;
      while (!found(to[t])) ++t;
      stay = i + 1 == was.size() || from[f] == to[t];
    }
  }
  const Exprs most = bound(a, to);
  if (stay && syms.proves_eq(product(bound(a, from)), product(most))) return keep(a);
  // The place of an element in the order of those that there are, and there in the operand.
  T place = scalar(DType::i64, 0);
  for (size_t d = 0; d < to.size(); ++d) place = place * value(to[d]) + iota(b_, most, static_cast<int>(d));
  give(a, 0, at_places(a, place.expand(most)));
}

T AtBounds::at_places(const At& a, T place) {
  const Exprs& from = a.x();
  const Exprs whole = bound(a, from);
  T at = place.like(0);
  Expr stride = 1;
  for (size_t d = from.size(); d-- > 0;) {
    const T n = maximum(value(from[d]), 1.0);
    T one = d == 0 ? place : binary(Op::remainder, place, n);
    if (d == 0) one = minimum(one, scalar_of(b_, max(whole[0] - 1, 0), DType::i64));
    place = binary(Op::div_floor, place, n);
    at = at + one * scalar_of(b_, stride, DType::i64);
    stride *= whole[d];
  }
  return picked(input(a, 0).reshape({product(whole)}), at, 0);
}

void AtBounds::strided(At& a) {
  const Exprs& strides = a.n.get<Exprs>(Attr::strides);
  const Exprs most = bound(a, *a.out[0]);
  T place = value(a.n.get<Expr>(Attr::start)).expand(most);
  for (size_t d = 0; d < strides.size(); ++d) place = place + iota(b_, most, static_cast<int>(d)) * value(strides[d]);
  give(a, 0, at_places(a, place));
}

void AtBounds::flip(At& a) {
  T x = input(a, 0);
  Ints rest;
  for (const int64_t d : a.n.get<Ints>(Attr::dims)) {
    const Expr& size = a.x()[static_cast<size_t>(d)];
    if (!found(size)) {
      rest.push_back(d);
      continue;
    }
    const T from = value(size) - 1.0 - iota(b_, {bound(a, size)}, 0);
    x = picked(x, maximum(from, 0.0), static_cast<int>(d));
  }
  give(a, 0, T(b_, b_.flip(x, rest)));
}

void AtBounds::slice(At& a) {
  const auto d = static_cast<size_t>(a.n.get<int64_t>(Attr::dim));
  const Expr start = a.n.get<Expr>(Attr::start), size = bound(a, a.out[0]->at(d)), of = bound(a, a.x()[d]);
  const int64_t step = a.n.get<int64_t>(Attr::step);
  const T x = input(a, 0);
  const bool moves = found(start);
  const Expr last = start + (size - 1) * step + 1;
  if (!moves && (holds(g_, ShapeGuard::Kind::le, last, of) || (!found(a.x()[d]) && !found(a.out[0]->at(d)))))
    return give(a, 0, x.slice(static_cast<int>(d), start, size, step));
  const T places = iota(b_, {size}, 0) * static_cast<double>(step) + value(start);
  give(a, 0, picked(x, minimum(maximum(places, 0.0), scalar_of(b_, max(of - 1, 0), DType::i64)), static_cast<int>(d)));
}

void AtBounds::pad(At& a) {
  const Exprs& lo = a.n.get<Exprs>(Attr::lo);
  const T fill = fill_of(a, input(a, 0).dtype());
  if (found(lo)) return give(a, 0, moved(a, lo, fill));
  Ints ends;  // dims behind whose elements there is something
  for (size_t d = 0; d < lo.size(); ++d)
    if (found(a.x()[d]) && !g_.syms.proves_eq(a.out[0]->at(d), a.x()[d] + lo[d])) ends.push_back(static_cast<int64_t>(d));
  if (!ends.empty()) a.n.inputs[0] = masked(a, 0, ends, fill);
  keep(a);
}

T AtBounds::moved(const At& a, const Exprs& lo, const T& fill) {
  const Exprs most = bound(a, *a.out[0]);
  T x = input(a, 0);
  for (int d = 0; d < x.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    if (lo[k].is(0) && g_.syms.proves_eq(a.out[0]->at(k), a.x()[k])) continue;
    const T place = iota(b_, {most[k]}, 0) - value(lo[k]);
    Exprs column(static_cast<size_t>(x.rank()), Expr(1));
    column[k] = most[k];
    const T inside = ((place >= 0.0) & (place < value(a.x()[k]))).reshape(column);
    const T last = scalar_of(b_, max(x.dim(d) - 1, 0), DType::i64);
    x = where(inside, picked(x, maximum(minimum(place, last), 0.0), d), fill);
  }
  return x;
}

/// In each tensor's dim the elements come first: those of the tensors behind one of such a size move up.
void AtBounds::cat(At& a) {
  const auto d = static_cast<size_t>(a.n.get<int64_t>(Attr::dim));
  const Expr size = bound(a, a.out[0]->at(d));
  bool gaps = false;
  Expr room = 0;
  for (size_t i = 0; i < a.in.size(); ++i) {
    gaps = gaps || (i + 1 < a.in.size() && found(a.in[i]->at(d)));
    room += bound(a, a.in[i]->at(d));
  }
  if (!gaps && g_.syms.proves_eq(room, size)) return keep(a);
  const T whole(b_, b_.cat(a.n.inputs, static_cast<int>(d)));
  const T place = iota(b_, {size}, 0);
  T from = place;
  Expr end = 0;
  for (size_t i = 0; i + 1 < a.in.size(); ++i) {
    const Expr& n = a.in[i]->at(d);
    end += n;
    if (!found(n)) continue;
    const T gap = scalar_of(b_, bound(a, n), DType::i64) - value(n);
    from = from + where(place >= value(end), gap, 0.0);
  }
  const T last = scalar_of(b_, max(whole.dim(static_cast<int>(d)) - 1, 0), DType::i64);
  give(a, 0, picked(whole, minimum(from, last), static_cast<int>(d)));
}

}  // namespace aotc::decompose
