#include "passes/passes.h"

#include <cmath>
#include <limits>

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

/// (bytes - zero) * scale, both known and the same for all.
struct Uniform {
  ValueId bytes;
  double zero = 0, scale = 1;
};

bool is_byte_type(DType t) { return t == DType::u8 || t == DType::i8; }
int64_t least_of(DType t) { return t == DType::u8 ? 0 : -128; }
int64_t most_of(DType t) { return t == DType::u8 ? 255 : 127; }

std::optional<Uniform> dequantised(const Rewriter& r, ValueId v) {
  const Node* mul = r.def(v, Op::mul);
  if (!mul || r.dtype(v) != DType::f32) return std::nullopt;
  for (const size_t i : {0, 1}) {
    const auto scale = splat_value(r.g, mul->inputs[1 - i]);
    if (!scale || !(*scale > 0) || !std::isfinite(*scale)) continue;
    Uniform u{mul->inputs[i], 0, *scale};
    if (const Node* sub = r.def(u.bytes, Op::sub)) {
      const auto zero = splat_value(r.g, sub->inputs[1]);
      if (!zero || *zero != std::nearbyint(*zero) || std::fabs(*zero) > 255) continue;
      u.bytes = sub->inputs[0], u.zero = *zero;
    }
    const Node* cast = r.def(u.bytes, Op::cast);
    if (!cast || r.dtype(u.bytes) != DType::f32 || !is_byte_type(r.dtype(cast->inputs[0]))) continue;
    u.bytes = cast->inputs[0];
    return u;
  }
  return std::nullopt;
}

/// A node that gives its one operand itself wherever this is from `lo` to `hi`.
std::optional<ValueId> below_limits(const Rewriter& r, ValueId v, double lo, double hi) {
  for (;;) {
    const Node* n = r.g.def(v);
    if (!n) return v;
    if (n->op == Op::relu) {
      if (lo < 0) return std::nullopt;
      v = n->inputs[0];
      continue;
    }
    if (n->op != Op::minimum && n->op != Op::maximum) return v;
    const auto limit = splat_value(r.g, n->inputs[1]);
    if (!limit || (n->op == Op::minimum ? *limit < hi : *limit > lo)) return std::nullopt;
    v = n->inputs[0];
  }
}

/// Bytes dequantised and quantised again: round((q - zero) * scale * steps) + zero, with steps all but 1 / scale.
std::optional<ValueId> quantised_again(Rewriter& r, const Node& n) {
  const DType t = r.dtype(n.outputs[0]);
  if (n.op != Op::cast || !is_byte_type(t) || r.dtype(n.inputs[0]) != DType::f32) return std::nullopt;
  const auto sum = below_limits(r, n.inputs[0], static_cast<double>(least_of(t)), static_cast<double>(most_of(t)));
  if (!sum) return std::nullopt;
  ValueId v = *sum;
  double zero = 0;
  if (const Node* add = r.def(v, Op::add)) {
    const auto z = splat_value(r.g, add->inputs[1]);
    if (!z) return std::nullopt;
    v = add->inputs[0], zero = *z;
  }
  const Node* round = r.def(v, Op::round);
  const Node* mul = round ? r.def(round->inputs[0], Op::mul) : nullptr;
  if (!mul) return std::nullopt;
  const auto steps = splat_value(r.g, mul->inputs[1]);
  const auto x = dequantised(r, mul->inputs[0]);
  constexpr double kSame = 0.5 / (255 * 255);  // errors of 255 steps stay far below half of one
  if (!steps || !x || x->zero != zero || r.dtype(x->bytes) != t || std::fabs(*steps * x->scale - 1) > kSame) return std::nullopt;
  return x->bytes;
}

/// Every window meets the values: what lies around them is never all that it has, and no step within it skips them.
bool windows_meet_values(const Rewriter& r, const Node& window) {
  const Ints &kernel = window.get<Ints>(Attr::kernel), &padding = window.get<Ints>(Attr::padding),
             &dilation = window.get<Ints>(Attr::dilation);
  const Exprs dims = r.dims(window.inputs[0]);
  for (size_t d = 0; d < kernel.size(); ++d) {
    if (padding[d] > (kernel[d] - 1) * dilation[d] / 2) return false;
    if (!r.g.syms.proves_le(dilation[d], dims[dims.size() - kernel.size() + d])) return false;
  }
  return true;
}

std::optional<ValueId> largest(Rewriter& r, const Node& n) {
  if (n.op != Op::reduce || n.reduce_kind() != ReduceKind::max || r.dtype(n.outputs[0]) != DType::f32) return std::nullopt;
  const Node* found = r.def(n.inputs[0], Op::window);
  if (!found) return std::nullopt;
  const Node window = *found;  // a copy: building nodes moves them
  if (window.get<double>(Attr::value) != -std::numeric_limits<double>::infinity() || !windows_meet_values(r, window)) return std::nullopt;
  const auto x = dequantised(r, window.inputs[0]);
  if (!x) return std::nullopt;
  const DType t = r.dtype(x->bytes);
  TensorType windows = r.g.type(window.outputs[0]);
  windows.dtype = t;
  std::map<Attr, AttrValue> attrs = window.attrs;
  attrs[Attr::value] = static_cast<double>(least_of(t));
  const ValueId seen = r.b.make1(Op::window, {x->bytes}, std::move(attrs), &windows);
  ValueId y = r.b.cast(r.b.reduce(ReduceKind::max, seen, n.get<Ints>(Attr::dims)), DType::f32);
  if (x->zero != 0) y = r.b.binary_scalar(Op::sub, y, x->zero);
  return r.b.binary_scalar(Op::mul, y, x->scale);
}

}  // namespace

/// What quantised programs do between products stays bytes where that gives the same numbers: the largest of dequantised values is the
/// largest of the bytes, dequantised; dequantised values quantised by the same parameters are the bytes that they were.
void keep_bytes(Graph& g, PassContext&) {
  Rewriter::run(g, [](Rewriter& r, const Node& n) -> std::optional<ValueId> {
    if (const auto v = largest(r, n)) return v;
    return quantised_again(r, n);
  });
}

}  // namespace aotc::passes
