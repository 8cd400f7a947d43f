#include "decompose/mapped.h"

#include <algorithm>

#include "decompose/tensor.h"
#include "graph/op_table.h"

namespace aotc::decompose {
namespace {

/// x[.., from, ..] with that dim at `to`.
ValueId moved(Builder& b, ValueId x, int from, int to) {
  Ints perm;
  for (int d = 0; d < b.rank(x); ++d)
    if (d != from) perm.push_back(d);
  perm.insert(perm.begin() + to, from);
  return b.permute(x, perm);
}

/// With dims of 1 for the maps within those that it is mapped by.
ValueId lifted(Builder& b, const Mapped& x, int leads) {
  Exprs dims = b.dims(x.value);
  dims.insert(dims.begin() + x.leads, static_cast<size_t>(leads - x.leads), Expr(1));
  return b.reshape(x.value, dims);
}

Exprs joined(const Exprs& a, const Exprs& b) {
  Exprs out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

/// One node of a row's graph, some of whose inputs are mapped.
class Spread {
 public:
  Spread(Builder& b, const Graph& row, const Node& n, std::vector<Mapped> inputs) : b_(b), row_(row), n_(n), in_(std::move(inputs)) {
    for (const Mapped& x : in_) m_ = std::max(m_, x.leads);
    leads_.assign(static_cast<size_t>(m_), Expr(1));
    for (const Mapped& x : in_)
      for (int d = 0; d < x.leads; ++d)
        if (const Expr& size = b_.dims(x.value)[static_cast<size_t>(d)]; !size.is(1)) leads_[static_cast<size_t>(d)] = size;
  }
  int leads() const { return m_; }

  std::vector<ValueId> run() {
    switch (op_class(n_.op)) {
      case OpClass::unary:
      case OpClass::binary:
      case OpClass::ternary: return of_type();
      case OpClass::view: return {view()};
      case OpClass::cat:
      case OpClass::reduce:
      case OpClass::scan: return along_dims();
      case OpClass::contraction: return {contraction()};
      case OpClass::index: return {n_.op == Op::gather ? along_dims()[0] : index()};
      case OpClass::nullary: refuse();
      case OpClass::opaque: break;
    }
    using Way = std::vector<ValueId> (Spread::*)() const;
    struct Row {
      Op op;
      Way way;
    };
    static constexpr Row kRows[] = {
        {Op::sort, &Spread::along_dims},   {Op::topk, &Spread::along_dims},     {Op::scatter, &Spread::along_dims},
        {Op::cholesky, &Spread::matrices}, {Op::lu, &Spread::matrices},         {Op::qr, &Spread::matrices},
        {Op::svd, &Spread::matrices},      {Op::index_put, &Spread::index_put}, {Op::solve_triangular, &Spread::matrices},
        {Op::fourier, &Spread::fourier},   {Op::add_rows, &Spread::refused},    {Op::recurrence, &Spread::refused},
        {Op::exclude, &Spread::refused},   {Op::check, &Spread::refused},       {Op::custom, &Spread::refused},
    };
    static_assert(Fits<misfit(kRows, {OpClass::opaque})>::value);
    return (this->*row_of(kRows, n_.op).way)();
  }

 private:
  std::vector<ValueId> refused() const { refuse(); }
  std::vector<ValueId> matrices() const { return b_.make(n_.op, all(), n_.attrs); }
  [[noreturn]] void refuse() const {
    throw Refused{fmt::format("{} for each row of a map (vmap) is not supported here", op_name(n_.op)), "write it over the whole batch"};
  }

  /// Input i for every row, each of its own.
  ValueId full(size_t i) const {
    const ValueId v = lifted(b_, in_[i], m_);
    const Exprs& dims = b_.dims(v);
    return b_.expand(v, joined(leads_, Exprs(dims.begin() + m_, dims.end())));
  }
  std::vector<ValueId> all() const {
    std::vector<ValueId> out;
    for (size_t i = 0; i < in_.size(); ++i) out.push_back(full(i));
    return out;
  }
  TensorType result(size_t i = 0) const {
    const TensorType& t = row_.type(n_.outputs[i]);
    return {t.dtype, joined(leads_, t.dims)};
  }
  std::vector<ValueId> of_type() const {
    const TensorType t = result();
    return {b_.make1(n_.op, all(), n_.attrs, &t)};
  }
  Ints behind(const Ints& dims) const {
    Ints out = dims;
    for (int64_t& d : out) d += m_;
    return out;
  }

  /// The dims that its attributes name lie behind the rows.
  std::vector<ValueId> along_dims() const {
    auto attrs = n_.attrs;
    if (n_.has(Attr::dim)) attrs[Attr::dim] = n_.get<int64_t>(Attr::dim) + m_;
    if (n_.has(Attr::dims)) attrs[Attr::dims] = behind(n_.get<Ints>(Attr::dims));
    return b_.make(n_.op, all(), std::move(attrs));
  }

  ValueId view() const {
    const ValueId x = full(0);
    auto attrs = n_.attrs;
    const TensorType t = result();
    const size_t m = static_cast<size_t>(m_);
    switch (n_.op) {
      case Op::reshape: return b_.reshape(x, t.dims);
      case Op::expand: return b_.expand(x, t.dims);
      case Op::permute: {
        Ints perm = behind(n_.get<Ints>(Attr::perm));
        for (int d = 0; d < m_; ++d) perm.insert(perm.begin() + d, d);
        return b_.permute(x, perm);
      }
      case Op::slice: attrs[Attr::dim] = n_.get<int64_t>(Attr::dim) + m_; break;
      case Op::flip: attrs[Attr::dims] = behind(n_.get<Ints>(Attr::dims)); break;
      case Op::pad: attrs[Attr::lo] = joined(Exprs(m, Expr(0)), n_.get<Exprs>(Attr::lo)); break;
      case Op::strided: {
        Exprs strides = n_.get<Exprs>(Attr::strides);
        Expr step = row_.type(n_.inputs[0]).elems();
        for (size_t d = m; d-- > 0; step *= leads_[d]) strides.insert(strides.begin(), step);
        attrs[Attr::strides] = strides;
        break;
      }
      case Op::window: break;
      default: refuse();
    }
    return b_.make1(n_.op, {x}, std::move(attrs), &t);
  }

  /// The rows of all maps as one dim with the dim behind them.
  ValueId folded(ValueId x) const {
    const Exprs& dims = b_.dims(x);
    const Expr first = product(Exprs(dims.begin(), dims.begin() + m_ + 1));
    return b_.reshape(x, joined({b_.syms().simplify(first)}, Exprs(dims.begin() + m_ + 1, dims.end())));
  }

  ValueId contraction() const {
    const TensorType t = result();
    if (n_.op == Op::matmul) {
      // A matrix that all rows share multiplies them as one.
      if (in_[1].leads > 0 || b_.rank(in_[1].value) != 2) return b_.matmul(full(0), full(1), t.dtype);
      return b_.reshape(b_.matmul(folded(full(0)), in_[1].value, t.dtype), t.dims);
    }
    if (n_.op == Op::grouped_matmul) refuse();
    const bool conv = n_.op == Op::conv || n_.op == Op::conv_transpose;
    if (conv && in_[1].leads > 0) return conv_of_own_kernels();
    std::vector<ValueId> in;
    for (size_t i = 0; i < in_.size(); ++i) {
      const bool shared = conv ? i == 1 : i == 3 && in_[i].leads == 0 && b_.dims(in_[i].value)[0].is(1);
      in.push_back(shared ? in_[i].value : folded(full(i)));
    }
    if (!conv && in_.size() > 3 && in_[3].leads > 0 && b_.dims(in_[3].value)[static_cast<size_t>(in_[3].leads)].is(1)) {
      // One mask for the images of a row.
      const Exprs& q = b_.dims(full(0));
      Exprs dims = b_.dims(full(3));
      dims[static_cast<size_t>(m_)] = q[static_cast<size_t>(m_)];
      in[3] = folded(b_.expand(full(3), dims));
    }
    Exprs dims = t.dims;
    const Expr first = product(Exprs(dims.begin(), dims.begin() + m_ + 1));
    const TensorType one{t.dtype, joined({b_.syms().simplify(first)}, Exprs(dims.begin() + m_ + 1, dims.end()))};
    return b_.reshape(b_.make1(n_.op, in, n_.attrs, &one), t.dims);
  }

  /// The rows' channels lie side by side, and each row's kernels go over its own: over all of images that the rows share.
  ValueId conv_of_own_kernels() const {
    const TensorType t = result();
    const size_t m = static_cast<size_t>(m_);
    const Expr rows = b_.syms().simplify(product(leads_));
    const auto count = rows.as_const();
    if (!count) throw Refused{"kernels of their own for each row of a map (vmap) of a dynamic number of rows are not supported", ""};
    auto attrs = n_.attrs;
    const bool shared = in_[0].leads == 0 && n_.op == Op::conv && n_.get<int64_t>(Attr::groups) == 1;
    ValueId x = in_[0].value;
    if (!shared) {
      attrs[Attr::groups] = n_.get<int64_t>(Attr::groups) * *count;
      x = moved(b_, full(0), m_, 0);
      x = b_.reshape(x, beside(b_.dims(x), rows));
    }
    const Exprs w = b_.dims(full(1));
    Exprs kernels(w.begin() + m_, w.end());
    kernels[0] = b_.syms().simplify(kernels[0] * rows);
    // [rows.., N, C, S..]
    Exprs dims = joined({t.dims[m]}, leads_);
    dims.insert(dims.end(), t.dims.begin() + m_ + 1, t.dims.end());
    const TensorType all{t.dtype, beside(dims, rows)};
    const ValueId y = b_.make1(n_.op, {x, b_.reshape(full(1), kernels)}, std::move(attrs), &all);
    return moved(b_, b_.reshape(y, dims), 0, m_);
  }
  /// Of [N, rows.., C, ..] the rows beside the channels.
  Exprs beside(const Exprs& dims, const Expr& rows) const {
    Exprs out = {dims[0], b_.syms().simplify(dims[static_cast<size_t>(m_) + 1] * rows)};
    out.insert(out.end(), dims.begin() + m_ + 2, dims.end());
    return out;
  }

  /// Its waves, the last of its inputs, are those of all rows.
  std::vector<ValueId> fourier() const {
    if (in_.back().leads > 0) refuse();
    std::vector<ValueId> in;
    for (size_t i = 0; i + 1 < in_.size(); ++i) in.push_back(full(i));
    in.push_back(in_.back().value);
    auto attrs = n_.attrs;
    attrs[Attr::dim] = n_.get<int64_t>(Attr::dim) + m_;
    return b_.make(n_.op, std::move(in), std::move(attrs));
  }

  /// Inputs from the k-th on as indices, before them those of the rows themselves.
  std::vector<ValueId> places(size_t k) const {
    std::vector<ValueId> out;
    const Exprs dims = b_.dims(full(k));
    for (int d = 0; d < m_; ++d) out.push_back(b_.iota(dims, d));
    for (size_t i = k; i < in_.size(); ++i) out.push_back(full(i));
    return out;
  }
  Ints placed_dims() const {
    Ints dims = behind(n_.get<Ints>(Attr::dims));
    for (int d = 0; d < m_; ++d) dims.insert(dims.begin() + d, d);
    return dims;
  }

  ValueId index() const {
    const int at = static_cast<int>(n_.get<int64_t>(Attr::out_pos));
    if (std::all_of(in_.begin() + 1, in_.end(), [](const Mapped& i) { return i.leads == 0; })) {
      std::vector<ValueId> plain;
      for (size_t i = 1; i < in_.size(); ++i) plain.push_back(in_[i].value);
      return b_.index(full(0), plain, behind(n_.get<Ints>(Attr::dims)), at + m_);
    }
    ValueId y = in_[0].leads == 0 ? own_places(at) : b_.index(full(0), places(1), placed_dims(), at);
    for (int d = 0; d < m_; ++d) y = moved(b_, y, at + d, d);
    return y;
  }
  /// Of one tensor for all rows: the rows are dims of the indices.
  ValueId own_places(int at) const {
    std::vector<ValueId> indices;
    for (size_t i = 1; i < in_.size(); ++i) indices.push_back(full(i));
    return b_.index(in_[0].value, indices, n_.get<Ints>(Attr::dims), at);
  }

  std::vector<ValueId> index_put() const {
    const int at = static_cast<int>(n_.get<int64_t>(Attr::out_pos));
    ValueId values = full(1);
    for (int d = 0; d < m_; ++d) values = moved(b_, values, 0, at + m_ - 1);
    std::vector<ValueId> in = {full(0), values};
    for (const ValueId v : places(2)) in.push_back(v);
    auto attrs = n_.attrs;
    attrs[Attr::dims] = placed_dims();
    return b_.make(Op::index_put, in, std::move(attrs));
  }

  Builder& b_;
  const Graph& row_;
  const Node& n_;
  std::vector<Mapped> in_;
  int m_ = 0;
  Exprs leads_;
};

}  // namespace

void Maps::leave() {
  if (depth_ == 0) throw Refused{"a map (vmap) that ends and has not begun", ""};
  --depth_;
}

Mapped Maps::rows_of(const Mapped& x, int dim) const {
  const ValueId v = lifted(b_, x, depth_ - 1);
  return {moved(b_, v, depth_ - 1 + dim, depth_ - 1), depth_};
}

Mapped Maps::whole(const Mapped& x, const Expr& n, int dim) const {
  ValueId v = lifted(b_, x, depth_);
  Exprs dims = b_.dims(v);
  dims[static_cast<size_t>(depth_) - 1] = n;
  v = b_.expand(v, dims);
  return {moved(b_, v, depth_ - 1, depth_ - 1 + dim), depth_ - 1};
}

Mapped Maps::value(const Graph& row, ValueId v, std::map<ValueId, Mapped>& made) const {
  const auto it = made.find(v);
  if (it != made.end()) return it->second;
  const Value& x = row.values[v];
  AOTC_CHECK(x.kind == ValueKind::constant, "a value of a row's graph that nothing makes");
  return made[v] = {b_.constant(row.constants[x.constant])};
}

void Maps::apply(const Graph& row, const std::vector<NodeId>& nodes, std::map<ValueId, Mapped>& made) const {
  for (const NodeId id : nodes) {
    const Node& n = row.nodes[id];
    if (n.dead) continue;
    std::vector<Mapped> in;
    for (const ValueId v : n.inputs) in.push_back(value(row, v, made));
    const bool mapped = std::any_of(in.begin(), in.end(), [](const Mapped& x) { return x.leads > 0; });
    std::vector<ValueId> out;
    int leads = 0;
    if (mapped) {
      Spread spread(b_, row, n, in);
      leads = spread.leads();
      out = spread.run();
    } else {
      std::vector<ValueId> plain;
      for (const Mapped& x : in) plain.push_back(x.value);
      const TensorType t = row.type(n.outputs[0]);
      out = b_.make(n.op, plain, n.attrs, &t);
    }
    for (size_t i = 0; i < out.size(); ++i) made[n.outputs[i]] = {out[i], leads};
  }
}

}  // namespace aotc::decompose
