// Writing through indices.
#include <algorithm>

#include "decompose/families.h"
#include "decompose/indexing.h"

namespace aotc::decompose {
namespace {

std::string reduce_text(Rule& r, const std::string& s) {
  if (s == "add" || s == "sum") return "sum";
  if (s == "multiply" || s == "prod") return "prod";
  if (s == "amax" || s == "amin" || s == "mean") return s;
  r.refuse(fmt::format("reduce='{}' is not supported", s));
}

void scatter_to(Rule& r, const std::string& reduce, bool include_self) {
  T x = tensor(r, "self"), i = tensor(r, "index").to(DType::i64);
  const int d = r.dim("dim", x.rank());
  const std::vector<Expr> to = x.dims();
  if (r.b.type(i).elems().is(0)) return r.set(x);
  if (x.rank() == 0) x = x.reshape({1});
  if (i.rank() == 0) i = i.reshape({1});
  T src = x;
  if (r.has("src") && r.is_tensor("src")) {
    src = tensor(r, "src").to(x.dtype());
    if (src.rank() == 0) src = src.reshape({1});
  } else {
    src = T(r.b, materialize(r.b, operand(r, "value"), x.dtype())).expand(i.dims());
  }
  const bool boolean = is_bool(x.dtype()) && reduce != "none";
  if (boolean) x = x.to(DType::u8), src = src.to(DType::u8);
  const T y(r.b,
            r.b.make1(Op::scatter, {x, i, src}, {{Attr::dim, int64_t{d}}, {Attr::reduce, reduce}, {Attr::include_self, include_self}}));
  r.set((boolean ? y.to(DType::boolean) : y).reshape(to));
}

void scatter(Rule& r) { scatter_to(r, r.none("reduce") ? "none" : reduce_text(r, r.text("reduce")), true); }
void scatter_add(Rule& r) { scatter_to(r, "sum", true); }
void scatter_reduce(Rule& r) { scatter_to(r, reduce_text(r, r.text("reduce")), r.boolean_or("include_self", true)); }

ValueId put(Rule& r, const T& x, const IndexPlan& p, const T& values, bool accumulate) {
  // Dims of the written region: the index dims among those that are not indexed.
  std::vector<Expr> region;
  for (int i = 0; i < x.rank(); ++i)
    if (std::find(p.dims.begin(), p.dims.end(), i) == p.dims.end()) region.push_back(x.dim(i));
  region.insert(region.begin() + p.out_pos, p.index_dims.begin(), p.index_dims.end());
  T v = values.to(x.dtype());
  // Leading unit dims of the values may exceed the region's.
  while (v.rank() > static_cast<int>(region.size()) && v.dim(0).is(1)) v = v.squeeze(0);
  const bool boolean = is_bool(x.dtype()) && accumulate;
  const T target = boolean ? x.to(DType::u8) : x;
  std::vector<ValueId> in = {target, (boolean ? v.to(DType::u8) : v).expand(region)};
  in.insert(in.end(), p.indices.begin(), p.indices.end());
  const T y(r.b, r.b.make1(Op::index_put, in, {{Attr::dims, p.dims}, {Attr::out_pos, int64_t{p.out_pos}}, {Attr::accumulate, accumulate}}));
  return boolean ? y.to(DType::boolean) : y;
}

void index_put(Rule& r) {
  const T x = tensor(r, "self"), v = tensor(r, "values");
  const bool accumulate = r.boolean_or("accumulate", false);
  const std::vector<std::optional<ValueId>> given = r.opt_tensors("indices");
  // One mask and one value: a selection.
  size_t masks = 0, others = 0, first = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) continue;
    if (r.b.dtype(*given[i]) == DType::boolean)
      ++masks, first = i;
    else
      ++others;
  }
  if (masks == 1 && others == 0) {
    const T mask0(r.b, *given[first]);
    // Dims after the mask's may carry values of their own; dims that the mask selects may not.
    const int after = x.rank() - static_cast<int>(first) - mask0.rank();
    bool one = first == 0 || v.rank() == 0;
    for (int i = 0; i < v.rank() - after; ++i) one = one && v.dim(i).is(1);
    if (one) {
      std::vector<Expr> dims(first, Expr(1));
      dims.insert(dims.end(), mask0.dims().begin(), mask0.dims().end());
      dims.insert(dims.end(), static_cast<size_t>(after), Expr(1));
      T value = v.to(x.dtype());
      while (value.rank() > after) value = value.squeeze(0);
      return r.set(where(mask0.reshape(dims), accumulate ? x + value : value, x));
    }
  }
  const IndexPlan p = index_plan(r, x, "indices");
  if (p.indices.empty()) return r.set(v.to(x.dtype()).expand(x.dims()));
  r.set(put(r, x, p, v, accumulate));
}

IndexPlan along(Rule& r, const T& x, bool wraps) {
  IndexPlan p;
  T i = tensor(r, "index").to(DType::i64);
  if (i.rank() == 0) i = i.reshape({1});
  const int d = r.dim("dim", x.rank());
  p.dims = {d};
  p.indices = {wraps ? i : from_start(i, x.dim(d))};
  p.index_dims = i.dims();
  p.out_pos = static_cast<int>(p.dims[0]);
  return p;
}

/// self, source and index with at least one dim; the result takes self's dims again. wraps: negative indices count from the end.
void along_dim(Rule& r, std::string_view source, bool accumulate, bool wraps) {
  const T x0 = tensor(r, "self");
  const T x = x0.rank() == 0 ? x0.reshape({1}) : x0;
  T s(r.b, materialize(r.b, operand(r, source), x.dtype()));
  const double alpha = r.number_or("alpha", 1.0);
  if (alpha != 1.0) s = is_bool(s.dtype()) ? s.like(0) : (s.up() * alpha).to(s.dtype());
  r.set(T(r.b, put(r, x, along(r, x, wraps), s, accumulate)).reshape(x0.dims()));
}
void index_add(Rule& r) { along_dim(r, "source", true, false); }
void index_copy(Rule& r) { along_dim(r, "source", false, false); }
void index_fill(Rule& r) { along_dim(r, "value", false, true); }

/// Like scatter with an index that is the same across the other dims.
void index_reduce(Rule& r) {
  const T x0 = tensor(r, "self"), s0 = tensor(r, "source");
  const T x = x0.rank() == 0 ? x0.reshape({1}) : x0, s = s0.rank() == 0 ? s0.reshape({1}) : s0;
  const int d = r.dim("dim", x.rank());
  std::vector<Expr> line(static_cast<size_t>(x.rank()), Expr(1));
  const T i = tensor(r, "index").to(DType::i64);
  line[static_cast<size_t>(d)] = r.b.type(i).elems();
  const T y(r.b, r.b.make1(Op::scatter, {x, i.reshape(line).expand(s.dims()), s},
                           {{Attr::dim, int64_t{d}},
                            {Attr::reduce, reduce_text(r, r.text("reduce"))},
                            {Attr::include_self, r.boolean("include_self")}}));
  r.set(y.reshape(x0.dims()));
}

/// Writes through flat indices.
void put_flat(Rule& r) {
  const T x = tensor(r, "self"), i = tensor(r, "index").to(DType::i64), s = tensor(r, "source");
  const T flat = x.reshape({r.b.type(x).elems()});
  const Expr n = r.b.type(i).elems();
  const T y(r.b, r.b.make1(Op::index_put, {flat, s.reshape({n}), i.reshape({n})},
                           {{Attr::dims, Ints{0}}, {Attr::out_pos, int64_t{0}}, {Attr::accumulate, r.boolean("accumulate")}}));
  r.set(y.reshape(x.dims()));
}

/// x[indices] where the mask is true (indices elsewhere may be out of range), else the fill.
void unsafe_masked_index(Rule& r) {
  const T x = tensor(r, "self"), mask = tensor(r, "mask");
  IndexPlan p = index_plan(r, x, "indices");
  for (size_t i = 0; i < p.indices.size(); ++i) {
    const T at(r.b, p.indices[i]);
    p.indices[i] = minimum(maximum(at, 0.0), scalar_of(r.b, x.dim(static_cast<int>(p.dims[i])) - 1, DType::i64));
  }
  const T v(r.b, r.b.index(x, p.indices, p.dims, p.out_pos));
  r.set(where(mask, v, T(r.b, full(r.b, v.dtype(), {}, r.scalar("fill")))));
}

/// Strides count in the storage, which is the tensor itself where it is contiguous and starts it.
void as_strided_scatter(Rule& r) {
  const import::TensorMeta* m = r.meta_arg("self");
  Expr dense = 1;
  for (size_t i = m ? m->sizes.size() : 0; i-- > 0;) {
    if (!m->sizes[i].is(1) && !r.b.syms().proves_eq(m->strides[i], dense))
      r.refuse("as_strided_scatter into a tensor that is not contiguous");
    dense *= m->sizes[i];
  }
  // Offsets count from where the memory begins, in which the tensor may begin later.
  const Expr start = r.none("storage_offset") ? Expr(0) : r.sym("storage_offset") - (m ? m->storage_offset : Expr(0));
  const T x = tensor(r, "self"), src = tensor(r, "src");
  const std::vector<Expr> strides = r.syms("stride");
  Expr last = start;
  for (int d = 0; d < src.rank(); ++d) last += (src.dim(d) - 1) * strides.at(static_cast<size_t>(d));
  const bool empty = product(src.dims()).is(0);
  if (!empty && !(r.b.syms().proves_le(0, start) && r.b.syms().proves_le(last + 1, product(x.dims()))))
    r.refuse("as_strided_scatter beyond the tensor's own elements");
  r.set(write_strided(x, src, strides, start));
}

constexpr RuleRow kRows[] = {
    {"aten._unsafe_masked_index.default", unsafe_masked_index},
    {"aten.scatter.src aten.scatter.value aten.scatter.reduce aten.scatter.value_reduce", scatter},
    {"aten.scatter_add.default", scatter_add},
    {"aten.scatter_reduce.two", scatter_reduce},
    {"aten.index_put.default aten._unsafe_index_put.default", index_put},
    {"aten.index_add.default", index_add},
    {"aten.index_copy.default", index_copy},
    {"aten.index_fill.int_Scalar aten.index_fill.int_Tensor", index_fill},
    {"aten.index_reduce.default", index_reduce},
    {"aten.put.default", put_flat},
    {"aten.as_strided_scatter.default", as_strided_scatter},
};
}  // namespace

RuleTable scatter_rules() { return kRows; }

}  // namespace aotc::decompose
