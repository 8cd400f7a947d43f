// Scratch follows the sizes of a run: a kernel of symbolic sizes asks, at each size, for what the same kernel of fixed sizes asks for.
#include "forms/cpu/scratch.h"

#include <catch2/catch.hpp>

#include "forms/list.h"
#include "graph/text.h"
#include "loop/lower.h"

using namespace aotc;
using namespace aotc::forms;

namespace {

int64_t value(const Expr& e) { return e.as_const().value(); }

struct Case {
  const char *name, *body;  ///< "{n}" stands for the symbol
};
constexpr Case kCases[] = {
    {"matmul", "input %a : float32[3, {n}]\ninput %b : float32[{n}, 5]\n%y = matmul(%a, %b) : float32[3, 5]\noutput %y\n"},
    {"matmul of a weight",
     "input %a : float32[{n}, 64]\nconst %b : float32[64, 40] \"w\"\n%y = matmul(%a, %b) : float32[{n}, 40]\noutput %y\n"},
    {"conv",
     "input %x : float32[2, {n}, 9, 9]\ninput %w : float32[4, {n}, 3, 3]\n"
     "%y = conv(%x, %w) {stride=[1, 1], padding=[1, 1], padding_hi=[1, 1], dilation=[1, 1], groups=1} : float32[2, 4, 9, 9]\noutput %y\n"},
    {"transposed conv",
     "input %x : float32[2, {n}, 9, 9]\ninput %w : float32[{n}, 4, 3, 3]\n"
     "%y = conv_transpose(%x, %w) {stride=[2, 2], padding=[1, 1], padding_hi=[1, 1], output_padding=[0, 0], dilation=[1, 1], groups=1} : "
     "float32[2, 4, 17, 17]\noutput %y\n"},
    {"attention, symbolic heads",
     "input %q : float32[1, 2, 8, {n}]\ninput %k : float32[1, 2, 8, {n}]\n"
     "%y = attention(%q, %k, %k) {scale=0.5, causal=false} : float32[1, 2, 8, {n}]\noutput %y\n"},
    {"attention, symbolic length",
     "input %q : float64[1, 2, {n}, 16]\ninput %k : float64[1, 2, {n}, 16]\n"
     "%y = attention(%q, %k, %k) {scale=0.5, causal=false} : float64[1, 2, {n}, 16]\noutput %y\n"},
    {"recurrence",
     "input %x : float32[5, 2, {n}*4]\ninput %w : float32[{n}, {n}*4]\ninput %h : float32[2, {n}]\ninput %c : float32[2, {n}]\n"
     "%y, %hn, %cn = recurrence(%x, %w, %h, %c) {cell=\"lstm\", reverse=false} : float32[5, 2, {n}], float32[2, {n}], float32[2, {n}]\n"
     "output %y\n"},
    {"sort",
     "input %x : float32[4, {n}]\n%y, %i = sort(%x) {dim=1, descending=false, stable=true} : float32[4, {n}], int64[4, {n}]\noutput %y\n"},
    {"topk",
     "input %x : float32[4, {n}]\n%y, %i = topk(%x) {dim=1, k=2, largest=true, sorted=true} : float32[4, 2], int64[4, 2]\noutput %y\n"},
    {"scatter",
     "input %x : float32[4, {n}]\ninput %i : int64[4, 2]\ninput %s : float32[4, 2]\n"
     "%y = scatter(%x, %i, %s) {dim=1, reduce=\"mean\", include_self=true} : float32[4, {n}]\noutput %y\n"},
    {"softmax",
     "input %x : float32[4, {n}]\n%m = reduce(%x) {kind=\"max\", dims=[1]} : float32[4]\n%r = reshape(%m) : float32[4, 1]\n"
     "%e = expand(%r) : float32[4, {n}]\n%d = sub(%x, %e) : float32[4, {n}]\n%p = exp(%d) : float32[4, {n}]\n"
     "%s = reduce(%p) {kind=\"sum\", dims=[1]} : float32[4]\n%t = reshape(%s) : float32[4, 1]\n%u = expand(%t) : float32[4, {n}]\n"
     "%y = div(%p, %u) : float32[4, {n}]\noutput %y\n"},
};

std::string text_of(const Case& c, const std::string& size, bool symbolic) {
  std::string s = c.body;
  for (size_t at = s.find("{n}"); at != std::string::npos; at = s.find("{n}")) s.replace(at, 3, size);
  return std::string("graph @m\n") + (symbolic ? "sym " + size + " [2, inf]\n" : "") + s;
}

}  // namespace

TEST_CASE("scratch of symbolic sizes is that of the sizes of the run") {
  const Machine machine = machine_of(Isa::avx512, 1);
  for (const Case& c : kCases) {
    const Graph symbolic = parse_graph(text_of(c, "n", true), c.name);
    const loop::Module m = loop::lower(symbolic);
    for (const int64_t size : {2, 3, 7, 8, 16, 33, 64, 255, 256, 1000, 1024, 1025, 4097}) {
      INFO(c.name << " at " << size);
      const Graph fixed = parse_graph(text_of(c, std::to_string(size), false), c.name);
      const loop::Module f = loop::lower(fixed);
      int64_t most = 0, fixed_most = 0;
      for (const loop::Kernel& k : m.kernels) {
        const Choice choice = decide({k, m.syms, machine, {}}).choice;
        const StepSpec step = choice.form->step({k, m.syms, machine, {}}, choice);
        most = std::max(most, step.scratch_bytes.eval([&](SymId) { return size; }));
      }
      for (const loop::Kernel& k : f.kernels) {
        // The choice stays what was made for all sizes; a larger tile is part of the choice.
        Choice choice = decide({k, f.syms, machine, {}}).choice;
        for (const loop::Kernel& other : m.kernels)
          if (other.index() == k.index()) choice = decide({other, m.syms, machine, {}}).choice;
        fixed_most = std::max(fixed_most, value(choice.form->step({k, f.syms, machine, {}}, choice).scratch_bytes));
      }
      CHECK(most == fixed_most);
      // Nowhere near what the largest size of the range would need.
      CHECK(most < (int64_t{8} << 20) + 4096 * size);
    }
  }
}

TEST_CASE("scratch expressions are the formulas of the kernels") {
  for (const int64_t bytes : {4, 8})
    for (const int64_t k : {0, 1, 2, 3, 17, 62, 63, 64, 65, 127, 128, 129, 5000}) {
      aotc_gemm_config g{};
      g.mc = 84, g.nc = 128, g.kc = 64, g.kp = 128;
      for (const int packed : {0, 1}) {
        g.b_packed = packed;
        CHECK(value(cpu::gemm_scratch(g, k, bytes, false, false)) == aotc_gemm_scratch_bytes(&g, k, bytes));
        for (const auto& [a, b] : {std::pair{true, false}, {false, true}, {true, true}})
          CHECK(value(cpu::gemm_scratch(g, k, bytes, a, b)) ==
                aotc_gemm_scratch_bytes(&g, k, bytes) + aotc_gemm_prologue_bytes(&g, k, bytes, a, b));
      }
      for (const int algo : {AOTC_CONV_GEMM, AOTC_CONV_DIRECT, AOTC_CONV_PHASES})
        for (const int stride : {1, 2, 7, 200})
          for (const int packed : {0, 1}) {
            aotc_conv_config c{};
            c.algo = algo, c.mc = 64, c.nc = 96, c.kc = 64, c.kp = 128, c.stride[2] = stride, c.w_packed = packed;
            CHECK(value(cpu::conv_scratch(c, k, bytes)) == aotc_conv_scratch_bytes(&c, k, bytes));
          }
      for (const int64_t other : {0, 1, 31, 32, 33, 64, 100}) {
        aotc_attn_config a{};
        a.q_block = 32, a.kv_block = 96;
        CHECK(value(cpu::attention_scratch(a, k, other, bytes)) == aotc_attn_scratch_bytes(&a, k, other, bytes));
        CHECK(value(cpu::attention_tiles_scratch(a, k, other)) == aotc_attn_tiles_scratch_bytes(&a, k, other));
        for (const int cell : {AOTC_CELL_LSTM, AOTC_CELL_GRU, AOTC_CELL_TANH, AOTC_CELL_RELU})
          CHECK(value(cpu::recurrence_scratch(cell, k, other, bytes)) == aotc_recurrence_scratch_bytes(cell, k, other, bytes));
      }
    }
}
