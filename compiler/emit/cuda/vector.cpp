#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"
#include "emit/cuda/segments.h"

namespace aotc::emit::cuda {

using loop::MatmulKernel;
using loop::Operand;
using loop::ParamId;

namespace {

class Emitter {
 public:
  Emitter(const MatmulKernel& k, const VectorTile& tile, const std::string& symbol)
      : k_(k), tile_(tile), symbol_(symbol), symbols_(size_symbols(k)), segments_(k, symbol) {}

  std::string emit() {
    AOTC_CHECK(!k_.b.prologue, "{}: vector.cuh takes operand b from memory only", k_.name);
    std::string out = k_.runs ? "#include \"runs.cuh\"\n" : "";
    out += "#include \"vector.cuh\"\n" + argument_struct(symbol_, k_.params, symbols_.size());
    for (size_t s = 0; s < k_.segments.size(); ++s)
      out += epilogue_functor(k_.segments[s].epilogue, k_.acc, segments_.epilogue(s), symbol_ + "_args", symbols_, true);
    out += segments_.structs();
    for (const int sums : {1, 2})
      out += fmt::format("typedef VectorTile<{}, {}, {}, {}, {}, {}, {}, {}> {}_tile{};\n", c_type(k_.in), c_type(k_.acc), tile_.rows,
                         tile_.deep, k_.b_constant, tile_.warps, tile_.split, sums, symbol_, sums);
    if (k_.a.prologue)
      out += emit_rows_function(*k_.a.prologue, launch_of_rows(k_, tile_.threads()), symbol_ + "_rows", symbol_ + "_args", symbols_,
                                segments_.groups().size() > 1);
    return out + global_function(symbol_, 1, tile_.threads(), tile_.resident, body());
  }

 private:
  bool twins(const loop::Segment& s) const { return k_.twin || s.mates; }
  std::string expr(const Expr& e) const { return size_text(e, k_.syms); }
  std::string pointer(const Operand& o, const std::string& more) const {
    std::string at = expr(o.base);
    for (size_t i = 0; i < o.batch_strides.size(); ++i)
      at += fmt::format(" + {} * ({})", i + 1 == o.batch_strides.size() ? "b1" : "b0", expr(o.batch_strides[i]));
    return fmt::format("static_cast<const {}*>(a.ptr[{}]) + {}{}", c_type(k_.in), idx(o.param), at, more);
  }

  std::string body() const {
    std::string out = "  next_step_may_start();\n" + size_names(symbols_, k_.syms, 2);
    // Of rows in runs each is a product of its own.
    out += fmt::format("  const i64 k = {}, batch = {};\n  const int m = {};\n", expr(k_.k), expr(k_.runs ? k_.m : product(k_.batch)),
                       k_.runs ? "1" : expr(k_.m));
    out += prefetches_beside(k_, tile_.threads()) + "  bool waits = true;\n";
    std::string rows;
    if (k_.a.prologue) {
      out += fmt::format("  __shared__ __align__(16) {} rows[{} * ({})];\n", c_type(k_.in), tile_.rows, expr(k_.k));
      rows = fmt::format(" {}_rows(a, rows);", symbol_);
    }
    out += fmt::format("  auto ready = [&] {{ if (waits) {{ wait_for_step_before();{} }} waits = false; }};\n", rows);
    if (k_.runs) out += "  ready();\n";  // the step before says which matrix is whose
    out += "  i64 block = blockIdx.x;\n";
    const std::string inner_batch = k_.batch.size() > 1 ? expr(k_.batch[1]) : "";
    const char* batch = k_.batch.empty() ? "" : k_.batch.size() == 1 ? "b1, " : "b0, b1, ";
    out += segments_.find(tile_.columns(), [&](const Expr& e) { return expr(e); });
    for (const Segments::Group& group : segments_.groups()) {
      const loop::Segment& seg = k_.segments[group[0]];
      const int sums = twins(seg) ? 2 : 1;
      out += fmt::format("  if ({}) {{\n    const i64 n_begin = {}, n = {};\n", Segments::is_of(group),
                         Segments::chosen(group, [&](size_t s) { return fmt::format("i64({})", expr(k_.segments[s].n_begin)); }),
                         Segments::chosen(group, [](size_t s) { return fmt::format("n{}", s); }));
      out += "    for (i64 z = blockIdx.z; z < batch; z += gridDim.z) {\n";
      out += inner_batch.empty() ? "      const i64 b0 = 0, b1 = z;\n"
                                 : fmt::format("      const i64 b0 = z / ({0}), b1 = z % ({0});\n", inner_batch);
      if (k_.runs)
        out += fmt::format("      const i64 matrix = run_of_row(static_cast<const i64*>(a.ptr[{}]), {}, z);\n", idx(k_.runs->ends),
                           expr(k_.runs->count));
      const Operand& second = k_.twin ? *k_.twin : k_.b;
      const std::string begin =
          fmt::format(" + n_begin * ({})", expr(k_.b.col_stride)) + (k_.runs ? fmt::format(" + matrix * ({})", expr(k_.runs->stride)) : "");
      out += fmt::format("      const {}* const b[] = {{{}{}}};\n", c_type(k_.in), pointer(k_.b, begin),
                         sums > 1 ? ", " + pointer(second, seg.mates ? begin : "") : "");
      out += fmt::format("      const i64 columns[] = {{{}{}}};\n", expr(k_.b.col_stride), sums > 1 ? ", " + expr(second.col_stride) : "");
      out += segments_.lambdas(group, sums, "      ", batch, k_.runs ? "z + " : "");
      out += fmt::format(
          "      vector_columns<{}_tile{}, {}>({}, {}, b, columns, block * {}, n, m, k, ready, ahead, finish);\n    }}\n    return;\n  "
          "}}\n",
          symbol_, sums, seg.mates,
          k_.a.prologue ? "static_cast<const " + std::string(c_type(k_.in)) + "*>(rows)"
                        : pointer(k_.a, k_.runs ? fmt::format(" + z * ({})", expr(k_.a.row_stride)) : ""),
          expr(k_.a.prologue ? k_.k : k_.a.row_stride), tile_.columns());
    }
    return out;
  }

  const MatmulKernel& k_;
  const VectorTile& tile_;
  const std::string& symbol_;
  std::vector<SymId> symbols_;
  Segments segments_;
};

}  // namespace

std::string emit_vector_matmul(const MatmulKernel& k, const VectorTile& tile, const std::string& symbol) {
  return Emitter(k, tile, symbol).emit();
}

}  // namespace aotc::emit::cuda
