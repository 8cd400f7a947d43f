#include "passes/passes.h"

#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

struct Weight {
  ValueId bytes;                    ///< a constant [n, k]
  ValueId scales = kNone<ValueId>;  ///< of n elements; none: of one
};

/// The constant of signed bytes of which v is the value as float32.
std::optional<ValueId> widened(const Rewriter& r, ValueId v) {
  const Node* cast = r.def(v, Op::cast);
  if (!cast || r.dtype(v) != DType::f32) return std::nullopt;
  const ValueId x = cast->inputs[0];
  if (r.g.values[x].kind != ValueKind::constant || r.dtype(x) != DType::i8) return std::nullopt;
  return x;
}

std::optional<Weight> weight_of(const Rewriter& r, ValueId v) {
  if (const auto bytes = widened(r, v)) return Weight{*bytes};
  const Node* mul = r.def(v, Op::mul);
  if (!mul) return std::nullopt;
  for (const size_t i : {0, 1}) {
    const auto bytes = widened(r, mul->inputs[i]);
    const Node* spread = r.def(mul->inputs[1 - i], Op::expand);
    if (!bytes || !spread) continue;
    const Exprs from = r.dims(spread->inputs[0]), whole = r.dims(v);
    if (from[1].is(1) && r.same(from[0], whole[0])) return Weight{*bytes, spread->inputs[0]};
  }
  return std::nullopt;
}

ValueId ones(Graph& g, int64_t n) {
  constexpr uint16_t kOne = 0x3f80;
  auto data = std::make_shared<std::vector<uint16_t>>(static_cast<size_t>(n), kOne);
  const auto* bytes = reinterpret_cast<const std::byte*>(data->data());
  return g.add_constant({"ones", {DType::bf16, {n, 1}}, data, bytes, data->size() * sizeof(uint16_t)});
}

std::optional<ValueId> rule(Rewriter& r, const Node& n) {
  if (n.op != Op::matmul) return std::nullopt;
  const ValueId a = n.inputs[0], result = n.outputs[0];
  const Node* turned = r.def(n.inputs[1], Op::permute);
  if (!turned || turned->get<Ints>(Attr::perm) != Ints{1, 0} || r.dtype(result) != DType::f32 || r.dtype(a) != DType::f32)
    return std::nullopt;
  const auto w = weight_of(r, turned->inputs[0]);
  const Exprs whole = r.dims(turned->inputs[0]), to = r.dims(result);
  const auto columns = whole[0].as_const();
  if (!w || !columns || whole[1].is(0)) return std::nullopt;
  const ValueId one = r.b.expand(r.b.cast(ones(r.g, *columns), DType::f32), whole);
  const ValueId b = r.b.permute(r.b.binary(Op::mul, r.b.cast(w->bytes, DType::f32), one), {1, 0});
  const ValueId product = r.b.matmul(a, b, DType::f32);
  if (w->scales == kNone<ValueId>) return product;
  Exprs last(to.size(), Expr(1));
  last.back() = *columns;
  return r.b.binary(Op::mul, product, r.b.expand(r.b.reshape(w->scales, last), to));
}

}  // namespace

/// On CPUs, float32 products with a constant weight of signed bytes [n, k] that the program widens itself, times a number for each column
/// or times nothing: the product is with the bytes, whose scales are one (loop::QuantisedWeight takes it), and its result is scaled. That
/// rounds once for a sum, instead of once for each of its terms.
void scales_behind(Graph& g, PassContext&) { Rewriter(g).sweep(rule); }

}  // namespace aotc::passes
