#include "passes/byte_weight.h"

namespace aotc::passes {
namespace {

/// One number a group and column [.., groups] as one for each element of rows [.., k].
ValueId spread(Builder& b, const ByteWeight& w, ValueId v) {
  Exprs dims(b.dims(v).begin(), b.dims(v).end() - 1);
  Exprs whole = dims, split = dims, flat = dims;
  whole.push_back(w.k);
  if (w.groups == 1) return b.expand(v, whole);
  split.insert(split.end(), {w.groups, w.group});
  flat.push_back(w.groups * w.group);
  const int last = static_cast<int>(dims.size());
  return b.slice(b.reshape(b.expand(b.unsqueeze(v, last + 1), split), flat), last, 0, w.k);
}

/// `pick` takes rows from [n, groups] or [n, k].
template <class Pick>
ValueId computed(Builder& b, const ByteWeight& w, const Pick& pick) {
  const ValueId values = b.cast(pick(w.values), DType::f32);
  if (w.scales == kNone<ValueId>) return values;
  const auto part = [&](ValueId numbers) {
    return b.cast(spread(b, w, pick(w.by_column ? numbers : b.permute(numbers, {1, 0}))), DType::f32);
  };
  const ValueId v = b.binary(Op::mul, values, part(w.scales));
  return w.offsets == kNone<ValueId> ? v : b.binary(Op::add, v, part(w.offsets));
}

}  // namespace

ValueId floats_of(Builder& b, const ByteWeight& w) {
  return computed(b, w, [](ValueId v) { return v; });
}

ValueId picked_floats_of(Builder& b, const ByteWeight& w, ValueId at) {
  return computed(b, w, [&](ValueId v) { return b.index(v, {at}, {0}, 0); });
}

}  // namespace aotc::passes
