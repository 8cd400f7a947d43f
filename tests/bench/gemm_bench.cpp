// GFLOP/s of the library's products on the shapes of models. bench_gemm [isa] [threads] [dtype] [M K N [mc nc kc pack_a b_packed]]; isa amx
// is gemm_tiles or gemm_parts, amx_held gemm_held.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "aotc/detail/held_abi.h"
#include "aotc/detail/parts_abi.h"
#include "bench.h"
#include "entries.h"
#include "kernels/cpu/pack.h"

namespace {

void copy_tile(const aotc_kargs* args, const void* acc, int64_t ld, int64_t, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  float* out = static_cast<float*>(args->ptr[2]);
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(out + (m0 + i) * args->size[AOTC_GEMM_N] + n0, static_cast<const float*>(acc) + i * ld, static_cast<size_t>(cols) * 4);
}

void fill(void* data, int64_t bytes, aotc::DType t) {
  if (t == aotc::DType::f64) return bench::fill(data, bytes, uint64_t{0x3fe0000000000000}, 52);
  if (t == aotc::DType::f32) return bench::fill(data, bytes, uint32_t{0x3f000000}, 23);
  if (t == aotc::DType::bf16) return bench::fill(data, bytes, uint16_t{0x3f00}, 7);
  if (t == aotc::DType::f16) return bench::fill(data, bytes, uint16_t{0x3800}, 10);
  bench::fill(data, bytes, uint8_t{0}, 7);
}

}  // namespace

int main(int argc, char** argv) {
  auto arg = [&](int i, const char* otherwise) { return std::string(argc > i ? argv[i] : otherwise); };
  const int threads = std::stoi(arg(2, "1"));
  std::vector<std::vector<int64_t>> shapes = {{2048, 2048, 2048}, {1024, 1024, 1024}, {128, 768, 3072}, {128, 768, 768}, {128, 3072, 768},
                                              {32, 4096, 4096},   {32, 1024, 4096},   {64, 384, 1536},  {3136, 64, 256}, {3136, 576, 64},
                                              {49, 4608, 512},    {8, 4096, 4096},    {1, 4096, 4096},  {1, 768, 2048}};
  if (argc > 6) shapes = {{std::atoll(argv[4]), std::atoll(argv[5]), std::atoll(argv[6])}};
  const std::string isa = arg(1, "avx512");
  const bool held = isa == "amx_held", tiles = isa == "amx" || held;
  const aotc::DType type = kernel_test::symbol_type(arg(3, "f32")).value();
  const bool parts = tiles && type == aotc::DType::f32;
  const kernel_test::Entry e = kernel_test::entry(parts   ? "gemm_parts"
                                                  : held  ? "gemm_held"
                                                  : tiles ? "gemm_tiles"
                                                          : "gemm",
                                                  type, tiles ? "amx" : isa);
  if (tiles && syscall(SYS_arch_prctl, 0x1023 /*ARCH_REQ_XCOMP_PERM*/, 18 /*XTILEDATA*/)) return std::puts("no permission for tiles"), 2;
  for (const auto& s : shapes) {
    const int64_t m = s[0], k = s[1], n = s[2], eb = aotc::dtype_bytes(e.dtype), ab = eb == 8 ? 8 : 4;
    const aotc_epilogue_fn ep[] = {copy_tile};
    aotc_gemm_config cfg = {0, 1, 14, 2, 64, 64, 256, 4096, 1, 1, 1, ep};
    while (cfg.mc < m && 2 * cfg.mc * k * 4 <= (1 << 19)) cfg.mc *= 2;
    if (argc > 7) cfg.mc = std::atoi(argv[7]);
    if (argc > 8) cfg.nc = std::atoi(argv[8]);
    if (argc > 9) cfg.kc = std::atoi(argv[9]);
    if (argc > 10) cfg.pack_a = std::atoi(argv[10]);
    if (argc > 11) cfg.b_packed = std::atoi(argv[11]);
    cfg.kp = parts ? cfg.kc : cfg.kc * std::max<int>(1, 4096 / cfg.kc);
    if (argc > 12) cfg.kp = std::atoi(argv[12]);
    const int64_t room = parts   ? aotc_gemm_parts_scratch_bytes(&cfg, k)
                         : held  ? aotc_gemm_held_scratch_bytes(&cfg, k)
                         : tiles ? aotc_gemm_tiles_scratch_bytes(&cfg, k)
                                 : 0;
    void *a = bench::allocate(m * k * eb), *b = bench::allocate(aotc::kernels::panel_bytes(k, n, e.dtype)), *c = bench::allocate(m * n * 8);
    fill(a, m * k * eb, e.dtype), fill(b, aotc::kernels::panel_bytes(k, n, e.dtype), e.dtype);
    std::vector<int64_t> size = {1, 1, m, n, k, 0, 0, 0, k, 1, 0, 0, 0, n, 1, 0, 0, 0, n};
    void* ptr[] = {a, b, c};
    const int64_t work = ((m + cfg.mc - 1) / cfg.mc) * ((n + cfg.nc - 1) / cfg.nc);
    volatile int32_t fault = 0;
    const double flops = 2.0 * double(m) * double(n) * double(k);
    const auto t =
        bench::time_kernel(e.fn, {ptr, size.data(), &cfg, nullptr, 0, 1, &fault}, work,
                           std::max(aotc_gemm_scratch_bytes(&cfg, k, ab) + AOTC_GEMM_WIDENED_BYTES, room), threads, flops / 1e11);
    std::printf("T%d M%-5ld K%-5ld N%-5ld mc %d: median %.0f best %.0f GFLOP/s, %.3f ms, B %.1f GB/s\n", threads, m, k, n, cfg.mc,
                flops / t.median / 1e9, flops / t.best / 1e9, t.median * 1e3, double(n * k * eb) / t.median / 1e9);
    std::fflush(stdout);
    for (void* p : {a, b, c}) std::free(p);
  }
}
