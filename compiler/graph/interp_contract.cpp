#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/infer.h"
#include "graph/interp_detail.h"
#include "graph/scalar.h"

namespace aotc::interp {
namespace {

using Dims = std::vector<int64_t>;

template <class T>
std::vector<T> product(const std::vector<T>& a, const std::vector<T>& b, int64_t batch, int64_t m, int64_t n, int64_t k) {
  std::vector<T> c(batch * m * n, 0);
  for (int64_t p = 0; p < batch; ++p)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l) {
        const T x = a[(p * m + i) * k + l];
        const T* row = b.data() + (p * k + l) * n;
        T* out = c.data() + (p * m + i) * n;
        for (int64_t j = 0; j < n; ++j) out[j] += x * row[j];
      }
  return c;
}

/// One convolution, 1 to 3 spatial dims (leading ones are 1).
struct Geometry {
  int64_t n, c, co, groups;
  Dims x, o, kernel, stride, lo, dilation;  // three entries each
  bool last = false;                        // channels of x and o stand behind their pixels
};

Dims three(const Dims& v, size_t skip, int64_t fill) {
  Dims out(v.begin() + skip, v.end());
  out.insert(out.begin(), 3 - out.size(), fill);
  return out;
}

/// f(offset in x, offset in w, offset in out) for every product of the convolution; transposed swaps the roles of x and out.
template <class F>
void each_product(const Geometry& q, bool transposed, F&& f) {
  const int64_t ci = transposed ? q.co : q.c, co = transposed ? q.c : q.co;  // channels of the big and the small side of w
  const Dims &big = transposed ? q.o : q.x, &small = transposed ? q.x : q.o;
  const int64_t cg = ci / q.groups, og = co / q.groups, taps = count_of(q.kernel), big_size = count_of(big), small_size = count_of(small);
  const int64_t big_step = q.last ? ci : 1, small_step = q.last ? co : 1;  // from a pixel to the next
  for (int64_t n = 0; n < q.n; ++n)
    for (int64_t o = 0; o < co; ++o)
      for (int64_t c = 0; c < cg; ++c)
        for (int64_t t = 0; t < taps; ++t) {
          const int64_t w = (o * cg + c) * taps + t, channel = o / og * cg + c;
          const int64_t big_first = q.last ? n * big_size * ci + channel : (n * ci + channel) * big_size;
          const int64_t small_first = q.last ? n * small_size * co + o : (n * co + o) * small_size;
          const int64_t first[3] = {t / (q.kernel[1] * q.kernel[2]) * q.dilation[0] - q.lo[0],
                                    t / q.kernel[2] % q.kernel[1] * q.dilation[1] - q.lo[1], t % q.kernel[2] * q.dilation[2] - q.lo[2]};
          for (int64_t i = 0, x = first[0]; i < small[0]; ++i, x += q.stride[0]) {
            if (x < 0 || x >= big[0]) continue;
            for (int64_t j = 0, y = first[1]; j < small[1]; ++j, y += q.stride[1]) {
              if (y < 0 || y >= big[1]) continue;
              const int64_t big_row = (x * big[1] + y) * big[2], small_row = (i * small[1] + j) * small[2];
              for (int64_t k = 0, z = first[2]; k < small[2]; ++k, z += q.stride[2]) {
                if (z < 0 || z >= big[2]) continue;
                const int64_t in_big = big_first + (big_row + z) * big_step, in_small = small_first + (small_row + k) * small_step;
                f(transposed ? in_small : in_big, w, transposed ? in_big : in_small);
              }
            }
          }
        }
}

template <class T>
std::vector<T> convolved(const std::vector<T>& x, const std::vector<T>& w, const Geometry& q, bool transposed, int64_t out_count) {
  std::vector<T> out(out_count, 0);
  each_product(q, transposed, [&](int64_t i, int64_t j, int64_t o) { out[o] += x[i] * w[j]; });
  return out;
}

/// Integers whose sums and products wrap.
std::vector<uint64_t> wrapping(const HostTensor& t) {
  const std::vector<int64_t> v = as_i64(t);
  return {v.begin(), v.end()};
}
void set_wrapped(HostTensor& t, const std::vector<uint64_t>& v) { set_i64(t, {v.begin(), v.end()}); }

}  // namespace

void matmul(Eval& e) {
  const Dims &a = e.in_dims(0), &b = e.in_dims(1);
  const int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  const int64_t batch = count_of({a.begin(), a.end() - 2});
  if (is_float(e.in[0]->dtype)) return set_f64(e.out[0], product(as_f64(*e.in[0]), as_f64(*e.in[1]), batch, m, n, k));
  set_wrapped(e.out[0], product(wrapping(*e.in[0]), wrapping(*e.in[1]), batch, m, n, k));
}

void grouped_matmul(Eval& e) {
  const Dims &a = e.in_dims(0), &b = e.in_dims(1);
  const int64_t m = a[0], k = a[1], n = b[2], groups = b[0];
  const std::vector<double> x = as_f64(*e.in[0]), w = as_f64(*e.in[1]);
  const std::vector<int64_t> ends = as_i64(*e.in[2]);
  std::vector<double> out;
  for (int64_t row = 0; row < m; ++row) {
    int64_t group = 0;
    while (group + 1 < groups && row >= ends[group]) ++group;
    const std::vector<double> of_row(x.begin() + row * k, x.begin() + (row + 1) * k);
    const std::vector<double> matrix(w.begin() + group * k * n, w.begin() + (group + 1) * k * n);
    const std::vector<double> y = product(of_row, matrix, 1, 1, n, k);
    out.insert(out.end(), y.begin(), y.end());
  }
  set_f64(e.out[0], out);
}

void conv(Eval& e) {
  const bool transposed = e.n.op == Op::conv_transpose, last = e.n.get_or<bool>(Attr::channels_last, false);
  Dims x = e.in_dims(0), out = e.out_dims();
  if (last)
    for (Dims* d : {&x, &out}) std::rotate(d->begin() + 1, d->end() - 1, d->end());
  Geometry q;
  q.n = x[0];
  q.c = x[1];
  q.co = out[1];
  q.groups = e.n.get<int64_t>(Attr::groups);
  q.x = three(x, 2, 1);
  q.o = three(out, 2, 1);
  q.last = last;
  q.kernel = three(e.in_dims(1), 2, 1);
  q.stride = three(e.n.get<Ints>(Attr::stride), 0, 1);
  q.lo = three(e.n.get<Ints>(Attr::padding), 0, 0);
  q.dilation = three(e.n.get<Ints>(Attr::dilation), 0, 1);
  const int64_t count = e.out[0].elems();
  if (is_float(e.in[0]->dtype)) return set_f64(e.out[0], convolved(as_f64(*e.in[0]), as_f64(*e.in[1]), q, transposed, count));
  // Around the images lies `value`: of what is that much lower, zeros do, and every sum lacks `value` times all its weights.
  const auto value = static_cast<uint64_t>(e.n.get_or<int64_t>(Attr::value, 0));
  std::vector<uint64_t> lower = wrapping(*e.in[0]);
  const std::vector<uint64_t> w = wrapping(*e.in[1]);
  for (uint64_t& v : lower) v -= value;
  std::vector<uint64_t> sums = convolved(lower, w, q, transposed, count);
  const int64_t weights = static_cast<int64_t>(w.size()) / q.co, plane = count_of(q.o);
  for (size_t i = 0; value && i < sums.size(); ++i) {
    const int64_t channel = last ? static_cast<int64_t>(i) % q.co : static_cast<int64_t>(i) / plane % q.co;
    for (int64_t k = 0; k < weights; ++k) sums[i] += value * w[static_cast<size_t>(channel * weights + k)];
  }
  set_wrapped(e.out[0], sums);
}

void attention(Eval& e) {
  const std::vector<double> q = as_f64(*e.in[0]);
  const auto numbers = [](const HostTensor& t) {
    if (is_float(t.dtype)) return as_f64(t);
    const std::vector<int64_t> x = as_i64(t);
    return std::vector<double>(x.begin(), x.end());
  };
  std::vector<double> k = numbers(*e.in[1]), v = numbers(*e.in[2]);
  const int64_t batch = e.in_dims(0)[0], heads = e.in_dims(0)[1], rows = e.in_dims(0)[2], width = e.in_dims(0)[3];
  const int64_t kv_heads = e.in_dims(1)[1], cols = e.in_dims(1)[2], v_width = e.in_dims(2)[3];
  const double scale = e.n.get<double>(Attr::scale);
  const bool causal = e.n.get<bool>(Attr::causal), scales = e.in[1]->dtype == DType::i8;
  const AttentionInputs at = attention_inputs(e.n, e.in.size(), scales);
  const bool masked = at.mask != 0;
  const bool fills = e.n.get_or<bool>(Attr::mask_fills, false);
  if (scales)
    for (auto [x, of] : {std::pair(&k, at.scales), {&v, at.scales + 1}}) {
      const std::vector<double> scale_of = as_f64(*e.in[of]);
      const size_t row = scale_of.empty() ? 1 : x->size() / scale_of.size();
      for (size_t i = 0; i < x->size(); ++i) (*x)[i] *= scale_of[i / row];
    }
  std::vector<double> mask;
  Dims mask_strides;
  if (masked) {
    if (is_bool(e.in[3]->dtype)) {
      for (int64_t b : as_i64(*e.in[3])) mask.push_back(b ? 0.0 : -std::numeric_limits<double>::infinity());
    } else {
      mask = as_f64(*e.in[3]);
    }
    mask_strides = row_major(e.in_dims(3));
    for (size_t i = 0; i < 4; ++i)
      if (e.in_dims(3)[i] == 1) mask_strides[i] = 0;
  }
  const std::vector<double> sinks = at.sinks ? as_f64(*e.in[at.sinks]) : std::vector<double>();
  Dims sink_strides(4, 0);
  if (at.sinks) {
    sink_strides = row_major(e.in_dims(at.sinks));
    for (size_t i = 0; i < 4; ++i)
      if (e.in_dims(at.sinks)[i] == 1) sink_strides[i] = 0;
  }
  std::vector<double> out(e.out[0].elems(), 0), score(cols);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t kv = b * kv_heads + h / (heads / kv_heads);
        double top = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t j = 0; j < cols; ++j) {
          double s = 0;
          for (int64_t x = 0; x < width; ++x) s += q[((b * heads + h) * rows + i) * width + x] * k[(kv * cols + j) * width + x];
          s *= scale;
          if (masked) {
            const double by = mask[b * mask_strides[0] + h * mask_strides[1] + i * mask_strides[2] + j * mask_strides[3]];
            s = fills && by <= kHiddenScore ? by : s + by;
          }
          if (causal && j > i) s = -std::numeric_limits<double>::infinity();
          score[j] = s;
          top = std::isnan(s) ? s : std::max(top, s);
        }
        const double sink = at.sinks ? sinks[b * sink_strides[0] + h * sink_strides[1] + i * sink_strides[2]] : 0;
        if (at.sinks) top = std::isnan(sink) ? sink : std::max(top, sink);
        if (std::isinf(top) && top < 0 && !e.n.get<bool>(Attr::nan_rows)) continue;  // attends nowhere: zeros
        for (double& s : score) sum += s = std::exp(s - top);
        if (at.sinks) sum += std::exp(sink - top);
        double* to = out.data() + ((b * heads + h) * rows + i) * v_width;
        for (int64_t j = 0; j < cols; ++j)
          for (int64_t x = 0; x < v_width; ++x) to[x] += score[j] / sum * v[(kv * cols + j) * v_width + x];
      }
  set_f64(e.out[0], out);
}

}  // namespace aotc::interp
