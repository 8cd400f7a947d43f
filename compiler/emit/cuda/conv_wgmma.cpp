#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "emit/cuda/epilogue.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"
#include "emit/cuda/wgmma.h"

namespace aotc::emit::cuda {

using loop::ConvKernel;
using loop::LoopKernel;

namespace {

Expr pixels_of(const ConvKernel& k) { return product(Exprs(k.out_dims.begin() + 2, k.out_dims.end())); }

}  // namespace

LoopKernel conv_rows_epilogue(const ConvKernel& k) {
  LoopKernel e = k.epilogue;
  const Expr pixels = pixels_of(k), rows = k.out_dims[0] * pixels;
  SymInfo info;
  info.name = "row";
  info.kind = SymKind::loop;
  info.extent = rows;
  const SymId row = e.syms.add(info);
  SymMap with;
  with[e.outer.at(0).sym] = floordiv(Expr::symbol(row), pixels);
  with[e.outer.at(1).sym] = mod(Expr::symbol(row), pixels);
  for (loop::Inst& i : e.insts) i.index = e.syms.simplify(i.index.substitute(with));
  e.outer = {{row, rows}};
  return e;
}

int conv_wgmma_deep(const ConvKernel& k) { return 128 / static_cast<int>(dtype_bytes(k.in)); }
int64_t conv_wgmma_channels(const ConvKernel& k) {
  const int64_t deep = conv_wgmma_deep(k);
  return (*k.x_dims[1].as_const() + deep - 1) / deep * deep;
}

std::string emit_conv_wgmma(const ConvKernel& k, const WgmmaTile& t, const std::string& symbol) {
  const std::vector<SymId> symbols = size_symbols(k);
  const auto expr = [&](const Expr& e) { return size_text(e, k.syms); };
  std::string out = "#include \"conv_wgmma.cuh\"\n" + argument_struct(symbol, k.params, symbols.size(), 2);
  out += epilogue_struct(conv_rows_epilogue(k), symbol + "_epilogue", symbol + "_args", symbols, true);
  out += wgmma_instruction(symbol + "_instruction", k.in, t.cols, OperandOrder::along_k, OperandOrder::along_k, t.products > 1);
  int64_t taps = 1;
  for (int64_t n : k.kernel) taps *= n;
  const int64_t channels = conv_wgmma_channels(k);
  out += fmt::format("struct {}_shape {{\n  static constexpr int rank = {}, deep = {}, stages = {};\n", symbol, k.kernel.size(),
                     conv_wgmma_deep(k), channels / conv_wgmma_deep(k));
  const std::pair<const char*, const Ints*> kConstants[] = {
      {"kernel", &k.kernel}, {"stride", &k.stride}, {"padding", &k.padding}, {"dilation", &k.dilation}};
  for (const auto& [name, values] : kConstants) out += constants_function(name, *values);
  std::string sizes;
  for (size_t d = 2; d < k.out_dims.size(); ++d) sizes += fmt::format("{}int({})", d == 2 ? "" : ", ", expr(k.out_dims[d]));
  const std::string names = size_names(symbols, k.syms, 4);
  const auto function = [&](const char* name, const Expr& e) {
    return fmt::format("  AOTC_DI int {}() const {{\n{}    return int({});\n  }}\n", name, names, expr(e));
  };
  out += fmt::format(
      "}};\nstruct {0}_problem {{\n  const {0}_args& a;\n  static constexpr int segments = 1, runs = 0;\n  static constexpr bool batched = "
      "false;\n",
      symbol);
  out += function("m", k.out_dims[0] * pixels_of(k)) + function("k", taps * channels) + function("n", k.out_dims[1]);
  out +=
      "  AOTC_DI int batch() const { return 1; }\n  AOTC_DI int n_begin(int) const { return 0; }\n  AOTC_DI int n_end(int) const { return "
      "n(); }\n"
      "  AOTC_DI void batch_of(int, int& b0, int& b1) const { b0 = b1 = 0; }\n";
  out += fmt::format(
      "  AOTC_DI void copy_a(u32 to, const TensorMap& map, u32 barrier, int x, int y, int, int) const {{\n{}"
      "    const int out[{}] = {{{}}};\n    conv_copy<{}_shape>(to, map, barrier, x, y, out);\n  }}\n",
      names, k.kernel.size(), sizes, symbol);
  out += fmt::format(
      "  AOTC_DI void copy_b(u32 to, const TensorMap& map, u32 barrier, int x, int y, int, int) const {{ copy_box(to, map, barrier, x, "
      "y{}); "
      "}}\n",
      t.products > 1 ? ", 0" : "");
  out += fmt::format(
      "  template <class Visit> AOTC_DI void with_epilogue(int, int, int, const Visit& visit) const {{\n"
      "    const {}_epilogue e{{a, 0, 0}};\n    visit(e);\n  }}\n}};\n",
      symbol);
  out += tile_type(t, k.in, OperandOrder::along_k, OperandOrder::along_k, k.w_constant, symbol);
  return out + wgmma_function(t, symbol);
}

}  // namespace aotc::emit::cuda
