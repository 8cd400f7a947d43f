#include "emit/configs.h"

#include "aotc/detail/library_abi.h"
#include "emit/cpu/module.h"
#include "plan/interface.h"

namespace aotc::emit {
namespace {

std::string declare_epilogue(const std::string& name) {
  return fmt::format("extern \"C\" void {}(const aotc_kargs*, const void*, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);\n", name);
}

std::string declare_prologue(const std::string& name) {
  return fmt::format("extern \"C\" void {}(const aotc_kargs*, int64_t, int64_t, int64_t, int64_t, int64_t, void*, int64_t);\n", name);
}

/// Spatial attributes as d h w: right-aligned, `fill` for the missing leading ones.
std::string spatial(const Ints& v, int64_t fill) {
  std::string s = "{";
  for (size_t i = 0; i < 3; ++i) s += fmt::format("{}{}", i ? ", " : "", i + v.size() < 3 ? fill : v[i + v.size() - 3]);
  return s + "}";
}

std::string gemm(const loop::Kernel& kernel, const loop::MatmulKernel& k, const plan::KernelConfig& c, Isa isa, const std::string& name) {
  const auto& choice = std::get<plan::GemmChoice>(c.choice);
  std::string out, list;
  for (size_t s = 0; s < k.segments.size(); ++s) {
    const std::string epilogue = cpu::epilogue_function(k.name, s, isa);
    out += declare_epilogue(epilogue);
    list += (s ? ", " : "") + epilogue;
  }
  auto prologue = [&](const loop::Operand& o, char which) -> std::string {
    if (!o.prologue) return "0";
    const std::string function = cpu::prologue_function(k.name, which, isa);
    out += declare_prologue(function);
    return function;
  };
  const std::string a = prologue(k.a, 'a'), b = prologue(k.b, 'b');
  auto pointer = [&](const loop::Operand& o) { return o.prologue ? -1 : plan::argument_index(kernel, o.param); };
  out += fmt::format("static const aotc_epilogue_fn {}_epilogues[] = {{{}}};\n", name, list);
  return out + fmt::format("static const aotc_gemm_config {} = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}_epilogues, {}, {}}};\n",
                           name, pointer(k.a), pointer(k.b), choice.mr, choice.nv, choice.mc, choice.nc, choice.kc, choice.kp,
                           c.packed ? 1 : 0, choice.pack_a ? 1 : 0, k.segments.size(), name, a, b);
}

std::string conv(const loop::Kernel& kernel, const loop::ConvKernel& k, const plan::KernelConfig& c, Isa isa, const std::string& name) {
  const auto& choice = std::get<plan::ConvChoice>(c.choice);
  const std::string epilogue = cpu::epilogue_function(k.name, 0, isa);
  return declare_epilogue(epilogue) +
         fmt::format("static const aotc_conv_config {} = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}};\n", name,
                     plan::argument_index(kernel, k.x), plan::argument_index(kernel, k.w), spatial(k.kernel, 1), spatial(k.stride, 1),
                     spatial(k.padding, 0), spatial(k.dilation, 1), k.groups, k.transposed ? 1 : 0, choice.algo, choice.mc, choice.nc,
                     choice.kc, choice.kp, c.packed ? 1 : 0, epilogue);
}

std::string attention(const loop::Kernel& kernel, const loop::AttentionKernel& k, const plan::KernelConfig& c, const std::string& name) {
  const auto& choice = std::get<plan::AttnChoice>(c.choice);
  const int mask = k.mask ? plan::argument_index(kernel, k.mask->param) : -1;
  const uint32_t mask_dtype = k.mask ? static_cast<uint32_t>(k.params[k.mask->param].dtype) : 0;
  return fmt::format("static const aotc_attn_config {} = {{{}, {}, {}, {}, {}, {}, {}, {}, {}, {:a}}};\n", name,
                     plan::argument_index(kernel, k.q.param), plan::argument_index(kernel, k.k.param),
                     plan::argument_index(kernel, k.v.param), plan::argument_index(kernel, k.out.param), mask, mask_dtype, k.causal ? 1 : 0,
                     choice.q_block, choice.kv_block, k.scale);
}

bool flag(const loop::LibraryKernel& k, Attr a, bool fallback) {
  auto it = k.attrs.find(a);
  return it == k.attrs.end() ? fallback : std::get<bool>(it->second);
}

int scatter_reduce(const loop::LibraryKernel& k) {
  constexpr const char* kNames[] = {"none", "sum", "prod", "amax", "amin", "mean"};  // AOTC_SCATTER_*
  auto it = k.attrs.find(Attr::reduce);
  if (it == k.attrs.end()) return 0;
  const std::string& reduce = std::get<std::string>(it->second);
  for (int i = 0; i < 6; ++i)
    if (reduce == kNames[i]) return i;
  throw InternalError("scatter: unknown reduce '" + reduce + "'");
}

std::string library(const loop::LibraryKernel& k, const std::string& name) {
  if (k.algorithm == "sort" || k.algorithm == "topk")
    return fmt::format("static const aotc_sort_config {} = {{{}, {}, {}}};\n", name, flag(k, Attr::descending, false) ? 1 : 0,
                       flag(k, Attr::sorted, true) ? 1 : 0, flag(k, Attr::largest, true) ? 1 : 0);
  if (k.algorithm == "recurrence") {
    const int cell = plan::recurrence_cell(k);
    const size_t params = k.params.size() - (cell == AOTC_CELL_LSTM ? 3 : 2);
    return fmt::format("static const aotc_recurrence_config {} = {{{}, {}, {}}};\n", name, cell, flag(k, Attr::reverse, false) ? 1 : 0,
                       params == 5 ? 1 : 0);
  }
  auto dim = k.attrs.find(Attr::dim);
  return fmt::format("static const aotc_scatter_config {} = {{{}, {}, {}, {}}};\n", name,
                     dim == k.attrs.end() ? 0 : std::get<int64_t>(dim->second), scatter_reduce(k),
                     flag(k, Attr::include_self, true) ? 1 : 0, flag(k, Attr::accumulate, false) ? 1 : 0);
}

}  // namespace

std::string emit_config(const loop::Kernel& kernel, const plan::KernelConfig& c, Isa isa, const std::string& name) {
  if (const auto* k = std::get_if<loop::MatmulKernel>(&kernel)) return gemm(kernel, *k, c, isa, name);
  if (const auto* k = std::get_if<loop::ConvKernel>(&kernel)) return conv(kernel, *k, c, isa, name);
  if (const auto* k = std::get_if<loop::AttentionKernel>(&kernel)) return attention(kernel, *k, c, name);
  if (const auto* k = std::get_if<loop::LibraryKernel>(&kernel)) return library(*k, name);
  throw InternalError("a loop kernel has no config");
}

}  // namespace aotc::emit
