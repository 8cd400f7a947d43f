#include "forms/cuda/simt_tile.h"

#include <algorithm>

#include "forms/cuda/common.h"
#include "kernels/cuda/limits.cuh"

namespace aotc::forms::cuda {

std::span<const Member<SimtChoice>> SimtChoice::members() {
  static const Member<SimtChoice> kRows[] = {
      {{"block_m", 1, 256}, &SimtChoice::block_m},  {{"block_n", 1, 256}, &SimtChoice::block_n},
      {{"block_k", 1, 64}, &SimtChoice::block_k},   {{"thread_m", 1, 16}, &SimtChoice::thread_m},
      {{"thread_n", 1, 16}, &SimtChoice::thread_n},
  };
  return kRows;
}

Fit takes_products(DType t) { return is_bool(t) || is_complex(t) ? refuse("products are of numbers, not {}", dtype_name(t)) : Fit::yes(); }

Fit legal_simt(const SimtChoice& t) {
  if (t.block_m % t.thread_m || t.block_n % t.thread_n) return refuse("a thread's share does not divide the block's");
  if (t.threads() % 32 || t.threads() > kBlockThreadsMost) return refuse("{} threads", t.threads());
  if (t.block_m * t.block_k % t.threads() || t.block_n * t.block_k % t.threads()) return refuse("threads do not share the loads evenly");
  return Fit::yes();
}

std::span<const SimtChoice> simt_tiles() {
  static const SimtChoice kTiles[] = {
      {{64, 64, 16, 4, 4}}, {{128, 64, 16, 8, 4}}, {{32, 32, 32, 2, 4}}, {{16, 64, 32, 2, 4}}, {{64, 16, 32, 4, 2}}};
  return kTiles;
}

double simt_cost(const SimtChoice& t, int64_t m, int64_t n, int64_t k, int64_t batch, DType acc, double found, const Machine& machine) {
  const GpuCosts& u = gpu_costs(machine);
  auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const double blocks = static_cast<double>(ceil_div(m, t.block_m) * ceil_div(n, t.block_n) * batch);
  const double resident = std::max(1.0, std::min(static_cast<double>(u.threads) / t.threads() / 2, blocks / machine.cores));
  const double waves = whole_rounds(blocks, machine.cores * resident);
  const double wide = dtype_bytes(acc) == 8 ? 2 : 1;
  // Instructions of one thread for one k: products, reads of its tile, its share of the loads.
  const double instructions = wide * t.thread_m * t.thread_n + 1.0 * (t.thread_m + t.thread_n) +
                              ((u.simt_load + found) * t.block_n + u.simt_load * t.block_m) / t.threads();
  const double lanes = u.lanes * u.clock;  // of one processor, a nanosecond; a block alone waits for its loads
  const double busy = std::min(1.0, resident * t.threads() / u.simt_busy_threads);
  const double depth = static_cast<double>(ceil_div(k, t.block_k) * t.block_k);
  return u.launch + waves * u.simt_wave + waves * depth * instructions * t.threads() * resident / (lanes * busy);
}

int64_t at_least_one(const Expr& e, const Site& s) { return std::max<int64_t>(1, s.syms.hint(e)); }

}  // namespace aotc::forms::cuda
