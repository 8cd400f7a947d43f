#include "forms/cuda/wgmma_operand.h"

#include "emit/cuda/wgmma.h"
#include "forms/cuda/hopper.h"
#include "forms/cuda/product.h"

namespace aotc::forms::cuda {

using emit::cuda::OperandOrder;
using emit::cuda::WgmmaTile;
using loop::MatmulKernel;
using loop::Operand;

namespace {

/// The stride of an operand along k, and that from line to line (a row of a, a column of b).
const Expr& k_stride(const MatmulKernel& k, const Operand& o) { return &o == &k.a ? o.col_stride : o.row_stride; }
const Expr& line_stride(const MatmulKernel& k, const Operand& o) { return &o == &k.a ? o.row_stride : o.col_stride; }

}  // namespace

std::optional<OperandOrder> order_of(const MatmulKernel& k, const Operand& o, const SymTable& syms) {
  if (k_stride(k, o).is(1) && takes_stride(line_stride(k, o), k.in, syms)) return OperandOrder::along_k;
  if (line_stride(k, o).is(1) && takes_stride(k_stride(k, o), k.in, syms)) return OperandOrder::across_k;
  return std::nullopt;
}

Fit takes_mapped_operand(const MatmulKernel& k, const Operand& o, const char* name, const SymTable& syms, bool turned) {
  const auto order = order_of(k, o, syms);
  if (!order) return refuse("operand {}: one index must be contiguous, and rows a multiple of 16 bytes apart", name);
  if (!is_half(k.in) && *order == OperandOrder::across_k && !turned)
    return refuse("operand {}: TF32 and 8-bit products take k as the contiguous index", name);
  if (!takes_offset(o.base, k.in, syms)) return refuse("operand {} does not begin at a multiple of 16 bytes", name);
  const size_t n = o.batch_strides.size();
  for (size_t d : emit::cuda::mapped_batch(k, o))
    if (!takes_stride(o.batch_strides[n - k.batch.size() + d], k.in, syms))
      return refuse("operand {}: matrices must be a multiple of 16 bytes apart", name);
  if (k.runs && &o == &k.b && !takes_stride(k.runs->stride, k.in, syms))
    return refuse("operand {}: matrices must be a multiple of 16 bytes apart", name);
  return Fit::yes();
}

TensorMap map_of(const MatmulKernel& k, const Operand& o, OperandOrder order, int lines) {
  const int64_t bytes = static_cast<int64_t>(dtype_bytes(k.in));
  const bool along = order == OperandOrder::along_k;
  const Expr n_lines = &o == &k.a ? k.m : k.n;
  TensorMap m;
  m.arg = static_cast<int>(idx(o.param));
  m.dtype = k.in;
  m.swizzle_bytes = 128;
  m.offset_bytes = o.base * bytes;
  m.dims = along ? Exprs{k.k, n_lines} : Exprs{n_lines, k.k};
  m.stride_bytes = {(along ? line_stride(k, o) : k_stride(k, o)) * bytes};
  m.box = along ? std::vector<int32_t>{wgmma_deep(k.in), lines} : std::vector<int32_t>{64, wgmma_deep(k.in)};
  for (size_t d : emit::cuda::mapped_batch(k, o)) {
    m.dims.push_back(k.batch[d]);
    m.stride_bytes.push_back(o.batch_strides[o.batch_strides.size() - k.batch.size() + d] * bytes);
    m.box.push_back(1);
  }
  if (k.runs && &o == &k.b) {
    m.dims.push_back(k.runs->count);
    m.stride_bytes.push_back(k.runs->stride * bytes);
    m.box.push_back(1);
  }
  return m;
}

Expr wgmma_tiles_of(const MatmulKernel& k, const WgmmaTile& t) {
  Expr columns = 0;
  for (const loop::Segment& s : k.segments) columns += ceildiv(s.n_end - s.n_begin, t.n_tile());
  return columns * row_blocks(k, t.m_tile()) * product(k.batch);
}

}  // namespace aotc::forms::cuda
