#include <algorithm>
#include <cstring>

#include "graph/infer.h"
#include "graph/interp_detail.h"
#include "graph/op_table.h"
#include "graph/scalar.h"

namespace aotc::interp {
namespace {

using Dims = std::vector<int64_t>;

template <size_t Width>
void affine_copy(const std::byte* src, std::byte* dst, const Dims& dims, const Dims& strides) {
  const int64_t inner = dims.empty() ? 1 : dims.back(), step = dims.empty() ? 0 : strides.back();
  const Dims outer(dims.begin(), dims.empty() ? dims.end() : dims.end() - 1);
  Dims at(outer.size(), 0);
  do {
    const std::byte* s = src;
    for (size_t d = 0; d < outer.size(); ++d) s += at[d] * strides[d] * static_cast<int64_t>(Width);
    if (step == 1) {
      std::memcpy(dst, s, inner * Width);
    } else {
      for (int64_t i = 0; i < inner; ++i) std::memcpy(dst + i * Width, s + i * step * static_cast<int64_t>(Width), Width);
    }
    dst += inner * Width;
  } while (next_point(at, outer));
}

/// out[i..] = in[base + sum(i*stride)]
void affine(Eval& e, int64_t base, const Dims& strides) {
  const int64_t w = dtype_bytes(e.out[0].dtype);
  if (e.out[0].elems() == 0) return;
  const std::byte* src = e.in[0]->bytes.data() + base * w;
  std::byte* dst = e.out[0].bytes.data();
  switch (w) {
    case 1: return affine_copy<1>(src, dst, e.out_dims(), strides);
    case 2: return affine_copy<2>(src, dst, e.out_dims(), strides);
    case 4: return affine_copy<4>(src, dst, e.out_dims(), strides);
    case 8: return affine_copy<8>(src, dst, e.out_dims(), strides);
    default: return affine_copy<16>(src, dst, e.out_dims(), strides);
  }
}

std::vector<std::byte> fill_value(const Eval& e) {
  const DType t = e.out[0].dtype;
  std::vector<std::byte> raw(dtype_bytes(t));
  if (is_float(t)) {
    const double v = scalar_f64(e.n, Attr::value);
    store_f64(t, &v, raw.data(), 1);
  } else {
    const int64_t v = scalar_i64(e.n, Attr::value);
    store_i64(t, &v, raw.data(), 1);
  }
  return raw;
}

/// out[p] = in[source(p)], or the fill value where source gives -1.
template <class F>
void mapped(Eval& e, F&& source) {
  const std::vector<std::byte> fill = fill_value(e);
  const int64_t w = dtype_bytes(e.out[0].dtype);
  if (e.out[0].elems() == 0) return;
  Dims at(e.out_dims().size(), 0);
  std::byte* dst = e.out[0].bytes.data();
  do {
    const int64_t s = source(at);
    std::memcpy(dst, s < 0 ? fill.data() : e.in[0]->bytes.data() + s * w, w);
    dst += w;
  } while (next_point(at, e.out_dims()));
}

void reshape(Eval& e) { e.out[0].bytes = e.in[0]->bytes; }

void permute(Eval& e) {
  const Dims from = row_major(e.in_dims(0));
  Dims strides;
  for (int64_t p : e.n.get<Ints>(Attr::perm)) strides.push_back(from[p]);
  affine(e, 0, strides);
}

void expand(Eval& e) {
  Dims strides = row_major(e.in_dims(0));
  for (size_t i = 0; i < strides.size(); ++i)
    if (e.in_dims(0)[i] == 1) strides[i] = 0;
  affine(e, 0, strides);
}

void slice(Eval& e) {
  Dims strides = row_major(e.in_dims(0));
  int64_t& s = strides[e.n.get<int64_t>(Attr::dim)];
  const int64_t base = e.eval(e.n.get<Expr>(Attr::start)) * s;
  s *= e.n.get<int64_t>(Attr::step);
  affine(e, base, strides);
}

void flip(Eval& e) {
  Dims strides = row_major(e.in_dims(0));
  int64_t base = 0;
  for (int64_t d : e.n.get<Ints>(Attr::dims)) {
    base += (e.in_dims(0)[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  affine(e, base, strides);
}

void strided(Eval& e) {
  Dims strides;
  for (const Expr& s : e.n.get<Exprs>(Attr::strides)) strides.push_back(e.eval(s));
  affine(e, e.eval(e.n.get<Expr>(Attr::start)), strides);
}

void pad(Eval& e) {
  const Dims strides = row_major(e.in_dims(0));
  Dims lo;
  for (const Expr& l : e.n.get<Exprs>(Attr::lo)) lo.push_back(e.eval(l));
  mapped(e, [&](const Dims& at) {
    int64_t s = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      const int64_t i = at[d] - lo[d];
      if (i < 0 || i >= e.in_dims(0)[d]) return int64_t{-1};
      s += i * strides[d];
    }
    return s;
  });
}

void window(Eval& e) {
  const Dims &dims = e.in_dims(0), strides = row_major(dims);
  const size_t k = e.n.get<Ints>(Attr::kernel).size(), lead = dims.size() - k;
  const Ints &step = e.n.get<Ints>(Attr::stride), &padding = e.n.get<Ints>(Attr::padding), &dilation = e.n.get<Ints>(Attr::dilation);
  mapped(e, [&](const Dims& at) {
    int64_t s = 0;
    for (size_t d = 0; d < lead; ++d) s += at[d] * strides[d];
    for (size_t j = 0; j < k; ++j) {
      const int64_t i = at[lead + j] * step[j] - padding[j] + at[lead + k + j] * dilation[j];
      if (i < 0 || i >= dims[lead + j]) return int64_t{-1};
      s += i * strides[lead + j];
    }
    return s;
  });
}

void cat(Eval& e) {
  const int64_t d = e.n.get<int64_t>(Attr::dim), w = dtype_bytes(e.out[0].dtype);
  int64_t outer = 1, inner = w;
  for (size_t i = 0; i < e.out_dims().size(); ++i) {
    if (static_cast<int64_t>(i) < d) outer *= e.out_dims()[i];
    if (static_cast<int64_t>(i) > d) inner *= e.out_dims()[i];
  }
  std::byte* dst = e.out[0].bytes.data();
  for (int64_t o = 0; o < outer; ++o)
    for (const HostTensor* x : e.in) {
      const int64_t bytes = x->dims[d] * inner;
      if (bytes) std::memcpy(dst, x->bytes.data() + o * bytes, bytes);
      dst += bytes;
    }
}

}  // namespace

void view(Eval& e) {
  struct Row {
    Op op;
    void (*fn)(Eval&);
  };
  static constexpr Row kRows[] = {
      {Op::reshape, reshape}, {Op::permute, permute}, {Op::expand, expand}, {Op::slice, slice}, {Op::flip, flip},
      {Op::strided, strided}, {Op::pad, pad},         {Op::window, window}, {Op::cat, cat},
  };
  static_assert(Fits<misfit(kRows, {OpClass::view, OpClass::cat})>::value);
  row_of(kRows, e.n.op).fn(e);
}

}  // namespace aotc::interp
