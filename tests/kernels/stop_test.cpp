// Products whose run ends while they compute: they ask often, and do nothing more once they are told.
#include <catch2/catch.hpp>

#include "support.h"

namespace kernel_test {
namespace {

constexpr int64_t kM = 128, kN = 512, kK = 256;
constexpr int64_t kMostBetween = int64_t{1} << 21;  ///< multiply-adds between two asks: 50 us of a core that does 40 in a nanosecond

/// The end of a run as a kernel sees it; the user of aotc_kargs.ends.
struct End {
  int64_t at = 0;  ///< the ask that is told to end; 0: none
  int64_t asks = 0, stored = 0, stored_after = 0;
  bool told() const { return at > 0 && asks >= at; }
};

int32_t ends(void* user) {
  auto* const end = static_cast<End*>(user);
  ++end->asks;
  return end->told();
}

void count_stored(const aotc_kargs* args, const void*, int64_t, int64_t, int64_t, int64_t rows, int64_t, int64_t cols) {
  auto* const end = static_cast<End*>(args->ends_user);
  (end->told() ? end->stored_after : end->stored) += rows * cols;
}

End run(const Entry& e, int64_t at) {
  std::mt19937 rng(3);
  Buffer a(kM * kK, e.dtype, 0), b(kK * kN, e.dtype, 0);
  a.fill(rng);
  b.fill(rng);
  const aotc_epilogue_fn epilogues[1] = {count_stored};
  aotc_gemm_config cfg = {0, 1, 14, 2, kM, kN, 256, 512, false, 1, 1, epilogues, nullptr, nullptr, nullptr, false};
  const int64_t size[] = {1, 1, kM, kN, kK, 0, 0, 0, kK, 1, 0, 0, 0, kN, 1, 0, 0, 0, kN};
  void* ptr[] = {a.ptr(), b.ptr(), nullptr};
  Scratch scratch(aotc_gemm_scratch_bytes(&cfg, kK, static_cast<int64_t>(aotc::dtype_bytes(acc_of(e.dtype)))));
  volatile int32_t fault = 0;
  End end;
  end.at = at;
  const aotc_kargs args = {ptr, size, &cfg, scratch.ptr(), 0, 1, &fault, nullptr, 0, ends, &end};
  e.fn(&args, 0, 1);
  return end;
}

TEST_CASE("a product of floats asks whether its run ends, and ends", "[gemm]") {
  for (const Entry& e : entries("gemm")) {
    if (!is_float(e.dtype) || !runs_here(e.isa)) continue;
    CAPTURE(e.isa, aotc::dtype_name(e.dtype));
    const End whole = run(e, 0);
    CHECK(whole.stored == kM * kN);
    CHECK(whole.asks >= kM * kN * kK / kMostBetween);
    for (const int64_t at : {int64_t{1}, whole.asks / 3, whole.asks}) {
      const End end = run(e, at);
      CHECK(end.stored_after == 0);
      CHECK(end.stored < kM * kN);
    }
  }
}

}  // namespace
}  // namespace kernel_test
