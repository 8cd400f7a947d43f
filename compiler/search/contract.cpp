#include "search/contract.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace aotc::search {

GemmContract contract_of(const loop::MatmulKernel& k, const SymTable& syms) {
  GemmContract c;
  c.dtype = k.in;
  for (const Expr& b : k.batch) c.batch *= std::max<int64_t>(1, syms.hint(b));
  c.m = syms.hint(k.m), c.k = syms.hint(k.k), c.n = 0;
  for (const loop::Segment& s : k.segments) c.n = std::max(c.n, syms.hint(s.n_end - s.n_begin));
  c.segments = static_cast<int64_t>(k.segments.size());
  c.b_constant = k.b_constant;
  c.a_rows_contiguous = k.a.prologue || k.a.col_stride.is(1);                  // what is computed comes in rows
  c.b_rows_contiguous = k.b_constant || k.b.prologue || k.b.col_stride.is(1);  // a weight is packed
  return c;
}

ConvContract contract_of(const loop::ConvKernel& k, const SymTable& syms) {
  ConvContract c;
  c.dtype = k.in;
  c.n = syms.hint(k.x_dims[0]), c.c = syms.hint(k.x_dims[1]), c.co = syms.hint(k.out_dims[1]), c.groups = k.groups;
  const size_t dims = k.kernel.size(), lead = 3 - dims;
  for (size_t i = 0; i < dims; ++i) {
    c.in[lead + i] = syms.hint(k.x_dims[2 + i]), c.out[lead + i] = syms.hint(k.out_dims[2 + i]);
    c.kernel[lead + i] = k.kernel[i], c.stride[lead + i] = k.stride[i];
    c.pad[lead + i] = k.padding[i], c.dilation[lead + i] = k.dilation[i];
  }
  c.transposed = k.transposed, c.w_constant = k.w_constant;
  return c;
}

AttnContract contract_of(const loop::AttentionKernel& k, const SymTable& syms) {
  AttnContract c;
  c.dtype = k.dtype;
  c.batch = syms.hint(k.batch), c.heads = syms.hint(k.heads), c.kv_heads = syms.hint(k.kv_heads);
  c.q_len = syms.hint(k.q_len), c.kv_len = syms.hint(k.kv_len), c.e = syms.hint(k.head_dim), c.ev = syms.hint(k.v_dim);
  c.masked = k.mask.has_value(), c.causal = k.causal;
  return c;
}

std::string key_of(const GemmContract& c) {
  return fmt::format("gemm {} b{} m{} n{} k{} s{}{}{}{}", dtype_name(c.dtype), c.batch, c.m, c.n, c.k, c.segments,
                     c.b_constant ? " weight" : "", c.a_rows_contiguous ? "" : " a-strided", c.b_rows_contiguous ? "" : " b-strided");
}
std::string key_of(const ConvContract& c) {
  return fmt::format("conv {} n{} c{} co{} g{} in{} k{} s{} p{} d{}{}{}", dtype_name(c.dtype), c.n, c.c, c.co, c.groups,
                     fmt::join(c.in, "x"), fmt::join(c.kernel, "x"), fmt::join(c.stride, "x"), fmt::join(c.pad, "x"),
                     fmt::join(c.dilation, "x"), c.transposed ? " transposed" : "", c.w_constant ? " weight" : "");
}
std::string key_of(const AttnContract& c) {
  return fmt::format("attention {} b{} h{}/{} l{} s{} e{} ev{}{}{}", dtype_name(c.dtype), c.batch, c.heads, c.kv_heads, c.q_len, c.kv_len,
                     c.e, c.ev, c.masked ? " mask" : "", c.causal ? " causal" : "");
}

}  // namespace aotc::search
