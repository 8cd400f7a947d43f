#include "emit/cuda/contraction.h"

#include "emit/cuda/code.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"

namespace aotc::emit::cuda {

using loop::ConvKernel;
using loop::MatmulKernel;
using loop::Operand;

namespace {

std::string tile_type(const SimtTile& t, DType acc, const std::string& symbol) {
  return fmt::format("typedef SimtTile<{}, {}, {}, {}, {}, {}> {}_tile;\n", c_type(acc), t.block_m, t.block_n, t.block_k, t.thread_m,
                     t.thread_n, symbol);
}

/// A product's text over operands that are found element by element.
class Matmul {
 public:
  Matmul(const MatmulKernel& k, const SimtTile& tile, const std::string& symbol)
      : k_(k), tile_(tile), symbol_(symbol), symbols_(size_symbols(k)) {}

  std::string emit() {
    std::string out = k_.runs ? "#include \"runs.cuh\"\n" : "";
    out += "#include \"simt.cuh\"\n" + argument_struct(symbol_, k_.params, symbols_.size());
    const std::string args = symbol_ + "_args";
    for (size_t s = 0; s < k_.segments.size(); ++s)
      out += epilogue_functor(k_.segments[s].epilogue, k_.acc, fmt::format("{}_epilogue{}", symbol_, s), args, symbols_);
    if (k_.a.prologue) out += prologue_functor(*k_.a.prologue, k_.in, symbol_ + "_a", args, symbols_);
    if (k_.b.prologue) out += prologue_functor(*k_.b.prologue, k_.in, symbol_ + "_b", args, symbols_);
    out += tile_type(tile_, k_.acc, symbol_);
    return out + global_function(symbol_, 1, tile_.threads(), 1, body());
  }

 private:
  std::string expr(const Expr& e) const { return size_text(e, k_.syms); }
  /// "b0, b1, ", as many as there are batch dims.
  std::string batch_arguments() const { return k_.batch.empty() ? "" : k_.batch.size() == 1 ? "b1, " : "b0, b1, "; }

  std::string operand(const Operand& o, const std::string& name, bool is_b) const {
    const std::string_view acc = c_type(k_.acc), type = c_type(k_.in);
    if (o.prologue)
      return fmt::format("        const auto {0}_ = computed_operand<{1}>([&](i64 line, i64 k) {{ return {2}_{0}{{a}}({3}{4}); }});\n",
                         name, acc, symbol_, batch_arguments(), is_b ? "k, n_begin + line" : "line, k");
    std::string base = expr(o.base);
    for (size_t i = 0; i < o.batch_strides.size(); ++i)
      base += fmt::format(" + {} * ({})", i + 1 == o.batch_strides.size() ? "b1" : "b0", expr(o.batch_strides[i]));
    if (is_b) base += fmt::format(" + n_begin * ({})", expr(o.col_stride));
    if (is_b && k_.runs) base += fmt::format(" + run.matrix * ({})", expr(k_.runs->stride));
    return fmt::format("        const StridedOperand<{0}, {1}> {2}_{{static_cast<const {0}*>(a.ptr[{3}]) + {4}, {5}, {6}}};\n", type, acc,
                       name, idx(o.param), base, expr(is_b ? o.col_stride : o.row_stride), expr(is_b ? o.row_stride : o.col_stride));
  }

  std::string body() const {
    std::string out = wait_first() + size_names(symbols_, k_.syms, 2);
    out += fmt::format("  const i64 m = {}, k = {}, batch = {};\n", expr(k_.m), expr(k_.k), expr(product(k_.batch)));
    out += fmt::format("  const i64 row_blocks = {}, row = blockIdx.x % row_blocks;\n", row_blocks(k_, tile_.block_m));
    out += "  i64 column = blockIdx.x / row_blocks;\n" + rows_of_run(k_, tile_.block_m);
    const std::string inner_batch = k_.batch.size() > 1 ? expr(k_.batch[1]) : "";
    const bool a_k = k_.a.prologue || k_.a.col_stride.is(1), b_k = !k_.b.prologue && k_.b.row_stride.is(1);
    for (size_t s = 0; s < k_.segments.size(); ++s) {
      const loop::Segment& seg = k_.segments[s];
      out += fmt::format("  {{\n    const i64 n_begin = {}, n = {}, blocks = (n + {}) / {};\n", expr(seg.n_begin),
                         expr(seg.n_end - seg.n_begin), tile_.block_n - 1, tile_.block_n);
      out += "    if (column < blocks) {\n      for (i64 z = blockIdx.z; z < batch; z += gridDim.z) {\n";
      out += inner_batch.empty() ? "        const i64 b0 = 0, b1 = z;\n"
                                 : fmt::format("        const i64 b0 = z / ({0}), b1 = z % ({0});\n", inner_batch);
      out += operand(k_.a, "a", false) + operand(k_.b, "b", true);
      out += fmt::format(
          "        simt_block<{0}_tile, {1}, {2}>(a_, b_, {3}, column * {4}, {8}, n, k, [&]({5} acc, i64 i, i64 j) {{ "
          "{0}_epilogue{6}{{a}}(acc, {7}i, j); }});\n      }}\n      return;\n    }}\n    column -= blocks;\n  }}\n",
          symbol_, a_k, b_k, k_.runs ? "run.begin" : fmt::format("row * {}", tile_.block_m), tile_.block_n, c_type(k_.acc), s,
          batch_arguments(), k_.runs ? "run.end" : "m");
    }
    return out;
  }

  const MatmulKernel& k_;
  const SimtTile& tile_;
  const std::string& symbol_;
  std::vector<SymId> symbols_;
};

/// What the three ways to compute a convolution share.
class Conv {
 public:
  Conv(const ConvKernel& k, const std::string& symbol) : k_(k), symbol_(symbol), symbols_(size_symbols(k)) {}

  std::string head() const {
    std::string out = "#include \"conv.cuh\"\n" + argument_struct(symbol_, k_.params, symbols_.size());
    out += epilogue_functor(k_.epilogue, k_.acc, symbol_ + "_epilogue", symbol_ + "_args", symbols_);
    int64_t taps = 1;
    for (int64_t n : k_.kernel) taps *= n;
    out += fmt::format(
        "struct {}_shape {{\n  static constexpr int rank = {}, taps = {};\n  static constexpr bool transposed = {}, channels_last = {};\n",
        symbol_, k_.kernel.size(), taps, k_.transposed, k_.channels_last);
    const std::pair<const char*, const Ints*> kConstants[] = {
        {"kernel", &k_.kernel}, {"stride", &k_.stride}, {"padding", &k_.padding}, {"dilation", &k_.dilation}};
    for (const auto& [name, values] : kConstants) out += constants_function(name, *values);
    return out + "};\n";
  }

  /// Sizes and pointers as the variables z, x, w.
  std::string names() const {
    std::string out = wait_first() + size_names(symbols_, k_.syms, 2);
    Expr pixels = 1, points = 1;
    std::string in, result;
    for (size_t d = 2; d < k_.x_dims.size(); ++d) {
      pixels *= k_.out_dims[d], points *= k_.x_dims[d];
      const char* comma = d == 2 ? "" : ", ";
      in += fmt::format("{}static_cast<int>({})", comma, expr(k_.x_dims[d]));
      result += fmt::format("{}static_cast<int>({})", comma, expr(k_.out_dims[d]));
    }
    out += fmt::format("  const ConvSizes<{}_shape> z{{{}, {}, {}, {}, {}, {}, {{{}}}, {{{}}}}};\n", symbol_, expr(k_.x_dims[0]),
                       expr(floordiv(k_.x_dims[1], k_.groups)), expr(floordiv(k_.out_dims[1], k_.groups)), k_.groups, expr(pixels),
                       expr(points), in, result);
    out += fmt::format("  __shared__ ConvTaps<{}_shape> taps;\n  taps.fill(z);\n  __syncthreads();\n", symbol_);
    for (const auto& [name, p] : {std::pair("x", k_.x), std::pair("w", k_.w)})
      out += fmt::format("  const {0}* const {1} = static_cast<const {0}*>(a.ptr[{2}]);\n", c_type(k_.in), name, idx(p));
    return out;
  }

  std::string points(int threads) const {
    std::string body = names();
    body += fmt::format(
        "  conv_points<{0}, {1}>(z, taps, x, w, [&]({1} acc, i64 image, i64 channel, i64 pixel) {{ {2}_epilogue{{a}}(acc, {3}); }});\n",
        c_type(k_.in), c_type(k_.acc), symbol_, place("channel", "pixel"));
    return head() + global_function(symbol_, 1, threads, 1, body);
  }

  /// A product for each group: `call`: "simt_block<..>" over the operands weights and windows.
  std::string product(int block_m, int block_n, int split, const std::string& call) const {
    std::string out = names();
    if (split > 1) out += fmt::format("  if (!has_clusters && blockIdx.x % {} != 0) return;\n", split);
    const std::string types = fmt::format("<{}, {}, {}_shape>", c_type(k_.in), c_type(k_.acc), symbol_);
    out += fmt::format(
        "  const i64 columns = z.images * z.pixels, row_blocks = imax((z.out_channels + {}) / {}, 1), block = blockIdx.x / {};\n",
        block_m - 1, block_m, split);
    out += "  for (i64 group = blockIdx.y; group < z.groups; group += gridDim.y) {\n";
    out += fmt::format("    const ConvWeights{} weights{{z, w + group * z.out_channels * z.k()}};\n", types);
    out += fmt::format("    const ConvWindows{} windows{{z, taps, x + group * z.channels * z.channel_step()}};\n", types);
    out += fmt::format("    {}(weights, windows, block % row_blocks * {}, block / row_blocks * {}, z.out_channels, columns, ", call,
                       block_m, block_n);
    out += fmt::format("static_cast<int>(z.k()), [&]({} acc, i64 channel, i64 column) {{\n", c_type(k_.acc));
    out += "      const i64 image = z.image_of(column);\n";
    out += fmt::format("      {}_epilogue{{a}}(acc, {});\n    }});\n  }}\n", symbol_,
                       place("group * z.out_channels + channel", "column - image * z.pixels"));
    return out;
  }

 private:
  std::string expr(const Expr& e) const { return size_text(e, k_.syms); }
  /// Arguments of the epilogue.
  std::string place(const char* channel, const char* pixel) const {
    return fmt::format("image, {}, {}", k_.channels_last ? pixel : channel, k_.channels_last ? channel : pixel);
  }
  const ConvKernel& k_;
  const std::string& symbol_;
  std::vector<SymId> symbols_;
};

}  // namespace

std::string emit_simt_matmul(const MatmulKernel& k, const SimtTile& tile, const std::string& symbol) {
  return Matmul(k, tile, symbol).emit();
}

std::string emit_conv_points(const ConvKernel& k, int threads, const std::string& symbol) { return Conv(k, symbol).points(threads); }

std::string emit_conv_simt(const ConvKernel& k, const SimtTile& tile, const std::string& symbol) {
  const Conv c(k, symbol);
  const std::string call = fmt::format("simt_block<{}_tile, {}, false>", symbol, !k.transposed);
  return c.head() + tile_type(tile, k.acc, symbol) +
         global_function(symbol, 1, tile.threads(), 1, c.product(tile.block_m, tile.block_n, 1, call));
}

std::string emit_conv_mma(const ConvKernel& k, const MatmulTile& t, const std::string& symbol) {
  const Conv c(k, symbol);
  const std::string tile = fmt::format("typedef GemmTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}> {}_tile;\n", c_type(k.in), t.block_m,
                                       t.block_n, t.block_k, t.warp_m, t.warp_n, t.k_warps, t.stages, t.split, t.products, symbol);
  const std::string call = fmt::format("chunked_block<{}, {}_tile, {}>", c_type(k.in), symbol, !k.transposed);
  return c.head() + tile + global_function(symbol, t.split, t.threads(), t.resident, c.product(t.block_m, t.block_n, t.split, call));
}

}  // namespace aotc::emit::cuda
