#include "emit/cuda/matmul.h"

#include "emit/cuda/code.h"
#include "emit/cuda/epilogue.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"

namespace aotc::emit::cuda {

using loop::MatmulKernel;
using loop::Segment;

namespace {

class Emitter {
 public:
  Emitter(const MatmulKernel& k, const MatmulTile& tile, const std::string& symbol)
      : k_(k), tile_(tile), symbol_(symbol), symbols_(size_symbols(k)) {}

  std::string emit() {
    std::string out = (k_.runs ? "#include \"runs.cuh\"\n" : "") + argument_struct(symbol_, k_.params, symbols_.size());
    for (size_t s = 0; s < k_.segments.size(); ++s) out += epilogue_struct(k_, s, symbol_, symbols_, false);
    if (k_.b.prologue) out += prologue_functor(*k_.b.prologue, k_.in, symbol_ + "_b", symbol_ + "_args", symbols_);
    out += fmt::format("typedef GemmTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}> {}_tile;\n", c_type(k_.in), tile_.block_m, tile_.block_n,
                       tile_.block_k, tile_.warp_m, tile_.warp_n, tile_.k_warps, tile_.stages, tile_.split, tile_.products, symbol_);
    out += function_head(symbol_, tile_.split, tile_.threads(), tile_.resident);
    if (tile_.split > 1) out += fmt::format("  if (!has_clusters && blockIdx.x % {} != 0) return;\n", tile_.split);
    out += wait_first() + size_names(k_.syms, symbols_, 2);
    AOTC_CHECK(!k_.a.prologue, "{}: gemm.cuh takes operand a from memory only", k_.name);
    out += fmt::format("  const {0}* const pa = static_cast<const {0}*>(a.ptr[{1}]);\n", c_type(k_.in), idx(k_.a.param));
    if (!k_.b.prologue)
      out += fmt::format("  const {0}* const pb = static_cast<const {0}*>(a.ptr[{1}]);\n", c_type(k_.in), idx(k_.b.param));
    out += fmt::format("  const i64 m = {}, k = {}, batch = {};\n", expr(k_.m), expr(k_.k), expr(product(k_.batch)));
    out += "  const GemmView av = " + view(k_.a) + (k_.b.prologue ? "" : ", bv = " + view(k_.b)) + ";\n";
    out += fmt::format("  const i64 row_blocks = {}, block = blockIdx.x / {};\n", row_blocks(k_, tile_.block_m), tile_.split);
    out += "  const i64 row = block % row_blocks;\n  i64 column = block / row_blocks;\n" + rows_of_run(k_, tile_.block_m);
    const std::string matrix = k_.runs ? fmt::format(" + run.matrix * ({})", expr(k_.runs->stride)) : "";
    const std::string inner_batch = k_.batch.size() > 1 ? expr(k_.batch[1]) : "";
    const bool a_fast = k_.a.col_stride.is(1), b_fast = k_.b.col_stride.is(1);
    for (size_t s = 0; s < k_.segments.size(); ++s) {
      const Segment& seg = k_.segments[s];
      out += fmt::format("  {{\n    const i64 n_begin = {}, n_end = {}, blocks = (n_end - n_begin + {}) / {};\n", expr(seg.n_begin),
                         expr(seg.n_end), tile_.block_n - 1, tile_.block_n);
      out += "    if (column < blocks) {\n      for (i64 z = blockIdx.z; z < batch; z += gridDim.z) {\n";
      out += inner_batch.empty() ? "        const i64 b0 = 0, b1 = z;\n"
                                 : fmt::format("        const i64 b0 = z / ({0}), b1 = z % ({0});\n", inner_batch);
      if (k_.b.prologue)
        out += fmt::format(
            "        const auto element = [&](i64 row_of_b, i64 column_of_b) {{ return {0}_b{{a}}({1}row_of_b, column_of_b); }};\n",
            symbol_,
            k_.batch.empty()       ? ""
            : k_.batch.size() == 1 ? "b1, "
                                   : "b0, b1, ");
      out += fmt::format("        gemm_block{}<{}, {}_tile, {}{}>(pa, {}, b0, b1, {}, column * {}, n_begin, n_end, ",
                         k_.b.prologue ? "_computed" : "", c_type(k_.in), symbol_, a_fast, k_.b.prologue ? "" : fmt::format(", {}", b_fast),
                         k_.b.prologue ? "element, av" : "pb" + matrix + ", av, bv",
                         k_.runs ? "run.end, k, run.begin" : fmt::format("m, k, row * {}", tile_.block_m), tile_.block_n);
      out += fmt::format("{}_epilogue{}{{a, b0, b1}});\n      }}\n      return;\n    }}\n", symbol_, s);
      out += "    column -= blocks;\n  }\n";
    }
    return out + "}\n";
  }

 private:
  std::string expr(const Expr& e) const {
    return c_expr(k_.syms.simplify(e), k_.syms, [](SymId s) { return fmt::format("s{}", idx(s)); });
  }
  /// Batch strides are right-aligned: with one batch dim it is b1.
  std::string view(const loop::Operand& o) const {
    const size_t n = o.batch_strides.size();
    const std::string b1 = n ? expr(o.batch_strides[n - 1]) : "0", b0 = n > 1 ? expr(o.batch_strides[0]) : "0";
    return fmt::format("{{{}, {}, {}, {}, {}}}", expr(o.base), n == 1 && k_.batch.size() > 1 ? "0" : b0, b1, expr(o.row_stride),
                       expr(o.col_stride));
  }

  const MatmulKernel& k_;
  const MatmulTile& tile_;
  const std::string& symbol_;
  std::vector<SymId> symbols_;
};

}  // namespace

std::string emit_matmul(const MatmulKernel& k, const MatmulTile& tile, const std::string& symbol) {
  return Emitter(k, tile, symbol).emit();
}

}  // namespace aotc::emit::cuda
