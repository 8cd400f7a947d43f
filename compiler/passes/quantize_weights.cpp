
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "graph/scalar.h"
#include "passes/byte_weight.h"
#include "passes/passes.h"
#include "passes/rewrite.h"
#include "passes/round_weights.h"

namespace aotc::passes {
namespace {

class Quantiser {
 public:
  Quantiser(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx) {}

  void run() {
    std::set<std::pair<ValueId, bool>> seen;
    for (const NodeId id : g_.order) {
      const auto w = product_weight(g_, g_.nodes[id]);
      if (w && seen.insert({w->constant, w->columns_first}).second) store(*w, 4);
    }
    for (const NodeId id : g_.order)
      if (const auto table = rounded_table(g_.nodes[id]); table && seen.insert({*table, true}).second) store({*table, true}, 8);
    Rewriter rewriter(g_);
    rewriter.sweep([&](Rewriter& r, const Node& n) { return replacement(r.b, n); });
  }

 private:
  struct Stored {
    bool columns_first;
    ByteWeight as;
  };

  std::string refusal(const ConstData& c, const RoundedWeight* w, bool columns_first) const {
    if (std::string why = weight_refusal(c, ctx_); !why.empty()) return why;
    if (!w) return "it is not the archive's as it stands: computed, or cut out of others, when the model is built";
    if (w->columns_first != columns_first) return "another product multiplies it the other way round; it has the same rounded numbers";
    return {};
  }

  /// The constant, rounded as rows, that the node looks up rows of; that no product has a place for it as columns.
  std::optional<ValueId> rounded_table(const Node& n) const {
    if (!looks_up_rows(n) || g_.values[n.inputs[0]].kind != ValueKind::constant || stored_.count(n.inputs[0])) return std::nullopt;
    const auto w = ctx_.rounded_weights.find(g_.constants[g_.values[n.inputs[0]].constant]);
    return w && w->columns_first ? std::optional(n.inputs[0]) : std::nullopt;
  }
  static bool looks_up_rows(const Node& n) {
    return n.op == Op::index && n.get<Ints>(Attr::dims) == Ints{0} && n.get_or<int64_t>(Attr::out_pos, 0) == 0;
  }

  /// least: bits that a value takes at least; products pack two into a byte.
  void store(const ProductWeight& p, int least) {
    const ConstData c = g_.constants[g_.values[p.constant].constant];
    const auto w = ctx_.rounded_weights.find(c);
    if (std::string why = refusal(c, w.get(), p.columns_first); !why.empty()) {
      if (ctx_.stored) ctx_.stored->left.push_back({c.name, std::move(why)});
      return;
    }
    Stored s{w->columns_first, {w->n, w->k, w->group, w->groups}};
    s.as.by_column = ctx_.target.traits().scales_by_column;
    const int64_t elems = w->n * w->k;
    if (ctx_.weights.bits == 16) {
      const auto* floats = reinterpret_cast<const uint32_t*>(c.data);
      const BigArray<uint16_t> halves(static_cast<size_t>(elems));
      const int64_t row = w->columns_first ? w->k : 1, column = w->columns_first ? 1 : w->n;
      for (int64_t j = 0; j < w->n; ++j)
        for (int64_t i = 0; i < w->k; ++i)
          halves[static_cast<size_t>(j * w->k + i)] = static_cast<uint16_t>(floats[j * row + i * column] >> 16);
      s.as.values = add(c, constant_of(c.name + ".bf16", DType::bf16, {w->n, w->k}, halves));
    } else {
      const auto numbers = [&](const char* suffix, const std::vector<uint16_t>& v) {
        if (v.empty()) return kNone<ValueId>;
        if (!s.as.by_column) return add(c, scales_of(c.name + suffix, w->scale_type(), {w->groups, w->n}, v));
        std::vector<uint16_t> columns(v.size());
        for (int64_t j = 0; j < w->n; ++j)
          for (int64_t g = 0; g < w->groups; ++g) columns[static_cast<size_t>(j * w->groups + g)] = v[static_cast<size_t>(g * w->n + j)];
        return add(c, scales_of(c.name + suffix, w->scale_type(), {w->n, w->groups}, std::move(columns)));
      };
      ConstData values = constant_of(c.name + ".values", ctx_.weights.float8 ? DType::f8e4m3fn : DType::i8, {w->n, w->k}, w->values);
      if (c.exchangeable && ctx_.weights.bits == 4) values.bits = 4;
      s.as.values = add(c, std::move(values));
      s.as.scales = numbers(".scales", w->scales), s.as.offsets = numbers(".offsets", w->offsets);
    }
    if (ctx_.stored)
      ctx_.stored->weights.push_back(
          {c.name, elems, elems * std::max(ctx_.weights.bits, least) / 8 + static_cast<int64_t>(2 * (w->scales.size() + w->offsets.size())),
           w->error(), static_cast<int64_t>(c.bytes)});
    stored_.emplace(p.constant, std::move(s));
  }

  /// Products of float32 know scales of float16 as float32.
  ConstData scales_of(std::string name, DType t, Exprs dims, std::vector<uint16_t> halves) const {
    if (t != DType::f16 || !in_float32()) return constant_of(std::move(name), t, std::move(dims), std::move(halves));
    std::vector<float> wide(halves.size());
    std::transform(halves.begin(), halves.end(), wide.begin(), half_to_float);
    return constant_of(std::move(name), DType::f32, std::move(dims), std::move(wide));
  }
  bool in_float32() const { return ctx_.target.traits().float32_by_bytes; }

  /// A part of what `of` is now.
  ValueId add(const ConstData& of, ConstData part) {
    part.exchangeable = of.exchangeable;
    return g_.add_constant(std::move(part));
  }

  std::optional<ValueId> replacement(Builder& b, const Node& n) const {
    if (const auto p = product_weight(g_, n)) {
      const auto it = stored_.find(p->constant);
      if (it == stored_.end() || it->second.columns_first != p->columns_first) return std::nullopt;
      const DType result = g_.type(n.outputs[0]).dtype;
      const DType type = g_.type(n.inputs[1]).dtype;
      const ValueId floats = floats_of(b, it->second.as);
      if (!in_float32()) return b.matmul(n.inputs[0], b.permute(b.cast(floats, type), {1, 0}), result);
      return b.cast(b.matmul(b.cast(n.inputs[0], DType::f32), b.permute(floats, {1, 0}), DType::f32), result);
    }
    if (!looks_up_rows(n)) return std::nullopt;
    const auto it = stored_.find(n.inputs[0]);
    if (it == stored_.end() || !it->second.columns_first) return std::nullopt;
    const DType type = g_.type(n.inputs[0]).dtype;
    return b.cast(picked_floats_of(b, it->second.as, n.inputs[1]), type);
  }

  Graph& g_;
  PassContext& ctx_;
  std::map<ValueId, Stored> stored_;
};

}  // namespace

/// Products of weights that round_weights rounded read `values * scales + offsets` (or bfloat16), computed from constants of few bits; so
/// do lookups in them. Products of 16-bit floats by such weights are of float32 where forms know no others (ArchTraits::float32_by_bytes).
/// What else reads them keeps the floats, which are the same numbers. Requires folded constants; nothing may fold them afterwards.
void quantize_weights(Graph& g, PassContext& ctx) {
  if (ctx.weights.any()) Quantiser(g, ctx).run();
}

}  // namespace aotc::passes
