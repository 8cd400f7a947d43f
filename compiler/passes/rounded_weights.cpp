#include "passes/rounded_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/diagnostic.h"

namespace aotc::passes {
namespace {

/// The next bfloat16 that is not smaller.
float bf16_above(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), high = bits & 0xffff0000;
  return std::bit_cast<float>((bits & 0xffff) && !(bits >> 31) ? high + 0x10000 : high);
}
float bf16_below(float x) { return -bf16_above(-x); }
uint16_t bf16_bits(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }
/// The nearest, ties to even; none is infinite.
float bf16_near(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), up = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  return std::isfinite(std::bit_cast<float>(up)) ? std::bit_cast<float>(up) : std::bit_cast<float>(bits & 0xffff0000);
}

/// Group g of column j: element i of it is at data[at + i * step].
void round_group(RoundedWeight& q, const float* data, std::vector<float>& floats, int64_t j, int64_t g, int64_t at, int64_t step,
                 const WeightStorage& storage) {
  const bool shifted = storage.bits == 4;
  const float low = shifted ? 0 : -127, high = shifted ? 15 : 127;
  const int64_t begin = g * q.group, end = std::min(q.k, begin + q.group);
  float least = data[at + begin * step], most = least;
  for (int64_t i = begin; i < end; ++i) least = std::min(least, data[at + i * step]), most = std::max(most, data[at + i * step]);
  const float offset = shifted ? bf16_below(least) : 0;
  const float scale = bf16_above(shifted ? (most - offset) / high : std::max(most, -least) / high);
  const auto place = static_cast<size_t>(g * q.n + j);
  q.scales[place] = bf16_bits(scale);
  if (shifted) q.offsets[place] = bf16_bits(offset);
  for (int64_t i = begin; i < end; ++i) {
    const float v = scale > 0 ? std::clamp(std::nearbyint((data[at + i * step] - offset) / scale), low, high) : 0;
    q.values[static_cast<size_t>(j * q.k + i)] = static_cast<int8_t>(v);
    floats[static_cast<size_t>(at + i * step)] = v * scale + offset;
  }
}

/// Columns [begin, begin + n) of w.
RoundedWeight columns_of(const RoundedWeight& w, int64_t begin, int64_t n) {
  RoundedWeight part{w.columns_first, n, w.k, w.group, w.groups, nullptr, {}, {}, {}, 0, 0};
  if (!w.values.empty()) part.values.assign(w.values.begin() + begin * w.k, w.values.begin() + (begin + n) * w.k);
  for (int64_t g = 0; g < w.groups; ++g) {
    const auto take = [&](const std::vector<uint16_t>& from, std::vector<uint16_t>& to) {
      if (!from.empty()) to.insert(to.end(), from.begin() + g * w.n + begin, from.begin() + g * w.n + begin + n);
    };
    take(w.scales, part.scales), take(w.offsets, part.offsets);
  }
  // What rounding changed is not known by column.
  const double share = static_cast<double>(n) / static_cast<double>(w.n);
  part.lost = w.lost * share, part.all = w.all * share;
  return part;
}

}  // namespace

RoundedWeight round_weight(const float* data, int64_t rows, int64_t columns, bool columns_first, const WeightStorage& storage) {
  RoundedWeight q;
  q.columns_first = columns_first;
  q.n = columns_first ? rows : columns, q.k = columns_first ? columns : rows;
  const auto elems = static_cast<size_t>(rows * columns);
  std::vector<float> floats(elems);
  if (storage.bits == 16) {
    std::transform(data, data + elems, floats.begin(), bf16_near);
  } else {
    q.group = storage.group && storage.group < q.k ? storage.group : q.k;
    q.groups = (q.k + q.group - 1) / q.group;
    q.values.resize(elems);
    q.scales.resize(static_cast<size_t>(q.n * q.groups));
    if (storage.bits == 4) q.offsets.resize(q.scales.size());
    for (int64_t j = 0; j < q.n; ++j)
      for (int64_t g = 0; g < q.groups; ++g)
        round_group(q, data, floats, j, g, columns_first ? j * q.k : j, columns_first ? 1 : q.n, storage);
  }
  for (size_t i = 0; i < elems; ++i) {
    const double x = data[i], off = x - floats[i];
    q.lost += off * off, q.all += x * x;
  }
  q.floats = std::make_shared<const std::vector<float>>(std::move(floats));
  return q;
}

std::optional<ProductWeight> product_weight(const Graph& g, const Node& n) {
  if (n.op != Op::matmul) return std::nullopt;
  ProductWeight w{n.inputs[1], false};
  const Node* v = g.def(w.constant);
  w.columns_first = v && v->op == Op::permute && g.type(w.constant).rank() == 2;
  if (w.columns_first) w.constant = v->inputs[0];
  if (g.values[w.constant].kind != ValueKind::constant) return std::nullopt;
  return w;
}

void RoundedWeights::add(const ConstData& c, std::shared_ptr<const RoundedWeight> w) {
  by_data_[c.data] = {c.keepalive, c.bytes, std::move(w)};
}

void RoundedWeights::add_beside(const ConstData& whole, const std::vector<const ConstData*>& parts) {
  RoundedWeight sum;
  for (const ConstData* p : parts) {
    const auto part = find(*p);
    if (!part) return;
    if (p == parts[0]) {
      sum = *part;
      continue;
    }
    AOTC_CHECK(part->k == sum.k && part->columns_first == sum.columns_first, "{} does not lie beside {}", p->name, parts[0]->name);
    sum.values.insert(sum.values.end(), part->values.begin(), part->values.end());
    const auto widen = [&](std::vector<uint16_t>& to, const std::vector<uint16_t>& from) {
      std::vector<uint16_t> both;
      for (int64_t g = 0; !from.empty() && g < sum.groups; ++g) {
        both.insert(both.end(), to.begin() + g * sum.n, to.begin() + (g + 1) * sum.n);
        both.insert(both.end(), from.begin() + g * part->n, from.begin() + (g + 1) * part->n);
      }
      to = std::move(both);
    };
    widen(sum.scales, part->scales), widen(sum.offsets, part->offsets);
    sum.n += part->n, sum.lost += part->lost, sum.all += part->all;
  }
  sum.floats = nullptr;
  add(whole, std::make_shared<RoundedWeight>(std::move(sum)));
}

std::shared_ptr<const RoundedWeight> RoundedWeights::find(const ConstData& c) const {
  auto it = by_data_.upper_bound(c.data);
  if (it == by_data_.begin() || c.bytes == 0) return nullptr;
  --it;
  const auto& [data, entry] = *it;
  const auto offset = static_cast<size_t>(c.data - data);
  if (offset + c.bytes > entry.bytes) return nullptr;
  const RoundedWeight& w = *entry.weight;
  const size_t row = static_cast<size_t>(w.columns_first ? w.k : w.n) * sizeof(float);
  if (c.type.rank() != 2 || c.type.dtype != DType::f32 || !c.type.dims[1].is(static_cast<int64_t>(row / sizeof(float)))) return nullptr;
  if (c.bytes == entry.bytes) return entry.weight;
  if (!w.columns_first || offset % row != 0) return nullptr;
  return std::make_shared<RoundedWeight>(columns_of(w, static_cast<int64_t>(offset / row), static_cast<int64_t>(c.bytes / row)));
}

}  // namespace aotc::passes
