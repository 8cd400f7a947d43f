// Chains of convolutions and products over strips of rows: the same bits as their stages one after another over whole tensors.
#include <list>
#include <memory>

#include "aotc/detail/strips_abi.h"
#include "conv_support.h"

namespace kernel_test {
namespace {

/// relu(acc) + the same element of ptr[3], to ptr[2]; `at` counts the rows of acc among those of the result.
void store_rows(const aotc_kargs* args, const void* acc, int64_t ld, int64_t at, int64_t rows, int64_t n0, int64_t cols, int64_t channels) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t e = (at + i) * channels + n0 + j;
      const float v = static_cast<const float*>(acc)[i * ld + j];
      static_cast<float*>(args->ptr[2])[e] = (v > 0 ? v : 0) + static_cast<const float*>(args->ptr[3])[e];
    }
}
void store_conv(const aotc_kargs* args, const void* acc, int64_t ld, int64_t n, int64_t p0, int64_t rows, int64_t c0, int64_t cols) {
  const int64_t* s = args->size;
  const int64_t plane = s[AOTC_CONV_OD] * s[AOTC_CONV_OH] * s[AOTC_CONV_OW];
  store_rows(args, acc, ld, n * plane + p0, rows, c0, cols, s[AOTC_CONV_CO]);
}
void store_product(const aotc_kargs* args, const void* acc, int64_t ld, int64_t, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  store_rows(args, acc, ld, m0, rows, n0, cols, args->size[AOTC_GEMM_N]);
}
const aotc_epilogue_fn kStoreProduct[] = {store_product};

struct Stage {
  aotc_conv_config conv = {};
  aotc_gemm_config product = {};
  bool is_product = false;
  int64_t in[2], out[2], ci, co, work, scratch;
  std::vector<int64_t> size;
  std::unique_ptr<Buffer> w, add, whole;  ///< whole: its result
  aotc_strip_arg args[4];
};

/// A stage behind a tensor [n, in.., ci]; nothing where the window does not fit.
bool make_stage(Stage* s, int64_t n, Rng& rng) {
  const int kind = pick_int(rng, {0, 0, 1, 1, 2});  // product, depthwise, implicit product
  s->is_product = kind == 0;
  s->co = kind == 1 ? s->ci : pick(rng, {1, 8, 32, 40});
  int64_t depth = s->ci;
  for (int d = 0; d < 2; ++d) s->out[d] = s->in[d];
  if (s->is_product) {
    aotc_gemm_config& c = s->product;
    c.a_ptr = 0, c.b_ptr = 1, c.mr = 14, c.nv = 2, c.mc = pick_int(rng, {28, 84}), c.nc = pick_int(rng, {32, 64});
    c.kc = pick_int(rng, {2, 16, 256}), c.kp = c.kc * pick_int(rng, {1, 4, 100}), c.pack_a = static_cast<int>(rng() % 2);
    c.n_segments = 1, c.epilogues = kStoreProduct;
    const int64_t m = n * s->in[0] * s->in[1];
    s->size = {1, 1, m, s->co, s->ci, 0, 0, 0, s->ci, 1, 0, 0, 0, s->co, 1, 0, 0, 0, s->co};
    s->work = blocks_of(m, c.mc) * blocks_of(s->co, c.nc);
    s->scratch = aotc_gemm_scratch_bytes(&c, s->ci, 4);
  } else {
    aotc_conv_config& c = s->conv;
    c.x_ptr = 0, c.w_ptr = 1, c.groups = kind == 1 ? static_cast<int>(s->ci) : 1, c.epilogue = store_conv;
    c.algo = kind == 1 ? AOTC_CONV_LAST_DEPTHWISE : AOTC_CONV_LAST;
    c.mc = pick_int(rng, {32, 64}), c.nc = pick_int(rng, {28, 64}), c.kc = pick_int(rng, {2, 16, 128}),
    c.kp = c.kc * pick_int(rng, {1, 3, 100});
    for (int d = 0; d < 3; ++d) {
      c.kernel[d] = d == 0 ? 1 : pick_int(rng, {1, 2, 3, 3, 5}), c.stride[d] = d == 0 ? 1 : pick_int(rng, {1, 1, 2, 3});
      c.pad[d] = d == 0 ? 0 : pick_int(rng, {0, 1, 2}), c.dilation[d] = d == 0 ? 1 : pick_int(rng, {1, 1, 2});
    }
    if (kind == 1 && c.kernel[1] * c.kernel[2] == 1) c.kernel[1] = 3;
    for (int d = 0; d < 2; ++d) {
      const int64_t room = s->in[d] + c.pad[1 + d] + pick(rng, {0, 1, 2}) - c.dilation[1 + d] * (c.kernel[1 + d] - 1) - 1;
      if (room < 0) return false;
      s->out[d] = room / c.stride[1 + d] + 1;
    }
    const int64_t taps = c.kernel[1] * c.kernel[2];
    depth = (kind == 1 ? 1 : s->ci) * taps;
    s->size = {n, s->ci, 1, s->in[0], s->in[1], s->co, 1, s->out[0], s->out[1]};
    s->work = kind == 1 ? n * blocks_of(s->out[0], c.kp) * blocks_of(s->out[1], c.nc)
                        : blocks_of(s->co, c.mc) * blocks_of(n * s->out[0] * s->out[1], c.nc);
    s->scratch = aotc_conv_scratch_bytes(&c, depth, 4);
  }
  s->w = std::make_unique<Buffer>(depth * s->co, DType::f32);
  s->w->fill(rng);
  const int64_t elems = n * s->out[0] * s->out[1] * s->co;
  for (auto* b : {&s->add, &s->whole}) (*b = std::make_unique<Buffer>(elems, DType::f32))->fill(rng);
  return true;
}

void check_chain(const std::string& isa, aotc_kernel_fn strips, Rng& rng) {
  const int64_t n = pick(rng, {1, 1, 2, 3});
  std::list<Stage> stages;
  int64_t in[2] = {pick(rng, {1, 3, 9, 20, 31}), pick(rng, {16, 17, 33, 50})}, channels = pick(rng, {1, 3, 16, 24, 40});
  Buffer x(n * in[0] * in[1] * channels, DType::f32);
  x.fill(rng);
  for (int k = pick_int(rng, {2, 3, 3, 4, 6}); k > 0; --k) {
    Stage& s = stages.emplace_back();
    s.in[0] = in[0], s.in[1] = in[1], s.ci = channels;
    if (!make_stage(&s, n, rng) || s.out[1] < 16) return;
    in[0] = s.out[0], in[1] = s.out[1], channels = s.co;
  }
  volatile int32_t fault = 0;
  std::vector<aotc_strip_stage> table;
  std::vector<void*> ptr;
  std::vector<int64_t> size = {n, stages.front().in[0], stages.front().in[1]};
  aotc_strips_config cfg = {static_cast<int32_t>(stages.size()), pick_int(rng, {1, 2, 3, 5, 8, 100}), 0, nullptr};
  void* input = x.ptr();
  for (Stage& s : stages) {
    const aotc_kernel_fn fn = entry(s.is_product ? "gemm" : "conv_last", DType::f32, isa).fn;
    const void* config = s.is_product ? static_cast<const void*>(&s.product) : &s.conv;
    void* own[] = {input, s.w->ptr(), s.whole->ptr(), s.add->ptr()};
    Scratch scratch(s.scratch);
    const aotc_kargs args = {own, s.size.data(), config, scratch.ptr(), 0, 1, &fault};
    fn(&args, 0, s.work);
    input = s.whole->ptr();

    const bool first = &s == &stages.front(), last = &s == &stages.back();
    const int64_t pixel = s.co * 4;
    const auto given = [&](void* p, int64_t bytes) {
      ptr.push_back(p);
      return aotc_strip_arg{static_cast<int32_t>(ptr.size() - 1), bytes, 0};
    };
    s.args[0] = first ? given(x.ptr(), s.ci * 4) : aotc_strip_arg{AOTC_STRIP_BEFORE, 0, 0};
    s.args[1] = given(s.w->ptr(), 0);
    s.args[2] = last ? given(nullptr, pixel) : aotc_strip_arg{AOTC_STRIP_OWN, 0, 0};
    s.args[3] = given(s.add->ptr(), pixel);
    const aotc_conv_config& c = s.conv;
    const bool p = s.is_product;
    table.push_back({fn, config, p, p ? 1 : c.kernel[1], p ? 1 : c.stride[1], p ? 0 : c.pad[1], p ? 1 : c.dilation[1],
                     static_cast<int32_t>(s.size.size()), 4, 0, pixel, s.args});
    size.push_back(s.out[0]), size.push_back(s.out[1]);
    cfg.scratch_bytes = std::max(cfg.scratch_bytes, (s.scratch + 63) / 64 * 64);
  }
  cfg.stages = table.data();
  for (const Stage& s : stages) size.insert(size.end(), s.size.begin(), s.size.end());
  const Stage& end = stages.back();
  Buffer result(end.whole->size, DType::f32);
  ptr[static_cast<size_t>(end.args[2].ptr)] = result.ptr();
  int64_t bytes = cfg.scratch_bytes, rows = cfg.rows;
  auto stage = stages.rbegin();
  for (size_t k = table.size(); k-- > 1;) {
    rows = aotc_strip_rows(table[k].kernel, table[k].stride, table[k].dilation, rows);
    ++stage;
    bytes += (rows * stage->out[1] * stage->co * 4 + 63) / 64 * 64 + 64;
  }
  const int64_t work = n * blocks_of(end.out[0], cfg.rows), split = static_cast<int64_t>(rng() % static_cast<uint64_t>(work + 1));
  for (const auto& [from, to] : {std::pair(split, work), {int64_t{0}, split}}) {
    Scratch scratch(bytes);
    const aotc_kargs args = {ptr.data(), size.data(), &cfg, scratch.ptr(), 0, 1, &fault};
    strips(&args, from, to);
  }
  double worst = 0;
  for (int64_t i = 0; i < result.size; ++i) worst = std::max(worst, std::fabs(result.get(i) - end.whole->get(i)));
  INFO(isa << " n " << n << " stages " << stages.size() << " rows " << cfg.rows << " of " << end.out[0]);
  CHECK(worst == 0);
}

TEST_CASE("strips of rows give what whole tensors give", "[strips]") {
  aotc_kernel_fn strips = nullptr;
  for (size_t i = 0; i < kLibrarySize; ++i)
    if (std::string_view(kLibrary[i].name) == "aotc_strips_avx2") strips = kLibrary[i].fn;
  REQUIRE(strips);
  Rng rng(31);
  for (const char* isa : {"avx2", "avx512"})
    for (int i = 0; i < 600 && runs_here(isa); ++i) check_chain(isa, strips, rng);
}

}  // namespace
}  // namespace kernel_test
