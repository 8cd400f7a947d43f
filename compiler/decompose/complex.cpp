// Complex tensors as real ones with a last dim of 2 (real, imaginary): views and copies carry the pair along, arithmetic takes it apart.
#include <cmath>
#include <map>

#include "decompose/families.h"
#include "decompose/linalg.h"
#include "decompose/reduction.h"

namespace aotc::decompose {
namespace {

struct Complex {
  T re, im;
};

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

/// An operand that is complex, real, or a number.
Complex operand_of(Rule& r, std::string_view name, DType t) {
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

void mul(Rule& r) {
  const DType t = part_type(r);
  // A real factor scales both parts.
  for (const auto& [z, x] : {std::pair("self", "other"), std::pair("other", "self")})
    if (complex_arg(r, z) && !complex_arg(r, x) && !std::holds_alternative<std::complex<double>>(r.arg(x))) {
      const T s(r.b, materialize(r.b, operand(r, x), t));
      return r.set(tensor(r, z).to(t) * s.unsqueeze(-1));
    }
  r.set(join(times(operand_of(r, "self", t), operand_of(r, "other", t))));
}

void div(Rule& r) {
  const DType t = part_type(r);
  const Complex a = operand_of(r, "self", t), b = operand_of(r, "other", t);
  if (!complex_arg(r, "other") && !std::holds_alternative<std::complex<double>>(r.arg("other")))
    return r.set(join({a.re / b.re, a.im / b.re}));
  const T n = b.re * b.re + b.im * b.im;
  const Complex c = times(a, {b.re, -b.im});
  r.set(join({c.re / n, c.im / n}));
}

template <Op op>
void sum_of_two(Rule& r) {
  const DType t = part_type(r);
  const Complex a = operand_of(r, "self", t), b = operand_of(r, "other", t);
  const double alpha = r.number_or("alpha", 1.0);
  const auto scaled = [&](const T& x) { return alpha == 1.0 ? x : x * alpha; };
  r.set(join({binary(op, a.re, scaled(b.re)), binary(op, a.im, scaled(b.im))}));
}

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
void exp_of(Rule& r) {
  const Complex c = apart(tensor(r, "self"));
  const T m = exp(c.re);
  r.set(join({m * unary(Op::cos, c.im), m * unary(Op::sin, c.im)}));
}
void make_complex(Rule& r) { r.set(join({tensor(r, "real"), tensor(r, "imag")})); }
void polar(Rule& r) {
  const T m = tensor(r, "abs"), a = tensor(r, "angle");
  r.set(join({m * unary(Op::cos, a), m * unary(Op::sin, a)}));
}

void convert(Rule& r) {
  const DType t = part_type(r);
  const bool from = complex_arg(r, "self");
  const bool to = is_complex(r.program.tensors.at(std::get<import::TensorRef>(r.node.results.at(0)).name).dtype);
  const T x = tensor(r, "self");
  if (from == to) return r.set(x.to(t));
  if (from) return r.set(x.select(-1, 0).to(t));
  r.set(join({x.to(t), x.to(t).like(0)}));
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
  const Complex a = operand_of(r, "self", t), b = operand_of(r, other, t);
  r.set(join({matmul(a.re, b.re, t) - matmul(a.im, b.im, t), matmul(a.re, b.im, t) + matmul(a.im, b.re, t)}));
}

// Fourier transforms: products with the matrix of the transform, for lengths known when compiling.
constexpr int64_t kLongestTransform = 4096;

/// Cosines and sines of 2*pi*i*j/n, [rows, cols].
std::pair<T, T> waves(Rule& r, int64_t rows, int64_t cols, int64_t n, DType t) {
  std::vector<double> c, s;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const double a = 2 * M_PI * static_cast<double>(i * j % n) / static_cast<double>(n);
      c.push_back(std::cos(a));
      s.push_back(std::sin(a));
    }
  return {T(r.b, literal_f(r.b, c, t)).reshape({rows, cols}), T(r.b, literal_f(r.b, s, t)).reshape({rows, cols})};
}

/// x with a dim cut or filled with zeros to n.
T resized(const T& x, int d, int64_t n) {
  const std::optional<int64_t> have = x.dim(d).as_const();
  if (have && *have == n) return x;
  if (have && *have > n) return x.slice(d, 0, n);
  std::vector<Expr> lo(static_cast<size_t>(x.rank()), Expr(0)), hi = lo;
  hi[static_cast<size_t>(d)] = Expr(n) - x.dim(d);
  return {x.b(), x.b().pad(x, lo, hi, 0.0)};
}

T along(const T& x, int d, const T& matrix, const Expr& out) {
  Builder& b = x.b();
  const int last = x.rank() - 1;
  const T rows(b, b.transpose(x, d, last));
  std::vector<Expr> dims = rows.dims();
  const T y = matmul(rows, matrix, x.dtype());
  dims.back() = out;
  return {b, b.transpose(y.reshape(dims), d, last)};
}

int64_t transform_length(Rule& r, const Expr& e) {
  const int64_t n = r.constant(e, "the length of a Fourier transform");
  if (n > kLongestTransform) r.refuse(fmt::format("a Fourier transform of length {} is too long (at most {})", n, kLongestTransform));
  if (n < 1) r.refuse("a Fourier transform of nothing");
  return n;
}

/// The transform of one dim of c; sign -1 is forward.
Complex transform(Rule& r, const Complex& c, int d, int64_t n, int sign) {
  const T re = resized(c.re, d, n), im = resized(c.im, d, n);
  const auto [cs, sn] = waves(r, n, n, n, re.dtype());
  const T rc = along(re, d, cs, n), rs = along(re, d, sn, n), ic = along(im, d, cs, n), is = along(im, d, sn, n);
  return sign < 0 ? Complex{rc + is, ic - rs} : Complex{rc - is, ic + rs};
}

struct Fourier {
  Ints dims;     ///< transformed, in order; the last is the half-length one of real transforms
  Ints lengths;  ///< signal lengths
  double scale = 1;
};

/// Arguments of fft_fft (n, dim, norm), fft_fftn (s, dim, norm) and _fft_c2c (dim, normalization), which differ in their names.
Fourier arguments(Rule& r, const T& x, int rank, bool inverse, bool real_output) {
  Fourier f;
  const auto wrap = [&](int64_t d) { return d < 0 ? d + rank : d; };
  const bool several = r.has("s");
  if (r.none("dim")) {
    const int64_t given = several && !r.none("s") ? static_cast<int64_t>(r.syms("s").size()) : rank;
    for (int64_t i = rank - given; i < rank; ++i) f.dims.push_back(i);
  } else {
    for (int64_t d : r.integers("dim")) f.dims.push_back(wrap(d));
  }
  std::vector<Expr> given;
  if (several && !r.none("s")) given = r.syms("s");
  if (r.has("n") && !r.none("n")) given = {r.sym("n")};
  for (size_t i = 0; i < f.dims.size(); ++i) {
    const Expr have = x.dim(static_cast<int>(f.dims[i]));
    const bool half = real_output && i + 1 == f.dims.size();
    if (half && r.has("last_dim_size"))
      f.lengths.push_back(transform_length(r, r.sym("last_dim_size")));
    else if (i < given.size() && !given[i].is(-1))
      f.lengths.push_back(transform_length(r, given[i]));
    else
      f.lengths.push_back(transform_length(r, half ? (have - 1) * 2 : have));
  }
  double size = 1;
  for (int64_t n : f.lengths) size *= static_cast<double>(n);
  if (r.has("normalization")) {
    const int64_t how = r.integer("normalization");
    f.scale = how == 1 ? 1 / std::sqrt(size) : how == 2 ? 1 / size : 1.0;
  } else {
    const std::string how = r.text_or("norm", "backward");
    if (how == "ortho")
      f.scale = 1 / std::sqrt(size);
    else
      f.scale = (how == "forward") != inverse ? 1 / size : 1.0;
  }
  return f;
}

Complex scaled(const Complex& c, double by) { return by == 1.0 ? c : Complex{c.re * by, c.im * by}; }

template <int sign>
void complex_to_complex(Rule& r) {
  const DType t = part_type(r);
  Complex c = operand_of(r, "self", t);
  int way = sign;
  if (r.has("forward")) way = r.boolean("forward") ? -1 : 1;
  const Fourier f = arguments(r, c.re, c.re.rank(), way > 0, false);
  for (size_t i = 0; i < f.dims.size(); ++i) c = transform(r, c, static_cast<int>(f.dims[i]), f.lengths[i], way);
  r.set(join(scaled(c, f.scale)));
}

void real_to_complex(Rule& r) {
  const DType t = part_type(r);
  const T x = tensor(r, "self").to(t);
  Complex c{x, x.like(0)};
  const Fourier f = arguments(r, x, x.rank(), false, false);
  const bool half = !r.has("onesided") || r.boolean("onesided");
  // The last dim first: it is real, and half of its transform is enough.
  const int d = static_cast<int>(f.dims.back());
  const int64_t n = f.lengths.back(), out = half ? n / 2 + 1 : n;
  const auto [cs, sn] = waves(r, n, out, n, t);
  const T real = resized(x, d, n);
  c = {along(real, d, cs, out), -along(real, d, sn, out)};
  for (size_t i = 0; i + 1 < f.dims.size(); ++i) c = transform(r, c, static_cast<int>(f.dims[i]), f.lengths[i], -1);
  r.set(join(scaled(c, f.scale)));
}

/// From the first half of a spectrum of length n to `cols` (or, periodic, more) places of the signal, times scale: [n / 2 + 1, cols], what
/// multiplies real or imaginary parts. The other half is the conjugate: inner frequencies count twice.
std::vector<double> inverse_half(int64_t n, int64_t cols, double scale, bool imaginary) {
  std::vector<double> w;
  for (int64_t k = 0; k <= n / 2; ++k) {
    const double twice = k == 0 || 2 * k == n ? scale : 2 * scale;
    for (int64_t j = 0; j < cols; ++j) {
      const double a = 2 * M_PI * static_cast<double>(k * j % n) / static_cast<double>(n);
      w.push_back(imaginary ? -twice * std::sin(a) : twice * std::cos(a));
    }
  }
  return w;
}

void complex_to_real(Rule& r) {
  const DType t = part_type(r);
  Complex c = operand_of(r, "self", t);
  const Fourier f = arguments(r, c.re, c.re.rank(), true, true);
  for (size_t i = 0; i + 1 < f.dims.size(); ++i) c = transform(r, c, static_cast<int>(f.dims[i]), f.lengths[i], 1);
  const int d = static_cast<int>(f.dims.back());
  const int64_t n = f.lengths.back(), half = n / 2 + 1;
  const std::vector<double> cs = inverse_half(n, n, 1, false), sn = inverse_half(n, n, 1, true);
  const T wc = T(r.b, literal_f(r.b, cs, t)).reshape({half, n}), ws = T(r.b, literal_f(r.b, sn, t)).reshape({half, n});
  const T y = along(resized(c.re, d, half), d, wc, n) + along(resized(c.im, d, half), d, ws, n);
  r.set(f.scale == 1.0 ? y : y * f.scale);
}

/// Frames of n elements, one every hop, `width` of them under the window.
struct Frames {
  int64_t n, hop, width;
};
Frames frames_of(Rule& r) {
  const int64_t n = transform_length(r, r.sym("n_fft"));
  const Frames f = {n, r.integer_or("hop_length", n / 4), r.integer_or("win_length", n)};
  if (f.hop < 1 || f.width < 1 || f.width > n) r.refuse("a hop or window that does not fit the transform");
  return f;
}
/// The window in the middle of a frame, zeros around it up to `length`.
T window_of(Rule& r, const Frames& f, int64_t length, DType t) {
  const T given = r.none("window") ? T(r.b, full(r.b, t, {f.width}, 1.0)) : tensor(r, "window").to(t);
  const int64_t left = (f.n - f.width) / 2;
  return {r.b, r.b.pad(given, {left}, {length - f.width - left}, 0.0)};
}

/// Short transforms of overlapping frames: one product of a strided view with the transform's matrix, which takes the window in.
void stft(Rule& r) {
  if (complex_arg(r, "self")) r.refuse("a short transform of a complex signal");
  const DType t = part_type(r);
  T x = tensor(r, "self").to(t);
  const bool single = x.rank() == 1;
  if (single) x = x.unsqueeze(0);
  const auto [n, hop, width] = frames_of(r);
  if (r.has("center") && r.boolean("center")) r.refuse("padding within aten.stft", "pad the signal first; torch.stft does");
  const int64_t freq = r.boolean_or("onesided", true) ? n / 2 + 1 : n;
  auto [cs, sn] = waves(r, n, freq, n, t);
  if (!r.none("window") || width != n) {
    const T window = window_of(r, {n, hop, width}, n, t).unsqueeze(1);
    cs = cs * window, sn = sn * window;
  }
  SymTable& syms = r.b.syms();
  const Expr length = x.dim(1), frames = syms.simplify(floordiv(length - n, hop) + 1);
  const T view(r.b, r.b.strided(x, {x.dim(0), frames, n}, {length, hop, 1}, 0));
  const Ints perm = {0, 2, 1};
  T y = join({matmul(view, cs, t).permute(perm), -matmul(view, sn, t).permute(perm)});
  if (r.boolean_or("normalized", false)) y = y * (1 / std::sqrt(static_cast<double>(n)));
  r.set(single ? y.squeeze(0) : y);
}

/// The sum of overlapping frames [batch, frames, parts * hop] at every hop: [batch, (frames - 1 + parts) * hop]. Each part of a frame falls
/// on one stretch of the signal, so this is a sum of shifted tensors.
T overlapped(const T& frames, int64_t parts, int64_t hop) {
  Builder& b = frames.b();
  const T cut = frames.reshape({frames.dim(0), frames.dim(1), Expr(parts), Expr(hop)});
  std::optional<T> sum;
  for (int64_t q = 0; q < parts; ++q) {
    const T shifted(b, b.pad(cut.select(2, q), {0, q, 0}, {0, parts - 1 - q, 0}, 0.0));
    sum = sum ? *sum + shifted : shifted;
  }
  return sum->reshape({frames.dim(0), b.syms().simplify((frames.dim(1) - 1 + parts) * hop)});
}

/// Frames back into a signal: the inverse transform and the window are one product, what the squared windows sum to is divided out, as
/// torch.istft.
void istft(Rule& r) {
  const DType t = part_type(r);
  if (r.boolean_or("return_complex", false)) r.refuse("a complex signal");
  T x = tensor(r, "self").to(t);  // [batch, frequencies, frames, 2]
  const bool single = x.rank() == 3;
  if (single) x = x.unsqueeze(0);
  const auto [n, hop, width] = frames_of(r);
  const int64_t freq = n / 2 + 1, parts = (n + hop - 1) / hop;
  if (parts > 256) r.refuse(fmt::format("a hop of {} in frames of {}", hop, n), "hops of at least a 256th of a frame are supported");
  if (!x.dim(1).is(freq)) r.refuse(fmt::format("{} frequencies of a transform of length {}", x.dim(1).str(r.b.syms()), n));
  const T window = window_of(r, {n, hop, width}, parts * hop, t);
  const double scale = r.boolean_or("normalized", false) ? 1 / std::sqrt(static_cast<double>(n)) : 1 / static_cast<double>(n);
  std::vector<double> w = inverse_half(n, parts * hop, scale, false);  // [2 * freq, parts * hop]
  const std::vector<double> imaginary = inverse_half(n, parts * hop, scale, true);
  w.insert(w.end(), imaginary.begin(), imaginary.end());
  const T matrix = T(r.b, literal_f(r.b, w, t)).reshape({2 * freq, parts * hop}) * window;
  SymTable& syms = r.b.syms();
  const Expr frames = x.dim(2), total = syms.simplify((frames - 1) * hop + n);
  const T spectrum = x.permute({0, 2, 3, 1}).reshape({x.dim(0), frames, Expr(2 * freq)});
  const T signal = overlapped(matmul(spectrum, matrix, t), parts, hop);
  const T weight = overlapped((window * window).expand({Expr(1), frames, Expr(parts * hop)}), parts, hop);
  const bool center = r.boolean_or("center", true);
  const Expr start = center ? Expr(n / 2) : Expr(0), stop = center ? total - n / 2 : total;
  const Expr length = r.none("length") ? syms.simplify(stop - start) : r.sym("length");
  const Expr have = syms.simplify(min(length, total - start));
  T y = signal.slice(1, start, have) / weight.slice(1, start, have).expand({x.dim(0), have});
  if (!syms.proves_eq(have, length)) y = {r.b, r.b.pad(y, {0, 0}, {0, syms.simplify(length - have)}, 0.0)};
  r.set(single ? y.squeeze(0) : y);
}

constexpr RuleRow kRows[] = {
    {"aten.view_as_complex.default", same},
    {"aten.view_as_real.default", same},
    {"aten.complex.default", make_complex},
    {"aten.polar.default", polar},
    {"aten.mul.Tensor", mul},
    {"aten.mul.Scalar", mul},
    {"aten.div.Tensor", div},
    {"aten.add.Tensor", sum_of_two<Op::add>},
    {"aten.sub.Tensor", sum_of_two<Op::sub>},
    {"aten.neg.default", neg},
    {"aten.conj.default", conj},
    {"aten._conj.default", conj},
    {"aten.conj_physical.default", conj},
    {"aten._conj_physical.default", conj},
    {"aten.real.default", take_part<0>},
    {"aten.imag.default", take_part<1>},
    {"aten.abs.default", abs_of},
    {"aten.angle.default", angle},
    {"aten.exp.default", exp_of},
    {"aten.to.dtype", convert},
    {"aten.to.device", convert},
    {"aten.to.dtype_layout", convert},
    {"aten._to_copy.default", convert},
    {"aten.permute.default", permute},
    {"aten.t.default", transpose_last},
    {"aten.mT.default", transpose_last},
    {"aten.matmul.default", product},
    {"aten.mm.default", product},
    {"aten.bmm.default", product},
    {"aten.mv.default", product},
    {"aten.fft_fft.default", complex_to_complex<-1>},
    {"aten.fft_ifft.default", complex_to_complex<1>},
    {"aten.fft_fft2.default", complex_to_complex<-1>},
    {"aten.fft_ifft2.default", complex_to_complex<1>},
    {"aten.fft_fftn.default", complex_to_complex<-1>},
    {"aten.fft_ifftn.default", complex_to_complex<1>},
    {"aten._fft_c2c.default", complex_to_complex<-1>},
    {"aten.stft.default", stft},
    {"aten.stft.center", stft},
    {"aten.istft.default", istft},
    {"aten.fft_rfft.default", real_to_complex},
    {"aten.fft_rfft2.default", real_to_complex},
    {"aten.fft_rfftn.default", real_to_complex},
    {"aten._fft_r2c.default", real_to_complex},
    {"aten.fft_irfft.default", complex_to_real},
    {"aten.fft_irfft2.default", complex_to_real},
    {"aten.fft_irfftn.default", complex_to_real},
    {"aten._fft_c2r.default", complex_to_real},
};

/// Rules for real tensors that move elements or are linear in them: the pair rides along.
constexpr std::string_view kCarried[] = {
    "aten.alias.default",
    "aten.detach.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.lift_fresh_copy.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten.reshape.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.unsqueeze.default",
    "aten.expand.default",
    "aten.view_as.default",
    "aten.reshape_as.default",
    "aten.transpose.int",
    "aten.select.int",
    "aten.slice.Tensor",
    "aten.narrow.default",
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
    "aten.chunk.default",
    "aten.unbind.int",
    "aten.cat.default",
    "aten.stack.default",
    "aten.flip.default",
    "aten.pad.default",
    "aten.constant_pad_nd.default",
    "aten.reflection_pad1d.default",
    "aten.reflection_pad2d.default",
    "aten.replication_pad1d.default",
    "aten.replication_pad2d.default",
    "aten.index.Tensor",
    "aten.index_select.default",
    "aten.embedding.default",
    "aten.sum.default",
    "aten.sum.dim_IntList",
    "aten.mean.default",
    "aten.mean.dim",
    "aten.zeros.default",
    "aten.zeros_like.default",
};
}  // namespace

RuleFn find_complex_rule(std::string_view overload) {
  for (const RuleRow& row : kRows)
    if (row.overload == overload) return row.fn;
  for (std::string_view name : kCarried)
    if (name == overload) return find_rule(overload);
  return nullptr;
}

}  // namespace aotc::decompose
