#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "emit/cuda/epilogue.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"
#include "emit/cuda/wgmma.h"

namespace aotc::emit::cuda {

using loop::ConvKernel;

std::string emit_conv_few(const ConvKernel& k, const FewTile& t, const std::string& symbol) {
  const std::vector<SymId> symbols = size_symbols(k);
  std::string out = "#include \"conv_few.cuh\"\n" + argument_struct(symbol, k.params, symbols.size());
  out += epilogue_struct(conv_rows_epilogue(k), symbol + "_epilogue", symbol + "_args", symbols, true);
  out += wgmma_instruction(symbol + "_instruction", k.in, t.cols, OperandOrder::along_k, OperandOrder::along_k, false);
  out += fmt::format("struct {}_shape {{\n  static constexpr int channels = {};\n", symbol, t.channels);
  const std::pair<const char*, const Ints*> kConstants[] = {{"kernel", &k.kernel}, {"stride", &k.stride}, {"padding", &k.padding}};
  for (const auto& [name, values] : kConstants) out += constants_function(name, *values);
  const std::string_view type = c_type(k.in);
  out += fmt::format(
      "}};\ntypedef FewTile<{}, {}_shape, {}, {}> {}_tile;\nstatic_assert({}_tile::shared_bytes == {}, \"as it is launched\");\n", type,
      symbol, t.cols, t.stages, symbol, symbol, t.smem_bytes());
  std::string body = size_names(symbols, k.syms, 2);
  body += fmt::format("  const FewSizes<{0}> z{{static_cast<const {0}*>(a.ptr[{1}]), static_cast<const {0}*>(a.ptr[{2}])", type, idx(k.x),
                      idx(k.w));
  for (const Expr& e : {k.x_dims[0], k.x_dims[2], k.x_dims[3], k.out_dims[2], k.out_dims[3], k.out_dims[1]})
    body += fmt::format(", int({})", size_text(e, k.syms));
  body += fmt::format("}};\n  conv_few<{0}_tile, {0}_instruction, {0}_shape>({0}_epilogue{{a, 0, 0}}, z);\n", symbol);
  return out + global_function(symbol, 1, FewTile::kThreads, t.resident, body);
}

}  // namespace aotc::emit::cuda
