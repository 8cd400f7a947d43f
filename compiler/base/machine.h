#pragma once
// What the code that is chosen, searched and compiled may count on: one row of an artifact's target with the sizes that decide how fast a
// choice is. Part of the key of a measurement.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/target.h"

namespace aotc {

struct Uarch;

struct Machine {
  Arch arch = Arch::x86_64;
  Isa isa = Isa::avx2;  ///< x86_64: the code version
  int sm = 0;           ///< cuda: 80, 90, 100
  bool own = false;     ///< cuda: instructions of this architecture alone ("sm_90a")
  FeatureSet features;  ///< what forms ask for: of the code version, whatever else the machine has
  int cores = 1;        ///< x86_64: threads of a run; cuda: multiprocessors
  int64_t l1_bytes = 0;
  int64_t l2_bytes = 0;                ///< x86_64: of a core; cuda: of the device
  int64_t l3_bytes = 0;                ///< x86_64: the last cache, which cores share
  int64_t shared_bytes = 0;            ///< cuda: the most of one block
  int64_t bytes_per_ns = 0;            ///< cuda: what a copy reaches of the memory's bandwidth
  std::string model;                   ///< "AMD EPYC", "NVIDIA H200"; empty: any machine of this kind
  std::shared_ptr<const Uarch> uarch;  ///< what things cost on it (base/uarch.h)

  bool is_gpu() const { return arch == Arch::cuda; }
  const ArchTraits& traits() const { return traits_of(arch); }
  bool has(Feature f) const { return features.has(f); }
  std::string name() const;  ///< "avx512", "sm_90a": the code version
  std::string str() const;   ///< all that is measured by: "avx512 2 threads L1 32K L2 1024K", and the data file that costs come from
};

/// What choices are made for: a machine, and what results may lose on it.
struct Goal {
  Machine machine;
  Numerics numerics;
  std::string str() const;  ///< everything that decides; measurements are keyed by it: the machine's text, ", int8 rows" ...
};

/// A machine of this kind of which nothing else is known: the sizes that are common among them.
Machine machine_of(Isa isa, int threads);
/// Throws Diagnostic (usage) where the text is no architecture ("sm_90a").
Machine machine_of(const std::string& sm);
/// The machine that runs aotc, at its best instruction set among `isas` or, where it has none of them, at the lowest.
Machine this_machine(const std::vector<Isa>& isas, int threads);

/// The numbers of a data file in the place of those that the machine has, sizes of caches and chips included.
void take_costs(Machine& machine, std::shared_ptr<const Uarch> uarch);

/// What decisions of this target are made for: the best code version; of this machine where it is `native`, else of any (named_threads.h);
/// with the costs and sizes of the target's data file, where it has one.
Machine machine_of(const Target& target);
Goal goal_of(const Target& target);
/// Processors that this process may run on.
int usable_processors();

}  // namespace aotc
