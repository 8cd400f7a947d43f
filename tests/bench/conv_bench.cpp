// GFLOP/s of the library's convolutions on the layers of ResNet-50. bench_conv [isa] [threads] [batch] [mc nc kc kp]
#include <cstdio>
#include <string>

#include "bench.h"
#include "entries.h"
#include "kernels/cpu/pack.h"

namespace {

struct Layer {
  int64_t c, hw, co, kernel, stride, pad, count;
};
const Layer kLayers[] = {{3, 224, 64, 7, 2, 3, 1},   {64, 56, 64, 1, 1, 0, 1},    {64, 56, 64, 3, 1, 1, 3},    {64, 56, 256, 1, 1, 0, 4},
                         {256, 56, 64, 1, 1, 0, 2},  {256, 56, 128, 1, 1, 0, 1},  {128, 56, 128, 3, 2, 1, 1},  {256, 56, 512, 1, 2, 0, 1},
                         {128, 28, 512, 1, 1, 0, 4}, {512, 28, 128, 1, 1, 0, 3},  {128, 28, 128, 3, 1, 1, 3},  {512, 28, 256, 1, 1, 0, 1},
                         {256, 28, 256, 3, 2, 1, 1}, {512, 28, 1024, 1, 2, 0, 1}, {256, 14, 1024, 1, 1, 0, 6}, {1024, 14, 256, 1, 1, 0, 5},
                         {256, 14, 256, 3, 1, 1, 5}, {1024, 14, 512, 1, 1, 0, 1}, {512, 14, 512, 3, 2, 1, 1},  {1024, 14, 2048, 1, 2, 0, 1},
                         {512, 7, 2048, 1, 1, 0, 3}, {2048, 7, 512, 1, 1, 0, 2},  {512, 7, 512, 3, 1, 1, 2}};

void copy_tile(const aotc_kargs* args, const void* acc, int64_t ld, int64_t n, int64_t co, int64_t rows, int64_t p0, int64_t count) {
  float* out = static_cast<float*>(args->ptr[2]);
  const int64_t plane = args->size[AOTC_CONV_OH] * args->size[AOTC_CONV_OW];
  for (int64_t i = 0; i < rows; ++i) {
    const float* in = static_cast<const float*>(acc) + i * ld;
    float* to = out + (n * args->size[AOTC_CONV_CO] + co + i) * plane + p0;
    for (int64_t j = 0; j < count; ++j) to[j] = in[j] > 0 ? in[j] : 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto arg = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  const kernel_test::Entry e = kernel_test::entry("conv", aotc::DType::f32, argc > 1 ? argv[1] : "avx512");
  const int threads = arg(2, 1);
  const int64_t batch = arg(3, 1);
  double total = 0, total_flops = 0;
  for (const Layer& l : kLayers) {
    const int64_t k = l.c * l.kernel * l.kernel, out = (l.hw + 2 * l.pad - l.kernel) / l.stride + 1, px = batch * out * out;
    aotc_conv_config cfg = {};
    cfg.x_ptr = 0, cfg.w_ptr = 1, cfg.groups = 1, cfg.w_packed = 1, cfg.epilogue = copy_tile;
    for (int i = 0; i < 3; ++i)
      cfg.kernel[i] = i ? int(l.kernel) : 1, cfg.stride[i] = i ? int(l.stride) : 1, cfg.pad[i] = i ? int(l.pad) : 0, cfg.dilation[i] = 1;
    cfg.kc = arg(6, 128);
    cfg.kp = arg(7, 4608) / cfg.kc * cfg.kc;
    cfg.nc = arg(5, 0) ? arg(5, 0) : int(std::clamp<int64_t>((1 << 17) / k / 32 * 32, 64, 256));
    cfg.mc = arg(4, 0) ? arg(4, 0) : int(std::min<int64_t>(l.co, px > 512 ? 512 : 64));
    void *x = bench::allocate(batch * l.c * l.hw * l.hw * 4), *w = bench::allocate(aotc::kernels::panel_bytes(k, l.co, aotc::DType::f32)),
         *y = bench::allocate(px * l.co * 4);
    const int64_t size[] = {batch, l.c, 1, l.hw, l.hw, l.co, 1, out, out};
    void* ptr[] = {x, w, y};
    const int64_t work = ((l.co + cfg.mc - 1) / cfg.mc) * ((px + cfg.nc - 1) / cfg.nc);
    const double flops = 2.0 * double(k) * double(l.co) * double(px);
    volatile int32_t fault = 0;
    const auto t = bench::time_kernel(e.fn, {ptr, size, &cfg, nullptr, 0, 1, &fault}, work, aotc_conv_scratch_bytes(&cfg, k, 4), threads,
                                      flops / 1e11);
    std::printf("%4ldx%-3ld -> %4ld k%ld s%ld x%ld: mc %d nc %d: %.0f GFLOP/s, %.3f ms\n", l.c, l.hw, l.co, l.kernel, l.stride, l.count,
                cfg.mc, cfg.nc, flops / t.best / 1e9, t.best * 1e3);
    total += t.best * double(l.count), total_flops += flops * double(l.count);
    for (void* p : {x, w, y}) std::free(p);
  }
  std::printf("all layers: %.2f ms, %.0f GFLOP/s\n", total * 1e3, total_flops / total / 1e9);
}
