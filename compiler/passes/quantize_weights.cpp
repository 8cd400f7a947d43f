#include "passes/quantize_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "graph/constant_store.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace aotc::passes {
namespace {

constexpr int64_t kSmallest = 1024;  ///< elements: below that nothing is gained

/// The next bfloat16 that is not smaller.
float bf16_above(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  const bool low = bits & 0xffff;
  bits &= 0xffff0000;
  if (low && !(bits >> 31)) bits += 0x10000;
  std::memcpy(&x, &bits, 4);
  return x;
}
float bf16_below(float x) { return -bf16_above(-x); }
uint16_t bf16_bits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<uint16_t>(bits >> 16);
}

/// A weight as integers: values [n, k], scales and offsets [groups, n].
struct Quantised {
  int64_t n, k, group, groups;
  std::vector<int8_t> values;
  std::vector<uint16_t> scales, offsets;  ///< bfloat16; no offsets where all are zero
  std::vector<float> rounded;             ///< what that is, as the constant lay
  double error = 0;
};

/// Rounds to nearest. Element (j, i) of [n, k] is at data[j * row + i * column].
Quantised quantise(const float* data, int64_t n, int64_t k, int64_t row, int64_t column, const WeightStorage& storage) {
  Quantised q{n, k, storage.group && storage.group < k ? storage.group : k, 0, {}, {}, {}, {}};
  q.groups = (k + q.group - 1) / q.group;
  const bool shifted = storage.bits == 4;
  const float low = shifted ? 0 : -127, high = shifted ? 15 : 127;
  q.values.resize(static_cast<size_t>(n * k));
  q.scales.resize(static_cast<size_t>(n * q.groups));
  if (shifted) q.offsets.resize(q.scales.size());
  q.rounded.resize(q.values.size());
  double lost = 0, all = 0;
  for (int64_t j = 0; j < n; ++j)
    for (int64_t g = 0; g < q.groups; ++g) {
      const int64_t begin = g * q.group, end = std::min(k, begin + q.group);
      float least = data[j * row + begin * column], most = least;
      for (int64_t i = begin; i < end; ++i) {
        const float w = data[j * row + i * column];
        least = std::min(least, w), most = std::max(most, w);
      }
      const float offset = shifted ? bf16_below(least) : 0;
      const float scale = bf16_above(shifted ? (most - offset) / high : std::max(most, -least) / high);
      const auto at = static_cast<size_t>(g * n + j);
      q.scales[at] = bf16_bits(scale);
      if (shifted) q.offsets[at] = bf16_bits(offset);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = j * row + i * column;
        const float v = scale > 0 ? std::clamp(std::nearbyint((data[from] - offset) / scale), low, high) : 0;
        const float r = v * scale + offset;
        q.values[static_cast<size_t>(j * k + i)] = static_cast<int8_t>(v);
        q.rounded[static_cast<size_t>(from)] = r;
        lost += (static_cast<double>(data[from]) - r) * (static_cast<double>(data[from]) - r);
        all += static_cast<double>(data[from]) * data[from];
      }
    }
  q.error = all > 0 ? std::sqrt(lost / all) : 0;
  return q;
}

template <class T>
ConstData constant_of(std::string name, DType t, Exprs dims, std::vector<T> values) {
  auto data = std::make_shared<std::vector<T>>(std::move(values));
  const auto* bytes = reinterpret_cast<const std::byte*>(data->data());
  return {std::move(name), {t, std::move(dims)}, data, bytes, data->size() * sizeof(T)};
}

class Quantiser {
 public:
  Quantiser(Graph& g, PassContext& ctx) : g_(g), ctx_(ctx) {}

  void run() {
    StoredWeights report;
    report.storage = ctx_.weights;
    find(report);
    Rewriter rewriter(g_);
    rewriter.sweep([&](Rewriter& r, const Node& n) { return replacement(r.b, n); });
    for (const auto& [v, w] : weights_) keep_other_readers(v, w);
    if (ctx_.stored) *ctx_.stored = std::move(report);
  }

 private:
  struct Weight {
    Quantised q;
    bool columns_first;  ///< the constant is [n, k]
    ValueId values = kNone<ValueId>, scales = kNone<ValueId>, offsets = kNone<ValueId>;
  };

  /// The weight of a product: a constant, as it is or transposed.
  std::optional<std::pair<ValueId, bool>> weight_of(const Node& n) const {
    if (n.op != Op::matmul) return std::nullopt;
    ValueId w = n.inputs[1];
    const Node* v = g_.def(w);
    const bool transposed = v && v->op == Op::permute && g_.type(w).rank() == 2;
    if (transposed) w = v->inputs[0];
    if (g_.values[w].kind != ValueKind::constant) return std::nullopt;
    return std::pair(w, transposed);
  }

  std::string refusal(const ConstData& c) const {
    if (c.type.rank() != 2) return "it has a batch dimension";
    if (c.type.dtype != DType::f32) return fmt::format("it is {}, not float32", dtype_name(c.type.dtype));
    if (!has_data(c)) return "its data are not known";
    if (*c.type.elems().as_const() < kSmallest) return "it is small";
    const auto* data = reinterpret_cast<const float*>(c.data);
    if (!std::all_of(data, data + c.bytes / sizeof(float), [](float x) { return std::isfinite(x); }))
      return "it has infinities or numbers that are none";
    return {};
  }

  void find(StoredWeights& report) {
    std::map<ValueId, bool> seen;
    for (const NodeId id : g_.order) {
      const auto found = weight_of(g_.nodes[id]);
      if (!found || !seen.insert({found->first, true}).second) continue;
      const auto [v, columns_first] = *found;
      const ConstData c = g_.constants[g_.values[v].constant];
      if (std::string why = refusal(c); !why.empty()) {
        report.left.push_back({c.name, std::move(why)});
        continue;
      }
      const int64_t rows = *c.type.dims[0].as_const(), columns = *c.type.dims[1].as_const();
      const auto* data = reinterpret_cast<const float*>(c.data);
      Weight w{
          columns_first ? quantise(data, rows, columns, columns, 1, ctx_.weights) : quantise(data, columns, rows, 1, columns, ctx_.weights),
          columns_first};
      Quantised& q = w.q;
      report.weights.push_back(
          {c.name, rows * columns,
           static_cast<int64_t>(q.values.size()) * ctx_.weights.bits / 8 + static_cast<int64_t>(2 * (q.scales.size() + q.offsets.size())),
           q.error});
      w.values = g_.add_constant(constant_of(c.name + ".values", DType::i8, {q.n, q.k}, std::move(q.values)));
      w.scales = g_.add_constant(constant_of(c.name + ".scales", DType::bf16, {q.groups, q.n}, std::move(q.scales)));
      if (!q.offsets.empty())
        w.offsets = g_.add_constant(constant_of(c.name + ".offsets", DType::bf16, {q.groups, q.n}, std::move(q.offsets)));
      if (ctx_.rounded) ctx_.rounded(c, q.rounded);
      weights_.emplace(v, std::move(w));
    }
  }

  /// One number a group and column, as one for each element of rows [.., k].
  static ValueId spread(Builder& b, const Quantised& q, ValueId v) {
    Exprs dims(b.dims(v).begin(), b.dims(v).end() - 1);
    Exprs whole = dims, split = dims, flat = dims;
    whole.push_back(q.k);
    if (q.groups == 1) return b.expand(v, whole);
    split.insert(split.end(), {q.groups, q.group});
    flat.push_back(q.groups * q.group);
    const int last = static_cast<int>(dims.size());
    return b.slice(b.reshape(b.expand(b.unsqueeze(v, last + 1), split), flat), last, 0, q.k);
  }

  /// The rounded weight [.., k] from its integers [.., k]; `pick` takes the rows from [n, groups].
  template <class Pick>
  static ValueId computed(Builder& b, const Weight& w, ValueId values, const Pick& pick) {
    const auto part = [&](ValueId numbers) { return b.cast(spread(b, w.q, pick(b.permute(numbers, {1, 0}))), DType::f32); };
    const ValueId v = b.binary(Op::mul, b.cast(values, DType::f32), part(w.scales));
    return w.offsets == kNone<ValueId> ? v : b.binary(Op::add, v, part(w.offsets));
  }

  std::optional<ValueId> replacement(Builder& b, const Node& n) const {
    if (const auto found = weight_of(n)) {
      const auto it = weights_.find(found->first);
      if (it == weights_.end() || it->second.columns_first != found->second) return std::nullopt;
      const DType result = g_.type(n.outputs[0]).dtype;
      const ValueId a = n.inputs[0];
      const ValueId whole = computed(b, it->second, it->second.values, [](ValueId v) { return v; });
      return b.matmul(a, b.permute(whole, {1, 0}), result);
    }
    if (n.op != Op::index || n.get<Ints>(Attr::dims) != Ints{0}) return std::nullopt;
    const auto it = weights_.find(n.inputs[0]);
    const int64_t out_pos = n.get_or<int64_t>(Attr::out_pos, 0);
    if (it == weights_.end() || !it->second.columns_first || out_pos != 0) return std::nullopt;
    const ValueId at = n.inputs[1];
    const auto pick = [&](ValueId v) { return b.index(v, {at}, {0}, 0); };
    return computed(b, it->second, pick(it->second.values), pick);
  }

  void keep_other_readers(ValueId v, const Weight& w) {
    const ConstData old = g_.constants[g_.values[v].constant];
    const auto users = g_.users();
    if (users[idx(v)].empty()) return;
    g_.replace_all_uses(v, g_.add_constant(constant_of(old.name + ".rounded", DType::f32, old.type.dims, w.q.rounded)));
  }

  Graph& g_;
  PassContext& ctx_;
  std::map<ValueId, Weight> weights_;
};

}  // namespace

void quantize_weights(Graph& g, PassContext& ctx) {
  if (ctx.weights.any()) Quantiser(g, ctx).run();
}

}  // namespace aotc::passes
