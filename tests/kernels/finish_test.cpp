// Epilogues as data give, bit by bit, what the same steps give as an epilogue: products, channels-last convolutions, depthwise ones.
#include <catch2/catch.hpp>
#include <limits>

#include "aotc/detail/conv_few_abi.h"
#include "aotc/detail/held_abi.h"
#include "kernels/cpu/pack.h"
#include "support.h"

extern "C" void aotc_gemm_tiles_bf16_amx_emulated(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_gemm_held_bf16_amx_emulated(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_conv_last_tiles_bf16_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

using Rng = std::mt19937;
int64_t pick(Rng& rng, std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; }
int pick_int(Rng& rng, std::initializer_list<int64_t> xs) { return static_cast<int>(pick(rng, xs)); }

enum { kOperandA, kOperandB, kColumns, kRowsF32, kRowsBf16, kOutF32, kOutBf16, kPointers };
constexpr int64_t kLead = 5, kGap = 7;  // elements before the first row of what is read and written, and between rows

/// The steps, one value after another: the epilogue of the tests. Rows are counted from `row0` + m0 on.
void follow(const aotc_kargs* args, const aotc_finish& f, const float* acc, int64_t ld, int64_t row0, int64_t rows, int64_t n0,
            int64_t cols) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      float v = acc[i * ld + j];
      for (int k = 0; k < f.n_steps; ++k) {
        const aotc_finish_step& s = f.steps[k];
        void* p = s.ptr < 0 ? nullptr : args->ptr[s.ptr];
        const int64_t at = s.base + (row0 + i) * s.pitch + n0 + j;
        switch (s.kind) {
          case AOTC_FINISH_ADD_COLUMN: v += static_cast<float*>(p)[s.base + n0 + j]; break;
          case AOTC_FINISH_MUL_COLUMN: v *= static_cast<float*>(p)[s.base + n0 + j]; break;
          case AOTC_FINISH_ADD_F32: v += static_cast<float*>(p)[at]; break;
          case AOTC_FINISH_ADD_BF16: v += static_cast<float>(get(p, at, DType::bf16)); break;
          case AOTC_FINISH_AT_LEAST: v = v < s.limit ? s.limit : v; break;
          case AOTC_FINISH_AT_MOST: v = v > s.limit ? s.limit : v; break;
          case AOTC_FINISH_HARD_SWISH: {
            const float up = v + 3 < 0 ? 0 : v + 3;
            v = v * (up > 6 ? 6 : up) / 6;
            break;
          }
          case AOTC_FINISH_STORE_F32: static_cast<float*>(p)[at] = v; break;
          default: put(p, at, DType::bf16, v);
        }
      }
    }
}
void product_epilogue(const aotc_kargs* args, const void* acc, int64_t ld, int64_t, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  const auto& f = *static_cast<const aotc_finish*>(args->ptr[kPointers]);
  follow(args, f, static_cast<const float*>(acc), ld, m0, rows, n0, cols);
}
void conv_epilogue(const aotc_kargs* args, const void* acc, int64_t ld, int64_t n, int64_t p0, int64_t rows, int64_t c0, int64_t cols) {
  const int64_t plane = args->size[AOTC_CONV_OH] * args->size[AOTC_CONV_OW];
  const auto& f = *static_cast<const aotc_finish*>(args->ptr[kPointers]);
  follow(args, f, static_cast<const float*>(acc), ld, n * plane + p0, rows, c0, cols);
}

/// Some steps that end with one store or two.
aotc_finish random_finish(Rng& rng, int64_t cols, bool reads_rows) {
  aotc_finish f = {};
  const auto add = [&](int kind, int ptr, float limit = 0) {
    f.steps[f.n_steps++] = {kind, ptr, limit, ptr < 0 ? 0 : kLead, ptr < 0 || ptr == kColumns ? 0 : cols + kGap};
  };
  if (rng() % 4) add(AOTC_FINISH_ADD_COLUMN, kColumns);
  if (reads_rows && rng() % 3 == 0) rng() % 2 ? add(AOTC_FINISH_ADD_F32, kRowsF32) : add(AOTC_FINISH_ADD_BF16, kRowsBf16);
  switch (rng() % 6) {
    case 0: add(AOTC_FINISH_AT_LEAST, -1, 0), add(AOTC_FINISH_AT_MOST, -1, 0.25F); break;
    case 1: add(AOTC_FINISH_AT_LEAST, -1, -0.125F); break;
    case 2: add(AOTC_FINISH_HARD_SWISH, -1); break;
    case 3: add(AOTC_FINISH_MUL_COLUMN, kColumns); break;
    case 4:
      if (reads_rows) add(AOTC_FINISH_ADD_F32, kRowsF32);
      break;
    default:
      if (reads_rows) add(AOTC_FINISH_ADD_BF16, kRowsBf16);
  }
  const bool both = rng() % 3 == 0;
  if (both || rng() % 2) add(AOTC_FINISH_STORE_F32, kOutF32);
  if (both || f.steps[f.n_steps - 1].kind != AOTC_FINISH_STORE_F32) add(AOTC_FINISH_STORE_BF16, kOutBf16);
  return f;
}

/// Operands of which some are denormals, and where `nan` one is none at all.
void fill(Buffer& b, Rng& rng, bool nan) {
  b.fill(rng);
  for (int64_t i = 0; i < b.size; i += 11) b.put(i, std::ldexp(b.get(i), -132));
  if (nan && b.size) b.put(static_cast<int64_t>(rng() % static_cast<uint64_t>(b.size)), std::numeric_limits<double>::quiet_NaN());
}

/// Calls `run` with the epilogue alone and with the finish: what they write must be the same, and nothing else be written.
template <class Run>
void compare(Buffer& a, Buffer& b, int64_t rows, int64_t cols, const aotc_finish& f, Rng& rng, Run run) {
  const int64_t room = kLead + rows * (cols + kGap);
  Buffer columns(kLead + cols, DType::f32), rows_f32(room, DType::f32), rows_bf16(room, DType::bf16);
  for (Buffer* x : {&columns, &rows_f32, &rows_bf16}) fill(*x, rng, false);
  std::vector<char> results[2];
  for (int with = 0; with < 2; ++with) {
    Buffer f32(room, DType::f32), bf16(room, DType::bf16);
    for (Buffer* x : {&f32, &bf16}) std::memset(x->ptr(), 0x5a, static_cast<size_t>(room * aotc::dtype_bytes(x->type)));
    void* ptr[] = {a.ptr(), b.ptr(), columns.ptr(), rows_f32.ptr(), rows_bf16.ptr(), f32.ptr(), bf16.ptr(), const_cast<aotc_finish*>(&f)};
    run(ptr, with != 0);
    for (Buffer* x : {&f32, &bf16}) {
      for (int64_t i = 0; i < room; ++i)
        if (std::isnan(x->get(i))) x->put(i, std::numeric_limits<double>::quiet_NaN());  // of one kind
      const char* bytes = static_cast<const char*>(x->ptr());
      results[with].insert(results[with].end(), bytes, bytes + room * aotc::dtype_bytes(x->type));
    }
  }
  CHECK(results[0] == results[1]);
}

std::vector<Entry> floats(std::string_view algorithm) {
  std::vector<Entry> all;
  for (const Entry& e : entries(algorithm))
    if (e.dtype == DType::f32 || e.dtype == DType::bf16) all.push_back(e);
  return all;
}

/// An algorithm's tiles, real and emulated.
std::vector<Entry> in_tiles(std::string_view algorithm, aotc_kernel_fn emulated) {
  return {entry(algorithm, DType::bf16, "amx"), {"avx512", DType::bf16, emulated}};
}

TEST_CASE("products: a finish does what its epilogue does", "[finish]") {
  Rng rng(31);
  std::vector<Entry> all = floats("gemm");
  const std::vector<Entry> tiles = in_tiles("gemm_tiles", aotc_gemm_tiles_bf16_amx_emulated);
  const size_t n_plain = all.size();
  all.insert(all.end(), tiles.begin(), tiles.end());
  const size_t n_whole = all.size();
  const std::vector<Entry> held = in_tiles("gemm_held", aotc_gemm_held_bf16_amx_emulated);
  all.insert(all.end(), held.begin(), held.end());
  for (size_t at = 0; at < all.size(); ++at) {
    const Entry& e = all[at];
    for (int i = 0; i < 120 && runs_here(e.isa); ++i) {
      const int64_t m = pick(rng, {1, 2, 3, 6, 7, 13, 14, 15, 29, 60}), n = pick(rng, {1, 8, 15, 16, 24, 33, 40, 64, 90}),
                    k = at < n_whole ? pick(rng, {0, 1, 2, 5, 16, 64, 130}) : pick(rng, {64, 130, 700, 1400});
      aotc_gemm_config cfg = {};
      cfg.b_ptr = 1, cfg.mr = 14, cfg.nv = 2, cfg.n_segments = 1;
      cfg.mc = pick_int(rng, {4, 14, 30, 64}), cfg.nc = pick_int(rng, {32, 64}), cfg.kc = pick_int(rng, {2, 16, 64});
      cfg.kp = cfg.kc * pick_int(rng, {1, 2, 100}), cfg.b_packed = at >= n_whole || rng() % 2, cfg.pack_a = rng() % 2;
      INFO(e.isa << " " << aotc::dtype_name(e.dtype) << " m " << m << " n " << n << " k " << k << " mc " << cfg.mc << " nc " << cfg.nc
                 << " kc " << cfg.kc << " kp " << cfg.kp << " packed " << cfg.b_packed << cfg.pack_a);
      Buffer a(m * k, e.dtype), b(k * n, e.dtype), panels(aotc::kernels::panel_bytes(k, n, e.dtype) / aotc::dtype_bytes(e.dtype), e.dtype);
      fill(a, rng, rng() % 2), fill(b, rng, false);
      aotc::kernels::pack_panels(b.ptr(), n, 1, k, n, e.dtype, panels.ptr());
      const std::vector<int64_t> size = {1, 1, m, n, k, 0, 0, 0, k, 1, 0, 0, 0, n, 1, 0, 0, 0, n};
      const aotc_finish f = random_finish(rng, n, true);
      const aotc_epilogue_fn epilogue = product_epilogue;
      cfg.epilogues = &epilogue;
      const int64_t work = ((m + cfg.mc - 1) / cfg.mc) * ((n + cfg.nc - 1) / cfg.nc);
      const auto split = static_cast<int64_t>(rng() % static_cast<uint64_t>(work + 1));
      compare(a, cfg.b_packed ? panels : b, m, n, f, rng, [&](void* const* ptr, bool with) {
        cfg.finishes = with ? &f : nullptr;
        Scratch scratch(at < n_plain   ? aotc_gemm_scratch_bytes(&cfg, k, 4) + AOTC_GEMM_WIDENED_BYTES
                        : at < n_whole ? aotc_gemm_tiles_scratch_bytes(&cfg, k)
                                       : aotc_gemm_held_scratch_bytes(&cfg, k));
        volatile int32_t fault = 0;
        run_parts(e, {ptr, size.data(), &cfg, scratch.ptr(), 0, 1, &fault}, work, split);
      });
    }
  }
}

TEST_CASE("Strassen's products: a finish does what its epilogue does", "[finish]") {
  Rng rng(33);
  for (const Entry& e : floats("gemm_strassen")) {
    for (int i = 0; i < 80 && runs_here(e.isa); ++i) {
      const int64_t m = pick(rng, {1, 2, 3, 7, 14, 15, 28, 29, 60}), n = pick(rng, {1, 8, 15, 16, 24, 33, 40, 64, 90, 120}),
                    k = pick(rng, {2, 6, 16, 64, 130});
      aotc_gemm_config cfg = {};
      cfg.b_ptr = 1, cfg.mr = 14, cfg.nv = 2, cfg.n_segments = cfg.b_packed = cfg.pack_a = 1;
      cfg.mc = pick_int(rng, {4, 14, 30, 64}), cfg.nc = pick_int(rng, {64, 128}), cfg.kc = cfg.kp = pick_int(rng, {2, 16, 64});
      INFO(e.isa << " m " << m << " n " << n << " k " << k << " mc " << cfg.mc << " nc " << cfg.nc << " kc " << cfg.kc);
      Buffer a(m * k, e.dtype), b(k * n, e.dtype), panels(aotc::kernels::panel_bytes(k, n, e.dtype) / aotc::dtype_bytes(e.dtype), e.dtype);
      fill(a, rng, rng() % 2), fill(b, rng, false);
      aotc::kernels::pack_panels(b.ptr(), n, 1, k, n, e.dtype, panels.ptr());
      const std::vector<int64_t> size = {1, 1, m, n, k, 0, 0, 0, k, 1, 0, 0, 0, 0, 0, 0, 0, 0, n};
      const aotc_finish f = random_finish(rng, n, true);
      const aotc_epilogue_fn epilogue = product_epilogue;
      cfg.epilogues = &epilogue;
      const int64_t work = ((m + cfg.mc - 1) / cfg.mc) * ((n + cfg.nc - 1) / cfg.nc);
      const auto split = static_cast<int64_t>(rng() % static_cast<uint64_t>(work + 1));
      compare(a, panels, m, n, f, rng, [&](void* const* ptr, bool with) {
        cfg.finishes = with ? &f : nullptr;
        Scratch scratch(aotc_gemm_strassen_scratch_bytes(&cfg, k));
        volatile int32_t fault = 0;
        run_parts(e, {ptr, size.data(), &cfg, scratch.ptr(), 0, 1, &fault}, work, split);
      });
    }
  }
}

TEST_CASE("channels-last convolutions: a finish does what its epilogue does", "[finish]") {
  Rng rng(32);
  std::vector<Entry> all = floats("conv_last");
  const std::vector<Entry> of_few = floats("conv_few");
  const std::vector<Entry> of_tiles = in_tiles("conv_last_tiles", aotc_conv_last_tiles_bf16_amx_emulated);
  const size_t n_last = all.size(), n_plain = n_last + of_few.size();
  all.insert(all.end(), of_few.begin(), of_few.end());
  all.insert(all.end(), of_tiles.begin(), of_tiles.end());
  for (size_t at = 0; at < all.size(); ++at) {
    const Entry& e = all[at];
    const bool few = at >= n_last && at < n_plain, tiles = at >= n_plain;
    for (int i = 0; i < 160 && runs_here(e.isa); ++i) {
      const bool depthwise = !few && !tiles && i % 2;
      aotc_conv_config cfg = {};
      cfg.w_ptr = 1, cfg.algo = depthwise ? AOTC_CONV_LAST_DEPTHWISE : AOTC_CONV_LAST, cfg.epilogue = conv_epilogue;
      const int64_t images = pick(rng, {1, 1, 2}), hw[] = {pick(rng, {1, 5, 9}), pick(rng, {3, 8, 17, 31})};
      const int64_t groups = few         ? 1
                             : depthwise ? pick(rng, {8, 16, 24, 40, 72})
                                         : pick(rng, {1, 1, 2}),
                    cg = depthwise ? 1 : pick(rng, {1, 3, 16, 20, 32});
      const int64_t cog = depthwise ? 1 : pick(rng, {1, 8, 16, 24, 40, 70}), c = cg * groups, co = cog * groups;
      const int kernel = depthwise ? pick_int(rng, {3, 5, 7}) : pick_int(rng, {1, 3}), stride = pick_int(rng, {1, 1, 2, 3});
      const int dilation = few && cg % 2 ? 1 : pick_int(rng, {1, 1, 2});
      int64_t out[2];
      bool fits = true;
      for (int d = 0; d < 2; ++d) {
        const int64_t room = hw[d] + 2 * (kernel / 2) - (kernel - 1) * dilation - 1;
        fits &= room >= 0;
        out[d] = room / stride + 1;
      }
      if (!fits) continue;
      for (int d = 0; d < 3; ++d) {
        cfg.kernel[d] = d ? kernel : 1, cfg.stride[d] = d ? stride : 1, cfg.dilation[d] = d ? dilation : 1;
        cfg.pad[d] = d ? kernel / 2 : 0;
      }
      cfg.groups = static_cast<int32_t>(groups), cfg.kc = pick_int(rng, {2, 16, 64}), cfg.kp = cfg.kc * pick_int(rng, {1, 100});
      cfg.mc = pick_int(rng, {32, 64}), cfg.nc = pick_int(rng, {8, 28, 100});
      if (depthwise) cfg.kc = 2, cfg.kp = pick_int(rng, {2, 40});
      const int64_t k = cg * kernel * kernel, plane = out[0] * out[1], rows = images * plane;
      INFO(e.isa << " " << aotc::dtype_name(e.dtype)
                 << (depthwise ? " depthwise"
                     : few     ? " few"
                               : "")
                 << " images " << images << " hw " << hw[0] << "x" << hw[1] << " cg " << cg << " cog " << cog << " groups " << groups
                 << " kernel " << kernel << " stride " << stride << " mc " << cfg.mc << " nc " << cfg.nc << " kc " << cfg.kc << " kp "
                 << cfg.kp);
      Buffer x(images * hw[0] * hw[1] * c, e.dtype), w(co * k, e.dtype);
      fill(x, rng, rng() % 2), fill(w, rng, false);
      std::vector<std::byte> panels;  // a matrix for each line of taps, [k of the line, co] of the numbers at hand
      const int64_t line = kernel * cg, line_bytes = aotc::kernels::panel_bytes(line, co, e.dtype);
      if (few) panels.resize(static_cast<size_t>(kernel * line_bytes));
      for (int64_t l = 0; few && l < kernel; ++l)
        aotc::kernels::pack_panels(static_cast<const char*>(w.ptr()) + l * line * co * aotc::dtype_bytes(e.dtype), co, 1, line, co, e.dtype,
                                   panels.data() + l * line_bytes);
      cfg.w_packed = few;
      const std::vector<int64_t> size = {images, c, 1, hw[0], hw[1], co, 1, out[0], out[1]};
      const aotc_finish f = random_finish(rng, co, !depthwise);
      const auto blocks = [](int64_t a, int64_t by) { return (a + by - 1) / by; };
      const int64_t work =
          depthwise ? images * blocks(out[0], cfg.kp) * blocks(out[1], cfg.nc) : groups * blocks(cog, cfg.mc) * blocks(rows, cfg.nc);
      const auto split = static_cast<int64_t>(rng() % static_cast<uint64_t>(work + 1));
      compare(x, w, rows, co, f, rng, [&](void* const* given, bool with) {
        void* ptr[kPointers + 1];
        std::copy(given, given + kPointers + 1, ptr);
        if (few) ptr[kOperandB] = panels.data();
        cfg.finish = with ? &f : nullptr;
        Scratch scratch(few     ? aotc_conv_few_scratch_bytes(&cfg, c)
                        : tiles ? aotc_conv_last_tiles_scratch_bytes(&cfg, k)
                                : aotc_conv_scratch_bytes(&cfg, k, 4));
        volatile int32_t fault = 0;
        run_parts(e, {ptr, size.data(), &cfg, scratch.ptr(), 0, 1, &fault}, work, split);
      });
    }
  }
}

}  // namespace
}  // namespace kernel_test
