#pragma once
// The model that the estimates of forms share. A form counts what its kernel does: arithmetic, bytes, pieces of work, launches; here is how
// these become time: what runs side by side hides all but a part of the shorter, pieces that do not fill the machine leave some of it idle.
// The numbers are the machine's (base/uarch).
#include <algorithm>
#include <cmath>

#include "base/machine.h"
#include "base/uarch.h"

namespace aotc::forms {

/// Of two that run side by side, of which the part `shown` of the shorter one is not hidden.
inline double overlapped(double a, double b, double shown) { return std::max(a, b) + shown * std::min(a, b); }

namespace cpu {

/// The slowest core's share of `units` equal units of work.
inline double imbalance(int64_t units, const Machine& m) {
  if (units <= 0) return 1;
  const int threads = m.cores;
  const double share = static_cast<double>((units + threads - 1) / threads) / static_cast<double>(units);
  return units < 4 * threads ? share * cpu_costs(m).few_units : share;
}
/// ns of so many cycles of one core, in equal units that all of them share.
inline double shared_ns(double cycles, int64_t units, const Machine& m) { return cycles * imbalance(units, m) * cpu_costs(m).ns_per_cycle; }
/// Simple operations of lanes, beside which their bytes come from memory.
inline double stream_ns(double ops, double lanes, double bytes, const Machine& m) {
  return std::max(ops / (cpu_costs(m).lane_ops_per_ns * lanes * m.cores), bytes / cpu_costs(m).memory_bytes_per_ns);
}

}  // namespace cpu

namespace cuda {

inline double memory_ns(double bytes, const Machine& m) { return bytes / static_cast<double>(m.bytes_per_ns); }
/// How often the machine is filled by `blocks` of which `at_once` run at once: once at least, and then in parts, as they end one by one.
inline double rounds(double blocks, double at_once) { return std::max(1.0, blocks / at_once); }
/// The same where those of a round end together.
inline double whole_rounds(double blocks, double at_once) { return std::max(1.0, std::ceil(blocks / at_once)); }
/// Blocks that run beside each other on a processor with room for `resident`.
inline double beside(double blocks, double resident, double processors) { return std::min(resident, rounds(blocks, processors)); }

}  // namespace cuda

}  // namespace aotc::forms
