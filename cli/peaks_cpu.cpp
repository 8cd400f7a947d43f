#include <fmt/format.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include "peaks.h"

namespace aotc::cli {
namespace {

// Sums that do not wait for each other: latency of 4 or 5 cycles, two units. Loops over them are unrolled by pragmas, else they are kept in
// memory by the flags that aotc is compiled with (-O1).
constexpr int kChains = 12;

/// One call does `macs` multiply-adds.
struct Loop {
  const char* type;
  const char* isa;  ///< from which on; the last row of a type that an artifact's instruction set has is the one
  double macs;
  void (*run)();
};
constexpr int kRounds = 2000;
volatile float g_sink;

__attribute__((target("avx2,fma"))) void f32_avx2() {
  __m256 sums[kChains], a = _mm256_set1_ps(1.0009765f), b = _mm256_set1_ps(-0.7071f);
  for (__m256& s : sums) s = _mm256_set1_ps(0.5f);
  for (int i = 0; i < kRounds; ++i)
#pragma GCC unroll 12
    for (__m256& s : sums) s = _mm256_fmadd_ps(s, b, a);
  for (const __m256& s : sums) g_sink = _mm256_cvtss_f32(s);
}
__attribute__((target("avx512f"))) void f32_avx512() {
  __m512 sums[kChains], a = _mm512_set1_ps(1.0009765f), b = _mm512_set1_ps(-0.7071f);
  for (__m512& s : sums) s = _mm512_set1_ps(0.5f);
  for (int i = 0; i < kRounds; ++i)
#pragma GCC unroll 12
    for (__m512& s : sums) s = _mm512_fmadd_ps(s, b, a);
  for (const __m512& s : sums) g_sink = _mm512_cvtss_f32(s);
}
__attribute__((target("avx512f,avx512bf16"))) void bf16_avx512() {
  __m512 sums[kChains];
  const __m512bh a = (__m512bh)_mm512_set1_epi32(0x3f813f12), b = (__m512bh)_mm512_set1_epi32(0x3d11bd23);
  for (__m512& s : sums) s = _mm512_set1_ps(0.5f);
  for (int i = 0; i < kRounds; ++i)
#pragma GCC unroll 12
    for (__m512& s : sums) s = _mm512_dpbf16_ps(s, a, b);
  for (const __m512& s : sums) g_sink = _mm512_cvtss_f32(s);
}
__attribute__((target("avx512f,avx512vnni"))) void bytes_vnni() {
  __m512i sums[kChains];
  const __m512i a = _mm512_set1_epi32(0x7b12c355), b = _mm512_set1_epi32(0x11e3d54f);
  for (__m512i& s : sums) s = _mm512_set1_epi32(7);
  for (int i = 0; i < kRounds; ++i)
#pragma GCC unroll 12
    for (__m512i& s : sums) s = _mm512_dpbusd_epi32(s, a, b);
  for (const __m512i& s : sums) g_sink = static_cast<float>(_mm512_cvtsi512_si32(s));
}

__attribute__((target("avx2"))) void read_lines(const uint64_t* from, uint64_t lines) {
  __m256i a = _mm256_setzero_si256(), b = a;
  for (uint64_t i = 0; i < lines; ++i, from += 8) {
    a = _mm256_xor_si256(a, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    b = _mm256_xor_si256(b, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 4)));
  }
  g_sink = static_cast<float>(_mm_cvtsi128_si64(_mm256_castsi256_si128(_mm256_xor_si256(a, b))));
}

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes_a_row[16] = {};
  uint8_t rows[16] = {};
};
/// Four sums of two by two tiles, as products keep them. Compilers' own intrinsics read eight bytes of the configuration, as they say, and
/// nothing of the numbers: what is written there has to be told.
#define AOTC_TILES(NAME, FEATURES, MULTIPLY)                                       \
  __attribute__((target(FEATURES))) void NAME() {                                  \
    TileConfig config;                                                             \
    for (int i = 0; i < 8; ++i) config.bytes_a_row[i] = 64, config.rows[i] = 16;   \
    alignas(64) uint32_t numbers[256];                                             \
    for (uint32_t i = 0; i < 256; ++i) numbers[i] = 0x3d113d23u + i * 0x00010003u; \
    __asm__ volatile("ldtilecfg %0" ::"m"(config), "m"(numbers));                  \
    _tile_zero(0);                                                                 \
    _tile_zero(1);                                                                 \
    _tile_zero(2);                                                                 \
    _tile_zero(3);                                                                 \
    _tile_loadd(4, numbers, 64);                                                   \
    _tile_loadd(5, numbers, 64);                                                   \
    _tile_loadd(6, numbers, 64);                                                   \
    _tile_loadd(7, numbers, 64);                                                   \
    for (int i = 0; i < kRounds; ++i) {                                            \
      MULTIPLY(0, 4, 6);                                                           \
      MULTIPLY(1, 4, 7);                                                           \
      MULTIPLY(2, 5, 6);                                                           \
      MULTIPLY(3, 5, 7);                                                           \
    }                                                                              \
    _tile_release();                                                               \
  }
AOTC_TILES(bf16_tiles, "amx-tile,amx-bf16", _tile_dpbf16ps)
AOTC_TILES(bytes_tiles, "amx-tile,amx-int8", _tile_dpbusd)
#undef AOTC_TILES

constexpr const char* kIsas[] = {"avx2", "avx512", "avx512_bf16", "amx"};
constexpr Loop kLoops[] = {
    {"float32", "avx2", 8.0 * kChains* kRounds, f32_avx2},
    {"float32", "avx512", 16.0 * kChains* kRounds, f32_avx512},
    {"bfloat16", "avx512_bf16", 32.0 * kChains* kRounds, bf16_avx512},
    {"bfloat16", "amx", 4.0 * 16 * 16 * 32 * kRounds, bf16_tiles},
    {"uint8", "avx512_bf16", 64.0 * kChains* kRounds, bytes_vnni},
    {"uint8", "amx", 4.0 * 16 * 16 * 64 * kRounds, bytes_tiles},
};

/// Units a ns of all threads together, of a function that does `units` in a call: the best of a few windows of some ms.
double rate(int threads, double units, const std::function<void(int)>& call) {
  constexpr int kWindows = 4;
  constexpr auto kWindow = std::chrono::milliseconds(8);
  std::atomic<int> ready{0};
  std::vector<std::vector<double>> rates(static_cast<size_t>(threads));
  const auto work = [&](int t) {
    call(t);
    ++ready;
    while (ready < threads) std::this_thread::yield();
    for (int w = 0; w < kWindows; ++w) {
      const auto begin = std::chrono::steady_clock::now();
      double done = 0;
      auto now = begin;
      for (; now - begin < kWindow; now = std::chrono::steady_clock::now()) call(t), done += units;
      rates[static_cast<size_t>(t)].push_back(done / std::chrono::duration<double, std::nano>(now - begin).count());
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
  for (std::thread& t : others) t.join();
  double all = 0;
  for (const auto& r : rates) all += *std::max_element(r.begin(), r.end());
  return all;
}

/// Linux gives a process the tiles' registers when it asks (ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
bool tiles_allowed() { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

}  // namespace

Peaks measure_cpu(int threads, const std::string& isa, uint64_t touched) {
  const auto level = [](const std::string& name) { return std::find(std::begin(kIsas), std::end(kIsas), name) - std::begin(kIsas); };
  Peaks p;
  for (const Loop& l : kLoops) {
    if (level(l.isa) > level(isa) || level(isa) == std::ssize(kIsas)) continue;
    if (std::string(l.isa) == "amx" && !tiles_allowed()) continue;
    p.products[l.type] = rate(threads, l.macs, [&](int) { l.run(); });
  }
  const auto also = [&](const char* type, const char* as, double factor) {
    if (const auto of = p.products.find(as); of != p.products.end()) p.products.emplace(type, of->second * factor);
  };
  also("float64", "float32", 0.5), also("bfloat16", "float32", 1), also("float16", "float32", 1), also("int8", "uint8", 1);
  if (const auto f32 = p.products.find("float32"); f32 != p.products.end()) p.operations = f32->second;

  constexpr uint64_t kLeast = 64 << 10, kMost = 512u << 20;
  const uint64_t each = std::clamp<uint64_t>(touched, kLeast, kMost) / static_cast<uint64_t>(threads) / 64 * 64;
  std::vector<std::vector<uint64_t>> memory(static_cast<size_t>(threads), std::vector<uint64_t>(each / 8, 1));
  p.bytes = rate(threads, static_cast<double>(each), [&](int t) { read_lines(memory[static_cast<size_t>(t)].data(), each / 64); });
  p.text = fmt::format("measured on {} thread{}: {:.0f} GFLOP/s of float32 products, {:.1f} GB/s from the {:.1f} MB that a run touches",
                       threads, threads == 1 ? "" : "s", p.operations * 2, p.bytes, static_cast<double>(touched) / 1e6);
  if (const auto h = p.products.find("bfloat16"); h != p.products.end() && h->second > 1.2 * p.operations)
    p.text += fmt::format(", {:.0f} GFLOP/s of bfloat16", h->second * 2);
  return p;
}

}  // namespace aotc::cli
