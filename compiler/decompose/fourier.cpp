// Fourier transforms of real and complex tensors: Op::fourier (waves.cpp) for lengths known when compiling.
#include <cmath>

#include "decompose/complex.h"

namespace aotc::decompose {
namespace {

constexpr int64_t kLongestTransform = int64_t{1} << 20;

int64_t fixed_length(Rule& r, const Expr& e) {
  const int64_t n = r.constant(e, "the length of a Fourier transform");
  if (n < 1) r.refuse("a Fourier transform of nothing");
  if (n > kLongestTransform) r.refuse(fmt::format("a Fourier transform of length {} is too long (at most {})", n, kLongestTransform));
  if (!has_waves(n)) r.refuse(fmt::format("a Fourier transform of length {}, a prime factor of which is above {}", n, kLongestWaves));
  return n;
}
Expr transform_length(Rule& r, const Expr& e) {
  if (e.is_const()) return fixed_length(r, e);
  r.b.require(ShapeGuard::Kind::le, 1, e, "the length of a Fourier transform");
  return e;
}

struct Fourier {
  Ints dims;                  ///< transformed, in order; the last is the half-length one of real transforms
  std::vector<Expr> lengths;  ///< signal lengths
  double scale = 1;
  std::optional<T> run_scale;  ///< a further factor, where a length is known when a run starts
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
  enum class Norm : uint8_t { none, root, whole } norm = Norm::none;
  if (r.has("normalization")) {
    const int64_t how = r.integer("normalization");
    norm = how == 1 ? Norm::root : how == 2 ? Norm::whole : Norm::none;
  } else {
    const std::string how = r.text_or("norm", "backward");
    norm = how == "ortho" ? Norm::root : (how == "forward") != inverse ? Norm::whole : Norm::none;
  }
  const Expr size = product(f.lengths);
  if (norm == Norm::none) return f;
  if (const auto n = size.as_const()) {
    f.scale = norm == Norm::root ? 1 / std::sqrt(static_cast<double>(*n)) : 1 / static_cast<double>(*n);
  } else {
    const T n64 = scalar_of(r.b, size, DType::f64);
    f.run_scale = (1.0 / (norm == Norm::root ? sqrt(n64) : n64)).to(x.dtype());
  }
  return f;
}

/// One dim's transform; the last one's is scaled.
Complex transformed(Rule& r, const T& re, const std::optional<T>& im, const Fourier& f, size_t i, Spectrum kind, bool inverse) {
  const int d = static_cast<int>(f.dims[i]);
  const bool last = i + 1 == f.dims.size();
  const double scale = last ? f.scale : 1.0;
  const auto n = f.lengths[i].as_const();
  Complex c = n ? fourier(re, im, d, {kind, *n, inverse, scale}) : fourier_of_size(r, re, im, d, kind, f.lengths[i], inverse);
  if (last && f.run_scale) c = {c.re * *f.run_scale, c.im * *f.run_scale};
  return c;
}

template <int sign>
void complex_to_complex(Rule& r) {
  const DType t = part_type(r);
  Complex c = complex_operand(r, "self", t);
  int way = sign;
  if (r.has("forward")) way = r.boolean("forward") ? -1 : 1;
  const Fourier f = arguments(r, c.re, c.re.rank(), way > 0, false);
  bool real = !complex_arg(r, "self");
  for (size_t i = 0; i < f.dims.size(); ++i, real = false) {
    c = transformed(r, c.re, real ? std::nullopt : std::optional(c.im), f, i, Spectrum::pairs, way > 0);
  }
  r.set(join(c));
}

/// Inverse transforms of real signals are the conjugates of transforms, scaled as inverse ones.
template <bool inverse>
void real_to_complex(Rule& r) {
  const DType t = part_type(r);
  const T x = tensor(r, "self").to(t);
  const Fourier f = arguments(r, x, x.rank(), inverse, false);
  const bool half = !r.has("onesided") || r.boolean("onesided");
  // The last dim first: it is real, and half of its transform is enough.
  Complex c = transformed(r, x, std::nullopt, f, f.dims.size() - 1, half ? Spectrum::half : Spectrum::pairs, false);
  for (size_t i = 0; i + 1 < f.dims.size(); ++i) c = transformed(r, c.re, c.im, f, i, Spectrum::pairs, false);
  if (inverse) c.im = -c.im;
  r.set(join(c));
}

template <bool inverse>
void complex_to_real(Rule& r) {
  const DType t = part_type(r);
  Complex c = complex_operand(r, "self", t);
  const Fourier f = arguments(r, c.re, c.re.rank(), inverse, true);
  if (!inverse) c.im = -c.im;
  for (size_t i = 0; i + 1 < f.dims.size(); ++i) c = transformed(r, c.re, c.im, f, i, Spectrum::pairs, true);
  r.set(transformed(r, c.re, c.im, f, f.dims.size() - 1, Spectrum::line, true).re);
}

/// Frames of n elements, one every hop, `width` of them under the window.
struct Frames {
  int64_t n, hop, width;
};
Frames frames_of(Rule& r) {
  const int64_t n = fixed_length(r, r.sym("n_fft"));
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

/// Short transforms of overlapping frames, which are a strided view of the signal.
void stft(Rule& r) {
  if (complex_arg(r, "self")) r.refuse("a short transform of a complex signal");
  const DType t = part_type(r);
  T x = tensor(r, "self").to(t);
  const bool single = x.rank() == 1;
  if (single) x = x.unsqueeze(0);
  const auto [n, hop, width] = frames_of(r);
  if (r.has("center") && r.boolean("center")) r.refuse("padding within aten.stft", "pad the signal first; torch.stft does");
  const int64_t freq = r.boolean_or("onesided", true) ? n / 2 + 1 : n;
  SymTable& syms = r.b.syms();
  const Expr length = x.dim(1), frames = syms.simplify(floordiv(length - n, hop) + 1);
  T view(r.b, r.b.strided(x, {x.dim(0), frames, n}, {length, hop, 1}, 0));
  if (!r.none("window") || width != n) view = view * window_of(r, {n, hop, width}, n, t);
  const double scale = r.boolean_or("normalized", false) ? 1 / std::sqrt(static_cast<double>(n)) : 1.0;
  const Complex c = fourier(view, std::nullopt, 2, {freq == n / 2 + 1 ? Spectrum::half : Spectrum::pairs, n, false, scale});
  const Ints perm = {0, 2, 1};
  const T y = join({c.re.permute(perm), c.im.permute(perm)});
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

/// Frames back into a signal: inverse transforms times the window; what the squared windows sum to is divided out, as torch.istft.
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
  SymTable& syms = r.b.syms();
  const Expr frames = x.dim(2), total = syms.simplify((frames - 1) * hop + n);
  const Complex c = apart(x.permute({0, 2, 1, 3}));  // [batch, frames, frequencies]
  const T pieces = resized(fourier(c.re, c.im, 2, {Spectrum::line, n, true, scale}).re, 2, parts * hop);
  const T signal = overlapped(pieces * window, parts, hop);
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
    {"aten.fft_fft.default aten.fft_fft2.default aten.fft_fftn.default aten._fft_c2c.default", complex_to_complex<-1>},
    {"aten.fft_ifft.default aten.fft_ifft2.default aten.fft_ifftn.default", complex_to_complex<1>},
    {"aten.stft.default aten.stft.center", stft},
    {"aten.istft.default", istft},
    {"aten.fft_rfft.default aten.fft_rfft2.default aten.fft_rfftn.default aten._fft_r2c.default", real_to_complex<false>},
    {"aten.fft_irfft.default aten.fft_irfft2.default aten.fft_irfftn.default aten._fft_c2r.default", complex_to_real<true>},
    {"aten.fft_hfft.default", complex_to_real<false>},
    {"aten.fft_ihfft.default", real_to_complex<true>},
};

}  // namespace

RuleTable fourier_rules() { return kRows; }

}  // namespace aotc::decompose
