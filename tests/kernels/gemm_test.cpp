// Products of every dtype and instruction set against a naive fp64 loop: packed and run-time B, operands computed by prologues, any
// strides, batches, segments, sizes around the tiles' edges.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "aotc/detail/held_abi.h"
#include "aotc/detail/parts_abi.h"
#include "kernels/cpu/pack.h"
#include "lanes.h"
#include "support.h"

extern "C" void aotc_gemm_tiles_bf16_amx_emulated(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_gemm_held_bf16_amx_emulated(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_gemm_parts_f32_amx_emulated(const aotc_kargs*, int64_t, int64_t);
extern "C" void aotc_gemm_bf16w_parts_f32_amx_emulated(const aotc_kargs*, int64_t, int64_t);

namespace kernel_test {
namespace {

const Entry kTilesReal = entry("gemm_tiles", DType::bf16, "amx");
const Entry kTilesEmulated = {"avx512", DType::bf16, aotc_gemm_tiles_bf16_amx_emulated};
const Entry kHeldReal = entry("gemm_held", DType::bf16, "amx");
const Entry kHeldEmulated = {"avx512", DType::bf16, aotc_gemm_held_bf16_amx_emulated};
const Entry kPartsReal = entry("gemm_parts", DType::f32, "amx");
const Entry kPartsEmulated = {"avx512", DType::f32, aotc_gemm_parts_f32_amx_emulated};
const std::vector<Entry> kDots = entries("gemm_dots");
const std::vector<Entry> kStrassen = entries("gemm_strassen");
const Entry kHalfPartsReal = entry("gemm_bf16w_parts", DType::f32, "amx");
const Entry kHalfPartsEmulated = {"avx512", DType::f32, aotc_gemm_bf16w_parts_f32_amx_emulated};
const std::vector<Entry> kHalfWeights = [] {
  std::vector<Entry> all = entries("gemm_bf16w");
  all.insert(all.end(), {kHalfPartsReal, kHalfPartsEmulated});
  return all;
}();
const std::vector<Entry> kEntries = [] {
  std::vector<Entry> all = entries("gemm");
  all.insert(all.end(), {kTilesReal, kTilesEmulated});
  const std::vector<Entry> half = entries("gemm_bf16w");
  all.insert(all.end(), half.begin(), half.end());
  return all;
}();
bool is_of(const std::vector<Entry>& all, const Entry& e) {
  return std::any_of(all.begin(), all.end(), [&](const Entry& x) { return x.fn == e.fn; });
}
const std::vector<Entry> kInParts = {kPartsReal, kPartsEmulated, kHalfPartsReal, kHalfPartsEmulated};
bool in_parts(const Entry& e) { return is_of(kInParts, e); }
bool held(const Entry& e) { return e.fn == kHeldReal.fn || e.fn == kHeldEmulated.fn; }
bool half_weights(const Entry& e) { return is_of(kHalfWeights, e); }

/// The epilogue of the tests writes the accumulators to ptr[2] as [batch, m, n] with the segment's offset, and counts writes in ptr[3].
template <int kSegment>
void store_tile(const aotc_kargs* args, const void* acc, int64_t ld, int64_t batch, int64_t m0, int64_t rows, int64_t n0, int64_t cols) {
  const int64_t* s = args->size;
  const auto t = static_cast<DType>(s[AOTC_GEMM_SIZES + 4]);
  n0 += s[AOTC_GEMM_SIZES + 2 * kSegment];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      const int64_t at = (batch * s[AOTC_GEMM_M] + m0 + i) * s[AOTC_GEMM_N] + n0 + j;
      put(args->ptr[2], at, DType::f64, get(acc, i * ld + j, t));
      ++static_cast<int32_t*>(args->ptr[3])[at];
    }
}

/// What the prologues of the tests make of a stored element.
double made(double x, DType t) { return is_float(t) ? -x : x + 1; }

/// Where they read, behind the sizes of the kernel: dtype, then batch, row and column strides of A, then of B.
enum { kSource = AOTC_GEMM_SIZES + 5, kSourceA = kSource + 1, kSourceB = kSource + 4 };

/// The prologue of the tests; counts what it computes in ptr[4 + kOperand].
template <int kOperand>
void make_elements(const aotc_kargs* args, int64_t batch, int64_t row0, int64_t rows, int64_t col0, int64_t cols, void* dst, int64_t ld) {
  const int64_t* s = args->size + (kOperand == 0 ? kSourceA : kSourceB);
  const auto t = static_cast<DType>(args->size[kSource]);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      put(dst, i * ld + j, t, made(get(args->ptr[kOperand], batch * s[0] + (row0 + i) * s[1] + (col0 + j) * s[2], t), t));
  *static_cast<int64_t*>(args->ptr[4 + kOperand]) += rows * cols;
}

struct Case {
  int64_t b0 = 1, b1 = 1, m, n, k;
  bool packed = false, ta = false, tb = false;
  int segments = 1;
  int mc = 64, nc = 64, kc = 64, kp = 128;
  int pack_a = 0;
  bool make_a = false, make_b = false;  // by prologues
  bool denormals = false;               // some of the numbers; the products are not compared with fp64
  double* error_of = nullptr;           // gets the relative L2 against fp64
  std::vector<double> special = {};     // numbers of A here and there: what is computed of them is not compared with fp64
  int exponent = 0;                     // A times 2^exponent; then nothing is compared with fp64
  bool free_denormals = false;          // what the processor is said to be
  bool tiny = false;                    // rows of A all or partly next to nothing; B is so large that their sums are not
  bool infinite_b = false;              // some of B
  bool ordered = false;                 // sums in the order of k; B is the same whatever A is
};

/// Runs the case and gives back what it has computed.
std::vector<double> check(const Entry& e, const Case& c, std::mt19937& rng) {
  if (!runs_here(e.isa)) return {};
  const bool strassen = is_of(kStrassen, e);
  const DType bt = half_weights(e) ? DType::bf16 : e.dtype;
  INFO(e.isa << (e.fn == kTilesEmulated.fn ? ", emulated tiles, "
                 : held(e)                 ? ", held, "
                 : in_parts(e)             ? ", in parts, "
                 : half_weights(e)         ? ", bf16 weights, "
                 : strassen                ? ", Strassen, "
                                           : " ")
             << aotc::dtype_name(e.dtype) << " b " << c.b0 << "x" << c.b1 << " m " << c.m << " n " << c.n << " k " << c.k << " packed "
             << c.packed << " ta " << c.ta << " tb " << c.tb << " segments " << c.segments << " mc " << c.mc << " nc " << c.nc << " kc "
             << c.kc << " kp " << c.kp << " pack_a " << c.pack_a << " prologues " << c.make_a << c.make_b);
  const int64_t batch = c.b0 * c.b1, pad = rng() % 3;
  const int64_t a_rs = c.ta ? 1 : c.k + pad, a_cs = c.ta ? c.m + pad : 1, b_rs = c.tb ? 1 : c.n + pad, b_cs = c.tb ? c.k + pad : 1;
  const int64_t a_mat = c.ta ? a_cs * c.k : a_rs * c.m, b_mat = c.tb ? b_cs * c.n : b_rs * c.k;
  Buffer a(a_mat * batch, e.dtype, rng() % 2), b(b_mat * batch, bt, rng() % 2);
  a.fill(rng);
  std::mt19937 alike(77);
  b.fill(c.ordered ? alike : rng);
  for (int64_t i = 0; c.denormals && i < a.size; i += 3) a.put(i, std::ldexp(a.get(i), -120 - static_cast<int>(rng() % 12)));
  for (int64_t i = 0; !c.special.empty() && i < a.size; i += 37) a.put(i, c.special[rng() % c.special.size()]);
  for (int64_t i = 0; c.exponent != 0 && i < a.size; ++i) a.put(i, std::ldexp(a.get(i), c.exponent));
  for (int64_t z = 0; c.tiny && z < batch * c.m; ++z)
    for (int64_t x = 0; x < c.k; ++x) {
      const int64_t at = z / c.m * a_mat + z % c.m * a_rs + x * a_cs;
      if (z % 3 == 0 || x % 5 < z % 3) a.put(at, std::ldexp(a.get(at), -90 - static_cast<int>(rng() % 60)));
    }
  for (int64_t i = 0; c.tiny && i < b.size; ++i) b.put(i, std::ldexp(b.get(i), 110));
  for (int64_t i = 0; c.infinite_b && i < b.size; i += 97) b.put(i, std::numeric_limits<double>::infinity());
  const bool share_b = rng() % 2;  // batch stride 0
  const int64_t cut = c.segments == 2 ? c.n / 3 : c.n;
  const int64_t b_b1 = share_b ? 0 : b_mat, b_b0 = share_b ? 0 : b_mat * c.b1;
  std::vector<int64_t> size = {c.b0, c.b1, c.m,  c.n, c.k, 0, a_mat * c.b1, a_mat, a_rs, a_cs, 0, b_b0,
                               b_b1, b_rs, b_cs, 0,   0,   0, cut,          cut,   c.n};
  size.push_back(static_cast<int64_t>(acc_of(e.dtype)));
  size.insert(size.end(), {static_cast<int64_t>(e.dtype), a_mat, a_rs, a_cs, share_b ? 0 : b_mat, b_rs, b_cs});
  if (c.make_a) std::fill(&size[AOTC_GEMM_A_BASE], &size[AOTC_GEMM_A_CS] + 1, 0);  // of no meaning
  if (c.make_b) std::fill(&size[AOTC_GEMM_B_BASE], &size[AOTC_GEMM_B_CS] + 1, 0);
  std::unique_ptr<Scratch> panels;
  if (c.packed) {  // a set of panels for each matrix
    const int64_t first = aotc::kernels::panel_bytes(c.k, cut, bt), set = first + aotc::kernels::panel_bytes(c.k, c.n - cut, bt);
    const int64_t sets = share_b ? 1 : batch, eb = aotc::dtype_bytes(bt);
    panels = std::make_unique<Scratch>(set * sets + 64);
    for (int64_t z = 0; z < sets; ++z) {
      char *p = static_cast<char*>(panels->ptr()) + z * set, *from = static_cast<char*>(b.ptr()) + z * b_mat * eb;
      aotc::kernels::pack_panels(from, b_rs, b_cs, c.k, cut, bt, p);
      if (c.segments == 2) aotc::kernels::pack_panels(from + cut * b_cs * eb, b_rs, b_cs, c.k, c.n - cut, bt, p + first);
    }
    size[AOTC_GEMM_B_B1] = share_b ? 0 : set / eb, size[AOTC_GEMM_B_B0] = share_b ? 0 : c.b1 * set / eb;
  }
  const aotc_epilogue_fn epilogues[2] = {store_tile<0>, store_tile<1>};
  aotc_gemm_config cfg = {0,
                          1,
                          14,
                          2,
                          c.mc,
                          c.nc,
                          c.kc,
                          c.kp,
                          c.packed,
                          c.pack_a,
                          c.segments,
                          epilogues,
                          c.make_a ? make_elements<0> : nullptr,
                          c.make_b ? make_elements<1> : nullptr,
                          nullptr,
                          c.ordered};
  std::vector<double> out(static_cast<size_t>(batch * c.m * c.n), -77);
  std::vector<int32_t> writes(out.size(), 0);
  int64_t computed[2] = {0, 0};
  void* ptr[] = {a.ptr(), c.packed ? panels->ptr() : b.ptr(), out.data(), writes.data(), &computed[0], &computed[1]};
  const int64_t acc_bytes = acc_of(e.dtype) == DType::f64 || acc_of(e.dtype) == DType::i64 ? 8 : 4;
  const int64_t widened = c.packed && aotc::dtype_bytes(bt) == 2 ? AOTC_GEMM_WIDENED_BYTES : 0;
  int64_t scratch_bytes = aotc_gemm_scratch_bytes(&cfg, c.k, acc_bytes) + widened;
  if (strassen)
    scratch_bytes = aotc_gemm_strassen_scratch_bytes(&cfg, c.k) + (c.make_a ? aotc_gemm_strassen_prologue_bytes(&cfg, c.k) : 0);
  else if (c.make_a || c.make_b)
    scratch_bytes += aotc_gemm_prologue_bytes(&cfg, c.k, acc_bytes, c.make_a, c.make_b);
  if (e.fn == kTilesReal.fn || e.fn == kTilesEmulated.fn) scratch_bytes = std::max(scratch_bytes, aotc_gemm_tiles_scratch_bytes(&cfg, c.k));
  if (held(e)) scratch_bytes = std::max(scratch_bytes, aotc_gemm_held_scratch_bytes(&cfg, c.k));
  if (in_parts(e)) scratch_bytes = std::max(scratch_bytes, aotc_gemm_parts_scratch_bytes(&cfg, c.k) + AOTC_GEMM_PARTS_ROOM);
  if (c.make_a) cfg.a_ptr = -1;
  if (c.make_b) cfg.b_ptr = -1;
  Scratch scratch(scratch_bytes);
  volatile int32_t fault = 0;
  aotc_kargs args = {ptr, size.data(), &cfg, scratch.ptr(), 0, 1, &fault, nullptr, c.free_denormals};
  auto blocks = [](int64_t x, int64_t by) { return (x + by - 1) / by; };
  const int64_t work = batch * blocks(c.m, c.mc) * (blocks(cut, c.nc) + blocks(c.n - cut, c.nc) * (c.segments == 2));
  const int64_t split = work ? static_cast<int64_t>(rng() % (work + 1)) : 0;
  const bool in_order = run_parts(e, args, work, split);
  if (c.denormals || !c.special.empty() || c.exponent != 0) return out;
  double worst = 0, worst_sum = 0, most = 0, squares = 0, of_squares = 0;
  bool once = true;
  int64_t other = 0;
  const std::vector<double> as = values_of(a), bs = values_of(b);
  const auto value = [&](const std::vector<double>& of, int64_t at, bool by_prologue) {
    const double v = of[static_cast<size_t>(at)];
    return by_prologue ? made(v, e.dtype) : v;
  };
  const int64_t column_blocks = blocks(c.n, kLanes);
  std::vector<Lanes> columns(static_cast<size_t>(column_blocks * c.k));  // of B: [block][k]
  for (int64_t z = 0; z < batch; ++z) {
    std::fill(columns.begin(), columns.end(), Lanes{});
    for (int64_t j = 0; j < c.n; ++j)
      for (int64_t x = 0; x < c.k; ++x)
        columns[static_cast<size_t>(j / kLanes * c.k + x)][j % kLanes] =
            value(bs, (share_b ? 0 : z * b_mat) + x * b_rs + j * b_cs, c.make_b);
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t block = 0; block < column_blocks; ++block) {
        Lanes sum = {}, mag = {};
        for (int64_t x = 0; x < c.k; ++x) {
          const Lanes t = value(as, z * a_mat + i * a_rs + x * a_cs, c.make_a) * columns[static_cast<size_t>(block * c.k + x)];
          sum += t;
          mag += t < 0 ? -t : t;
        }
        for (int64_t j = block * kLanes; j < std::min(c.n, (block + 1) * kLanes); ++j) {
          const auto at = static_cast<size_t>((z * c.m + i) * c.n + j);
          const double want = sum[j % kLanes], of = mag[j % kLanes];
          once &= writes[at] == 1;
          if (!std::isfinite(want)) {
            other += std::isnan(want) ? !std::isnan(out[at]) : out[at] != want;
            continue;
          }
          squares += (out[at] - want) * (out[at] - want), of_squares += want * want;
          worst = std::max(worst, std::fabs(out[at] - want) / (of + 1e-30));
          worst_sum = std::max(worst_sum, std::fabs(out[at] - want)), most = std::max(most, of);
        }
      }
  }
  CHECK(once);
  CHECK(other == 0);
  if (strassen)  // errors are those of the larger of rows and columns that go together
    CHECK(worst_sum <= 8 * epsilon(DType::f32) * most);
  else
    CHECK(worst <= 4 * epsilon(acc_of(e.dtype)));
  if (c.error_of) *c.error_of = std::sqrt(squares / of_squares);
  // Rows are kept over the blocks of columns that follow: only what does not go on where the first part ends computes some of them again.
  if (is_float(e.dtype) && c.make_a && !c.make_b && c.k <= c.kp && c.n > 0)
    CHECK(computed[0] <= batch * c.m * c.k + (in_order ? 0 : std::min<int64_t>(c.mc, c.m) * c.k));
  return out;
}

TEST_CASE("gemm against fp64", "[gemm]") {
  std::mt19937 rng(7);
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : kEntries) {
    for (int i = 0; i < 60; ++i) {
      Case c{};
      c.m = pick({0, 1, 2, 3, 5, 7, 13, 14, 15, 29, 64, 65});
      c.n = pick({0, 1, 8, 15, 16, 17, 31, 32, 33, 64, 95, 130});
      c.k = pick({0, 1, 2, 3, 8, 17, 64, 65, 127, 128, 300});
      c.b0 = pick({1, 1, 2});
      c.b1 = pick({1, 1, 3});
      c.packed = half_weights(e) || (is_float(e.dtype) && rng() % 2);
      c.ta = rng() % 3 == 0;
      c.tb = rng() % 2;
      c.segments = 1 + rng() % 2;
      c.mc = static_cast<int>(pick({8, 28, 64, 512}));
      c.nc = static_cast<int>(pick({32, 64, 256}));
      c.kc = static_cast<int>(pick({2, 32, 64, 512}));
      c.kp = c.kc * static_cast<int>(pick({1, 2, 100}));
      c.pack_a = rng() % 2;
      check(e, c, rng);
      c.make_a = rng() % 3 != 0;
      c.make_b = !c.packed && (!c.make_a || rng() % 2);
      if (c.make_a || c.make_b) check(e, c, rng);
    }
  }
}

TEST_CASE("register tiles of any number of steps against fp64", "[gemm]") {
  std::mt19937 rng(59);
  for (const Entry& e : kEntries) {
    if (e.dtype != DType::f32) continue;
    for (int64_t m : {19, 24, 28, 35, 54})
      for (int64_t k : {1, 2, 3, 4, 5, 7, 255, 256, 257, 258, 259, 263})
        for (int i = 0; i < 4; ++i) {
          Case c{};
          c.m = m, c.n = i < 2 ? 16 : 40, c.k = k, c.packed = half_weights(e) || k % 2, c.pack_a = i % 2, c.mc = 64, c.kc = 512,
          c.kp = 1024;
          check(e, c, rng);
        }
  }
}

TEST_CASE("rows with tiny numbers against fp64", "[gemm]") {
  std::mt19937 rng(53);
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : kEntries)
    for (int i = 0; i < 60 && e.dtype == DType::f32; ++i) {
      Case c{};
      c.m = pick({1, 3, 15, 29, 65});
      c.n = pick({1, 17, 32, 95});
      c.k = pick({1, 63, 65, 130, 300});
      c.packed = half_weights(e) || rng() % 2;
      c.ta = rng() % 3 == 0;
      c.pack_a = rng() % 2;
      c.mc = static_cast<int>(pick({14, 64}));
      c.kc = static_cast<int>(pick({32, 512}));
      c.tiny = true;
      c.free_denormals = i % 3 == 0;
      c.infinite_b = i % 2;
      c.make_a = rng() % 3 == 0;
      check(e, c, rng);
    }
}

TEST_CASE("gemm by Strassen's products against fp64", "[gemm]") {
  std::mt19937 rng(17);
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : kStrassen) {
    for (int i = 0; i < 150; ++i) {
      Case c{};
      c.m = pick({0, 1, 2, 3, 5, 7, 11, 12, 13, 14, 25, 27, 28, 29, 57, 64, 85});
      c.n = pick({0, 1, 15, 16, 17, 31, 32, 33, 48, 64, 65, 96, 97, 130, 192});
      c.k = pick({2, 4, 6, 8, 18, 64, 66, 126, 128, 300});
      c.b0 = pick({1, 1, 2});
      c.b1 = pick({1, 1, 3});
      c.packed = true;
      c.ta = rng() % 3 == 0;
      c.tb = rng() % 2;
      c.segments = 1 + rng() % 2;
      c.mc = static_cast<int>(pick({1, 7, 28, 29, 64, 512}));
      c.nc = static_cast<int>(pick({64, 128, 256}));
      c.kc = static_cast<int>(pick({2, 32, 64, 256}));
      check(e, c, rng);
      c.make_a = true;
      check(e, c, rng);
    }
  }
}

TEST_CASE("a sum of products of seven rows or more does not depend on the columns beside it", "[gemm]") {
  for (const Entry& e : kEntries) {
    if (!is_float(e.dtype) || !runs_here(e.isa) || std::string_view(e.isa) == "avx2") continue;
    for (int64_t m : {7, 8, 13, 14, 29, 49})
      for (int64_t n : {3, 8, 24, 33, 40, 72}) {  // a vector's half or less is left
        Case c{};
        c.m = m, c.n = n, c.k = 70, c.packed = true, c.tb = true, c.kc = 32, c.kp = 64, c.pack_a = m % 2;
        std::mt19937 one(5), other(5);
        const std::vector<double> narrow = check(e, c, one);
        c.n = (n + 31) / 32 * 32;
        const std::vector<double> wide = check(e, c, other);
        bool same = true;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) same &= narrow[static_cast<size_t>(i * n + j)] == wide[static_cast<size_t>(i * c.n + j)];
        CAPTURE(e.isa, aotc::dtype_name(e.dtype), m, n);
        CHECK(same);
      }
  }
}

TEST_CASE("ordered sums of a row are the same bits for any number of rows", "[gemm]") {
  for (const Entry& e : kEntries) {
    if (e.fn == kTilesReal.fn || e.fn == kTilesEmulated.fn || !is_float(e.dtype) || !runs_here(e.isa)) continue;
    for (const bool denormals : {false, true})
      for (const int64_t n : {1, 7, 16, 24, 40, 70}) {
        Case c{};
        c.m = 30, c.n = n, c.k = 75, c.packed = n % 2 == 0 || half_weights(e), c.kc = 32, c.kp = 64, c.ordered = true,
        c.denormals = denormals;
        const auto run = [&](int64_t m, int mc, int pack_a) {
          c.m = m, c.mc = mc, c.pack_a = pack_a;
          std::mt19937 rng(5);
          return check(e, c, rng);
        };
        const std::vector<double> all = run(30, 64, 0);
        for (int64_t m = 1; m <= 29; ++m) {
          const std::vector<double> some = run(m, m % 3 ? 64 : 8, static_cast<int>(m % 2));
          CAPTURE(e.isa, aotc::dtype_name(e.dtype), m, n, denormals);
          CHECK(std::equal(some.begin(), some.end(), all.begin()));
        }
      }
  }
}

TEST_CASE("products as dot products against fp64", "[gemm]") {
  std::mt19937 rng(9);
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  for (const Entry& e : kDots)
    for (int i = 0; i < 100; ++i) {
      Case c{};
      c.m = pick({0, 1, 2, 3, 4, 5, 17, 64}), c.n = pick({0, 1, 2, 3, 4, 7, 33, 130}), c.k = pick({0, 1, 7, 8, 15, 16, 17, 64, 300});
      c.b0 = pick({1, 2}), c.b1 = pick({1, 3}), c.tb = true, c.segments = 1 + rng() % 2;
      c.mc = static_cast<int>(pick({1, 4, 16, 64})), c.nc = static_cast<int>(pick({32, 128}));
      check(e, c, rng);
    }
}

Case around_tiles(std::mt19937& rng) {
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  Case c{};
  c.m = pick({1, 4, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 70, 100});
  c.n = pick({1, 10, 16, 17, 31, 32, 33, 64, 80, 130});
  c.k = pick({0, 1, 2, 30, 31, 32, 33, 63, 64, 65, 96, 160, 161, 511, 512});
  c.b1 = pick({1, 1, 2});
  c.packed = rng() % 2;
  c.ta = rng() % 3 == 0;
  c.tb = rng() % 2;
  c.segments = 1 + rng() % 2;
  c.mc = static_cast<int>(pick({1, 16, 20, 32, 64, 512}));
  c.nc = static_cast<int>(pick({32, 64, 256}));
  c.pack_a = rng() % 2;
  c.make_a = rng() % 4 == 0;
  c.make_b = !c.packed && rng() % 3 == 0;
  return c;
}

TEST_CASE("gemm in tiles against fp64", "[gemm]") {
  std::mt19937 rng(11);
  for (const Entry& e : {kTilesReal, kTilesEmulated}) {
    for (int i = 0; i < 150; ++i) check(e, around_tiles(rng), rng);
  }
}

TEST_CASE("emulated tiles give the bits of the hardware's", "[gemm]") {
  if (!runs_here(kTilesReal.isa)) return;
  std::mt19937 rng(13);
  for (int i = 0; i < 200; ++i) {
    Case c = around_tiles(rng);
    c.denormals = rng() % 2;
    std::mt19937 same = rng;
    CHECK(check(kTilesReal, c, rng) == check(kTilesEmulated, c, same));
  }
}

Case around_held(std::mt19937& rng) {
  auto pick = [&](std::initializer_list<int64_t> xs) { return xs.begin()[rng() % xs.size()]; };
  Case c = around_tiles(rng);
  c.packed = true, c.make_b = false;
  const int64_t part = int64_t{AOTC_GEMM_HELD_STEPS} * 32;
  c.k = pick({AOTC_GEMM_HELD_LEAST_K, 65, 96, 300, part, part + 1, part + 32, 2 * part, 2 * part + 2, 3 * part + 31, 4 * part + 33});
  return c;
}

TEST_CASE("gemm in parts of k that stay near against fp64", "[gemm]") {
  std::mt19937 rng(41);
  for (const Entry& e : {kHeldReal, kHeldEmulated})
    for (int i = 0; i < 120; ++i) check(e, around_held(rng), rng);
}

TEST_CASE("emulated tiles give the bits of the hardware's for parts of k", "[gemm]") {
  if (!runs_here(kHeldReal.isa)) return;
  std::mt19937 rng(43);
  for (int i = 0; i < 60; ++i) {
    Case c = around_held(rng);
    c.denormals = rng() % 2;
    std::mt19937 same = rng;
    CHECK(check(kHeldReal, c, rng) == check(kHeldEmulated, c, same));
  }
}

Case around_parts(std::mt19937& rng) {
  Case c = around_tiles(rng);
  c.packed = true, c.make_b = false;
  c.kp = rng() % 2 ? 64 : 1024;
  if (c.kp == 64) c.nc = rng() % 2 ? 64 : 128;
  if (rng() % 2) {  // the weight's parts are kept
    c.m = AOTC_GEMM_PARTS_KEPT_ROWS + static_cast<int64_t>(rng() % 50);
    c.segments = 1, c.kp = 1024, c.nc = 160;
  }
  return c;
}

TEST_CASE("gemm of numbers in three parts against fp64", "[gemm]") {
  std::mt19937 rng(23);
  for (const Entry& e : kInParts)
    for (int i = 0; i < 150; ++i) check(e, around_parts(rng), rng);
}

TEST_CASE("numbers in three parts are no less exact than sums of float32", "[gemm]") {
  const Entry plain = entry("gemm", DType::f32, "avx512");
  if (!runs_here(plain.isa)) return;
  for (int64_t k : {64, 512, 1500}) {
    Case c{};
    c.m = 40, c.n = 64, c.k = k, c.packed = true, c.kc = 256, c.kp = 1024;
    const auto worst = [&](const Entry& e) {
      std::mt19937 rng(37);
      Case exact = c;
      double largest = 0;
      exact.error_of = &largest;
      check(e, exact, rng);
      return largest;
    };
    const double sums = worst(plain);
    CAPTURE(k);
    CHECK(worst(kPartsEmulated) <= sums);
    if (runs_here(kPartsReal.isa)) CHECK(worst(kPartsReal) <= sums);
  }
}

TEST_CASE("emulated tiles give the bits of the hardware's for parts", "[gemm]") {
  if (!runs_here(kPartsReal.isa)) return;
  std::mt19937 rng(29);
  for (int i = 0; i < 100; ++i) {
    Case c = around_parts(rng);
    c.denormals = rng() % 2;
    std::mt19937 same = rng;
    CHECK(check(kPartsReal, c, rng) == check(kPartsEmulated, c, same));
  }
}

TEST_CASE("what has no parts is summed as float32 is", "[gemm]") {
  const double inf = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();
  const Entry plain = entry("gemm", DType::f32, "avx512");
  if (!runs_here(plain.isa)) return;
  const Entry half = entry("gemm_bf16w", DType::f32, "avx512");
  std::mt19937 rng(31);
  for (const Entry& e : kInParts)
    for (int i = 0; i < 60; ++i) {
      Case c = around_parts(rng);
      if (!runs_here(e.isa)) continue;
      c.special = i % 2 ? std::vector<double>{inf} : std::vector<double>{inf, -inf, none};
      std::mt19937 same = rng;
      const std::vector<double> parts = check(e, c, rng), whole = check(half_weights(e) ? half : plain, c, same);
      size_t other = 0;
      for (size_t at = 0; at < parts.size(); ++at) {
        const bool alike = std::isfinite(whole[at]) ? std::fabs(parts[at] - whole[at]) <= 1e-5 * std::fabs(whole[at]) + 1e-3
                           : std::isnan(whole[at])  ? std::isnan(parts[at])
                                                    : parts[at] == whole[at];
        other += !alike;
      }
      CHECK(other == 0);
    }
}

TEST_CASE("numbers too small for three parts are summed as float32 is", "[gemm]") {
  const Entry plain = entry("gemm", DType::f32, "avx512");
  const Entry half = entry("gemm_bf16w", DType::f32, "avx512");
  if (!runs_here(plain.isa)) return;
  std::mt19937 rng(41);
  for (const Entry& e : kInParts)
    for (int exponent : {-100, -112, -120, -126, -132})
      for (int i = 0; i < 8; ++i) {
        Case c = around_parts(rng);
        if (!runs_here(e.isa)) continue;
        c.exponent = exponent;
        std::mt19937 same = rng;
        const std::vector<double> parts = check(e, c, rng), whole = check(half_weights(e) ? half : plain, c, same);
        double worst = 0, most = 0;
        for (size_t at = 0; at < parts.size(); ++at)
          worst = std::max(worst, std::fabs(parts[at] - whole[at])), most = std::max(most, std::fabs(whole[at]));
        CAPTURE(exponent);
        CHECK(worst <= std::max(1e-5 * most, std::ldexp(static_cast<double>(c.k), -149)));
      }
}

}  // namespace
}  // namespace kernel_test
