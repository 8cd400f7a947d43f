#include "passes/rounded_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "base/diagnostic.h"
#include "base/parallel.h"
#include "graph/scalar.h"

namespace aotc::passes {
namespace {

constexpr float kMostFloat8 = 448;

/// The floats of 16 bits that scales have, as their bits.
struct Half {
  DType dtype;
  float wide(uint16_t bits) const { return dtype == DType::f16 ? half_to_float(bits) : bfloat_to_float(bits); }
  uint16_t near(float x) const { return dtype == DType::f16 ? float_to_half(x) : float_to_bfloat(x); }
  /// The least that is not smaller.
  uint16_t above(float x) const {
    const uint16_t bits = near(x);
    if (!(wide(bits) < x)) return bits;
    return static_cast<uint16_t>(bits & 0x8000 ? bits - 1 : bits + 1);
  }
  uint16_t below(float x) const { return above(-x) ^ 0x8000; }
};

/// The nearest bfloat16, ties to even; none is infinite.
float bf16_near(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), up = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  return std::isfinite(std::bit_cast<float>(up)) ? std::bit_cast<float>(up) : std::bit_cast<float>(bits & 0xffff0000);
}

/// x as an element of the constant's type.
float in_type(DType t, float x) {
  if (t == DType::f32) return x;
  return t == DType::f16 ? half_to_float(float_to_half(x)) : bfloat_to_float(float_to_bfloat(x));
}

/// The values of one group and what they stand for.
class Group {
 public:
  Group(const RoundedWeight& q, const WeightStorage& storage) : type_(q.dtype), half_{q.scale_type()}, storage_(storage) {}

  uint16_t scale_bits = 0, offset_bits = 0;
  void spans(float least, float most) {
    const bool shifted = storage_.bits == 4;
    offset_bits = shifted ? half_.below(least) : 0;
    offset_ = half_.wide(offset_bits);
    const float step = shifted ? (most - offset_) / 15 : std::max(most, -least) / (storage_.float8 ? kMostFloat8 : 127);
    // The range of floats may be twice the largest.
    scale_bits = half_.above(std::isfinite(step) ? step : static_cast<float>((static_cast<double>(most) - offset_) / 15));
    scale_ = half_.wide(scale_bits);
  }
  int8_t nearest(float x) const {
    if (!(scale_ > 0)) return 0;
    const float v = (x - offset_) / scale_;
    if (storage_.float8) return static_cast<int8_t>(toward_zero(float_to_e4m3fn(v)));
    const auto [least, most] = storage_.bits == 4 ? std::pair(0, 15) : std::pair(-127, 127);
    int n = static_cast<int>(std::clamp(std::nearbyint(v), static_cast<float>(least), static_cast<float>(most)));
    // A scale is rounded up: its largest multiple may be none of the type's numbers.
    while (n != 0 && !std::isfinite(number(static_cast<int8_t>(n)))) n -= n > 0 ? 1 : -1;
    return static_cast<int8_t>(n);
  }
  float number(int8_t v) const {
    const float wide = storage_.float8 ? e4m3fn_to_float(static_cast<uint8_t>(v)) : static_cast<float>(v);
    return in_type(type_, wide * scale_ + offset_);
  }

 private:
  uint8_t toward_zero(uint8_t v) const {
    while ((v & 0x7f) && !std::isfinite(number(static_cast<int8_t>(v)))) --v;
    return v;
  }
  const DType type_;
  const Half half_;
  const WeightStorage& storage_;
  float scale_ = 0, offset_ = 0;
};

/// Group g of column j, whose elements are replaced.
void round_group(RoundedWeight& q, float* column, int64_t j, int64_t g, const WeightStorage& storage) {
  const int64_t begin = g * q.group, end = std::min(q.k, begin + q.group);
  const float least = *std::min_element(column + begin, column + end), most = *std::max_element(column + begin, column + end);
  Group group(q, storage);
  group.spans(least, most);
  const auto place = static_cast<size_t>(g * q.n + j);
  q.scales[place] = group.scale_bits;
  if (!q.offsets.empty()) q.offsets[place] = group.offset_bits;
  for (int64_t i = begin; i < end; ++i) {
    const int8_t v = group.nearest(column[i]);
    q.values[static_cast<size_t>(j * q.k + i)] = v;
    column[i] = group.number(v);
  }
}

/// Element i as a float.
float widened(const ConstData& c, size_t i) {
  if (c.type.dtype == DType::f32) return reinterpret_cast<const float*>(c.data)[i];
  return Half{c.type.dtype}.wide(reinterpret_cast<const uint16_t*>(c.data)[i]);
}
void put(std::byte* data, DType t, size_t i, float f) {
  if (t == DType::f32)
    reinterpret_cast<float*>(data)[i] = f;
  else
    reinterpret_cast<uint16_t*>(data)[i] = Half{t}.near(f);
}
BigArray<int8_t> joined(std::span<const BigArray<int8_t>> parts) {
  size_t n = 0;
  for (const auto& p : parts) n += p.size();
  BigArray<int8_t> all(n);
  int8_t* to = all.begin();
  for (const auto& p : parts) to = std::copy(p.begin(), p.end(), to);
  return all;
}

/// Columns [begin, begin + n) of w.
RoundedWeight columns_of(const RoundedWeight& w, int64_t begin, int64_t n) {
  RoundedWeight part{w.columns_first, n, w.k, w.group, w.groups, w.dtype, {}, {}, {}, {}, 0, 0};
  if (!w.values.empty()) {
    part.values = BigArray<int8_t>(static_cast<size_t>(n * w.k));
    std::copy_n(w.values.begin() + begin * w.k, n * w.k, part.values.begin());
  }
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

RoundedWeight round_weight(const ConstData& c, bool columns_first, const WeightStorage& storage) {
  const int64_t rows = *c.type.dims.at(0).as_const(), columns = *c.type.dims.at(1).as_const();
  RoundedWeight q;
  q.columns_first = columns_first, q.dtype = c.type.dtype;
  q.n = columns_first ? rows : columns, q.k = columns_first ? columns : rows;
  const auto elems = static_cast<size_t>(rows * columns);
  q.numbers = BigArray<std::byte>(elems * static_cast<size_t>(dtype_bytes(q.dtype)));
  if (storage.bits != 16) {
    q.group = storage.group && storage.group < q.k ? storage.group : q.k;
    q.groups = (q.k + q.group - 1) / q.group;
    q.values = BigArray<int8_t>(elems);
    q.scales.resize(static_cast<size_t>(q.n * q.groups));
    if (storage.bits == 4) q.offsets.resize(q.scales.size());
  }
  // Columns by the block, and their losses summed in order: the same number on any number of threads.
  constexpr int64_t kCols = 64;
  std::vector<std::pair<double, double>> losses(static_cast<size_t>((q.n + kCols - 1) / kCols));
  parallel_for(losses.size(), static_cast<int>(std::thread::hardware_concurrency()), [&](size_t block) {
    auto& [lost, all] = losses[block];
    std::vector<float> column(static_cast<size_t>(q.k));
    for (int64_t j = static_cast<int64_t>(block) * kCols; j < std::min(q.n, (static_cast<int64_t>(block) + 1) * kCols); ++j) {
      const auto place = [&](int64_t i) { return static_cast<size_t>(columns_first ? j * q.k + i : i * q.n + j); };
      for (int64_t i = 0; i < q.k; ++i) {
        const float f = widened(c, place(i));
        column[static_cast<size_t>(i)] = storage.bits == 16 ? bf16_near(f) : f;
      }
      for (int64_t g = 0; g < q.groups; ++g) round_group(q, column.data(), j, g, storage);
      for (int64_t i = 0; i < q.k; ++i) {
        const float f = column[static_cast<size_t>(i)];
        const double x = widened(c, place(i)), off = x - f;
        lost += off * off, all += x * x;
        put(q.numbers.data(), q.dtype, place(i), f);
      }
    }
  });
  for (const auto& [lost, all] : losses) q.lost += lost, q.all += all;
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
  std::vector<BigArray<int8_t>> values;
  for (const ConstData* p : parts) {
    const auto part = find(*p);
    if (!part) return;
    values.push_back(part->values);
    if (p == parts[0]) {
      sum = *part;
      continue;
    }
    AOTC_CHECK(part->k == sum.k && part->columns_first == sum.columns_first, "{} does not lie beside {}", p->name, parts[0]->name);
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
  sum.values = joined(values);
  sum.numbers = {};
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
  const int64_t columns = w.columns_first ? w.k : w.n;
  const size_t row = static_cast<size_t>(columns * dtype_bytes(w.dtype));
  if (c.type.rank() != 2 || c.type.dtype != w.dtype || !c.type.dims[1].is(columns)) return nullptr;
  if (c.bytes == entry.bytes) return entry.weight;
  if (!w.columns_first || offset % row != 0) return nullptr;
  return std::make_shared<RoundedWeight>(columns_of(w, static_cast<int64_t>(offset / row), static_cast<int64_t>(c.bytes / row)));
}

}  // namespace aotc::passes
