// Operators whose result is a view of one tensor. The dims of the result are the archive's.
#include "decompose/families.h"
#include "decompose/indexing.h"

namespace aotc::decompose {
namespace {

void identity(Rule& r) { r.set(r.tensor(r.has("self") ? "self" : r.has("input") ? "input" : "a")); }

void reshape(Rule& r) {
  const T x = tensor(r, r.has("self") ? "self" : "a");
  r.set(x.reshape(r.agree_argument(r.has("size") ? "size" : "shape", r.meta_result().dims)));
}

/// A dim that export kept must not become 1, where it would be squeezed.
void squeeze(Rule& r) {
  const T x = tensor(r, "self");
  const int rank = x.rank() - (r.pairs ? 1 : 0);
  Ints over;
  for (int d = 0; d < rank; ++d) over.push_back(d);
  if (r.has("dim") && rank > 0) over = r.dims("dim", x.rank(), false);
  for (const int64_t d : over) {
    const Expr& size = x.dim(static_cast<int>(d));
    if (!size.is(1)) r.b.require(ShapeGuard::Kind::le, 1, max(size - 1, 1 - size), "a size that is not squeezed");
  }
  r.set(x.reshape(r.meta_result().dims));
}

/// atleast_1d of a list.
void reshape_list(Rule& r) {
  const std::vector<ValueId> xs = r.tensors("tensors");
  const std::vector<TensorType> to = r.meta_list();
  std::vector<ValueId> out;
  for (size_t i = 0; i < xs.size() && i < to.size(); ++i) out.push_back(r.b.reshape(xs[i], to[i].dims));
  r.set_list(0, out);
}

void expand(Rule& r) {
  const T x = tensor(r, r.has("self") ? "self" : "a");
  const std::vector<Expr> dims = r.agree_argument(r.has("size") ? "size" : "shape", r.meta_result().dims);
  if (static_cast<size_t>(x.rank()) > dims.size()) throw r.fault(fmt::format("{} dims repeated as {}", x.rank(), dims.size()));
  r.set(x.expand(dims));
}

void broadcast_tensors(Rule& r) {
  std::vector<ValueId> xs = r.tensors("tensors");
  broadcast_all(r.b, xs);
  r.set_list(0, xs);
}

void permute(Rule& r) {
  const T x = tensor(r, "self");
  Ints perm = r.integers("dims");
  for (int64_t& p : perm)
    if (p < 0) p += x.rank();
  r.set(x.permute(perm));
}

void transpose(Rule& r) {
  const T x = tensor(r, "self");
  const bool names = r.has("axis0");
  if (x.rank() == 0) return r.set(x);
  const int a = r.dim(names ? "axis0" : "dim0", x.rank()), c = r.dim(names ? "axis1" : "dim1", x.rank());
  r.set(r.b.transpose(x, a, c));
}

/// Swaps the last two dims (t of a vector is the vector).
void transpose_last(Rule& r) {
  const T x = tensor(r, "self");
  r.set(x.rank() < 2 ? static_cast<ValueId>(x) : r.b.transpose(x, -2, -1));
}

void reverse_dims(Rule& r) {
  const T x = tensor(r, "self");
  Ints perm;
  for (int i = x.rank() - 1; i >= 0; --i) perm.push_back(i);
  r.set(x.permute(perm));
}

void movedim(Rule& r) {
  const T x = tensor(r, "self");
  const int n = x.rank();
  if (n == 0) return r.set(x);
  Ints from = r.integers("source"), to = r.integers("destination");
  if (from.size() != to.size()) r.refuse("source and destination differ in length");
  Ints perm(static_cast<size_t>(n), -1);
  std::vector<bool> used(static_cast<size_t>(n));
  for (size_t i = 0; i < from.size(); ++i) {
    const int64_t f = from[i] < 0 ? from[i] + n : from[i], t = to[i] < 0 ? to[i] + n : to[i];
    perm.at(static_cast<size_t>(t)) = f;
    used.at(static_cast<size_t>(f)) = true;
  }
  size_t next = 0;
  for (int64_t& p : perm) {
    if (p >= 0) continue;
    while (used[next]) ++next;
    p = static_cast<int64_t>(next++);
  }
  r.set(x.permute(perm));
}

void select(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.dim("dim", x.rank());
  if (const auto i = r.read_integer("index")) return r.set(take_index(x, {r.b, *i}, d));
  r.set(x.select(d, wrap_index(r, r.sym("index"), x.dim(d))));
}

/// The archive's size of dim d of result i, which is from `start` to `end` in steps.
Expr sliced(Rule& r, int d, const Expr& start, const Expr& end, const Expr& step, const TensorType& t) {
  if (d >= t.rank()) throw r.fault(fmt::format("a result of {} dimensions", t.rank()));
  return r.agree(slice_length(r, start, end, step), t.dims[static_cast<size_t>(d)], "the slice");
}
Expr sliced(Rule& r, int d, const Expr& start, const Expr& end, const Expr& step) {
  return sliced(r, d, start, end, step, r.meta_result());
}

void slice(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.dim("dim", x.rank());
  if (const auto read = read_slice(r, x.dim(d), r.meta_result().dims.at(static_cast<size_t>(d))))
    return r.set(take_index(x, places_of(*read, x.dim(d)), d));
  const Expr step = slice_step(r);
  const Expr start = slice_bound(r, "start", x.dim(d), 0);
  r.set(slice_of(x, d, start, sliced(r, d, start, slice_bound(r, "end", x.dim(d), x.dim(d)), step), step));
}

void narrow(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.dim("dim", x.rank());
  if (const auto read = read_slice(r, x.dim(d), r.sym("length"))) return r.set(take_index(x, places_of(*read, x.dim(d)), d));
  const Expr start = r.is_tensor("start") ? Expr() : r.b.syms().simplify(r.sym("start"));
  if (r.is_tensor("start")) r.refuse("a start given as a tensor is not supported");
  r.set(x.slice(d, r.from_start(start, x.dim(d)), r.sym("length")));
}

/// Consecutive pieces of these sizes, which make up the whole; as many as the archive has.
void pieces(Rule& r, const T& x, int d, const std::vector<Expr>& own) {
  const std::vector<TensorType> types = r.meta_list();
  if (types.size() != own.size()) throw r.fault(fmt::format("{} pieces, the archive has {}", own.size(), types.size()));
  std::vector<ValueId> out;
  Expr at = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    if (d >= types[i].rank()) throw r.fault(fmt::format("a piece of {} dimensions", types[i].rank()));
    const Expr size = r.agree(own[i], types[i].dims[static_cast<size_t>(d)], "a piece");
    out.push_back(x.slice(d, at, size));
    at += size;
  }
  r.b.require(ShapeGuard::Kind::eq, at, x.dim(d), "the pieces' sizes add up");
  r.set_list(0, out);
}

/// Pieces of one size, the last with what is left. How many they are depends on the size, the graph on their number.
void equal_pieces(Rule& r, const T& x, int d, const Expr& size) {
  const size_t n = r.meta_list().size();
  if (n == 0) throw r.fault("no piece");
  std::vector<Expr> own(n, size);
  own.back() = r.b.syms().simplify(x.dim(d) - size * static_cast<int64_t>(n - 1));
  r.b.require(ShapeGuard::Kind::le, n > 1 ? 1 : 0, own.back(), "the last piece");
  r.b.require(ShapeGuard::Kind::le, own.back(), size, "the last piece");
  pieces(r, x, d, own);
}

int split_dim(Rule& r, const T& x) { return r.has("dim") ? r.dim("dim", x.rank()) : 0; }

void split(Rule& r) {
  const T x = tensor(r, "self");
  const int d = split_dim(r, x);
  const std::string_view name = r.has("split_size") ? "split_size" : "split_sizes";
  if (std::holds_alternative<std::vector<Expr>>(r.arg(name))) return pieces(r, x, d, r.syms(name));
  equal_pieces(r, x, d, r.sym(name));
}

void chunk(Rule& r) {
  const T x = tensor(r, "self");
  const int d = split_dim(r, x);
  const int64_t n = r.integer("chunks");
  if (n < 1) throw r.fault(fmt::format("{} chunks", n));
  if (x.dim(d).is(0)) return pieces(r, x, d, std::vector<Expr>(static_cast<size_t>(n), Expr(0)));
  equal_pieces(r, x, d, r.b.syms().simplify(ceildiv(x.dim(d), n)));
}

/// n pieces; the first ones have one more where n does not divide the size.
void sections(Rule& r, const T& x, int d, int64_t n) {
  if (n < 1) throw r.fault(fmt::format("{} sections", n));
  std::vector<Expr> own;
  for (int64_t i = 0; i < n; ++i) own.push_back(r.b.syms().simplify(floordiv(x.dim(d) + (n - 1 - i), n)));
  pieces(r, x, d, own);
}

/// Cuts at given places, each a slice of its own: they may overlap or lie outside.
void cuts(Rule& r, const T& x, int d) {
  const SymTable& s = r.b.syms();
  const std::vector<TensorType> types = r.meta_list();
  const std::vector<Expr> places = r.syms("indices");
  if (types.size() != places.size() + 1) throw r.fault(fmt::format("{} pieces, the archive has {}", places.size() + 1, types.size()));
  const auto within = [&](const Expr& e) { return s.simplify(min(r.cut_from_start(e, x.dim(d)), x.dim(d))); };
  std::vector<ValueId> out;
  Expr start = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    const Expr end = i < places.size() ? within(places[i]) : x.dim(d);
    out.push_back(x.slice(d, start, sliced(r, d, start, end, 1, types[i])));
    start = end;
  }
  r.set_list(0, out);
}
/// Cuts at places that the run finds: so are the pieces' sizes.
void cuts_found(Rule& r, const T& x, int d, const T& places) {
  Builder& b = r.b;
  const std::vector<TensorType> types = r.meta_list();
  const Expr size = x.dim(d);
  if (!places.dim(0).is(static_cast<int64_t>(types.size()) - 1)) throw r.fault("other places than pieces");
  const T n = scalar_of(b, size, DType::i64);
  std::vector<ValueId> out;
  T start = n.like(0);
  for (size_t i = 0; i < types.size(); ++i) {
    T end = n;
    if (i + 1 < types.size()) {
      const T place = places.select(0, static_cast<int64_t>(i));
      end = minimum(maximum(where(place < 0.0, place + n, place), 0.0), n);
    }
    const Expr length = r.found(types[i].dims.at(static_cast<size_t>(d)), maximum(end - start, 0.0), size);
    const T at = minimum(start + iota(b, {length}, 0), maximum(n - 1.0, 0.0));
    out.push_back(b.index(x, {at}, {d}, d));
    start = end;
  }
  r.set_list(0, out);
}
void tensor_split(Rule& r) {
  const T x = tensor(r, "self");
  const int d = split_dim(r, x);
  if (r.is_tensor("tensor_indices_or_sections")) {
    const T given = tensor(r, "tensor_indices_or_sections").to(DType::i64);
    if (given.rank() == 1) return cuts_found(r, x, d, given);
    const auto pieces = static_cast<int64_t>(r.meta_list().size());
    r.check(given.reshape({}) == static_cast<double>(pieces), fmt::format("{}: other than {} pieces", r.node.target, pieces));
    return sections(r, x, d, pieces);
  }
  if (r.has("indices")) return cuts(r, x, d);
  sections(r, x, d, r.integer(r.has("sections") ? "sections" : "tensor_indices_or_sections"));
}
template <int axis>
void split_axis(Rule& r) {
  const T x = tensor(r, "self");
  const int d = axis == 1 && x.rank() == 1 ? 0 : axis;
  if (r.has("indices")) return cuts(r, x, d);
  const int64_t n = r.integer("sections");
  r.b.require(ShapeGuard::Kind::divisible, x.dim(d), n, "sections of one size");
  sections(r, x, d, n);
}

void unbind(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.has("dim") ? r.dim("dim", x.rank()) : 0;
  const int64_t n = r.constant(x.dim(d), "the number of results");
  std::vector<ValueId> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(x.select(d, i));
  r.set_list(0, out);
}

std::vector<Expr> dense_strides(const std::vector<Expr>& dims) {
  std::vector<Expr> s(dims.size(), Expr(1));
  for (size_t i = dims.size(); i-- > 1;) s[i - 1] = s[i] * dims[i];
  return s;
}

void unfold(Rule& r) {
  const T x = tensor(r, "self");
  const int d = r.dim("dimension", x.rank());
  const Expr step = r.sym("step");
  std::vector<Expr> to = r.meta_result().dims;
  if (x.rank() == 0) return r.set(x.reshape(to));
  std::vector<Expr> own = x.dims();
  own[static_cast<size_t>(d)] = r.b.syms().simplify(floordiv(x.dim(d) - r.sym("size"), step) + 1);
  own.push_back(r.sym("size"));
  to = r.agree(own, to, "the windows");
  std::vector<Expr> s = dense_strides(x.dims());
  s.push_back(s[static_cast<size_t>(d)]);
  s[static_cast<size_t>(d)] = s[static_cast<size_t>(d)] * step;
  r.set(r.b.strided(x, to, s, 0));
}

void diagonal(Rule& r) {
  const T x = tensor(r, r.has("self") ? "self" : "A");
  const int a = r.dim("dim1", x.rank()), c = r.dim("dim2", x.rank());
  const int64_t k = r.integer("offset");
  const std::vector<Expr> dense = dense_strides(x.dims());
  std::vector<Expr> s;
  for (int i = 0; i < x.rank(); ++i)
    if (i != a && i != c) s.push_back(dense[static_cast<size_t>(i)]);
  s.push_back(dense[static_cast<size_t>(a)] + dense[static_cast<size_t>(c)]);
  const TensorType t = r.meta_result();
  if (t.rank() != static_cast<int>(s.size())) throw r.fault(fmt::format("a result of {} dimensions", t.rank()));
  r.agree(diagonal_length(r, x.dim(a), x.dim(c), k), t.dims.back(), "the diagonal");
  if (t.elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  const Expr start = k >= 0 ? dense[static_cast<size_t>(c)] * k : dense[static_cast<size_t>(a)] * -k;
  r.set(r.b.strided(x, t.dims, s, start));
}

/// Strides and the offset count in the memory in which the tensor lies.
void as_strided(Rule& r) {
  const TensorType t = r.meta_result();
  if (t.elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  r.agree_argument("size", t.dims);
  const import::TensorMeta* own = r.meta_arg("self");
  const Expr start = !r.none("storage_offset") ? r.sym("storage_offset") : own ? own->storage_offset : Expr(0);
  r.set(r.b.strided(r.memory("self"), t.dims, r.syms(r.has("stride") ? "stride" : "strides"), start));
}

/// resize_: other sizes for the same memory, row-major from where it began; of the same sizes it stays as it is, unless a format is given.
void resize(Rule& r) {
  const std::vector<Expr> size = r.agree_argument("size", r.meta_result().dims);
  const import::TensorMeta* own = r.meta_arg("self");
  const auto* format = r.has("memory_format") ? std::get_if<import::MemoryFormatArg>(&r.arg("memory_format")) : nullptr;
  if (format && format->text != "contiguous") r.refuse(fmt::format("a change of size in the memory format {}", format->text));
  const ValueId memory = r.memory("self");
  const Expr start = own ? own->storage_offset : Expr(0), have = r.b.type(memory).elems(), need = start + product(size);
  if (!r.b.syms().proves_le(need, have))
    r.refuse(fmt::format("a change of size from {} elements of memory to {}, of which some are never written", have.str(r.b.syms()),
                         need.str(r.b.syms())),
             "make a tensor of the new size");
  const SymTable& syms = r.b.syms();
  std::vector<Expr> strides = dense_strides(size);
  bool same = own && own->sizes.size() == size.size(), different = !same;
  for (size_t d = 0; own && d < size.size() && d < own->sizes.size(); ++d) {
    const Expr by = syms.simplify(own->sizes[d] - size[d]);
    same = same && by.is(0);
    different = different || (by.as_const() && !by.is(0));
  }
  if (same && !format) strides = own->strides;
  if (!same && !different && !format && own && own->strides != dense_strides(own->sizes))
    r.refuse("a change of size of which it is not known whether it is one, for a tensor that is not row-major in memory", "clone it first");
  r.set(product(size).is(0) ? full(r.b, r.meta_result().dtype, size, 0.0) : r.b.strided(memory, size, strides, start));
}

constexpr RuleRow kRows[] = {
    {"aten.resize.default aten.resize_as.default", resize},
    {"aten.alias.default aten.detach.default aten.clone.default aten.contiguous.default aten.lift_fresh_copy.default "
     "aten.lift_fresh.default aten.lift.default aten.alias_copy.default aten.detach_copy.default aten.resolve_conj.default "
     "aten.resolve_neg.default aten.conj.default aten._conj.default aten.conj_physical.default aten.real.default aten.cpu.default "
     "prims.view_of.default",
     identity},
    {"aten.view_copy.default aten.view.default aten._unsafe_view.default aten.reshape.default aten._reshape_alias.default "
     "aten._reshape_copy.default aten.view_as.default aten.reshape_as.default aten.flatten.using_ints aten.ravel.default "
     "aten.unflatten.int aten.unsqueeze.default aten.unsqueeze_copy.default aten.atleast_1d.default aten.atleast_2d.default "
     "aten.atleast_3d.default",
     reshape},
    {"aten.squeeze.default aten.squeeze.dim aten.squeeze.dims aten.squeeze_copy.default aten.squeeze_copy.dim aten.squeeze_copy.dims",
     squeeze},
    {"aten.atleast_1d.Sequence aten.atleast_2d.Sequence aten.atleast_3d.Sequence", reshape_list},
    {"aten.expand.default aten.expand_copy.default aten.expand_as.default aten.broadcast_to.default", expand},
    {"aten.broadcast_tensors.default", broadcast_tensors},
    {"aten.permute.default aten.permute_copy.default", permute},
    {"aten.transpose.int aten.transpose_copy.int aten.swapaxes.default aten.swapdims.default", transpose},
    {"aten.t.default aten.t_copy.default aten.mT.default aten.mH.default aten.adjoint.default aten.matrix_H.default", transpose_last},
    {"aten.numpy_T.default", reverse_dims},
    {"aten.movedim.int aten.movedim.intlist aten.moveaxis.int aten.moveaxis.intlist", movedim},
    {"aten.select.int aten.select_copy.int", select},
    {"aten.slice.Tensor aten.slice_copy.Tensor", slice},
    {"aten.narrow.default aten.narrow.Tensor aten.narrow_copy.default", narrow},
    {"aten.split.Tensor aten.split.sizes aten.split.default aten.split_with_sizes.default aten.split_copy.Tensor "
     "aten.split_with_sizes_copy.default aten.unsafe_split.Tensor aten.unsafe_split_with_sizes.default",
     split},
    {"aten.chunk.default aten.unsafe_chunk.default", chunk},
    {"aten.tensor_split.sections aten.tensor_split.indices aten.tensor_split.tensor_indices_or_sections", tensor_split},
    {"aten.hsplit.int aten.hsplit.array", split_axis<1>},
    {"aten.vsplit.int aten.vsplit.array", split_axis<0>},
    {"aten.dsplit.int aten.dsplit.array", split_axis<2>},
    {"aten.unbind.int aten.unbind_copy.int", unbind},
    {"aten.unfold.default aten.unfold_copy.default", unfold},
    {"aten.diagonal.default aten.linalg_diagonal.default aten.diagonal_copy.default", diagonal},
    {"aten.as_strided.default aten.as_strided_copy.default", as_strided},
};
}  // namespace

RuleTable view_rules() { return kRows; }

}  // namespace aotc::decompose
