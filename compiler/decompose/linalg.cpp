// Matrix products and what is made of them.
#include "decompose/linalg.h"

#include <cmath>
#include <limits>
#include <optional>

#include "decompose/families.h"
#include "decompose/matrices.h"
#include "decompose/reduction.h"

namespace aotc::decompose {

DType product_type(DType t) { return compute_type(t); }

T matmul(const T& a, const T& b, DType result) {
  Builder& bb = a.b();
  if (a.rank() == 0 || b.rank() == 0) throw Refused{"matmul of a scalar", ""};
  T x = a.rank() == 1 ? a.unsqueeze(0) : a, y = b.rank() == 1 ? b.unsqueeze(1) : b;
  if (x.dim(-1).is(0)) {
    // An empty sum everywhere: the same shapes with one column of zeros.
    std::vector<Expr> dx = x.dims(), dy = y.dims();
    dx.back() = dy[dy.size() - 2] = 1;
    x = {bb, full(bb, x.dtype(), dx, 0.0)};
    y = {bb, full(bb, y.dtype(), dy, 0.0)};
  }
  std::vector<Expr> dims;  // of the result before the unit dims of vectors go
  if (y.rank() == 2) {
    // One matrix for all batches: they are rows of one product.
    dims.assign(x.dims().begin(), x.dims().end() - 1);
    const T rows = x.rank() == 2 ? x : x.reshape({product(dims), x.dim(-1)});
    dims.push_back(y.dim(1));
    x = T(bb, bb.matmul(rows, y, result)).reshape(dims);
  } else {
    const std::vector<Expr> bx(x.dims().begin(), x.dims().end() - 2), by(y.dims().begin(), y.dims().end() - 2);
    const std::vector<Expr> batch = broadcast_dims(bb.syms(), bx, by);
    std::vector<Expr> dx = batch, dy = batch;
    dx.insert(dx.end(), {x.dim(-2), x.dim(-1)});
    dy.insert(dy.end(), {y.dim(-2), y.dim(-1)});
    x = {bb, bb.matmul(x.expand(dx), y.expand(dy), result)};
  }
  if (a.rank() == 1) x = x.squeeze(-2);
  if (b.rank() == 1) x = x.squeeze(-1);
  return x;
}

Expr batch_work(const T& a, const T& b) { return a.dim(-2) * a.dim(-1) * b.dim(-1); }

T of_blas(const T& with, const T& without, const Expr& work) {
  const SymTable& s = with.b().syms();
  if (s.proves_le(kAlwaysBlas, work)) return without;
  if (s.proves_lt(work, kAlwaysBlas)) return with;
  return where(scalar_of(with.b(), work, DType::i64) < static_cast<double>(kAlwaysBlas), with, without);
}

namespace {

/// Two operands in the archive's result type.
T product_of(Rule& r, std::string_view a, std::string_view b) {
  const DType t = r.meta_result().dtype;
  const T x = tensor(r, a), y = tensor(r, b);
  const DType in = is_float(x.dtype()) && x.dtype() == y.dtype() ? x.dtype() : t;
  if (is_bool(t) || is_complex(t)) r.refuse(fmt::format("products of {} are not supported", dtype_name(t)));
  return matmul(x.to(in), y.to(in), t);
}

template <int first>
void plain(Rule& r) {
  static constexpr std::string_view kNames[][2] = {{"self", "other"}, {"self", "mat2"}, {"self", "vec"}, {"self", "tensor"}};
  r.set(product_of(r, kNames[first][0], kNames[first][1]));
}

/// Rows times the transposed weight, plus bias while the rows are still rows of one product.
void linear(Rule& r) {
  const T x = tensor(r, "input"), w = tensor(r, "weight");
  const std::optional<T> bias = opt_tensor(r, "bias");
  const TensorType t = r.meta_result();
  const DType in = bias ? product_type(t.dtype) : t.dtype;
  const auto with_bias = [&](const T& y) { return (bias ? y + bias->to(y.dtype()) : y).to(t.dtype); };
  if (w.rank() == 1 || x.rank() == 1) return r.set(with_bias(matmul(x, w.rank() == 1 ? w : T(r.b, r.b.transpose(w, 0, 1)), in)));
  const std::vector<Expr> lead(x.dims().begin(), x.dims().end() - 1);
  const T rows = x.rank() == 2 ? x : x.reshape({product(lead), x.dim(-1)});
  r.set(with_bias(T(r.b, r.b.matmul(rows, r.b.transpose(w, 0, 1), in))).reshape(t.dims));
}

T scaled_by(Rule& r, const T& x, std::string_view factor) {
  return r.number_or(factor, 1.0) == 1.0 ? x : x * T(r.b, full(r.b, x.dtype(), {}, r.scalar(factor)));
}

/// beta * self; nothing where beta is 0, whatever self is.
std::optional<T> scaled_self(Rule& r, DType t) {
  if (r.number_or("beta", 1.0) == 0.0) return std::nullopt;
  return scaled_by(r, tensor(r, "self").to(t), "beta");
}

/// beta * self + alpha * product; beta 0 ignores self, NaN or not, and alpha 0 the product where BLAS makes it.
T blended(Rule& r, const T& product, const Expr& blas_work) {
  const bool ignored = r.number_or("alpha", 1.0) == 0.0;
  const T scaled = scaled_by(r, product, "alpha");
  const std::optional<T> added = scaled_self(r, product.dtype());
  if (!added) return ignored ? of_blas(scaled, scaled.like(0), blas_work) : scaled;
  return ignored ? of_blas(scaled + *added, added->expand(product.dims()), blas_work) : scaled + *added;
}

template <int first>
void added(Rule& r) {
  static constexpr std::string_view kNames[][2] = {{"mat1", "mat2"}, {"batch1", "batch2"}, {"mat", "vec"}};
  const DType out = r.meta_result().dtype;
  const T x = tensor(r, kNames[first][0]), y = tensor(r, kNames[first][1]);
  r.set(blended(r, matmul(x, y, product_type(out)), first == 1 ? batch_work(x, y) : kAlwaysBlas).to(out));
}

void addbmm(Rule& r) {
  const DType out = r.meta_result().dtype;
  r.set(blended(r, matmul(tensor(r, "batch1"), tensor(r, "batch2"), product_type(out)).sum({0}, false), kAlwaysBlas).to(out));
}

void addr(Rule& r) {
  const DType out = r.meta_result().dtype;
  if (is_bool(out)) r.refuse("bool tensors");
  const DType in = compute_type(out);
  // alpha meets the first vector before the second does: products that would overflow do not.
  const T product = scaled_by(r, tensor(r, "vec1").to(in).unsqueeze(1), "alpha") * tensor(r, "vec2").to(in).unsqueeze(0);
  const std::optional<T> added = scaled_self(r, in);
  r.set((added ? *added + product : product).to(out));
}

void addmm_activation(Rule& r) {
  const DType out = r.meta_result().dtype;
  if (r.boolean("use_gelu")) r.refuse("use_gelu is not supported");
  const T y = blended(r, matmul(tensor(r, "mat1"), tensor(r, "mat2"), product_type(out)), kAlwaysBlas);
  r.set(unary(Op::relu, y).to(out));
}

void outer(Rule& r) {
  const DType out = r.meta_result().dtype;
  const T x = tensor(r, "self").to(out).unsqueeze(1), y = tensor(r, r.has("vec2") ? "vec2" : "other").to(out).unsqueeze(0);
  r.set(is_bool(out) ? x & y : x * y);
}

void inner(Rule& r) {
  const T x = tensor(r, "self"), y = tensor(r, "other");
  const DType out = r.meta_result().dtype;
  if (x.rank() == 0 || y.rank() == 0) return r.set((x.to(out) * y.to(out)));
  std::vector<int> lx, ly, keep;
  for (int i = 0; i < x.rank() - 1; ++i) lx.push_back(i), keep.push_back(i);
  for (int i = 0; i < y.rank() - 1; ++i) ly.push_back(100 + i), keep.push_back(100 + i);
  lx.push_back(-1);
  ly.push_back(-1);
  r.set(finish_contraction(contract({x, lx}, {y, ly}, keep), keep).to(out));
}

void tensordot(Rule& r) {
  const T x = tensor(r, "self"), y = tensor(r, "other");
  const DType out = r.meta_result().dtype;
  Ints dx = r.integers("dims_self"), dy = r.integers("dims_other");
  std::vector<int> lx, ly, keep;
  for (int i = 0; i < x.rank(); ++i) lx.push_back(i);
  for (int i = 0; i < y.rank(); ++i) ly.push_back(100 + i);
  for (size_t i = 0; i < dx.size() && i < dy.size(); ++i) {
    lx[static_cast<size_t>(dx[i] < 0 ? dx[i] + x.rank() : dx[i])] = 200 + static_cast<int>(i);
    ly[static_cast<size_t>(dy[i] < 0 ? dy[i] + y.rank() : dy[i])] = 200 + static_cast<int>(i);
  }
  for (int l : lx)
    if (l < 200) keep.push_back(l);
  for (int l : ly)
    if (l < 200) keep.push_back(l);
  r.set(finish_contraction(contract({x.to(out), lx}, {y.to(out), ly}, keep), keep).to(out));
}

void bilinear(Rule& r) {
  const T x1 = tensor(r, "input1"), x2 = tensor(r, "input2"), w = tensor(r, "weight");
  const DType out = r.meta_result().dtype;
  const int n = x1.rank();
  std::vector<int> l1, l2, keep;
  for (int i = 0; i < n - 1; ++i) l1.push_back(i), keep.push_back(i);
  l2 = l1;
  l1.push_back(100);
  l2.push_back(101);
  keep.push_back(102);
  const Labeled weight{w.up(), {102, 100, 101}};
  std::vector<int> middle = keep;
  middle.push_back(101);
  T y = finish_contraction(contract(contract({x1.up(), l1}, weight, middle), {x2.up(), l2}, keep), keep);
  if (auto b = opt_tensor(r, "bias")) y = y + b->to(y.dtype());
  r.set(y.to(out));
}

void kron(Rule& r) {
  const TensorType t = r.meta_result();
  T x = tensor(r, "self").to(t.dtype), y = tensor(r, "other").to(t.dtype);
  while (x.rank() < t.rank()) x = x.unsqueeze(0);
  while (y.rank() < t.rank()) y = y.unsqueeze(0);
  std::vector<Expr> dx, dy;
  for (int i = 0; i < t.rank(); ++i) {
    dx.insert(dx.end(), {x.dim(i), Expr(1)});
    dy.insert(dy.end(), {Expr(1), y.dim(i)});
  }
  const T a = x.reshape(dx), b = y.reshape(dy);
  r.set((is_bool(t.dtype) ? a & b : a * b).reshape(t.dims));
}

void cosine_similarity(Rule& r) {
  const TensorType t = r.meta_result();
  const DType in = compute_type(t.dtype);
  std::vector<ValueId> v = {tensor(r, "x1").to(in), tensor(r, "x2").to(in)};
  broadcast_all(r.b, v);
  const T x(r.b, v[0]), y(r.b, v[1]);
  const int d = r.dim("dim", x.rank());
  const double eps = r.number("eps");
  const Ints over = x.rank() == 0 ? Ints{} : Ints{d};
  const T nx = maximum(vector_norm(x, 2, over), eps), ny = maximum(vector_norm(y, 2, over), eps);
  r.set(((x / nx) * (y / ny)).sum(over, false).to(t.dtype).reshape(t.dims));
}

/// Distances as PyTorch takes them from a product where either side has many rows: |x|^2 + |y|^2 - 2 x y.
T distances_by_product(const T& x, const T& y) {
  const T nx = (x * x).sum({x.rank() - 1}, true), ny = (y * y).sum({y.rank() - 1}, true);
  const T squared = (turned(ny) - 2.0 * matmul(x, turned(y), x.dtype())) + nx;
  return unary(Op::sqrt, maximum(squared, 0.0));
}

/// aten.cdist's compute_mode: 1 always multiplies, 2 never, and without one 25 rows decide.
bool multiplies(Rule& r, const T& x, const T& y) {
  constexpr int64_t kManyRows = 25;
  const int64_t mode = r.none("compute_mode") ? 0 : r.integer("compute_mode");
  const auto many = [&](const Expr& rows) { return r.b.syms().proves_le(kManyRows + 1, rows); };
  return mode == 1 || (mode == 0 && (many(x.dim(-2)) || many(y.dim(-2))));
}

void cdist(Rule& r) {
  const TensorType t = r.meta_result();
  const DType in = compute_type(t.dtype);
  const T x = tensor(r, "x1").to(in), y = tensor(r, "x2").to(in);
  const double p = r.number("p");
  if (p == 2 && !t.elems().is(0) && !x.dim(-1).is(0) && multiplies(r, x, y)) return r.set(distances_by_product(x, y).to(t.dtype));
  T d = x.unsqueeze(-2) - y.unsqueeze(-3);
  if (std::isinf(p)) d = where(unary(Op::isnan, d), 0.0, d);  // PyTorch's maximum passes over NaN here
  if (t.elems().is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  if (d.dim(-1).is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  r.set(vector_norm(d, p, {d.rank() - 1}).squeeze(-1).to(t.dtype));
}

/// Distances of all pairs of rows, each pair once.
void pdist(Rule& r) {
  const TensorType t = r.meta_result();
  const T x = tensor(r, "self").up();
  const int64_t n = r.constant(x.dim(0), "the number of rows");
  if (n > kMaxPairedRows) r.refuse(fmt::format("distances of all pairs of more than {} rows", kMaxPairedRows), "use torch.cdist");
  if (n < 2 || x.dim(1).is(0)) return r.set(full(r.b, t.dtype, t.dims, 0.0));
  Ints first, second;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) first.push_back(i), second.push_back(j);
  const T d = T(r.b, r.b.index(x, {literal(r.b, first)}, {0}, 0)) - T(r.b, r.b.index(x, {literal(r.b, second)}, {0}, 0));
  r.set(vector_norm(d, r.number_or("p", 2), {1}).squeeze(-1).to(t.dtype));
}

void pairwise_distance(Rule& r) {
  const TensorType t = r.meta_result();
  const DType in = compute_type(t.dtype);
  const T d = tensor(r, "x1").to(in) - tensor(r, "x2").to(in) + r.number("eps");
  r.set(vector_norm(d, r.number("p"), {d.rank() - 1}).to(t.dtype).reshape(t.dims));
}

void cross(Rule& r) {
  const TensorType t = r.meta_result();
  std::vector<ValueId> v = {tensor(r, "self").to(t.dtype), tensor(r, "other").to(t.dtype)};
  broadcast_all(r.b, v);
  const T x(r.b, v[0]), y(r.b, v[1]);
  int d = -1;
  if (!r.none("dim")) {
    d = r.dim("dim", x.rank());
  } else {
    for (int i = 0; i < x.rank() && d < 0; ++i)
      if (x.dim(i).is(3)) d = i;
  }
  if (d < 0) r.refuse("no dimension of size 3");
  const auto part = [&](const T& z, int i) { return z.slice(d, i, 1); };
  std::vector<ValueId> out;
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    out.push_back(part(x, j) * part(y, k) - part(x, k) * part(y, j));
  }
  r.set(r.b.cat(out, d));
}

void vecdot(Rule& r) {
  const TensorType t = r.meta_result();
  const DType in = compute_type(t.dtype);
  const T p = tensor(r, "x").to(in) * tensor(r, "y").to(in);
  r.set(p.sum({r.dim("dim", p.rank())}, false).to(t.dtype));
}

/// The order of products that LibTorch takes: the fewest multiplications, at the sizes that are meant.
class Chain {
 public:
  Chain(Rule& r, const std::vector<ValueId>& matrices) : r_(r), matrices_(matrices), n_(matrices.size()), cells_(n_ * n_) {
    std::vector<double> size;
    const T first(r.b, matrices.front());
    size.push_back(first.rank() == 1 ? 1.0 : hint(first.dim(0)));
    for (size_t i = 0; i < n_; ++i) {
      const T m(r.b, matrices[i]);
      size.push_back(i + 1 == n_ && m.rank() == 1 ? 1.0 : hint(m.dim(-1)));
    }
    for (size_t length = 1; length < n_; ++length)
      for (size_t i = 0; i + length < n_; ++i) {
        const size_t j = i + length;
        Cell best{std::numeric_limits<double>::infinity(), i};
        for (size_t k = i; k < j; ++k) {
          const double cost = at(i, k).cost + at(k + 1, j).cost + size[i] * size[k + 1] * size[j + 1];
          if (cost < best.cost || (n_ == 3 && cost == best.cost)) best = {cost, k};  // of three a tie goes from left to right
        }
        at(i, j) = best;
      }
  }

  T product(DType out) { return product(0, n_ - 1, out); }

 private:
  struct Cell {
    double cost = 0;
    size_t split = 0;
  };
  Cell& at(size_t i, size_t j) { return cells_[i * n_ + j]; }
  double hint(const Expr& e) const { return static_cast<double>(r_.b.syms().hint(e)); }
  T product(size_t i, size_t j, DType out) {
    if (i == j) return {r_.b, matrices_[i]};
    const size_t k = at(i, j).split;
    return matmul(product(i, k, out), product(k + 1, j, out), out);
  }

  Rule& r_;
  const std::vector<ValueId>& matrices_;
  size_t n_;
  std::vector<Cell> cells_;
};

void multi_dot(Rule& r) {
  const std::vector<ValueId> matrices = r.tensors(r.has("tensors") ? "tensors" : "matrices");
  r.set(Chain(r, matrices).product(r.meta_result().dtype));
}

void matrix_power(Rule& r) {
  T x = tensor(r, "self");
  int64_t n = r.integer("n");
  if (n < 0) {
    x = inverse(r, x.to(DType::f64)).to(x.dtype());
    n = -n;
  }
  T y = (iota(r.b, x.dims(), x.rank() - 2) == iota(r.b, x.dims(), x.rank() - 1)).to(x.dtype());
  if (n > 0) y = x;
  for (int64_t i = 1; i < n; ++i) y = matmul(y, x, x.dtype());
  r.set(y);
}

/// Rows in runs, each run times its own matrix (experts).
void grouped_mm(Rule& r) {
  const DType out = r.meta_result().dtype;
  const bool core = r.has("self");
  const T x = tensor(r, core ? "self" : r.has("input") ? "input" : "0"), w = tensor(r, core ? "mat2" : r.has("weight") ? "weight" : "1");
  const std::string_view offs = r.has("offs") ? "offs" : "2";
  if (r.none(offs) || x.rank() != 2 || w.rank() != 3) r.refuse("grouped products other than of rows with a stack of matrices");
  if (core && !r.none("bias")) r.refuse("a bias in a grouped product");
  r.set(r.b.grouped_matmul(x, w, tensor(r, offs).to(DType::i64), out));
}

constexpr RuleRow kRows[] = {
    {"aten.matmul.default aten.linalg_matmul.default aten.__matmul__.default aten.vdot.default", plain<0>},
    {"aten.mm.default aten.bmm.default", plain<1>},
    {"aten.mv.default", plain<2>},
    {"aten.dot.default", plain<3>},
    {"aten.linear.default", linear},
    {"aten.addmm.default", added<0>},
    {"aten.baddbmm.default", added<1>},
    {"aten.addmv.default", added<2>},
    {"aten.addbmm.default", addbmm},
    {"aten.addr.default", addr},
    {"aten._addmm_activation.default", addmm_activation},
    {"aten.outer.default aten.ger.default", outer},
    {"aten.inner.default", inner},
    {"aten.tensordot.default", tensordot},
    {"aten.bilinear.default", bilinear},
    {"aten.kron.default", kron},
    {"aten.cosine_similarity.default", cosine_similarity},
    {"aten.cdist.default aten._cdist_forward.default", cdist},
    {"aten.pdist.default aten._pdist_forward.default", pdist},
    {"aten.pairwise_distance.default", pairwise_distance},
    {"aten.cross.default aten.linalg_cross.default", cross},
    {"aten._grouped_mm.default transformers.grouped_mm_fallback.default", grouped_mm},
    {"aten.linalg_vecdot.default", vecdot},
    {"aten.linalg_multi_dot.default aten.chain_matmul.default", multi_dot},
    {"aten.matrix_power.default aten.linalg_matrix_power.default", matrix_power},
};
}  // namespace

RuleTable linalg_rules() { return kRows; }

}  // namespace aotc::decompose
