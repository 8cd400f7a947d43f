#include "emit/cuda/attention.h"

#include <cmath>

#include "emit/cuda/code.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"
#include "emit/cuda/wgmma.h"
#include "kernels/cuda/limits.cuh"

namespace aotc::emit::cuda {

using loop::AttentionKernel;

namespace {

std::string head(const AttentionKernel& k, const std::string& symbol, const std::vector<SymId>& symbols, const char* header,
                 size_t maps = 0) {
  return fmt::format("#include \"{}\"\n", header) + argument_struct(symbol, k.params, symbols.size(), maps);
}

/// The problem as the variable p; sizes that `syms` says are fixed are written as numbers. takes_share: the kernel multiplies queries with
/// a share of the scale.
std::string problem(const AttentionKernel& k, const SymTable& syms, const std::vector<SymId>& symbols, bool takes_share) {
  auto expr = [&](const Expr& e) {
    const Interval range = syms.interval(e);
    return size_text(range.min == range.max ? Expr(range.min) : e, k.syms);
  };
  auto view = [&](const char* name, const AttentionKernel::View& v) {
    return fmt::format("  p.{} = {{{}, {}, {}, {}, {}}};\n", name, expr(v.base), expr(v.b), expr(v.h), expr(v.s), expr(v.e));
  };
  const std::string type(c_type(k.dtype)), acc = k.dtype == DType::f64 ? "double" : "float",
                                           mask = k.mask ? std::string(c_type(k.params[k.mask->param].dtype)) : "NoMask";
  const std::string stored(c_type(k.stored()));
  std::string out = size_names(symbols, k.syms, 2) + fmt::format("  AttnProblem<{}, {}, {}, {}> p;\n", type, acc, mask, stored);
  const std::pair<const char*, const Expr*> kSizes[] = {{"batch", &k.batch}, {"heads", &k.heads},   {"kv_heads", &k.kv_heads},
                                                        {"q_len", &k.q_len}, {"kv_len", &k.kv_len}, {"head_dim", &k.head_dim},
                                                        {"v_dim", &k.v_dim}};
  for (const auto& [name, e] : kSizes) out += fmt::format("  p.{} = {};\n", name, expr(*e));
  const std::pair<const char*, const AttentionKernel::View*> kOperands[] = {{"q", &k.q}, {"k", &k.k}, {"v", &k.v}};
  for (const auto& [name, v] : kOperands)
    out += fmt::format("  p.p{} = static_cast<const {}*>(a.ptr[{}]);\n", name, v == &k.q ? type : stored, idx(v->param)) + view(name, *v);
  if (k.row_scales)
    for (const auto& [name, v] : {std::pair("ks", &k.row_scales->k), std::pair("vs", &k.row_scales->v)})
      out += fmt::format("  p.p{} = static_cast<const float*>(a.ptr[{}]);\n", name, idx(v->param)) + view(name, *v);
  out += fmt::format("  p.po = static_cast<{}*>(a.ptr[{}]);\n", type, idx(k.out.param)) + view("o", k.out);
  out += k.mask ? fmt::format("  p.pm = static_cast<const {}*>(a.ptr[{}]);\n", mask, idx(k.mask->param)) : "  p.pm = nullptr;\n";
  out += view("m", k.mask ? *k.mask : AttentionKernel::View{});
  const AttentionKernel::View unknown;
  const std::pair<const char*, const AttentionKernel::View*> kShown[] = {{"from", k.shown ? &k.shown->from : &unknown},
                                                                         {"end", k.shown ? &k.shown->end : &unknown}};
  for (const auto& [name, v] : kShown) {
    const std::string pointer = k.shown ? fmt::format("static_cast<const i64*>(a.ptr[{}])", idx(v->param)) : "nullptr";
    out += fmt::format("  p.p{} = {};\n", name, pointer) + view(name, *v);
  }
  out += k.sinks ? fmt::format("  p.psink = static_cast<const {}*>(a.ptr[{}]);\n", acc, idx(k.sinks->param)) : "  p.psink = nullptr;\n";
  out += view("sink", k.sinks.value_or(AttentionKernel::View{}));
  out += fmt::format("  p.fills = {};\n", k.mask_fills);
  out += fmt::format("  p.nowhere = {};\n", k.nan_rows ? "__int_as_float(0x7fc00000)" : "0");
  const bool shared = takes_share && k.scale > 0 && std::isfinite(k.scale);  // no channels: the scale is infinite
  const double share = shared ? std::ldexp(1.0, std::ilogb(k.scale)) : 1.0;
  const DType t = k.dtype == DType::f64 ? DType::f64 : DType::f32;
  return out + fmt::format("  p.share = {}, p.scale = {};\n", float_text(share, t), float_text(k.scale / share, t));
}

}  // namespace

std::string emit_attention_plain(const AttentionKernel& k, const SymTable& syms, const std::string& symbol) {
  const std::vector<SymId> symbols = size_symbols(k);
  return head(k, symbol, symbols, "attention_plain.cuh") +
         global_function(symbol, 1, kPlainAttentionThreads, 1,
                         wait_first() + problem(k, syms, symbols, true) + fmt::format("  attention_plain<{}>(p);\n", k.causal));
}

std::string emit_attention_mma(const AttentionKernel& k, const SymTable& syms, const AttentionTile& t, const std::string& symbol) {
  const std::vector<SymId> symbols = size_symbols(k);
  const std::string tile = fmt::format("typedef AttnTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}> {}_tile;\n", c_type(k.dtype), t.head_dim,
                                       t.v_dim, t.row_warps, t.k_warps, t.keys, t.stages, t.split, t.products, c_type(k.stored()), symbol);
  const std::string call = fmt::format("  attention_tensor<{}_tile, {}>(p, {});\n", symbol, k.causal, t.split);
  return head(k, symbol, symbols, "attention.cuh") + tile +
         global_function(symbol, t.split, t.threads(), 1, wait_first() + problem(k, syms, symbols, k.dtype != DType::f16) + call);
}

std::string emit_attention_wgmma(const AttentionKernel& k, const SymTable& syms, const AttentionWgmmaTile& t, const std::string& symbol) {
  const std::vector<SymId> symbols = size_symbols(k);
  const int columns = (t.v_dim + 7) / 8 * 8;
  std::string out = head(k, symbol, symbols, t.bytes ? "attention_down.cuh" : "attention_wgmma.cuh", t.bytes ? 1 : 3);
  out += wgmma_instruction(symbol + "_qk", k.dtype, t.keys, OperandOrder::along_k, OperandOrder::along_k, false);
  out += wgmma_instruction(symbol + "_pv", k.dtype, columns, OperandOrder::along_k, OperandOrder::across_k, true);
  out += fmt::format("typedef AttnWgmmaTile<{}, {}, {}, {}, {}, {}, {}, {}, {}> {}_tile;\n", c_type(k.dtype), t.head_dim, t.v_dim, t.keys,
                     t.groups, t.stages, t.positions, t.heads, c_type(k.stored()), symbol);
  out += fmt::format("static_assert({}_tile::shared_bytes == {}, \"as it is launched\");\n", symbol, t.smem_bytes());
  const char* mask = !k.mask ? "none" : k.mask->h.is(0) && k.mask->s.is(0) ? "of_keys" : "of_rows";
  // Bytes come without tensor maps.
  const std::string filler = t.bytes ? fmt::format("AttnFiller<{}_tile, decltype(p)>", symbol) : "AttnNoFiller";
  const std::string call =
      fmt::format("  attention_wgmma<{0}_tile, {0}_qk, {0}_pv, {1}, AttnMask::{2}, {3}>(p, a.map[0], a.map[{4}], a.map[{5}]);\n", symbol,
                  k.causal, mask, filler, t.bytes ? 0 : 1, t.bytes ? 0 : 2);
  return out + global_function(symbol, 1, t.threads(), t.resident, problem(k, syms, symbols, false) + call);
}

}  // namespace aotc::emit::cuda
