#include "decompose/bits.h"

namespace aotc::decompose {
namespace {

T bitcast(const T& x, DType to) {
  if (x.dtype() == to) return x;
  const TensorType t{to, x.dims()};
  return {x.b(), x.b().make1(Op::bitcast, {x}, {}, &t)};
}

/// Integers in parts of `to`, an integer type.
T taken_apart(const T& x, DType to, int64_t parts) {
  std::vector<Expr> dims = x.dims();
  dims.emplace_back(parts);
  const T shift = iota(x.b(), dims, x.rank(), DType::i64).to(x.dtype()) * static_cast<double>(8 * dtype_bytes(to));
  const T each = binary(Op::shr, x.unsqueeze(-1).expand(dims), shift).to(to);
  dims.pop_back();
  dims.back() = dims.back() * parts;
  return each.reshape(dims);
}

T put_together(const T& x, DType to, int64_t parts) {
  const int64_t bits = 8 * dtype_bytes(x.dtype());
  const Expr size = floordiv(x.dim(-1), parts);
  std::optional<T> all;
  for (int64_t i = 0; i < parts; ++i) {
    T part = x.slice(-1, i, size, parts).to(to);
    if (i + 1 < parts) part = binary(Op::bit_and, part, static_cast<double>((int64_t{1} << bits) - 1));
    if (i > 0) part = binary(Op::shl, part, static_cast<double>(bits * i));
    all = all ? binary(Op::bit_or, *all, part) : part;
  }
  return *all;
}
}  // namespace

DType bits_type(DType t) {
  switch (dtype_bytes(t)) {
    case 1: return t == DType::boolean ? DType::u8 : DType::i8;
    case 2: return DType::i16;
    case 4: return DType::i32;
    default: return DType::i64;
  }
}

T retyped(const T& x, DType to) {
  const int from_bytes = dtype_bytes(x.dtype()), to_bytes = dtype_bytes(to);
  if (from_bytes == to_bytes) return bitcast(x, to);
  const T bits = bitcast(x, bits_type(x.dtype()));
  const T y = from_bytes > to_bytes ? taken_apart(bits, bits_type(to), from_bytes / to_bytes)
                                    : put_together(bits, bits_type(to), to_bytes / from_bytes);
  return bitcast(y, to);
}

}  // namespace aotc::decompose
