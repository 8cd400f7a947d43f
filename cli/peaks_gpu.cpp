#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "peaks.h"

namespace aotc::cli {
namespace {

/// Multiply-adds of one processor in a cycle, without sparsity: NVIDIA's whitepapers of these architectures.
struct Architecture {
  int major, minor, f32, f64, tf32, half, bytes, float8;
};
constexpr Architecture kArchitectures[] = {
    {8, 0, 64, 64, 512, 1024, 2048, 0},       {8, 6, 128, 2, 256, 512, 1024, 0},        {8, 9, 128, 2, 256, 512, 1024, 1024},
    {9, 0, 128, 128, 1024, 2048, 4096, 4096}, {10, 0, 128, 64, 2048, 4096, 8192, 8192},
};

}  // namespace

Peaks gpu_peaks(int gpu, const std::string& f32_matmul) {
  constexpr int kClock = 13, kProcessors = 16, kMemoryClock = 36, kMemoryBits = 37, kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_*
  Peaks p;
  p.text = "what this GPU can do at most is not known";
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) return p;
  const auto get = reinterpret_cast<int (*)(int*, int)>(dlsym(driver, "cuDeviceGet"));
  const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(dlsym(driver, "cuDeviceGetAttribute"));
  int device = 0;
  if (!get || !attribute || get(&device, gpu)) return p;
  const auto value = [&](int which) {
    int v = 0;
    return attribute(&v, which, device) ? 0 : v;
  };
  const double ghz = value(kClock) * 1e-6, processors = value(kProcessors);
  p.bytes = 2.0 * value(kMemoryClock) * 1e-6 * value(kMemoryBits) / 8;  // two transfers a cycle
  for (const Architecture& a : kArchitectures) {
    if (a.major != value(kMajor) || a.minor != value(kMinor)) continue;
    const double all = ghz * processors;
    const bool three = f32_matmul.empty() || f32_matmul == "highest";  // of three products of TF32 each
    p.operations = a.f32 * all;
    p.products = {{"float32", std::max<double>(a.f32, three ? a.tf32 / 3.0 : a.tf32) * all}, {"float64", a.f64 * all}};
    for (const char* half : {"float16", "bfloat16"}) p.products[half] = a.half * all;
    for (const char* byte : {"int8", "uint8"}) p.products[byte] = a.bytes * all;
    if (a.float8)
      for (const char* f8 : {"float8_e4m3fn", "float8_e5m2"}) p.products[f8] = a.float8 * all;
    p.text = fmt::format("by its data sheet {:.0f} GFLOP/s of bfloat16 and {:.0f} of float32 products, {:.0f} GB/s",
                         p.products["bfloat16"] * 2, p.products["float32"] * 2, p.bytes);
    return p;
  }
  if (p.bytes > 0) p.text = fmt::format("by its data sheet {:.0f} GB/s; what its processors multiply is not known", p.bytes);
  return p;
}

}  // namespace aotc::cli
