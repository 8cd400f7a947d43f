#include "decompose/promote.h"

#include <algorithm>
#include <cstring>

namespace aotc::decompose {

Operand operand(Rule& r, std::string_view name) {
  Operand o;
  if (r.is_tensor(name))
    o.tensor = r.tensor(name);
  else
    o.number = r.scalar(name);
  return o;
}

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (is_complex(a) || is_complex(b)) {
    const bool wide = a == DType::c128 || b == DType::c128 || a == DType::f64 || b == DType::f64;
    return wide ? DType::c128 : DType::c64;
  }
  if (is_float(a) && is_float(b)) return is_half(a) && is_half(b) ? DType::f32 : std::max(a, b);
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  if (is_bool(a)) return b;
  if (is_bool(b)) return a;
  if (a == DType::u8) return b == DType::i8 ? DType::i16 : b;
  if (b == DType::u8) return a == DType::i8 ? DType::i16 : a;
  return std::max(a, b);
}

DType float_type(DType t) { return is_float(t) || is_complex(t) ? t : DType::f32; }

namespace {
using Maybe = std::optional<DType>;

Maybe promote_maybe(Maybe a, Maybe b) {
  if (!a) return b;
  if (!b) return a;
  return promote_types(*a, *b);
}

Maybe combine(Maybe higher, Maybe lower) {
  if (!higher) return lower;
  if (!lower || is_complex(*higher)) return higher;
  if (is_float(*higher)) {
    if (is_complex(*lower)) return *higher == DType::f64 ? DType::c128 : DType::c64;
    return higher;
  }
  if (is_bool(*higher) || is_float(*lower) || is_complex(*lower)) return promote_maybe(higher, lower);
  return higher;
}
}  // namespace

DType result_type(const Builder& b, std::span<const Operand> operands) {
  Maybe dim, zero, wrapped;
  for (const Operand& o : operands) {
    if (o.tensor) {
      const TensorType& t = b.type(*o.tensor);
      Maybe& slot = t.dims.empty() ? zero : dim;
      slot = promote_maybe(slot, t.dtype);
    } else {
      const DType t = o.number.kind == Rule::Number::floating  ? DType::f32
                      : o.number.kind == Rule::Number::integer ? DType::i64
                                                               : DType::boolean;
      wrapped = promote_maybe(wrapped, t);
    }
  }
  const Maybe t = combine(dim, combine(zero, wrapped));
  AOTC_CHECK(t, "result_type of no operands");
  return *t;
}

DType result_type(const Builder& b, std::initializer_list<ValueId> tensors) {
  std::vector<Operand> ops;
  for (ValueId v : tensors) ops.push_back({v, {}});
  return result_type(b, ops);
}

/// torch.export leaves open whether a size that is an expression is 1: the example inputs say what it was.
static bool taken_as_one(const SymTable& syms, const Expr& x, const Expr& beside) {
  return !x.is_const() && !syms.proves_eq(x, beside) && syms.exported(x) == 1 && syms.exported(beside) != 1;
}

std::vector<Expr> broadcast_dims(const SymTable& syms, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  const std::vector<Expr>& big = a.size() >= b.size() ? a : b;
  const std::vector<Expr>& small = a.size() >= b.size() ? b : a;
  std::vector<Expr> out = big;
  const size_t off = big.size() - small.size();
  for (size_t i = 0; i < small.size(); ++i) {
    const Expr& x = big[off + i];
    const Expr& y = small[i];
    if (y.is(1) || x == y) continue;
    if (x.is(1)) {
      out[off + i] = y;
      continue;
    }
    // What cannot be proved becomes a guard of the graph where the operands are expanded.
    const bool x_is_one = taken_as_one(syms, x, y);
    if (syms.proves_ne(x, y) && !x_is_one && !taken_as_one(syms, y, x))
      throw Refused{fmt::format("the dimensions {} and {} do not broadcast", x.str(syms), y.str(syms)), ""};
    if (y.is_const() || x_is_one) out[off + i] = y;
  }
  return out;
}

ValueId full(Builder& b, DType dtype, std::vector<Expr> dims, double value) {
  TensorType t{dtype, std::move(dims)};
  if (is_bool(dtype)) return b.make1(Op::full, {}, {{Attr::value, value != 0}}, &t);
  if (is_int(dtype)) return b.full_int(t, static_cast<int64_t>(value));
  if (is_complex(dtype)) throw Refused{"complex tensors are not supported", ""};
  return b.full(t, value);
}

ValueId full(Builder& b, DType dtype, std::vector<Expr> dims, const Rule::Number& value) {
  if (value.computed) return b.expand(b.cast(*value.computed, dtype), std::move(dims));
  if (value.kind == Rule::Number::integer) {
    const std::optional<int64_t> c = value.i.as_const();
    if (!c) return b.expand(b.cast(b.sym(value.i), dtype), std::move(dims));
    if (is_int(dtype)) {
      // Wraps like a C cast (full_like of uint8 with -1).
      const int bits = static_cast<int>(dtype_bytes(dtype)) * 8;
      int64_t v = *c;
      if (bits < 64) {
        const uint64_t low = static_cast<uint64_t>(v) & ((uint64_t{1} << bits) - 1);
        v = dtype != DType::u8 && (low >> (bits - 1)) ? static_cast<int64_t>(low) - (int64_t{1} << bits) : static_cast<int64_t>(low);
      }
      return b.full_int({dtype, std::move(dims)}, v);
    }
    return full(b, dtype, std::move(dims), static_cast<double>(*c));
  }
  return full(b, dtype, std::move(dims), value.f);
}

/// Along a dim that was 1 when it was exported, and may be `to` at other sizes: element min(i, size - 1) at i.
static ValueId one_or_all(Builder& b, ValueId v, int dim, const Expr& to) {
  const Expr size = b.dims(v)[static_cast<size_t>(dim)];
  if (!taken_as_one(b.syms(), size, to)) return v;
  b.require(ShapeGuard::Kind::eq, (size - 1) * (size - to), 0, "a dim is 1 or as long as the other operand's");
  const ValueId last = b.expand(b.cast(b.sym(size - 1), DType::i64), {to});
  return b.index(v, {b.binary(Op::minimum, b.iota({to}, 0), last)}, {dim}, dim);
}

ValueId expand(Builder& b, ValueId v, std::vector<Expr> dims) {
  if (b.dims(v) == dims) return v;
  for (size_t rank = b.dims(v).size(), i = 0; i < rank && rank <= dims.size(); ++i)
    v = one_or_all(b, v, static_cast<int>(i), dims[dims.size() - rank + i]);
  const Node* n = b.graph().def(v);
  if (!n || n->op != Op::full || dims.size() < b.dims(v).size()) return b.expand(v, std::move(dims));
  const auto all_unit = [](const std::vector<Expr>& e) { return std::all_of(e.begin(), e.end(), [](const Expr& d) { return d.is(1); }); };
  if (!all_unit(b.dims(v))) return b.expand(v, std::move(dims));
  const AttrValue value = n->attrs.at(Attr::value);
  const TensorType t{b.dtype(v), std::move(dims)};
  return b.make1(Op::full, {}, {{Attr::value, value}}, &t);
}

ValueId materialize(Builder& b, const Operand& o, DType dtype) {
  if (o.tensor) return b.cast(*o.tensor, dtype);
  return full(b, dtype, {}, o.number);
}

std::vector<Expr> broadcast_all(Builder& b, std::vector<ValueId>& vs) {
  std::vector<Expr> dims;
  for (ValueId v : vs) dims = broadcast_dims(b.syms(), dims, b.dims(v));
  for (ValueId& v : vs) v = expand(b, v, dims);
  return dims;
}

static ValueId literal_bytes(Builder& b, DType dtype, size_t count, const void* bytes, size_t size) {
  auto copy = std::shared_ptr<std::byte[]>(new std::byte[size ? size : 1]);
  if (size) std::memcpy(copy.get(), bytes, size);
  ConstData d;
  d.name = fmt::format("literal.{}", b.graph().constants.size());
  d.type = {dtype, {Expr(static_cast<int64_t>(count))}};
  d.data = copy.get();
  d.bytes = size;
  d.keepalive = copy;
  return b.constant(std::move(d));
}

ValueId literal(Builder& b, const Ints& values) {
  return literal_bytes(b, DType::i64, values.size(), values.data(), values.size() * sizeof(int64_t));
}

ValueId literal_f(Builder& b, const std::vector<double>& values, DType dtype) {
  return b.cast(literal_bytes(b, DType::f64, values.size(), values.data(), values.size() * sizeof(double)), dtype);
}

}  // namespace aotc::decompose
