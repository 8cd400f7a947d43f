// Gradients of reading a part of a tensor: zeros with the part's gradient in its place.
#include "decompose/families.h"
#include "decompose/indexing.h"

namespace aotc::decompose {
namespace {

T zeros(Rule& r, DType t, const std::vector<Expr>& dims) { return {r.b, full(r.b, t, dims, 0.0)}; }

/// g in the place [start, start + its size) of a dim of `size`, zeros around it: no copy by itself.
T placed(const T& g, int d, const Expr& start, const Expr& size) {
  std::vector<Expr> lo(static_cast<size_t>(g.rank()), Expr(0)), hi = lo;
  lo[static_cast<size_t>(d)] = start;
  hi[static_cast<size_t>(d)] = g.b().syms().simplify(size - start - g.dim(d));
  return {g.b(), g.b().pad(g, lo, hi, 0.0)};
}

void select(Rule& r) {
  const T g = tensor(r, "grad_output");
  const std::vector<Expr> dims = r.syms("input_sizes");
  const int d = r.dim("dim", static_cast<int>(dims.size()));
  const Expr size = dims[static_cast<size_t>(d)];
  r.set(placed(g.unsqueeze(d), d, wrap_index(r, r.sym("index"), size), size));
}

void slice(Rule& r) {
  const T g = tensor(r, "grad_output");
  const std::vector<Expr> dims = r.syms("input_sizes");
  const int d = r.dim("dim", static_cast<int>(dims.size()));
  const Expr size = dims[static_cast<size_t>(d)], start = slice_bound(r, "start", size, 0);
  const Expr step = slice_step(r);
  r.agree(slice_length(r, start, slice_bound(r, "end", size, size), step), g.dim(d), "the slice");
  if (step.is(1)) return r.set(placed(g, d, start, size));
  r.set(write_slice(zeros(r, g.dtype(), dims), g, d, start, step));
}

void diagonal(Rule& r) {
  const T g = tensor(r, "grad_output");
  const std::vector<Expr> dims = r.syms("input_sizes");
  const int rank = static_cast<int>(dims.size()), d1 = r.dim("dim1", rank), d2 = r.dim("dim2", rank);
  const int64_t offset = r.integer("offset");
  const Expr rows = dims[static_cast<size_t>(d1)], columns = dims[static_cast<size_t>(d2)];
  r.agree(diagonal_length(r, rows, columns, offset), g.dim(-1), "the diagonal");
  // The element's place on the diagonal is its row (or its column, below the main diagonal).
  const int last = g.rank() - 1;
  const T line = offset >= 0 ? placed(g, last, 0, rows).unsqueeze(-1) : placed(g, last, 0, columns).unsqueeze(-2);
  const T row = iota(r.b, {rows, 1}, 0), column = iota(r.b, {1, columns}, 1);
  const T square = where(column - row == static_cast<double>(offset), line, 0.0);  // [.., rows, columns]
  Ints perm(static_cast<size_t>(rank));
  int next = 0;
  for (int i = 0; i < rank; ++i) perm[static_cast<size_t>(i)] = i == d1 ? rank - 2 : i == d2 ? rank - 1 : next++;
  r.set(square.permute(perm));
}

void trace(Rule& r) {
  const std::vector<Expr> dims = r.syms("sizes");
  r.set(where(iota(r.b, dims, 0) == iota(r.b, dims, 1), tensor(r, "grad"), 0.0));
}

/// Sums `values` at places along dim d of zeros.
T sum_at(Rule& r, const std::vector<Expr>& dims, const T& values, const T& index, int d) {
  return add_at(zeros(r, values.up().dtype(), dims), values, index, d).to(values.dtype());
}

/// Overlapping windows of a dim, as its last dim, summed back.
void unfold(Rule& r) {
  const T g = tensor(r, "grad_in");
  const std::vector<Expr> dims = r.syms("input_sizes");
  if (dims.empty()) return r.set(g.reshape({}));
  const int d = r.dim("dim", static_cast<int>(dims.size()));
  const Expr many = g.dim(d), size = r.sym("size");
  const int64_t step = r.integer("step");
  r.agree({r.b.syms().simplify(floordiv(dims[static_cast<size_t>(d)] - size, step) + 1), size}, {many, g.dim(-1)}, "the windows");
  Ints perm;
  for (int i = 0; i < g.rank() - 1; ++i) {
    perm.push_back(i);
    if (i == d) perm.push_back(g.rank() - 1);
  }
  std::vector<Expr> flat = dims;
  flat[static_cast<size_t>(d)] = many * size;
  const std::vector<Expr> windows = {many, size};
  const T at = iota(r.b, windows, 0) * static_cast<double>(step) + iota(r.b, windows, 1);
  r.set(sum_at(r, dims, g.permute(perm).reshape(flat), at.reshape({many * size}), d));
}

void index_select(Rule& r) {
  const T g = tensor(r, "grad"), index = tensor(r, "index");
  const std::vector<Expr> dims = r.syms("self_sizes");
  if (dims.empty()) return r.set(g.reshape({}));
  r.set(sum_at(r, dims, g, index.rank() == 0 ? index.reshape({1}) : index, r.dim("dim", static_cast<int>(dims.size()))));
}

void embedding(Rule& r) {
  const T g0 = tensor(r, r.has("grad_output") ? "grad_output" : "grad"), index0 = tensor(r, "indices").to(DType::i64);
  const Expr rows = r.sym("num_weights"), n = r.b.type(index0).elems();
  if (r.boolean_or("sparse", false)) r.refuse("a sparse gradient", "use nn.Embedding(sparse=False)");
  const T index = index0.reshape({n});
  T g = g0.reshape({n, g0.dim(-1)}).up();
  const int64_t padding = r.integer("padding_idx");
  if (padding >= 0) g = where((index != static_cast<double>(padding)).unsqueeze(1), g, 0.0);
  if (r.boolean("scale_grad_by_freq")) {
    const T often = sum_at(r, {rows}, T(r.b, full(r.b, g.dtype(), {n}, 1.0)), index, 0);
    g = g / take_index(often, index, 0).unsqueeze(1);
  }
  r.set(sum_at(r, {rows, g.dim(1)}, g, index, 0).to(g0.dtype()));
}

/// Rows of an embedding that were summed over bags, or averaged, have their bag's gradient; the largest ones have it where they were.
void embedding_bag(Rule& r) {
  const T g0 = tensor(r, "grad"), index = tensor(r, "indices").to(DType::i64), g = g0.up();
  const Expr rows = r.sym("num_weights"), n = index.dim(0), bags = g.dim(0);
  if (r.boolean_or("sparse", false)) r.refuse("a sparse gradient", "use nn.EmbeddingBag(sparse=False)");
  if (r.boolean("scale_grad_by_freq"))
    r.refuse("scale_grad_by_freq over bags: PyTorch's kernel for CPUs divides by other rows' counts",
             "use nn.Embedding, or sum without it");
  const int64_t mode = r.integer("mode"), padding = r.integer_or("padding_idx", -1);
  if (mode == 2) {
    const T at = tensor(r, "maximum_indices").to(DType::i64).slice(0, 0, bags);
    const T some = tensor(r, "bag_size").to(DType::i64).slice(0, 0, bags) != 0.0;
    const std::vector<ValueId> in = {zeros(r, g.dtype(), {rows, g.dim(1)}), at, where(some.unsqueeze(1), g, 0.0)};
    const T y(r.b, r.b.make1(Op::scatter, in, {{Attr::dim, int64_t{0}}, {Attr::reduce, std::string("sum")}, {Attr::include_self, true}}));
    return r.set(y.to(g0.dtype()));
  }
  const T bag = r.has("offsets") ? bags_of(tensor(r, "offsets").to(DType::i64), n) : tensor(r, "offset2bag").to(DType::i64);
  const T last = scalar_of(r.b, bags - 1, DType::i64), beyond = bag > last, of = minimum(bag, last);
  const T member = padding < 0 ? !beyond : (index != static_cast<double>(padding)) & !beyond;
  T each = take_index(g, of, 0);
  if (const auto w = opt_tensor(r, "per_sample_weights")) each = each * w->to(g.dtype()).unsqueeze(1);
  if (mode == 1) {
    const T size = sum_at(r, {bags}, member.to(g.dtype()), of, 0);
    each = each / maximum(take_index(size, of, 0), 1.0).unsqueeze(1);
  }
  r.set(sum_at(r, {rows, g.dim(1)}, where(member.unsqueeze(1), each, 0.0), index, 0).to(g0.dtype()));
}

void embedding_bag_weights(Rule& r) {
  const T g = tensor(r, "grad").up(), w = tensor(r, "weight").up(), index = tensor(r, "indices").to(DType::i64);
  const int64_t padding = r.integer_or("padding_idx", -1);
  const T bag = bags_of(tensor(r, "offsets").to(DType::i64), index.dim(0)), last = scalar_of(r.b, g.dim(0) - 1, DType::i64);
  T y = (take_index(g, minimum(bag, last), 0) * take_index(w, index, 0)).sum({1}, false);
  y = where(bag > last, 0.0, y);
  if (padding >= 0) y = where(index == static_cast<double>(padding), 0.0, y);
  r.set(y.to(r.meta_result().dtype));
}

/// The gradient goes to the element along dim that the reduction picked.
void picked(Rule& r) {
  T g = tensor(r, "grad"), at = tensor(r, "indices").to(DType::i64);
  const std::vector<Expr> dims = r.syms("sizes");
  if (dims.empty()) return r.set(g.reshape({}));
  const int d = r.dim("dim", static_cast<int>(dims.size()));
  if (!r.boolean("keepdim")) g = g.unsqueeze(d), at = at.unsqueeze(d);
  r.set(where(iota(r.b, dims, d) == at, g, 0.0));
}

void gather(Rule& r) {
  const T g0 = tensor(r, "grad"), at0 = tensor(r, "index").to(DType::i64);
  const std::vector<Expr> dims = tensor(r, "self").dims();
  if (r.boolean("sparse_grad")) r.refuse("a sparse gradient", "use torch.gather(sparse_grad=False)");
  const T g = (g0.rank() == 0 ? g0.reshape({1}) : g0).up(), at = at0.rank() == 0 ? at0.reshape({1}) : at0;
  const T zero = zeros(r, g.dtype(), dims.empty() ? std::vector<Expr>{1} : dims);
  const int d = r.dim("dim", static_cast<int>(dims.size()));
  const T y(r.b, r.b.make1(Op::scatter, {zero, at, g},
                           {{Attr::dim, int64_t{d}}, {Attr::reduce, std::string("sum")}, {Attr::include_self, true}}));
  r.set(y.reshape(dims).to(g0.dtype()));
}

/// Element k of the source was read at the k-th place where the mask is true.
void masked_scatter(Rule& r) {
  const T g = tensor(r, "grad_output"), mask = tensor(r, "mask").expand(g.dims());
  const std::vector<Expr> dims = r.syms("sizes");
  const Expr n = r.b.type(g).elems(), many = product(dims);
  const T flat = mask.reshape({n});
  const T nth = T(r.b, r.b.scan(ReduceKind::sum, flat.to(DType::i64), 0)) - 1.0;
  // What the mask leaves out goes to a place of its own behind the others.
  const T at = minimum(where(flat, nth, scalar_of(r.b, many, DType::i64)), scalar_of(r.b, many, DType::i64));
  r.set(sum_at(r, {many + 1}, where(flat, g.reshape({n}), 0.0), at, 0).slice(0, 0, many).reshape(dims));
}

constexpr RuleRow kRows[] = {
    {"aten.select_backward.default", select},
    {"aten.slice_backward.default", slice},
    {"aten.diagonal_backward.default", diagonal},
    {"aten.trace_backward.default", trace},
    {"aten.unfold_backward.default", unfold},
    {"aten.index_select_backward.default", index_select},
    {"aten.embedding_dense_backward.default aten.embedding_backward.default", embedding},
    {"aten._embedding_bag_backward.default aten._embedding_bag_dense_backward.default", embedding_bag},
    {"aten._embedding_bag_per_sample_weights_backward.default", embedding_bag_weights},
    {"aten.value_selecting_reduction_backward.default", picked},
    {"aten.gather_backward.default", gather},
    {"aten.masked_scatter_backward.default", masked_scatter},
};
}  // namespace

RuleTable backward_index_rules() { return kRows; }

}  // namespace aotc::decompose
