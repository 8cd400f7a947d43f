#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>

#include "aotc/detail/library_abi.h"
#include "kernels/cpu/catalog.h"
#include "kernels/cpu/pack.h"
#include "plan/interface.h"
#include "search/measure.h"

#define AOTC_FLOATS(X, family, isa) X(family##_f32_##isa) X(family##_f64_##isa) X(family##_f16_##isa) X(family##_bf16_##isa)
#define AOTC_INTS(X, family, isa) \
  X(family##_u8_##isa) X(family##_i8_##isa) X(family##_i16_##isa) X(family##_i32_##isa) X(family##_i64_##isa)
#define AOTC_OF_ISA(X, isa) \
  AOTC_FLOATS(X, gemm, isa) AOTC_INTS(X, gemm, isa) AOTC_FLOATS(X, conv, isa) AOTC_INTS(X, conv, isa) AOTC_FLOATS(X, attention, isa)
#define AOTC_ENTRIES(X) AOTC_OF_ISA(X, avx2) AOTC_OF_ISA(X, avx512) X(gemm_bf16_avx512_bf16) X(conv_bf16_avx512_bf16)
#define AOTC_DECLARE(name) extern "C" void aotc_##name(const aotc_kargs*, int64_t, int64_t);
AOTC_ENTRIES(AOTC_DECLARE)

namespace aotc::search {

namespace {

struct Entry {
  std::string_view name;
  aotc_kernel_fn fn;
};
#define AOTC_ROW(name) {"aotc_" #name, aotc_##name},
constexpr Entry kEntries[] = {AOTC_ENTRIES(AOTC_ROW)};

aotc_kernel_fn find(const std::string& base, Isa isa) {
  const std::string name = kernels::library_symbol(base, isa);
  for (const Entry& e : kEntries)
    if (e.name == name) return e.fn;
  return nullptr;
}

/// Memory on huge pages, filled with small numbers.
class Memory {
 public:
  explicit Memory(int64_t bytes) {
    constexpr size_t kPage = 2 << 20;
    const size_t size = (static_cast<size_t>(std::max<int64_t>(bytes, 64)) + kPage - 1) & ~(kPage - 1);
    data_.reset(static_cast<char*>(std::aligned_alloc(kPage, size)));
    if (!data_) throw std::bad_alloc();
    madvise(data_.get(), size, MADV_HUGEPAGE);
    std::memset(data_.get(), 0, size);
  }
  void* ptr() const { return data_.get(); }

 private:
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> data_;
};

/// The cheapest honest epilogue: moves the tile out.
void move_tile(const aotc_kargs* args, const void* acc, int64_t ld, int64_t, int64_t, int64_t rows, int64_t, int64_t cols) {
  constexpr int64_t kRow = 4096, kRows = 16;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j0 = 0; j0 < cols; j0 += kRow) {
      float* __restrict out = static_cast<float*>(args->ptr[2]) + i % kRows * kRow;
      const float* __restrict in = static_cast<const float*>(acc) + i * ld + j0;
      for (int64_t j = 0; j < std::min(kRow, cols - j0); ++j) out[j] = in[j] > 0 ? in[j] : 0;
    }
}

struct Call {
  aotc_kernel_fn fn = nullptr;
  std::vector<int64_t> size;
  std::vector<void*> ptr;
  const void* config = nullptr;
  int64_t work = 0, scratch = 0;
  int weight = -1;  ///< index in ptr of an operand that comes cold in a model: walked through several copies
  int64_t weight_stride = 0, weight_copies = 1;
};

constexpr int64_t kColdBytes = 48 << 20;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Quietest of rounds of about a fifth of `seconds` each.
double time_call(const Call& c, int threads, double seconds) {
  std::vector<Memory> scratch;
  for (int i = 0; i < threads; ++i) scratch.emplace_back(c.scratch);
  auto rounds = [&](int64_t reps) {
    std::atomic<int> ready{0};
    std::atomic<bool> go{false};
    auto body = [&](int t) {
      volatile int32_t fault = 0;
      std::vector<void*> ptr = c.ptr;
      aotc_kargs args = {ptr.data(), c.size.data(), c.config, scratch[static_cast<size_t>(t)].ptr(), t, threads, &fault};
      ready.fetch_add(1);
      while (t > 0 && !go.load()) std::this_thread::yield();
      for (int64_t r = 0; r < reps; ++r) {
        if (c.weight >= 0)
          ptr[static_cast<size_t>(c.weight)] =
              static_cast<char*>(c.ptr[static_cast<size_t>(c.weight)]) + r % c.weight_copies * c.weight_stride;
        c.fn(&args, c.work * t / threads, c.work * (t + 1) / threads);
      }
    };
    std::vector<std::thread> pool;
    for (int t = 1; t < threads; ++t) pool.emplace_back(body, t);
    while (ready.load() < threads - 1) std::this_thread::yield();
    const double t0 = seconds_now();
    go.store(true);
    body(0);
    for (auto& t : pool) t.join();
    return (seconds_now() - t0) / static_cast<double>(reps);
  };
  const double once = std::max(rounds(1), 1e-7);
  const int64_t reps = std::clamp<int64_t>(static_cast<int64_t>(seconds / 5 / once), 1, 100000);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) times.push_back(rounds(reps));
  return *std::min_element(times.begin(), times.end()) * 1e9;  // others may be at work on the machine
}

Result<double> run(const GemmContract& c, const plan::GemmChoice& g, Isa isa, int threads, double seconds) {
  Call call;
  call.fn = find(fmt::format("aotc_gemm_{}", plan::symbol_dtype(c.dtype)), isa);
  if (!call.fn) return Result<double>::fail("no such kernel");
  const int64_t eb = dtype_bytes(c.dtype), ab = std::max<int64_t>(4, eb), n = c.n * c.segments;
  const bool packed = c.b_constant && g.pack_b && is_float(c.dtype);
  std::vector<aotc_epilogue_fn> epilogues(static_cast<size_t>(c.segments), move_tile);
  aotc_gemm_config cfg{
      0, 1, g.mr, g.nv, g.mc, g.nc, g.kc, g.kp, packed, g.pack_a, static_cast<int32_t>(c.segments), epilogues.data(), nullptr, nullptr};
  const int64_t b_bytes = packed ? kernels::panel_bytes(c.k, c.n, c.dtype) * c.segments : n * c.k * eb * c.batch;
  call.weight = c.b_constant ? 1 : -1;
  call.weight_stride = (b_bytes + 63) / 64 * 64;
  call.weight_copies = c.b_constant ? std::clamp<int64_t>(kColdBytes / std::max<int64_t>(b_bytes, 1), 1, 64) : 1;
  Memory a(c.batch * c.m * c.k * eb), b(call.weight_stride * call.weight_copies), out(1 << 20);
  call.ptr = {a.ptr(), b.ptr(), out.ptr()};
  const int64_t ars = c.a_rows_contiguous ? c.k : 1, acs = c.a_rows_contiguous ? 1 : c.m;
  const int64_t brs = c.b_rows_contiguous ? n : 1, bcs = c.b_rows_contiguous ? 1 : c.k;
  call.size = {1, c.batch, c.m, n, c.k, 0, 0, c.m * c.k, ars, acs, 0, 0, packed ? 0 : c.b_constant ? 0 : n * c.k, brs, bcs};
  int64_t blocks = 0;
  for (int64_t s = 0; s < c.segments; ++s) {
    call.size.insert(call.size.end(), {s * c.n, (s + 1) * c.n});
    blocks += ceil_div(c.n, g.nc);
  }
  call.config = &cfg;
  call.work = c.batch * ceil_div(c.m, g.mc) * blocks;
  call.scratch = aotc_gemm_scratch_bytes(&cfg, c.k, ab);
  return time_call(call, threads, seconds);
}

Result<double> run(const ConvContract& c, const plan::ConvChoice& g, Isa isa, int threads, double seconds) {
  Call call;
  call.fn = find(fmt::format("aotc_conv_{}", plan::symbol_dtype(c.dtype)), isa);
  if (!call.fn) return Result<double>::fail("no such kernel");
  const int64_t eb = dtype_bytes(c.dtype), ab = std::max<int64_t>(4, eb), cog = c.co / c.groups;
  aotc_conv_config cfg{};
  cfg.w_ptr = 1, cfg.groups = static_cast<int32_t>(c.groups), cfg.transposed = c.transposed, cfg.algo = g.algo;
  for (size_t i = 0; i < 3; ++i) {
    cfg.kernel[i] = static_cast<int32_t>(c.kernel[i]), cfg.stride[i] = static_cast<int32_t>(c.stride[i]);
    cfg.pad[i] = static_cast<int32_t>(c.pad[i]), cfg.dilation[i] = static_cast<int32_t>(c.dilation[i]);
  }
  cfg.mc = g.mc, cfg.nc = g.nc, cfg.kc = g.kc, cfg.kp = g.kp, cfg.epilogue = move_tile;
  cfg.w_packed = c.w_constant && g.pack_w && g.algo != AOTC_CONV_DIRECT;
  int64_t px = c.pixels(), phases = 1, row_phases = 1;
  if (g.algo == AOTC_CONV_PHASES) {
    px = c.n, phases = c.stride[0] * c.stride[1] * c.stride[2], row_phases = c.stride[0] * c.stride[1];
    for (size_t i = 0; i < 3; ++i) px *= ceil_div(c.out[i], c.stride[i]);
  }
  // The phases' panels are each padded to whole pairs of rows.
  const int64_t w_bytes = cfg.w_packed ? kernels::panel_bytes(c.depth() + phases, cog, c.dtype) * c.groups : c.depth() * c.co * eb;
  call.weight = 1;
  call.weight_stride = (w_bytes + 63) / 64 * 64;
  call.weight_copies = std::clamp<int64_t>(kColdBytes / std::max<int64_t>(w_bytes, 1), 1, 64);
  Memory x(c.n * c.c * c.in[0] * c.in[1] * c.in[2] * eb), w(call.weight_stride * call.weight_copies), out(1 << 20);
  call.ptr = {x.ptr(), w.ptr(), out.ptr()};
  call.size = {c.n, c.c, c.in[0], c.in[1], c.in[2], c.co, c.out[0], c.out[1], c.out[2]};
  call.config = &cfg;
  call.work = g.algo == AOTC_CONV_DIRECT ? c.n * c.co : c.groups * ceil_div(cog, g.mc) * row_phases * ceil_div(px, g.nc);
  call.scratch = aotc_conv_scratch_bytes(&cfg, c.depth(), ab);
  return time_call(call, threads, seconds);
}

Result<double> run(const AttnContract& c, const plan::AttnChoice& g, Isa isa, int threads, double seconds) {
  Call call;
  call.fn = find(fmt::format("aotc_attention_{}", plan::symbol_dtype(c.dtype)), isa);
  if (!call.fn) return Result<double>::fail("no such kernel");
  const int64_t eb = dtype_bytes(c.dtype), ab = std::max<int64_t>(4, eb);
  aotc_attn_config cfg = {0, 1, 2, 3, c.masked ? 4 : -1, AOTC_DTYPE_BOOL, c.causal, g.q_block, g.kv_block, 0.125};
  Memory q(c.batch * c.heads * c.q_len * c.e * eb), k(c.batch * c.kv_heads * c.kv_len * c.e * eb);
  Memory v(c.batch * c.kv_heads * c.kv_len * c.ev * eb), o(c.batch * c.heads * c.q_len * c.ev * eb), mask(c.q_len * c.kv_len);
  std::memset(mask.ptr(), 1, static_cast<size_t>(c.q_len * c.kv_len));
  call.ptr = {q.ptr(), k.ptr(), v.ptr(), o.ptr(), mask.ptr()};
  call.size = {c.batch, c.heads, c.kv_heads, c.q_len, c.kv_len, c.e, c.ev};
  auto view = [&](int64_t heads, int64_t len, int64_t e) {  // [batch, position, head, channel], as projections leave it
    call.size.insert(call.size.end(), {0, len * heads * e, e, heads * e, 1});
  };
  view(c.heads, c.q_len, c.e), view(c.kv_heads, c.kv_len, c.e), view(c.kv_heads, c.kv_len, c.ev), view(c.heads, c.q_len, c.ev);
  call.size.insert(call.size.end(), {0, 0, 0, c.kv_len, 1});
  call.config = &cfg;
  call.work = c.batch * c.kv_heads * ceil_div(c.heads / c.kv_heads * c.q_len, g.q_block);
  call.scratch = aotc_attn_scratch_bytes(&cfg, c.e, c.ev, ab);
  return time_call(call, threads, seconds);
}

}  // namespace

Result<double> measure_here(const Contract& contract, const plan::Choice& choice, Isa isa, int threads, double seconds) {
  using R = Result<double>;
  const auto native = native_isas();
  if (std::find(native.begin(), native.end(), isa) == native.end()) return R::fail(fmt::format("this machine lacks {}", isa_name(isa)));
  if (const auto* c = std::get_if<GemmContract>(&contract))
    if (const auto* g = std::get_if<plan::GemmChoice>(&choice)) return run(*c, *g, isa, threads, seconds);
  if (const auto* c = std::get_if<ConvContract>(&contract))
    if (const auto* g = std::get_if<plan::ConvChoice>(&choice)) return run(*c, *g, isa, threads, seconds);
  if (const auto* c = std::get_if<AttnContract>(&contract))
    if (const auto* g = std::get_if<plan::AttnChoice>(&choice)) return run(*c, *g, isa, threads, seconds);
  return R::fail("the choice is for another kind of kernel");
}

int run_measure_worker() {
  std::string line;
  while (std::getline(std::cin, line)) {
    nlohmann::json answer;
    const auto j = nlohmann::json::parse(line, nullptr, false);
    auto text = [&](const char* name) {
      return j.is_object() && j.contains(name) && j[name].is_string() ? j[name].get<std::string>() : std::string();
    };
    auto number = [&](const char* name, double otherwise) {
      return j.is_object() && j.contains(name) && j[name].is_number() ? j[name].get<double>() : otherwise;
    };
    const auto contract = contract_from(j.is_object() && j.contains("contract") ? j["contract"] : nlohmann::json());
    const auto choice = choice_from(j.is_object() && j.contains("choice") ? j["choice"] : nlohmann::json());
    std::optional<Isa> isa;
    for (Isa i : {Isa::avx2, Isa::avx512, Isa::avx512_bf16})
      if (isa_name(i) == text("isa")) isa = i;
    if (!contract) {
      answer["error"] = "contract: " + contract.why();
    } else if (!choice) {
      answer["error"] = "choice: " + choice.why();
    } else if (!isa) {
      answer["error"] = "isa is not known";
    } else {
      const auto r = measure_here(*contract, *choice, *isa, std::clamp(static_cast<int>(number("threads", 1)), 1, 256),
                                  std::clamp(number("seconds", 0.05), 0.001, 10.0));
      if (r)
        answer["ns"] = *r;
      else
        answer["error"] = r.why();
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace aotc::search
