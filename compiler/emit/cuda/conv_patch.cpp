#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "emit/cuda/epilogue.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"

namespace aotc::emit::cuda {

using loop::ConvKernel;

std::string emit_conv_patch(const ConvKernel& k, const PatchTile& t, const std::string& symbol) {
  const std::vector<SymId> symbols = size_symbols(k);
  std::string out = "#include \"conv_patch.cuh\"\n" + argument_struct(symbol, k.params, symbols.size());
  out += epilogue_struct(conv_rows_epilogue(k), symbol + "_epilogue", symbol + "_args", symbols, true);
  out += fmt::format(
      "struct {}_shape {{\n  static constexpr int rank = {}, groups = {}, channels = {}, outputs = {}, cols = {}, products = {};\n"
      "  static constexpr bool grouped = {}, constant = {};\n",
      symbol, t.rank, t.groups, t.channels, t.outputs, t.cols, t.products, k.groups > 1, k.w_constant);
  const Ints tile(t.tile, t.tile + t.rank);
  const std::pair<const char*, const Ints*> kConstants[] = {
      {"kernel", &k.kernel}, {"stride", &k.stride}, {"padding", &k.padding}, {"dilation", &k.dilation}, {"tile", &tile}};
  for (const auto& [name, values] : kConstants) out += constants_function(name, *values);
  const std::string_view type = c_type(k.in);
  out += fmt::format("}};\nstatic_assert(PatchTile<{}, {}_shape>::shared_bytes == {}, \"as it is launched\");\n", type, symbol,
                     t.smem_bytes());
  std::string body = size_names(symbols, k.syms, 2), in, result;
  for (size_t d = 2; d < k.x_dims.size(); ++d) {
    in += fmt::format("{}int({})", d == 2 ? "" : ", ", size_text(k.x_dims[d], k.syms));
    result += fmt::format("{}int({})", d == 2 ? "" : ", ", size_text(k.out_dims[d], k.syms));
  }
  body += fmt::format("  const PatchSizes<{0}, {1}> z{{static_cast<const {0}*>(a.ptr[{2}]), static_cast<const {0}*>(a.ptr[{3}]), ", type,
                      t.rank, idx(k.x), idx(k.w));
  body += fmt::format("int({}), {{{}}}, {{{}}}, int({}), int({})}};\n", size_text(k.x_dims[0], k.syms), in, result,
                      size_text(k.x_dims[1], k.syms), size_text(k.out_dims[1], k.syms));
  body += fmt::format("  conv_patch<{0}_shape>({0}_epilogue{{a, 0, 0}}, z);\n", symbol);
  return out + global_function(symbol, 1, PatchTile::kThreads, t.resident, body);
}

}  // namespace aotc::emit::cuda
