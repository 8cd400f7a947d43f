// What becomes of sums of bytes as data, held to the same steps in double: products and channels-last convolutions, tile registers and
// their emulation among them. Where a number lies between two bytes either is right.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "aotc/detail/bytes_abi.h"
#include "kernels/cpu/pack.h"
#include "support.h"

extern "C" void aotc_gemm_bytes_tiles_u8_amx_emulated(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_conv_bytes_tiles_u8_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

using Rng = std::mt19937;
enum { kX, kW, kSub, kScale, kBias, kAddF32, kAddU8, kBytes, kFloats, kSums, kPointers };
constexpr float kInf = std::numeric_limits<float>::infinity();

/// An epilogue as data, with what it reads and writes: rows of `cols` elements, `pitch` apart.
struct Finish {
  aotc_byte_finish f{};
  int64_t rows, cols, pitch;
  std::vector<int32_t> sub, sums;
  std::vector<float> scale, bias, add_f32, floats;
  std::vector<uint8_t> add_u8, bytes;

  Finish(Rng& rng, int64_t r, int64_t c) : rows(r), cols(c), pitch(c + static_cast<int64_t>(rng() % 3)) {
    const auto chance = [&] { return rng() % 2 == 0; };
    const auto number = [&](double size) { return static_cast<float>((static_cast<double>(rng() % 2001) - 1000) / 1000 * size); };
    const auto size = static_cast<size_t>(rows * pitch + 3);
    sub.resize(static_cast<size_t>(cols + 3)), scale.resize(sub.size()), bias.resize(sub.size());
    for (auto& v : sub) v = static_cast<int32_t>(rng() % 20001) - 10000;
    for (auto& v : scale) v = std::abs(number(2e-3)) + 1e-4f;
    for (auto& v : bias) v = number(20);
    if (rng() % 8 == 0) scale[0] = 1e12f, bias[0] = -1e30f;  // beyond 32 bits
    sums.assign(static_cast<size_t>(rows * cols), 0), add_f32.resize(size), add_u8.resize(size);
    for (auto& v : add_f32) v = number(30);
    for (auto& v : add_u8) v = static_cast<uint8_t>(rng());
    bytes.assign(size, 77), floats.assign(size, 77);

    const auto column = [&](int ptr, bool is) { return aotc_byte_place{is ? ptr : -1, static_cast<int64_t>(rng() % 3), 0}; };
    const auto place = [&](int ptr, bool is) { return aotc_byte_place{is ? ptr : -1, static_cast<int64_t>(rng() % 3), pitch}; };
    f.taken = 1;
    f.sub = column(kSub, chance()), f.scale = column(kScale, chance()), f.bias = column(kBias, chance());
    f.scale_all = 1.3e-3f;
    f.trips = rng() % 3 == 0, f.trip_zero = chance() ? 0 : static_cast<int>(rng() % 256), f.trip_steps = 2.5f, f.trip_scale = 0.31f;
    f.add_kind = static_cast<int>(rng() % 3);
    f.add = place(f.add_kind == AOTC_BYTES_ADD_F32 ? kAddF32 : kAddU8, f.add_kind != AOTC_BYTES_ADD_NONE);
    f.add_zero = static_cast<int>(rng() % 256), f.add_scale = 0.17f;
    f.at_least = chance() ? -kInf : number(5), f.at_most = chance() ? kInf : 25 + number(20);
    const auto stores = rng() % 3;
    f.bytes = place(kBytes, stores < 2), f.floats = place(kFloats, stores > 0);
    f.steps = 3.7f, f.again = 0.27f, f.zero = chance() ? 0 : static_cast<int>(rng() % 256);
  }

  std::vector<void*> pointers(void* x, void* w) {
    return {x, w, sub.data(), scale.data(), bias.data(), add_f32.data(), add_u8.data(), bytes.data(), floats.data(), sums.data()};
  }

  /// The byte of a number, and whether the one beside it is as good.
  struct Byte {
    double is, other;
  };
  static Byte byte(double x, double zero) {
    const auto limited = [&](double q) { return std::min(std::max(q + zero, 0.0), 255.0); };
    const double near = std::nearbyint(x), close = std::abs(x) < 1e6 && std::abs(std::abs(x - near) - 0.5) < 1e-3 ? (x > near ? 1 : -1) : 0;
    return {limited(near), limited(near + close)};
  }

  bool right(int64_t i, int64_t j) const {
    const auto at = [&](const aotc_byte_place& p) { return static_cast<size_t>(p.base + i * p.pitch + j); };
    double x = sums[static_cast<size_t>(i * cols + j)];
    if (f.sub.ptr >= 0) x -= sub[at({0, f.sub.base, 0})];
    x *= f.scale.ptr >= 0 ? scale[at({0, f.scale.base, 0})] : f.scale_all;
    if (f.bias.ptr >= 0) x += bias[at({0, f.bias.base, 0})];
    double also = x;  // by the other byte
    if (f.trips) {
      const Byte b = byte(x * f.trip_steps, f.trip_zero);
      x = (b.is - f.trip_zero) * f.trip_scale, also = (b.other - f.trip_zero) * f.trip_scale;
    }
    return right_after(x, at(f.add), at(f.bytes), at(f.floats)) || right_after(also, at(f.add), at(f.bytes), at(f.floats));
  }
  bool right_after(double x, size_t add, size_t byte_at, size_t float_at) const {
    if (f.add_kind == AOTC_BYTES_ADD_F32) x += add_f32[add];
    if (f.add_kind == AOTC_BYTES_ADD_U8) x += (static_cast<double>(add_u8[add]) - f.add_zero) * f.add_scale;
    x = std::min(std::max(x, double{f.at_least}), double{f.at_most});
    const double stored = f.floats.ptr >= 0 ? floats[float_at] : 0;
    if (f.bytes.ptr < 0) return std::abs(stored - x) <= 1e-5 * (std::abs(x) + 100);
    const Byte b = byte(x * f.steps, f.zero);
    const double got = bytes[byte_at];
    if (got != b.is && got != b.other) return false;
    return f.floats.ptr < 0 || std::abs(stored - (got - f.zero) * f.again) <= 1e-3;
  }
  bool right() const {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j)
        if (!right(i, j)) return false;
    // Between rows nothing is written.
    for (int64_t i = 0; i < rows && f.bytes.ptr >= 0; ++i)
      for (int64_t j = cols; j < pitch; ++j)
        if (bytes[static_cast<size_t>(f.bytes.base + i * pitch + j)] != 77) return false;
    return true;
  }
};

void keep_sums(const aotc_kargs* args, const void* acc, int64_t ld, int64_t m, int64_t rows, int64_t n, int64_t cols, int64_t all_cols) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      static_cast<int32_t*>(args->ptr[kSums])[(m + i) * all_cols + n + j] = static_cast<const int32_t*>(acc)[i * ld + j];
}
void product_sums(const aotc_kargs* args, const void* acc, int64_t ld, int64_t, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  keep_sums(args, acc, ld, m0, rows, n0, cols, args->size[AOTC_GEMM_N]);
}
void pixel_sums(const aotc_kargs* args, const void* acc, int64_t ld, int64_t image, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  const int64_t* s = args->size;
  keep_sums(args, acc, ld, image * s[AOTC_CONV_OH] * s[AOTC_CONV_OW] + m0, rows, n0, cols, s[AOTC_CONV_CO]);
}

template <class T>
std::vector<T> random_bytes(int64_t n, Rng& rng) {
  std::vector<T> v(static_cast<size_t>(n));
  for (T& x : v) x = static_cast<T>(rng());
  return v;
}

/// Those that carry out epilogues as data.
std::vector<Entry> wide_entries(const std::string& algorithm, aotc_kernel_fn emulated) {
  std::vector<Entry> all;
  for (const Entry& e : entries(algorithm))
    if (std::string_view(e.isa) != "avx2" && runs_here(e.isa)) all.push_back(e);
  if (!emulated) return all;
  if (const Entry e = entry(algorithm + "_tiles", DType::u8, "amx"); runs_here(e.isa)) all.push_back(e);
  if (runs_here("avx512")) all.push_back({"avx512", DType::u8, emulated});
  return all;
}

/// First the sums alone, by the epilogue, then what becomes of them. call(data): the entry with the epilogue as data or without.
template <class Call>
void check(Finish& finish, Call call) {
  call(nullptr);
  call(&finish.f);
  CHECK(finish.right());
}

TEST_CASE("sums of products of bytes become what data say", "[gemm]") {
  Rng rng(31);
  const auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (int i = 0; i < 80; ++i) {
    const int64_t m = pick({1, 3, 16, 33, 70}), n = pick({1, 15, 16, 31, 40, 49, 64, 100, 130}), k = pick({3, 64, 100});
    std::vector<uint8_t> a = random_bytes<uint8_t>(m * k, rng);
    const std::vector<int8_t> w = random_bytes<int8_t>(n * k, rng);
    std::vector<char> panels(static_cast<size_t>(aotc::kernels::quant_panel_bytes(k, n, 8, 64)));
    aotc::kernels::pack_quant_panels(w.data(), 1, k, k, n, 8, panels.data(), 64);
    const Finish made(rng, m, n);
    aotc_gemm_bytes_config cfg{};
    const aotc_epilogue_fn epilogue = product_sums;
    cfg.a_ptr = kX, cfg.b_ptr = kW, cfg.n_segments = 1, cfg.epilogues = &epilogue;
    cfg.mc = static_cast<int>(pick({8, 32, 70})), cfg.nc = static_cast<int>(pick({32, 128}));
    std::vector<int64_t> sizes(AOTC_GEMM_SIZES, 0);
    sizes[AOTC_GEMM_B0] = sizes[AOTC_GEMM_B1] = 1, sizes[AOTC_GEMM_M] = m, sizes[AOTC_GEMM_N] = n, sizes[AOTC_GEMM_K] = k;
    sizes[AOTC_GEMM_A_RS] = k, sizes[AOTC_GEMM_A_CS] = 1;
    sizes.insert(sizes.end(), {0, n});
    for (const Entry& e : wide_entries("gemm_bytes", aotc_gemm_bytes_tiles_u8_amx_emulated)) {
      INFO(e.isa << " m " << m << " n " << n << " k " << k << " case " << i);
      Finish finish = made;
      const std::vector<void*> ptr = finish.pointers(a.data(), panels.data());
      check(finish, [&](const aotc_byte_finish* data) {
        cfg.finish = data;
        Scratch scratch(std::max(aotc_gemm_bytes_scratch_bytes(&cfg, k), aotc_bytes_tiles_scratch_bytes(cfg.mc, k)));
        volatile int32_t fault = 0;
        const aotc_kargs args = {ptr.data(), sizes.data(), &cfg, scratch.ptr(), 0, 1, &fault};
        const int64_t work = (m + cfg.mc - 1) / cfg.mc * ((n + cfg.nc - 1) / cfg.nc);
        run_parts(e, args, work, work / 2);
      });
    }
  }
}

TEST_CASE("sums of convolutions of bytes become what data say", "[conv]") {
  Rng rng(32);
  const auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (int i = 0; i < 60; ++i) {
    const bool depthwise = i % 3 == 0;
    const int64_t images = pick({1, 2}), c = pick({8, 24, 33, 64}), co = depthwise ? c : pick({5, 32, 70}), hw = pick({3, 8, 17});
    const int64_t line = depthwise ? 3 : aotc_bytes_depth(3 * c), k = 3 * line, pixels = images * hw * hw, taps = depthwise ? 3 : 3 * c;
    std::vector<uint8_t> x = random_bytes<uint8_t>(pixels * c, rng);
    std::vector<int8_t> w(static_cast<size_t>(co * k), 0);
    for (int64_t j = 0; j < co * k; ++j)
      if (j % line < taps) w[static_cast<size_t>(j)] = static_cast<int8_t>(rng());
    std::vector<char> panels(static_cast<size_t>(aotc::kernels::quant_panel_bytes(k, co, 8, 64)));
    aotc::kernels::pack_quant_panels(w.data(), 1, k, k, co, 8, panels.data(), 64);
    const Finish made(rng, pixels, co);
    aotc_conv_bytes_config cfg{};
    cfg.x_ptr = kX, cfg.w_ptr = kW, cfg.groups = static_cast<int>(depthwise ? c : 1), cfg.around = 9, cfg.line = static_cast<int>(line);
    cfg.way = AOTC_BYTES_STRIP;
    for (int d = 0; d < 3; ++d) cfg.kernel[d] = d ? 3 : 1, cfg.stride[d] = cfg.dilation[d] = 1, cfg.pad[d] = d ? 1 : 0;
    cfg.mc = 64, cfg.nc = static_cast<int>(pick({17, 40})), cfg.kp = 2, cfg.epilogue = pixel_sums;
    const std::vector<int64_t> sizes = {images, c, 1, hw, hw, co, 1, hw, hw};
    const auto all =
        wide_entries(depthwise ? "conv_bytes_depthwise" : "conv_bytes", depthwise ? nullptr : aotc_conv_bytes_tiles_u8_amx_emulated);
    for (const Entry& e : all) {
      INFO(e.isa << " images " << images << " c " << c << " co " << co << " hw " << hw << " case " << i);
      Finish finish = made;
      const std::vector<void*> ptr = finish.pointers(x.data(), panels.data());
      check(finish, [&](const aotc_byte_finish* data) {
        cfg.finish = data;
        Scratch scratch(depthwise ? aotc_conv_bytes_depthwise_scratch_bytes(&cfg, 9)
                                  : std::max(aotc_conv_bytes_scratch_bytes(&cfg, k), aotc_bytes_tiles_scratch_bytes(cfg.nc, k)));
        volatile int32_t fault = 0;
        const aotc_kargs args = {ptr.data(), sizes.data(), &cfg, scratch.ptr(), 0, 1, &fault};
        const int64_t work = depthwise ? images * ((hw + 1) / 2) : (co + 63) / 64 * ((pixels + cfg.nc - 1) / cfg.nc);
        run_parts(e, args, work, work / 2);
      });
    }
  }
}

}  // namespace
}  // namespace kernel_test
