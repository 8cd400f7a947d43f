#include "forms/cuda/slabs.h"

#include "forms/cuda/common.h"
#include "forms/slabs.h"
#include "loop/attached.h"

namespace aotc::forms::cuda {

using loop::MatmulKernel;
using loop::QuantisedWeight;

Fit takes_slabs(const MatmulKernel& k) {
  if (!k.b_quantised || !k.b_quantised->by_column) return {false, ""};
  const QuantisedWeight& q = *k.b_quantised;
  const auto type = [&](loop::ParamId p) { return k.params[p].dtype; };
  if (!is_half(k.in)) return refuse("it takes float16 and bfloat16, not {}", dtype_name(k.in));
  if (q.bits != 8 && q.bits != 4) return refuse("numbers of {} bits", q.bits);
  const bool floats = type(q.values) == DType::f8e4m3fn;
  if (floats ? q.bits != 8 : type(q.values) != DType::i8 && type(q.values) != DType::u8)
    return refuse("values of {}", dtype_name(type(q.values)));
  if (q.scales == kNone<loop::ParamId> || (type(q.scales) != k.in && type(q.scales) != DType::f32))
    return refuse("scales of another type than the operands or float32");
  if (q.offsets != kNone<loop::ParamId> && type(q.offsets) != type(q.scales)) return refuse("offsets of another type than the scales");
  const auto rows = k.k.as_const(), columns = k.n.as_const();
  if (!rows || !columns || *rows < 1 || *columns < 1) return refuse("the weight has no fixed size");
  constexpr int kSlabLeastGroup = 32;
  const int64_t slab = slab_rows(q.bits);
  if (q.group < *rows && (q.group < kSlabLeastGroup || (q.group < slab ? slab % q.group : q.group % slab) != 0))
    return refuse("groups of {} rows, slabs of {}", q.group, slab);
  for (const loop::Segment& s : k.segments)
    if (loop::loads(s.epilogue, q.values) || (k.twin_quantised && loop::loads(s.epilogue, k.twin_quantised->values)))
      return refuse("the epilogue reads the weight, too");
  if (k.a.prologue ? loop::loads(*k.a.prologue, q.values) : k.a.param == q.values) return refuse("both operands read the weight");
  return Fit::yes();
}

std::pair<loop::ParamId, WeightForm> slab_weight(const MatmulKernel& k) { return {k.b_quantised->values, *slabs_of(k)}; }

}  // namespace aotc::forms::cuda
