// Type rules: contractions.
#include <algorithm>

#include "graph/infer_detail.h"

namespace aotc::infer {

static DType product_type(Infer& r, DType in) {
  r.require(takes(OperandTypes::numeric, in) || (r.n.op == Op::matmul && is_float8(in)), "does not take {}", dtype_name(in));
  const DType out = r.given ? r.given->dtype : in;
  r.require(!is_float8(out), "does not make {}", dtype_name(out));
  // Narrow integers are summed in 32 bits, which wrap.
  r.require(is_float(in) ? is_float(out) : is_int(out) && dtype_bytes(out) <= std::max<int64_t>(4, dtype_bytes(in)),
            "does not make {} of {}", dtype_name(out), dtype_name(in));
  return out;
}

/// Of one type, or unsigned bytes by signed ones.
static bool multiply(DType a, DType b) { return a == b || (a == DType::u8 && b == DType::i8); }

Types matmul(Infer& r) {
  r.arity(2);
  const TensorType &a = r.in(0), &b = r.in(1);
  r.require(multiply(a.dtype, b.dtype), "operand types differ");
  r.require(a.rank() >= 2 && a.rank() == b.rank(), "ranks must be equal and at least 2");
  const int k = a.rank();
  Exprs out;
  for (int i = 0; i < k - 2; ++i) out.push_back(r.equal(a.dims[i], b.dims[i], "batch dim"));
  r.equal(a.dims[k - 1], b.dims[k - 2], "inner dim");
  out.push_back(a.dims[k - 2]);
  out.push_back(b.dims[k - 1]);
  return {{product_type(r, a.dtype), out}};
}

Types grouped_matmul(Infer& r) {
  r.arity(3);
  const TensorType &x = r.in(0), &w = r.in(1), &ends = r.in(2);
  r.require(x.dtype == w.dtype, "operand types differ");
  r.require(is_float(x.dtype) && !is_float8(x.dtype), "does not take {}", dtype_name(x.dtype));
  r.require(x.rank() == 2 && w.rank() == 3 && ends.rank() == 1, "operands must be of rank 2, 3 and 1");
  r.require(ends.dtype == DType::i64, "ends of runs must be int64");
  r.equal(w.dims[0], ends.dims[0], "number of runs");
  r.equal(x.dims[1], w.dims[1], "inner dim");
  return {{product_type(r, x.dtype), {x.dims[0], w.dims[2]}}};
}

Types conv(Infer& r) {
  r.arity(2);
  const TensorType &x = r.in(0), &w = r.in(1);
  r.require(x.dtype == w.dtype || (r.n.op == Op::conv && multiply(x.dtype, w.dtype)), "operand types differ");
  r.require(!r.n.has(Attr::value) || (r.n.op == Op::conv && is_int(x.dtype)), "what lies around images is a number of integers alone");
  r.require(x.rank() >= 3 && x.rank() <= 5 && w.rank() == x.rank(), "x and w must be of rank 3, 4 or 5");
  const size_t s = x.rank() - 2;
  const Ints& stride = r.per_spatial(Attr::stride, s, 1);
  const Ints& lo = r.per_spatial(Attr::padding, s, INT64_MIN);
  const Ints& hi = r.per_spatial(Attr::padding_hi, s, INT64_MIN);
  const Ints& dilation = r.per_spatial(Attr::dilation, s, 1);
  const int64_t groups = r.n.get<int64_t>(Attr::groups);
  r.require(groups >= 1, "groups {} is not positive", groups);
  const bool transposed = r.n.op == Op::conv_transpose, last = r.n.get_or<bool>(Attr::channels_last, false);
  r.require(!(transposed && last), "a transposed convolution has its channels first");
  const Expr& channels = x.dims[last ? s + 1 : 1];
  const Expr* in = &x.dims[last ? 1 : 2];  // the spatial dims
  if (transposed) {
    r.equal(channels, w.dims[0], "channels");
    r.fact(ShapeGuard::Kind::divisible, channels, groups, "input channels by groups");
  } else {
    r.equal(channels, w.dims[1] * groups, "channels");
    r.fact(ShapeGuard::Kind::divisible, w.dims[0], groups, "output channels by groups");
  }
  Exprs out = {x.dims[0], transposed ? w.dims[1] * groups : w.dims[0]};
  for (size_t i = 0; i < s; ++i) {
    const Expr reach = (w.dims[i + 2] - 1) * dilation[i];
    if (transposed) {
      const int64_t extra = r.per_spatial(Attr::output_padding, s, 0)[i];
      out.push_back((in[i] - 1) * stride[i] - lo[i] - hi[i] + reach + extra + 1);
    } else {
      out.push_back(floordiv(in[i] + lo[i] + hi[i] - reach - 1, stride[i]) + 1);
    }
    r.at_most(0, out.back(), "output size");
  }
  if (last) std::rotate(out.begin() + 1, out.begin() + 2, out.end());
  return {{product_type(r, x.dtype), out}};
}

Types attention(Infer& r) {
  r.arity(3, 9);
  const TensorType &q = r.in(0), &k = r.in(1), &v = r.in(2);
  const bool scales = k.dtype == DType::i8;
  const AttentionInputs at = attention_inputs(r.n, r.arity(), scales);
  const size_t behind = (scales ? 2 : 0) + (r.n.get_or<bool>(Attr::sinks, false) ? 1 : 0);
  r.require(r.arity() >= 3 + behind && r.arity() <= 6 + behind,
            "attention takes 3 to 6 operands, sinks where it has them, and scales of k and v that are int8");
  const size_t arity = r.arity() - behind;
  r.require(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "q, k and v must be of rank 4");
  const bool stored = k.dtype == (scales ? DType::i8 : DType::f8e4m3fn);
  r.require(is_float(q.dtype) && k.dtype == v.dtype && (stored || (!scales && q.dtype == k.dtype)),
            "q, k and v must be of one floating type, or k and v both of int8 with scales, or both of float8_e4m3fn");
  r.equal(q.dims[0], k.dims[0], "batch of k");
  r.equal(q.dims[0], v.dims[0], "batch of v");
  r.equal(k.dims[1], v.dims[1], "heads of v");
  r.fact(ShapeGuard::Kind::divisible, q.dims[1], k.dims[1], "heads of q by heads of k");
  r.equal(q.dims[3], k.dims[3], "head size of k");
  r.equal(k.dims[2], v.dims[2], "length of v");
  r.n.get<double>(Attr::scale);
  r.n.get<bool>(Attr::causal);
  r.n.get<bool>(Attr::nan_rows);
  r.n.get_or<bool>(Attr::mask_fills, false);
  r.require(arity != 5, "where a mask's keys begin comes with where they end");
  if (arity > 3) {
    const TensorType& m = r.in(3);
    r.require(m.rank() == 4 && (is_bool(m.dtype) || is_float(m.dtype)), "the mask must be bool or float, of rank 4");
    for (int i = 0; i < 3; ++i)
      if (!m.dims[i].is(1)) r.equal(m.dims[i], q.dims[i], "mask dim");
    r.equal(m.dims[3], k.dims[2], "mask length");
    for (size_t i = 4; i < arity; ++i) {
      const TensorType& of = r.in(i);
      r.require(is_bool(m.dtype) && of.dtype == DType::i64 && of.rank() == 4 && of.dims[3].is(1),
                "ranges of keys must be int64, of a bool mask");
      for (int d = 0; d < 3; ++d) r.equal(of.dims[d], m.dims[d], "mask dim of a range of keys");
    }
  }
  if (at.sinks) {
    const TensorType& s = r.in(at.sinks);
    r.require(s.dtype == (is_half(q.dtype) ? DType::f32 : q.dtype) && s.rank() == 4 && s.dims[3].is(1),
              "sinks must be of the type that scores are summed in, one a row of queries");
    for (int d = 0; d < 3; ++d)
      if (!s.dims[d].is(1)) r.equal(s.dims[d], q.dims[d], "dim of the sinks");
  }
  for (size_t i = at.scales; at.scales && i < r.arity(); ++i) {
    const TensorType& s = r.in(i);
    r.require(s.dtype == DType::f32 && s.rank() == 4 && s.dims[3].is(1), "scales must be float32, one a row of k and of v");
    for (int d = 0; d < 3; ++d) r.equal(s.dims[d], k.dims[d], "scales of rows");
  }
  return {{q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]}}};
}

}  // namespace aotc::infer

namespace aotc {

AttentionInputs attention_inputs(const Node& n, size_t arity, bool scaled) {
  AttentionInputs at;
  if (scaled) at.scales = arity -= 2;
  if (n.get_or<bool>(Attr::sinks, false)) at.sinks = --arity;
  if (arity > 3) at.mask = 3;
  if (arity > 5) at.from = 4, at.end = 5;
  return at;
}

AttentionInputs attention_inputs(const Graph& g, const Node& n) {
  return attention_inputs(n, n.inputs.size(), g.type(n.inputs[1]).dtype == DType::i8);
}

}  // namespace aotc
