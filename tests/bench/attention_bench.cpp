// GFLOP/s of the library's attention on the shapes of models. bench_attention [isa] [threads] [q_block kv_block]
#include <cstdio>
#include <string>

#include "aotc/dtype.h"
#include "bench.h"
#include "entries.h"

int main(int argc, char** argv) {
  auto arg = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const kernel_test::Entry e = kernel_test::entry("attention", aotc::DType::f32, argc > 1 ? argv[1] : "avx512");
  const int threads = arg(2, 1);
  struct Shape {
    int64_t b, h, hkv, l, s, e;
    bool causal;
  };
  for (const Shape& c : {Shape{1, 12, 12, 128, 128, 64, false}, Shape{1, 12, 12, 64, 64, 32, false}, Shape{8, 12, 12, 128, 128, 32, false},
                         Shape{1, 12, 12, 512, 512, 64, false}, Shape{1, 12, 12, 1024, 1024, 64, true}, Shape{1, 16, 4, 1, 256, 64, false},
                         Shape{1, 32, 8, 1, 4096, 128, false}}) {
    const int64_t rows = c.h / c.hkv * c.l;
    aotc_attn_config cfg = {0,           1,     2, 3, -1, AOTC_DTYPE_BOOL, c.causal, int(std::min<int64_t>(rows, arg(3, 112))),
                            arg(4, 128), 0.125, 0, 0, -1};
    void *q = bench::allocate(c.b * c.h * c.l * c.e * 4), *k = bench::allocate(c.b * c.hkv * c.s * c.e * 4);
    void *v = bench::allocate(c.b * c.hkv * c.s * c.e * 4), *o = bench::allocate(c.b * c.h * c.l * c.e * 4);
    std::vector<int64_t> size = {c.b, c.h, c.hkv, c.l, c.s, c.e, c.e};
    for (int i = 0; i < 4; ++i) {
      const int64_t h = i == 1 || i == 2 ? c.hkv : c.h, l = i == 1 || i == 2 ? c.s : c.l;
      size.insert(size.end(), {0, l * h * c.e, c.e, h * c.e, 1});
    }
    size.insert(size.end(), 5, 0);
    void* ptr[] = {q, k, v, o};
    volatile int32_t fault = 0;
    const int64_t work = c.b * c.hkv * ((rows + cfg.q_block - 1) / cfg.q_block);
    const double flops = 4.0 * double(c.b * c.h * c.l * c.s * c.e) * (c.causal ? 0.5 : 1);
    const auto t = bench::time_kernel(e.fn, {ptr, size.data(), &cfg, nullptr, 0, 1, &fault}, work,
                                      aotc_attn_scratch_bytes(&cfg, c.e, c.e, 4), threads, flops / 5e10);
    std::printf("b%ld h%ld/%ld l%ld s%ld e%ld causal %d: %.4f ms, %.0f GFLOP/s, k and v %.1f GB/s\n", c.b, c.h, c.hkv, c.l, c.s, c.e,
                c.causal, t.best * 1e3, flops / t.best / 1e9, double(c.b * c.hkv * c.s * c.e * 8) / t.best / 1e9);
    for (void* p : {q, k, v, o}) std::free(p);
  }
}
