#include "emit/cuda/code.h"
#include "emit/cuda/contraction.h"
#include "emit/cuda/functor.h"
#include "emit/cuda/loop_kernel.h"

namespace aotc::emit::cuda {

using loop::MatmulKernel;
using loop::Operand;
using loop::ParamId;

namespace {

class Emitter {
 public:
  Emitter(const MatmulKernel& k, const VectorTile& tile, const std::string& symbol)
      : k_(k), tile_(tile), symbol_(symbol), symbols_(size_symbols(k)) {}

  std::string emit() {
    AOTC_CHECK(!k_.b.prologue, "{}: vector.cuh takes operand b from memory only", k_.name);
    size_t pointers = 0;
    for (const loop::Param& p : k_.params) pointers += loop::takes_argument(p.role);
    std::string out = k_.runs ? "#include \"runs.cuh\"\n" : "";
    out += "#include \"vector.cuh\"\n" + argument_struct(symbol_, pointers, symbols_.size());
    for (size_t s = 0; s < k_.segments.size(); ++s)
      out += epilogue_functor(k_.segments[s].epilogue, k_.acc, fmt::format("{}_epilogue{}", symbol_, s), symbol_ + "_args", symbols_, true);
    for (const int sums : {1, 2})
      out += fmt::format("typedef VectorTile<{}, {}, {}, {}, {}, {}, {}, {}> {}_tile{};\n", c_type(k_.in), c_type(k_.acc), tile_.rows,
                         tile_.deep, k_.b_constant, tile_.warps, tile_.split, sums, symbol_, sums);
    if (k_.a.prologue) out += emit_rows_function(*k_.a.prologue, rows_launch(), symbol_ + "_rows", symbol_ + "_args", symbols_);
    return out + global_function(symbol_, 1, tile_.threads(), tile_.resident, body());
  }

 private:
  bool twins(const loop::Segment& s) const { return k_.twin || s.mates; }
  LoopLaunch rows_launch() const {
    constexpr int kHeld = 4;  // groups of lanes that a thread holds
    LoopLaunch l;
    l.mapping = Mapping::row;
    l.threads = tile_.threads();
    l.lanes = 16 / static_cast<int>(dtype_bytes(k_.in));
    const int64_t steps = (k_.k.as_const().value_or(0) + l.threads * l.lanes - 1) / (l.threads * l.lanes);
    l.steps = steps <= kHeld ? static_cast<int>(steps) : 0;
    return l;
  }
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
    for (size_t s = 0; s < k_.segments.size(); ++s) {
      const loop::Segment& seg = k_.segments[s];
      out += fmt::format("  {{\n    const i64 n_begin = {}, n = {}, blocks = (n + {}) / {};\n", expr(seg.n_begin),
                         expr(floordiv(seg.n_end - seg.n_begin, seg.mates ? 2 : 1)), tile_.columns() - 1, tile_.columns());
      out += "    if (block < blocks) {\n      for (i64 z = blockIdx.z; z < batch; z += gridDim.z) {\n";
      out += inner_batch.empty() ? "        const i64 b0 = 0, b1 = z;\n"
                                 : fmt::format("        const i64 b0 = z / ({0}), b1 = z % ({0});\n", inner_batch);
      if (k_.runs)
        out += fmt::format("        const i64 matrix = run_of_row(static_cast<const i64*>(a.ptr[{}]), {}, z);\n", idx(k_.runs->ends),
                           expr(k_.runs->count));
      const Operand& second = k_.twin ? *k_.twin : k_.b;
      const std::string begin =
          fmt::format(" + n_begin * ({})", expr(k_.b.col_stride)) + (k_.runs ? fmt::format(" + matrix * ({})", expr(k_.runs->stride)) : "");
      const char* const row = k_.runs ? "z + " : "";
      out += fmt::format("        const {}* const b[] = {{{}{}}};\n", c_type(k_.in), pointer(k_.b, begin),
                         twins(seg) ? ", " + pointer(second, seg.mates ? begin : "") : "");
      out +=
          fmt::format("        const i64 columns[] = {{{}{}}};\n", expr(k_.b.col_stride), twins(seg) ? ", " + expr(second.col_stride) : "");
      const int sums = twins(seg) ? 2 : 1;
      const std::string epilogue = fmt::format("{}_epilogue{}", symbol_, s);
      out += fmt::format("        auto ahead = [&](i64 i, i64 j) {{ return {}{{a}}.ahead({}{}i, j); }};\n", epilogue, batch, row);
      out += fmt::format(
          "        auto finish = [&](const {0} (&acc)[{1}], const {2}::Held& held, i64 i, i64 j) {{ {2}{{a}}(acc[0], {3}held, {4}{5}i, j); "
          "}};\n",
          c_type(k_.acc), sums, epilogue, sums > 1 ? "acc[1], " : "", batch, row);
      out += fmt::format(
          "        vector_columns<{}_tile{}, {}>({}, {}, b, columns, block * {}, n, m, k, ready, ahead, finish);\n      }}\n      "
          "return;\n    "
          "}}\n    block -= blocks;\n  }}\n",
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
};

}  // namespace

std::string emit_vector_matmul(const MatmulKernel& k, const VectorTile& tile, const std::string& symbol) {
  return Emitter(k, tile, symbol).emit();
}

}  // namespace aotc::emit::cuda
