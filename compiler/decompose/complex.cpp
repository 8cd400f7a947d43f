// Complex tensors as real ones with a last dim of 2 (real, imaginary): views and copies carry the pair along, arithmetic takes it apart.
#include "decompose/complex.h"
#include "decompose/bits.h"
#include "decompose/families.h"
#include "decompose/linalg.h"
#include "decompose/reduction.h"

namespace aotc::decompose {
Complex apart(const T& pair) { return {pair.select(-1, 0), pair.select(-1, 1)}; }
T join(const Complex& c) {
  std::vector<ValueId> v = {c.re, c.im};
  broadcast_all(c.re.b(), v);
  const T re(c.re.b(), v[0]), im(c.re.b(), v[1]);
  return {re.b(), re.b().cat({re.unsqueeze(-1), im.unsqueeze(-1)}, re.rank())};
}

bool complex_arg(const Rule& r, std::string_view name) {
  const import::TensorMeta* m = r.meta_arg(name);
  return m && is_complex(m->dtype);
}

/// The real type of the result's parts.
DType part_type(const Rule& r) { return r.meta_result().dtype; }

bool complex_result(const Rule& r) {
  return is_complex(r.program.tensors.at(std::get<import::TensorRef>(r.node.results.at(0)).name).dtype);
}

/// An operand that is complex, real, or a number.
Complex complex_operand(Rule& r, std::string_view name, DType t) {
  if (complex_arg(r, name)) {
    const Complex c = apart(tensor(r, name));
    return {c.re.to(t), c.im.to(t)};
  }
  if (const auto* z = std::get_if<std::complex<double>>(&r.arg(name)))
    return {T(r.b, full(r.b, t, {}, z->real())), T(r.b, full(r.b, t, {}, z->imag()))};
  const T x(r.b, materialize(r.b, operand(r, name), t));
  return {x, x.like(0)};
}

Complex times(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

Complex inverse(const Complex& z) { return quotient({z.re.like(1), z.im.like(0)}, z); }

/// As c10::complex divides (Smith, 1962): by the larger part of b, so that no square of a part runs over or to nothing.
Complex quotient(const Complex& a, const Complex& b) {
  const T real = abs(b.re) >= abs(b.im), none = (b.re == 0.0) & (b.im == 0.0);
  const T large = where(real, b.re, b.im), small = where(real, b.im, b.re);
  const T ratio = small / large, scale = 1.0 / (large + small * ratio);
  const T re = (where(real, a.re, a.im) + where(real, a.im, a.re) * ratio) * scale;
  const T im = where(real, a.im - a.re * ratio, a.im * ratio - a.re) * scale;
  return {where(none, a.re / abs(b.re), re), where(none, a.im / abs(b.im), im)};
}

namespace {

void mul(Rule& r) {
  const DType t = part_type(r);
  r.set(join(times(complex_operand(r, "self", t), complex_operand(r, "other", t))));
}

void div(Rule& r) {
  const DType t = part_type(r);
  r.set(join(quotient(complex_operand(r, "self", t), complex_operand(r, "other", t))));
}

/// PyTorch divides the sum by a complex number of elements, whose imaginary part is 0.
void mean(Rule& r) {
  const DType t = part_type(r);
  const Complex x = complex_operand(r, "self", t);
  const Ints dims = reduced_dims(r, tensor(r, "self").rank(), true);
  const bool keep = r.boolean_or("keepdim", false);
  const T n = reduced_count(x.re, dims, t);
  r.set(join(quotient({x.re.sum(dims, keep), x.im.sum(dims, keep)}, {n, n.like(0)})));
}

template <Op op>
void sum_of_two(Rule& r) {
  const DType t = part_type(r);
  const Complex a = complex_operand(r, "self", t), b = complex_operand(r, "other", t);
  // PyTorch multiplies by a complex alpha, or by -alpha where it subtracts, whatever that is.
  Complex alpha{T(r.b, full(r.b, t, {}, op == Op::add ? 1.0 : -1.0)), T(r.b, full(r.b, t, {}, 0))};
  if (!r.none("alpha")) {
    const Complex given = complex_operand(r, "alpha", t);
    const T zero = given.im.like(0);
    alpha = op == Op::add ? given : Complex{-given.re, zero - given.im};
  }
  const Complex c = times(alpha, b);
  r.set(join({a.re + c.re, a.im + c.im}));
}

void nothing(Rule&) {}
void neg(Rule& r) { r.set(-tensor(r, "self")); }
void conj(Rule& r) {
  const Complex c = apart(tensor(r, "self"));
  r.set(join({c.re, -c.im}));
}
void same(Rule& r) { r.set(r.tensor("self")); }
template <int part>
void take_part(Rule& r) {
  r.set(tensor(r, "self").select(-1, part));
}
void abs_of(Rule& r) {
  const Complex c = apart(tensor(r, "self"));
  r.set(binary(Op::hypot, c.re, c.im));
}
void angle(Rule& r) {
  const Complex c = apart(tensor(r, "self"));
  r.set(binary(Op::atan2, c.im, c.re));
}
void make_complex(Rule& r) { r.set(join({tensor(r, "real"), tensor(r, "imag")})); }
void polar(Rule& r) {
  const T m = tensor(r, "abs"), a = tensor(r, "angle");
  r.set(join({m * unary(Op::cos, a), m * unary(Op::sin, a)}));
}

void convert(Rule& r) {
  const DType t = part_type(r);
  const bool from = complex_arg(r, "self");
  const bool to = complex_result(r);
  const T x = tensor(r, "self");
  if (from == to) return r.set(x.to(t));
  if (from) return r.set(x.select(-1, 0).to(t));
  r.set(join({x.to(t), x.to(t).like(0)}));
}

/// The memory of pairs is that of twice as many real numbers.
void view_dtype(Rule& r) {
  const bool from = complex_arg(r, "self");
  const bool to = complex_result(r);
  T x = tensor(r, "self");
  const auto twice = [&](std::vector<Expr> dims) {
    dims.pop_back();
    dims.back() = dims.back() * 2;
    return dims;
  };
  x = retyped(from ? x.reshape(twice(x.dims())) : x, part_type(r));
  if (!to) return r.set(x);
  const Expr size = floordiv(x.dim(-1), 2);
  r.set(join({x.slice(-1, 0, size, 2), x.slice(-1, 1, size, 2)}));
}

void permute(Rule& r) {
  const T x = tensor(r, "self");
  Ints p = r.integers("dims");
  for (int64_t& d : p)
    if (d < 0) d += x.rank() - 1;
  p.push_back(x.rank() - 1);
  r.set(x.permute(p));
}

void transpose_last(Rule& r) {
  const T x = tensor(r, "self");
  r.set(x.rank() < 3 ? static_cast<ValueId>(x) : r.b.transpose(x, -3, -2));
}

void product(Rule& r) {
  const DType t = part_type(r);
  const std::string_view other = r.has("mat2") ? "mat2" : r.has("other") ? "other" : "vec";
  const Complex a = complex_operand(r, "self", t), b = complex_operand(r, other, t);
  r.set(join({matmul(a.re, b.re, t) - matmul(a.im, b.im, t), matmul(a.re, b.im, t) + matmul(a.im, b.re, t)}));
}

bool is_zero(Rule& r, std::string_view factor) {
  if (r.is_tensor(factor)) return false;
  const auto* z = std::get_if<std::complex<double>>(&r.arg(factor));
  return z ? *z == 0.0 : r.number(factor) == 0;
}

/// beta * self + alpha * (a @ b)
void added_product(Rule& r) {
  const DType t = part_type(r);
  const bool batched = r.has("batch1");
  const Complex a = complex_operand(r, batched ? "batch1" : "mat1", t), b = complex_operand(r, batched ? "batch2" : "mat2", t);
  const Complex y = {matmul(a.re, b.re, t) - matmul(a.im, b.im, t), matmul(a.re, b.im, t) + matmul(a.im, b.re, t)};
  const Complex self = times(complex_operand(r, "self", t), complex_operand(r, "beta", t)), all = times(y, complex_operand(r, "alpha", t));
  const bool kept = !is_zero(r, "beta"), blas = is_zero(r, "alpha");
  const Expr work = batched ? batch_work(a.re, b.re) : kAlwaysBlas;
  const auto sum = [&](const T& own, const T& product) {
    const T with = kept ? own + product : product;
    return blas ? of_blas(with, kept ? own.expand(product.dims()) : with.like(0), work) : with;
  };
  r.set(join({sum(self.re, all.re), sum(self.im, all.im)}));
}

void linear(Rule& r) {
  const DType t = part_type(r);
  const Complex x = complex_operand(r, "input", t), w = complex_operand(r, "weight", t);
  const auto turned = [&](const T& m) { return m.rank() < 2 ? m : T(r.b, r.b.transpose(m, -2, -1)); };
  const T re = turned(w.re), im = turned(w.im);
  const Complex y = {matmul(x.re, re, t) - matmul(x.im, im, t), matmul(x.re, im, t) + matmul(x.im, re, t)};
  if (r.none("bias")) return r.set(join(y));
  const Complex bias = complex_operand(r, "bias", t);
  r.set(join({y.re + bias.re, y.im + bias.im}));
}

// Products along a dim, in some log2(n) steps.

/// How many there can be.
int64_t most_of(const T& x, int d) { return std::min(x.b().syms().interval(x.dim(d)).max, int64_t{1} << 31); }

T with_more(const T& x, int d, int64_t count, double value) {
  std::vector<Expr> dims = x.dims();
  dims[static_cast<size_t>(d)] = count;
  return {x.b(), x.b().cat({x, full(x.b(), x.dtype(), dims, value)}, d)};
}

/// Up to 16 neighbours are multiplied at a time, until one is left.
Complex product_along(Complex z, int d) {
  const SymTable& syms = z.re.b().syms();
  if (!syms.proves_le(1, z.re.dim(d))) z = {with_more(z.re, d, 1, 1), with_more(z.im, d, 1, 0)};
  for (int64_t most = most_of(z.re, d); most > 1;) {
    const int64_t at_once = std::min<int64_t>(most, 16);
    const Expr n = z.re.dim(d), rest = syms.simplify(ceildiv(n, at_once));
    if (!syms.proves_divisible(n, at_once)) z = {with_more(z.re, d, at_once - 1, 1), with_more(z.im, d, at_once - 1, 0)};
    const auto part = [&](int64_t i) { return Complex{z.re.slice(d, i, rest, at_once), z.im.slice(d, i, rest, at_once)}; };
    Complex all = part(0);
    for (int64_t i = 1; i < at_once; ++i) all = times(all, part(i));
    z = all;
    most = (most + at_once - 1) / at_once;
  }
  return {z.re.slice(d, 0, 1), z.im.slice(d, 0, 1)};
}

void prod(Rule& r) {
  const DType t = part_type(r);
  Complex z = complex_operand(r, "self", t);
  const bool all = !r.has("dim"), scalar = z.re.rank() == 0;
  const int d = all || scalar ? 0 : r.dim("dim", z.re.rank() + 1);
  if (all || scalar) z = {z.re.reshape({product(z.re.dims())}), z.im.reshape({product(z.im.dims())})};
  z = product_along(z, d);
  if (all || scalar) return r.set(join({z.re.reshape({}), z.im.reshape({})}));
  r.set(r.boolean_or("keepdim", false) ? join(z) : join({z.re.squeeze(d), z.im.squeeze(d)}));
}

/// Each times what lies 1, 2, 4 ... before it.
void cumprod(Rule& r) {
  Complex z = complex_operand(r, "self", part_type(r));
  if (z.re.rank() == 0 || product(z.re.dims()).is(0)) return r.set(join(z));
  const int d = r.dim("dim", z.re.rank() + 1);
  const T place = iota(r.b, z.re.dims(), d);
  for (int64_t step = 1, most = most_of(z.re, d); step < most; step *= 2) {
    const auto back = static_cast<double>(step);
    const T from = maximum(place - back, 0.0), has = place >= back;
    const auto earlier = [&](const T& x) { return T(r.b, r.b.gather(x, from, d)); };
    const Complex y = times(z, {earlier(z.re), earlier(z.im)});
    z = {where(has, y.re, z.re), where(has, y.im, z.im)};
  }
  r.set(join(z));
}

constexpr RuleRow kRows[] = {
    {"aten.view_as_complex.default aten.view_as_real.default", same},
    {"aten.complex.default", make_complex},
    {"aten.polar.default", polar},
    {"aten.mul.Tensor aten.mul.Scalar", mul},
    {"aten.div.Tensor", div},
    {"aten.add.Tensor", sum_of_two<Op::add>},
    {"aten.sub.Tensor", sum_of_two<Op::sub>},
    {"aten.mean.default aten.mean.dim", mean},
    {"aten.neg.default", neg},
    {"aten.conj.default aten._conj.default aten.conj_physical.default aten._conj_physical.default", conj},
    {"aten.real.default", take_part<0>},
    {"aten.imag.default", take_part<1>},
    {"aten.abs.default", abs_of},
    {"aten.angle.default", angle},
    {"aten.to.dtype aten.to.device aten.to.dtype_layout aten._to_copy.default", convert},
    {"aten.view.dtype", view_dtype},
    {"aten.permute.default", permute},
    {"aten.t.default aten.mT.default", transpose_last},
    {"aten.linear.default", linear},
    {"aten.addmm.default aten.baddbmm.default", added_product},
    {"aten.matmul.default aten.mm.default aten.bmm.default aten.mv.default", product},
    {"aten.prod.default aten.prod.dim_int", prod},
    {"aten.cumprod.default", cumprod},
    {"aten._assert_tensor_metadata.default", nothing},
};

/// Rules for real tensors that move elements or are linear in them: the pair rides along.
constexpr std::string_view kCarried =
    "aten.alias.default aten.detach.default aten.clone.default aten.contiguous.default aten.lift_fresh_copy.default "
    "aten.resolve_conj.default aten.resolve_neg.default aten.view.default aten._unsafe_view.default aten.reshape.default "
    "aten.flatten.using_ints aten.unflatten.int aten.squeeze.default aten.squeeze.dim aten.squeeze.dims aten.unsqueeze.default "
    "aten.expand.default aten.view_as.default aten.reshape_as.default aten.transpose.int aten.select.int aten.slice.Tensor "
    "aten.narrow.default aten.split.Tensor aten.split.sizes aten.split_with_sizes.default aten.chunk.default aten.unbind.int "
    "aten.cat.default aten.stack.default aten.flip.default aten.pad.default aten.constant_pad_nd.default aten.reflection_pad1d.default "
    "aten.reflection_pad2d.default aten.replication_pad1d.default aten.replication_pad2d.default aten.index.Tensor "
    "aten.index_select.default aten.embedding.default aten.sum.default aten.sum.dim_IntList aten.zeros.default aten.zeros_like.default";
}  // namespace

bool pair_rides_along(std::string_view overload) { return has_word(kCarried, overload); }

RuleFn find_complex_rule(std::string_view overload) {
  for (const RuleTable& table :
       {RuleTable(kRows), complex_math_rules(), complex_arc_rules(), complex_solve_rules(), complex_conv_rules(), fourier_rules()})
    for (const RuleRow& row : table)
      if (has_word(row.overloads, overload)) return row.fn;
  if (pair_rides_along(overload)) return find_rule(overload) ? with_pair : nullptr;
  return find_rule_by_parts(overload);
}

}  // namespace aotc::decompose
