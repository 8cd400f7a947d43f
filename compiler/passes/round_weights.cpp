#include "passes/round_weights.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/uarch.h"
#include "graph/constant_store.h"
#include "passes/passes.h"

namespace aotc::passes {
namespace {

constexpr double kLargePart = 1.0 / 16;  ///< of the bytes of all constants: tables below that stay as they are

class WeightRounder {
 public:
  WeightRounder(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx) {}

  void run() {
    find_fixed();
    std::map<ValueId, ProductWeight> chosen;  // the first use decides how it lies
    for (const NodeId id : g_.order) {
      const Node& n = g_.nodes[id];
      if (n.op != Op::matmul || fixed_[idx(n.inputs[0])]) continue;
      const auto w = archive_weight(n);
      if (w && !chosen.count(w->constant) && weight_refusal(g_.constants[g_.values[w->constant].constant], ctx_).empty())
        chosen.emplace(w->constant, *w);
    }
    for (const NodeId id : g_.order)
      if (const auto table = large_table(g_.nodes[id]); table && weight_refusal(g_.constants[g_.values[*table].constant], ctx_).empty())
        chosen.emplace(*table, ProductWeight{*table, true});
    for (const auto& [v, w] : chosen) round(v, w.columns_first);
  }

 private:
  /// Which values depend on constants alone.
  void find_fixed() {
    fixed_.assign(g_.values.size(), false);
    for (size_t i = 0; i < g_.values.size(); ++i) fixed_[i] = g_.values.raw()[i].kind == ValueKind::constant;
    for (const NodeId id : g_.order) {
      const Node& n = g_.nodes[id];
      const bool all = std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return fixed_[idx(v)]; });
      for (const ValueId v : n.outputs) fixed_[idx(v)] = all && !n.inputs.empty();
    }
  }

  /// The archive's constant that the product multiplies: as it is, transposed, or some of its columns.
  std::optional<ProductWeight> archive_weight(const Node& n) const {
    ProductWeight w{n.inputs[1], false};
    const Node* v = g_.def(w.constant);
    if (v && v->op == Op::permute && g_.type(w.constant).rank() == 2) {
      w = {v->inputs[0], true};
      for (v = g_.def(w.constant); v && v->op == Op::slice && v->get<int64_t>(Attr::dim) == 0 && v->get<int64_t>(Attr::step) == 1;
           v = g_.def(w.constant))
        w.constant = v->inputs[0];
    }
    if (g_.values[w.constant].kind != ValueKind::constant) return std::nullopt;
    return w;
  }

  /// The archive's constant of which the node looks up rows, where it is a large part of all constants: an embedding.
  std::optional<ValueId> large_table(const Node& n) const {
    if (n.op != Op::index || n.get<Ints>(Attr::dims) != Ints{0} || g_.values[n.inputs[0]].kind != ValueKind::constant) return std::nullopt;
    size_t all = 0;
    for (const ConstData& c : g_.constants) all += c.bytes;
    const ConstData& table = g_.constants[g_.values[n.inputs[0]].constant];
    return static_cast<double>(table.bytes) >= kLargePart * static_cast<double>(all) ? std::optional(n.inputs[0]) : std::nullopt;
  }

  void round(ValueId v, bool columns_first) {
    const ConstData from = g_.constants[g_.values[v].constant];
    const auto w = std::make_shared<RoundedWeight>(round_weight(from, columns_first, ctx_.weights));
    ConstData to = from;
    to.keepalive = w->numbers.memory();
    to.data = w->numbers.data();
    ctx_.rounded_weights.add(to, w);
    if (ctx_.stored) ctx_.stored->rounded.push_back({from.name, columns_first, w->error()});
    g_.replace_all_uses(v, g_.add_constant(std::move(to)));
  }

  Graph& g_;
  PassContext& ctx_;
  std::vector<bool> fixed_;
};

template <class T>
bool all_finite(const ConstData& c, T exponent) {
  const auto* data = reinterpret_cast<const T*>(c.data);
  return std::all_of(data, data + c.bytes / sizeof(T), [&](T bits) { return (bits & exponent) != exponent; });
}
bool all_finite(const ConstData& c) {
  if (c.type.dtype == DType::f32) return all_finite<uint32_t>(c, 0x7f800000);
  return all_finite<uint16_t>(c, c.type.dtype == DType::f16 ? 0x7c00 : 0x7f80);
}

}  // namespace

std::string weight_refusal(const ConstData& c, const PassContext& ctx) {
  const DType t = c.type.dtype;
  if (c.type.rank() != 2) return "it has a batch dimension";
  if (t != DType::f32 && !is_half(t)) return fmt::format("it is {}, not float32", dtype_name(t));
  if (is_half(t) && ctx.weights.bits == 16) return fmt::format("it is {}, which has 16 bits", dtype_name(t));
  if (!has_data(c)) return "its data are not known";
  if (*c.type.elems().as_const() < uarch_of(ctx.target).small_weight) return "it is small";
  return all_finite(c) ? "" : "it has infinities or numbers that are none";
}

/// Where PassContext::weights says so: the archive's constants of float32, bfloat16 and float16 that products multiply, and large tables
/// that rows are looked up in, take the numbers that few bits have, before anything is computed from them. PassContext::rounded_weights
/// knows them from then on. Comes before constants are folded.
void round_weights(Graph& g, PassContext& ctx) {
  if (ctx.stored) *ctx.stored = {ctx.weights, {}, {}, {}};
  if (ctx.weights.any()) WeightRounder(g, ctx).run();
}

}  // namespace aotc::passes
