#include "emit/cuda/wgmma.h"

#include <algorithm>
#include <iterator>

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
  Emitter(const MatmulKernel& k, const WgmmaTile& tile, OperandOrder a, OperandOrder b, const std::string& symbol)
      : k_(k), tile_(tile), a_(a), b_(b), symbol_(symbol), symbols_(size_symbols(k)) {}

  std::string emit() {
    AOTC_CHECK(!k_.a.prologue && (few_bits() || !k_.b.prologue), "{}: wgmma.cuh takes operands from memory only", k_.name);
    std::string out = "#include \"wgmma.cuh\"\n" + argument_struct(symbol_, k_.params, symbols_.size(), k_.twin ? 3 : 2);
    for (size_t s = 0; s < k_.segments.size(); ++s) out += epilogue_struct(k_, s, symbol_, symbols_, true);
    const OperandOrder left = tile_.swap ? b_ : a_, right = tile_.swap ? a_ : b_;
    out += wgmma_instruction(symbol_ + "_instruction", k_.in, tile_.cols, left, right, tile_.products > 1 || few_bits()) + problem();
    return out + tile_type(tile_, k_.in, left, right, k_.b_constant || few_bits(), symbol_) + wgmma_function(tile_, symbol_);
  }

 private:
  std::string expr(const Expr& e) const {
    return c_expr(k_.syms.simplify(e), k_.syms, [](SymId s) { return fmt::format("s{}", idx(s)); });
  }

  bool few_bits() const { return tile_.left_bits != 0; }

  /// What the products of a weight of few bits know of it (kernels/cuda/wgmma_quant.cuh).
  std::string slabs() const {
    const loop::QuantisedWeight& q = *k_.b_quantised;
    const auto pointer = [&](const char* name, loop::ParamId p) {
      return fmt::format("  AOTC_DI const Scale* {}() const {{ return static_cast<const Scale*>(a.ptr[{}]); }}\n", name, idx(p));
    };
    const int64_t depth = *k_.k.as_const(), group = std::min(q.group, depth);
    return fmt::format(
               "  typedef {} Format;\n  typedef {} Scale;\n  static constexpr int group = {}, groups = {};\n  static constexpr bool "
               "offsets = {};\n",
               slab_format(k_), c_type(k_.params[q.scales].dtype), group, (depth + group - 1) / group, q.offsets != kNone<loop::ParamId>) +
           pointer("scales", q.scales) + pointer("offsets_at", q.offsets == kNone<loop::ParamId> ? q.scales : q.offsets) +
           size("columns", k_.n) +
           "  static AOTC_DI void copy_slabs(u32 to, const TensorMap& map, u32 barrier, int slab, int strip) {\n"
           "    copy_box(to, map, barrier, 0, slab * 4, strip);\n  }\n";
  }

  /// own_map: the operand's tensor map is the kernel's third.
  std::string copy(const char* name, const loop::Operand& o, bool own_map = false) const {
    std::string outer;
    for (size_t d : mapped_batch(k_, o)) outer += d + 1 == k_.batch.size() ? ", b1" : ", b0";
    if (k_.runs && &o == &k_.b) outer += ", b1";
    if (tile_.products > 1 && tile_.apart == WgmmaTile::Apart::no && &o == &k_.b) outer = ", 0";  // its parts
    return fmt::format(
        "  {}AOTC_DI void {}(u32 to, {}u32 barrier, int x, int y, int b0, int b1) {}{{\n"
        "    copy_box(to, {}, barrier, x, y{});\n  }}\n",
        own_map ? "" : "static ", name, own_map ? "" : "const TensorMap& map, ", own_map ? "const " : "", own_map ? "a.map[2]" : "map",
        outer);
  }

  /// A function of the problem that evaluates sizes.
  std::string function(const std::string& head, const std::string& body) const {
    return fmt::format("  AOTC_DI {} const {{\n{}{}  }}\n", head, size_names(k_.syms, symbols_, 4), body);
  }
  std::string size(const char* name, const Expr& e) const {
    return function(fmt::format("int {}()", name), fmt::format("    return int({});\n", expr(e)));
  }
  /// A size of each segment.
  std::string of_segment(const char* name, Expr Segment::*at) const {
    std::string body;
    for (size_t s = 0; s < k_.segments.size(); ++s)
      body += fmt::format("    {}return int({});\n", s + 1 < k_.segments.size() ? fmt::format("if (segment == {}) ", s) : "",
                          expr(k_.segments[s].*at));
    return function(fmt::format("int {}(int segment)", name), body);
  }

  std::string problem() const {
    std::string out = fmt::format("struct {0}_problem {{\n  const {0}_args& a;\n", symbol_);
    out += fmt::format("  static constexpr int segments = {};\n  static constexpr bool batched = {};\n", k_.segments.size(),
                       !k_.syms.simplify(product(k_.batch)).is(1));
    out += fmt::format("  static constexpr int runs = {};\n", k_.runs ? *k_.runs->count.as_const() : 0);
    if (k_.runs)
      out += fmt::format(
          "  const RunTable<runs>* table = nullptr;\n  AOTC_DI const i64* run_ends() const {{ return static_cast<const i64*>(a.ptr[{}]); "
          "}}\n",
          idx(k_.runs->ends));
    out += size("m", k_.m) + size("k", k_.k) + size("batch", product(k_.batch));
    out += of_segment("n_begin", &Segment::n_begin) + of_segment("n_end", &Segment::n_end);
    const std::string inner = k_.batch.size() > 1 ? expr(k_.batch[1]) : "";
    out += function("void batch_of(int z, int& b0, int& b1)",
                    inner.empty() ? "    b0 = 0, b1 = z;\n" : fmt::format("    b0 = z / int({0}), b1 = z % int({0});\n", inner));
    out += copy("copy_a", k_.a) + (few_bits() ? slabs() : copy("copy_b", k_.b));
    if (k_.twin) out += copy("copy_twin", *k_.twin, true);
    out += "  template <class Visit> AOTC_DI void with_epilogue(int segment, int b0, int b1, const Visit& visit) const {\n";
    for (size_t s = 0; s < k_.segments.size(); ++s) {
      if (s + 1 < k_.segments.size()) out += fmt::format("    if (segment == {}) {{\n", s);
      out += fmt::format("      const {}_epilogue{} e{{a, b0, b1}};\n      return visit(e);\n", symbol_, s);
      if (s + 1 < k_.segments.size()) out += "    }\n";
    }
    return out + "  }\n};\n";
  }

  const MatmulKernel& k_;
  const WgmmaTile& tile_;
  const OperandOrder a_, b_;
  const std::string& symbol_;
  std::vector<SymId> symbols_;
};

}  // namespace

std::string wgmma_instruction(const std::string& name, DType t, int columns, OperandOrder left, OperandOrder right,
                              bool left_in_registers) {
  struct Row {
    DType type;
    const char* name;
    int deep;
    bool ordered;  // it takes operands with k across
  };
  static constexpr Row kRows[] = {{DType::f32, "tf32", 8, false},
                                  {DType::f16, "f16", 16, true},
                                  {DType::bf16, "bf16", 16, true},
                                  {DType::f8e4m3fn, "e4m3", 32, false},
                                  {DType::f8e5m2, "e5m2", 32, false}};
  const Row& row = *std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.type == t; });
  const int n = columns / 2, words = left_in_registers ? 4 : 1;  // of sums; of the left operand
  std::string registers, operands, parameters, left_text = left_in_registers ? "{" : "";
  for (int i = 0; i < n; ++i) {
    registers += fmt::format("{}%{}", i ? ", " : "", i);
    operands += fmt::format("{}\"+f\"(d[{}])", i ? ", " : "", i);
  }
  std::string inputs;
  for (int i = 0; i < words; ++i) {
    const std::string word = left_in_registers ? fmt::format("p{}", i) : "left";
    parameters += fmt::format("{} {}, ", left_in_registers ? "u32" : "u64", word);
    inputs += fmt::format("\"{}\"({}), ", left_in_registers ? "r" : "l", word);
    left_text += fmt::format("{}%{}", i ? ", " : "", n + i);
  }
  if (left_in_registers) left_text += "}";
  std::string order;
  if (row.ordered && !left_in_registers) order += fmt::format(", {}", static_cast<int>(left));
  if (row.ordered) order += fmt::format(", {}", static_cast<int>(right));
  return fmt::format(
      "struct {0} {{\n"
      "  static AOTC_DI void multiply(float (&d)[{1}], {2}u64 right, int add) {{\n"
      "    asm volatile(\"{{.reg .pred p;\\n setp.ne.b32 p, %{3}, 0;\\n\"\n"
      "                 \" wgmma.mma_async.sync.aligned.m64n{4}k{5}.f32.{6}.{6} {{{7}}}, {8}, %{9}, p, 1, 1{10};}}\"\n"
      "                 : {11}\n                 : {12}\"l\"(right), \"r\"(add));\n  }}\n}};\n",
      name, n, parameters, n + words + 1, columns, row.deep, row.name, registers, left_text, n + words, order, operands, inputs);
}

std::string_view slab_format(const MatmulKernel& k) {
  const loop::QuantisedWeight& q = *k.b_quantised;
  return q.bits == 4 ? "Int4" : k.params[q.values].dtype == DType::f8e4m3fn ? "E4m3" : "Int8";
}

std::string tile_type(const WgmmaTile& t, DType dtype, OperandOrder left, OperandOrder right, bool b_constant, const std::string& symbol) {
  const int early = !b_constant ? 2 : t.swap ? 0 : 1;
  return fmt::format(
      "typedef WgmmaTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}> {}_tile;\n"
      "static_assert({}_tile::shared_bytes == {}, \"as it is launched\");\n",
      c_type(dtype), t.warp_m, t.cols, t.groups, t.stages, t.ping_pong != 0, t.split, t.swap != 0, left == OperandOrder::along_k,
      right == OperandOrder::along_k, early, t.products, t.apart != WgmmaTile::Apart::no,
      t.twin        ? ", 0, true"
      : t.left_bits ? fmt::format(", {}", t.left_bits)
                    : "",
      symbol, symbol, t.smem_bytes());
}

std::string wgmma_function(const WgmmaTile& t, const std::string& symbol) {
  return global_function(symbol, t.split, t.threads(), t.resident,
                         fmt::format("  wgmma_product<{0}_tile, {0}_instruction>({0}_problem{{a}}, a.map[0], a.map[1]);\n", symbol));
}

std::vector<size_t> mapped_batch(const MatmulKernel& k, const loop::Operand& o) {
  std::vector<size_t> out;
  const size_t n = o.batch_strides.size(), batch = k.batch.size();
  for (size_t i = 0; i < n; ++i)
    if (!o.batch_strides[n - 1 - i].is(0) && !k.batch[batch - 1 - i].is(1)) out.push_back(batch - 1 - i);
  return out;
}

std::string emit_wgmma(const MatmulKernel& k, const WgmmaTile& tile, OperandOrder a, OperandOrder b, const std::string& symbol) {
  return Emitter(k, tile, a, b, symbol).emit();
}

}  // namespace aotc::emit::cuda
