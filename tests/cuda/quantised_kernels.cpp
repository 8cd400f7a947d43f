// Writes the kernels of products by weights of few bits (forms/cuda) to the file given, and to the standard output what is needed to call
// each: for quantised.py, which runs them on the emulated GPU.
#include <cstdio>
#include <fstream>

#include "base/target.h"
#include "cuda/quantised.h"
#include "forms/list.h"

using namespace aotc;
using namespace aotc::test;

namespace {

struct Case {
  QuantisedProduct product;
  const char* choice;  ///< of cuda_wgmma_quant
};

constexpr DType kInt8 = DType::i8, kInt4 = DType::u8, kFloat8 = DType::f8e4m3fn;
const Case kCases[] = {
    {{DType::bf16, kInt8, 8, 128, false, 100, 192, 400, false, {}}, "cols=104 groups=2 ping_pong=0 stages=4 split=1"},
    {{DType::bf16, kInt8, 8, 32, false, 257, 200, 328, true, {}}, "cols=136 groups=2 ping_pong=0 stages=3 split=1"},
    {{DType::bf16, kInt4, 4, 32, true, 257, 328, 200, false, {}}, "cols=256 groups=2 ping_pong=0 stages=4 split=1"},
    {{DType::bf16, kInt4, 4, 128, false, 64, 136, 904, true, {}}, "cols=64 groups=1 ping_pong=0 stages=5 split=2"},
    {{DType::bf16, kFloat8, 8, 0, false, 64, 100, 136, false, {}}, "cols=64 groups=2 ping_pong=0 stages=4 split=1"},
    {{DType::f16, kInt8, 8, 64, true, 17, 72, 264, false, {}}, "cols=24 groups=1 ping_pong=0 stages=4 split=1"},
    {{DType::f16, kInt4, 4, 64, true, 100, 320, 648, true, {128, 192}}, "cols=56 groups=2 ping_pong=0 stages=6 split=1"},
    {{DType::f16, kFloat8, 8, 128, false, 64, 33, 1096, false, {}}, "cols=64 groups=1 ping_pong=0 stages=6 split=4"},
    {{DType::bf16, kInt8, 8, 32, true, 17, 64, 96, false, {}}, "cols=32 groups=1 ping_pong=0 stages=8 split=1"},
    {{DType::f16, kInt4, 4, 32, false, 40, 64, 288, false, {}}, "cols=48 groups=1 ping_pong=0 stages=4 split=2"},
    {{DType::bf16, kInt4, 4, 32, true, 24, 80, 520, false, {}, true}, "cols=24 groups=1 ping_pong=0 stages=6 split=1"},
    {{DType::bf16, kFloat8, 8, 32, true, 20, 32, 256, true, {}, true}, "cols=24 groups=1 ping_pong=0 stages=6 split=1"},
    {{DType::f16, kInt8, 8, 32, false, 30, 96, 192, false, {}, true}, "cols=32 groups=2 ping_pong=0 stages=4 split=2"},
    {{DType::bf16, kFloat8, 8, 64, true, 30, 40, 192, false, {}}, "cols=32 groups=1 ping_pong=0 stages=4 split=1"},
    {{DType::bf16, kInt8, 8, 64, false, 72, 96, 320, true, {}, false, true}, "cols=64 groups=2 ping_pong=0 stages=4 split=1"},
    {{DType::bf16, kInt4, 4, 0, false, 33, 48, 1032, false, {16}}, "cols=40 groups=2 ping_pong=0 stages=8 split=1"},
};

}  // namespace

int main(int n, char** args) {
  if (n != 2) return 2;
  std::ofstream out(args[1]);
  out << "#include \"gemm.cuh\"\n";
  const Machine machine = machine_of(std::string("sm_90a"));
  int number = 0;
  for (const auto& [c, text] : kCases) {
    const std::string name = "product" + std::to_string(number++);
    const loop::MatmulKernel mm = quantised_product(c, name);
    const loop::Kernel kernel = mm;
    const forms::Site site{kernel, mm.syms, machine, {}};
    const Result<forms::Choice> choice = forms::parse_choice(fmt::format("cuda_wgmma_quant warp_m=64 {} swap=1 resident=1", text));
    if (!choice) return std::fprintf(stderr, "%s: %s\n", text, choice.why().c_str()), 1;
    if (const Fit fit = choice->form->fits(site); !fit) return std::fprintf(stderr, "%s: %s\n", text, fit.why.c_str()), 1;
    const forms::StepSpec s = choice->form->step(site, *choice);
    out << choice->form->source(site, *choice, name);
    std::printf(
        "{\"name\": \"%s\", \"type\": \"%s\", \"values\": \"%s\", \"bits\": %d, \"group\": %ld, \"offsets\": %d, \"residual\": %d, "
        "\"wide\": %d, \"across\": %d, \"m\": "
        "%ld, \"n\": %ld, \"k\": %ld",
        name.c_str(), std::string(dtype_name(c.type)).c_str(), std::string(dtype_name(c.values)).c_str(), c.bits,
        static_cast<long>(mm.b_quantised->group), c.offsets, c.residual, c.wide_scales, c.across, static_cast<long>(c.m),
        static_cast<long>(c.n), static_cast<long>(c.k));
    std::printf(", \"grid\": %ld, \"threads\": %d, \"shared\": %ld, \"maps\": [",
                static_cast<long>(mm.syms.simplify(s.grid[0]).as_const().value()), s.block[0], static_cast<long>(s.max_smem_bytes));
    for (size_t i = 0; i < s.maps.size(); ++i) {
      const auto list = [&](const char* what, const auto& xs, auto value) {
        std::printf("\"%s\": [", what);
        for (size_t j = 0; j < xs.size(); ++j) std::printf("%s%ld", j ? ", " : "", static_cast<long>(value(xs[j])));
        std::printf("], ");
      };
      const auto constant = [](const Expr& e) { return e.as_const().value(); };
      const forms::TensorMap& map = s.maps[i];
      std::printf("%s{", i ? ", " : "");
      list("dims", map.dims, constant), list("strides", map.stride_bytes, constant), list("box", map.box, [](int32_t v) { return v; });
      std::printf("\"arg\": %d, \"bytes\": %d, \"swizzle\": %d}", map.arg, static_cast<int>(dtype_bytes(map.dtype)), map.swizzle_bytes);
    }
    std::printf("]}\n");
  }
  return 0;
}
