#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/interp_detail.h"

namespace aotc::interp {
namespace {

using Dims = std::vector<int64_t>;

template <class T>
bool is_nan(T v) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(v);
  return false;
}

/// a comes before b among candidates of a maximum (or minimum): NaN beats all.
template <class T>
bool beats(bool largest, T a, T b) {
  if (is_nan(b)) return false;
  return is_nan(a) || (largest ? a > b : a < b);
}

template <class T>
T identity(ReduceKind k) {
  using Limits = std::numeric_limits<T>;
  const bool f = Limits::has_infinity;
  switch (k) {
    case ReduceKind::prod: return 1;
    case ReduceKind::max: return f ? -Limits::infinity() : Limits::lowest();
    case ReduceKind::min: return f ? Limits::infinity() : Limits::max();
    case ReduceKind::logsumexp: return f ? -Limits::infinity() : 0;
    default: return 0;
  }
}

/// Of a type of integers or bools: the least and the largest are its own.
int64_t identity(ReduceKind k, DType t) {
  if (k != ReduceKind::max && k != ReduceKind::min) return identity<int64_t>(k);
  if (is_bool(t) || t == DType::u8) return k == ReduceKind::max ? 0 : is_bool(t) ? 1 : 255;
  const int64_t largest = INT64_MAX >> (64 - 8 * dtype_bytes(t));
  return k == ReduceKind::max ? -largest - 1 : largest;
}

template <class T>
T combine(ReduceKind k, T a, T b) {
  switch (k) {
    case ReduceKind::sum:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      return a + b;
    case ReduceKind::prod:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      return a * b;
    case ReduceKind::max: return beats(true, b, a) ? b : a;
    case ReduceKind::min: return beats(false, b, a) ? b : a;
    case ReduceKind::logsumexp: {
      const double x = static_cast<double>(a), y = static_cast<double>(b), m = std::max(x, y);
      if (std::isnan(x) || std::isnan(y)) return static_cast<T>(std::nan(""));
      if (std::isinf(m)) return static_cast<T>(m);
      return static_cast<T>(m + std::log(std::exp(x - m) + std::exp(y - m)));
    }
    default: AOTC_CHECK(false, "{} has no combination", reduce_name(k));
  }
}

/// f(out index, offsets in x of the reduced points, row-major).
template <class F>
void each_group(const Dims& x, const Ints& over, F&& f) {
  const Dims strides = row_major(x);
  Dims kept, kept_strides, inner, inner_strides;
  for (size_t d = 0; d < x.size(); ++d) {
    const bool reduced = std::binary_search(over.begin(), over.end(), static_cast<int64_t>(d));
    (reduced ? inner : kept).push_back(x[d]);
    (reduced ? inner_strides : kept_strides).push_back(strides[d]);
  }
  Dims offsets;
  Dims at(inner.size(), 0);
  for (int64_t i = 0; i < count_of(inner); ++i) {
    offsets.push_back(std::inner_product(at.begin(), at.end(), inner_strides.begin(), int64_t{0}));
    next_point(at, inner);
  }
  Dims out(kept.size(), 0);
  for (int64_t i = 0; i < count_of(kept); ++i) {
    f(i, std::inner_product(out.begin(), out.end(), kept_strides.begin(), int64_t{0}), offsets);
    next_point(out, kept);
  }
}

template <class T>
std::vector<T> reduced(const std::vector<T>& v, const Dims& dims, const Ints& over, ReduceKind k, T start, int64_t out_count) {
  std::vector<T> out(out_count);
  each_group(dims, over, [&](int64_t i, int64_t base, const Dims& offsets) {
    T a = start;
    for (int64_t o : offsets) a = combine(k, a, v[base + o]);
    out[i] = a;
  });
  return out;
}

template <class T>
std::vector<int64_t> arg_reduced(const std::vector<T>& v, const Dims& dims, const Ints& over, ReduceKind k, int64_t out_count) {
  std::vector<int64_t> out(out_count);
  each_group(dims, over, [&](int64_t i, int64_t base, const Dims& offsets) {
    size_t best = 0;
    for (size_t j = 1; j < offsets.size(); ++j)
      if (beats(k == ReduceKind::argmax, v[base + offsets[j]], v[base + offsets[best]])) best = j;
    out[i] = static_cast<int64_t>(best);
  });
  return out;
}

/// f(base offset, stride, length) for each line of the tensor along dim.
template <class F>
void each_line(const Dims& dims, int64_t dim, F&& f) {
  const int64_t stride = row_major(dims)[dim], length = dims[dim];
  if (count_of(dims) == 0) return;
  for (int64_t outer = 0; outer < count_of(dims) / (stride * length); ++outer)
    for (int64_t inner = 0; inner < stride; ++inner) f(outer * stride * length + inner, stride, length);
}

template <class T>
std::vector<T> scanned(std::vector<T> v, const Dims& dims, int64_t dim, ReduceKind k) {
  each_line(dims, dim, [&](int64_t base, int64_t stride, int64_t length) {
    if (length > 0 && (k == ReduceKind::sum || k == ReduceKind::logsumexp)) v[base] += 0;  // -0.0 is none
    for (int64_t i = 1; i < length; ++i) v[base + i * stride] = combine(k, v[base + (i - 1) * stride], v[base + i * stride]);
  });
  return v;
}

template <class T>
std::vector<int64_t> arg_scanned(const std::vector<T>& v, const Dims& dims, int64_t dim, ReduceKind k) {
  std::vector<int64_t> out(v.size());
  each_line(dims, dim, [&](int64_t base, int64_t stride, int64_t length) {
    int64_t best = 0;
    for (int64_t i = 0; i < length; ++i) {
      if (!beats(k == ReduceKind::max, v[base + best * stride], v[base + i * stride])) best = i;
      out[base + i * stride] = best;
    }
  });
  return out;
}

template <class T>
void sort_lines(Eval& e, const std::vector<T>& v, std::vector<T>& values, std::vector<int64_t>& indices) {
  const int64_t dim = e.n.get<int64_t>(Attr::dim);
  const bool topk = e.n.op == Op::topk, descending = e.n.get<bool>(topk ? Attr::largest : Attr::descending);
  const int64_t keep = e.out_dims()[dim], out_stride = row_major(e.out_dims())[dim], in_length = e.in_dims(0)[dim];
  values.resize(e.out[0].elems());
  indices.resize(values.size());
  std::vector<int64_t> order(in_length);
  int64_t line = 0;
  each_line(e.in_dims(0), dim, [&](int64_t base, int64_t stride, int64_t length) {
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {  // NaN is the greatest
      const T x = v[base + a * stride], y = v[base + b * stride];
      return descending ? beats(true, x, y) : beats(true, y, x);
    });
    const int64_t out_base = line / out_stride * out_stride * keep + line % out_stride;
    for (int64_t i = 0; i < std::min(keep, length); ++i) {
      values[out_base + i * out_stride] = v[base + order[i] * stride];
      indices[out_base + i * out_stride] = order[i];
    }
    ++line;
  });
}

}  // namespace

void reduce(Eval& e) {
  const Ints& over = e.n.get<Ints>(Attr::dims);
  const ReduceKind k = e.n.reduce_kind();
  const int64_t count = e.out[0].elems();
  const bool arg = k == ReduceKind::argmax || k == ReduceKind::argmin;
  if (is_float(e.in[0]->dtype)) {
    const std::vector<double> v = as_f64(*e.in[0]);
    if (arg) return set_i64(e.out[0], arg_reduced(v, e.in_dims(0), over, k, count));
    return set_f64(e.out[0], reduced(v, e.in_dims(0), over, k, identity<double>(k), count));
  }
  const std::vector<int64_t> v = as_i64(*e.in[0]);
  if (arg) return set_i64(e.out[0], arg_reduced(v, e.in_dims(0), over, k, count));
  set_i64(e.out[0], reduced(v, e.in_dims(0), over, k, identity(k, e.in[0]->dtype), count));
}

void scan(Eval& e) {
  if (e.in_dims(0).empty()) {
    if (e.n.op == Op::scan) e.out[0].bytes = e.in[0]->bytes;
    return;
  }
  const int64_t dim = e.n.get<int64_t>(Attr::dim);
  const ReduceKind k = e.n.reduce_kind();
  const bool arg = e.n.op == Op::scan_arg;
  if (is_float(e.in[0]->dtype)) {
    std::vector<double> v = as_f64(*e.in[0]);
    if (arg) return set_i64(e.out[0], arg_scanned(v, e.in_dims(0), dim, k));
    return set_f64(e.out[0], scanned(std::move(v), e.in_dims(0), dim, k));
  }
  std::vector<int64_t> v = as_i64(*e.in[0]);
  set_i64(e.out[0], arg ? arg_scanned(v, e.in_dims(0), dim, k) : scanned(std::move(v), e.in_dims(0), dim, k));
}

void sort(Eval& e) {
  std::vector<int64_t> indices;
  if (is_float(e.in[0]->dtype)) {
    std::vector<double> values;
    sort_lines(e, as_f64(*e.in[0]), values, indices);
    set_f64(e.out[0], values);
  } else {
    std::vector<int64_t> values;
    sort_lines(e, as_i64(*e.in[0]), values, indices);
    set_i64(e.out[0], values);
  }
  set_i64(e.out[1], indices);
}

}  // namespace aotc::interp
