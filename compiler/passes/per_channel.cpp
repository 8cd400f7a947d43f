#include "passes/per_channel.h"

#include "graph/constant_store.h"
#include "graph/scalar.h"
#include "passes/rewrite.h"

namespace aotc::passes {

std::optional<Channels> per_channel(const Graph& g, ValueId v, int dim, int64_t channels) {
  if (auto s = splat_value(g, v)) return Channels(channels, *s);
  const Node* e = g.def(v);
  if (e && e->op == Op::expand) v = e->inputs[0];
  if (g.values[v].kind != ValueKind::constant || !is_float(g.type(v).dtype)) return {};
  const ConstData& c = g.constants[g.values[v].constant];
  if (!has_data(c)) return {};
  for (int i = 0; i < c.type.rank(); ++i)
    if (!c.type.dims[i].is(i == dim ? channels : 1)) return {};
  Channels out(channels);
  load_f64(c.type.dtype, c.data, out.data(), channels);
  return out;
}

bool then(Op op, bool left, const Channels& c, Channels& scale, Channels& shift) {
  if (op == Op::div && !left) return false;
  for (size_t i = 0; i < c.size(); ++i) {
    switch (op) {
      case Op::mul:
        scale[i] *= c[i];
        shift[i] *= c[i];
        break;
      case Op::div:
        scale[i] /= c[i];
        shift[i] /= c[i];
        break;
      case Op::add: shift[i] += c[i]; break;
      case Op::sub:
        if (!left) {
          scale[i] = -scale[i];
          shift[i] = -shift[i];
        }
        shift[i] += left ? -c[i] : c[i];
        break;
      default: return false;
    }
  }
  return true;
}

bool exchangeable_channels(const Graph& g, ValueId v) {
  const Node* e = g.def(v);
  if (e && e->op == Op::expand) v = e->inputs[0];
  return g.values[v].kind == ValueKind::constant && g.constants[g.values[v].constant].exchangeable;
}

ConstData channels_constant(std::string name, DType t, int rank, int dim, const Channels& values) {
  TensorType type{t, Exprs(static_cast<size_t>(rank), Expr(1))};
  type.dims[static_cast<size_t>(dim)] = static_cast<int64_t>(values.size());
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * static_cast<size_t>(dtype_bytes(t)));
  store_f64(t, values.data(), bytes->data(), static_cast<int64_t>(values.size()));
  return {std::move(name), type, bytes, bytes->data(), bytes->size()};
}

}  // namespace aotc::passes
