#pragma once
// What a CPU costs, measured on it: numbers of base/uarch_cpu.def and uarch_both.def that aotc's own kernels tell (aotc calibrate). A
// number is the one with which the estimate of a kernel's form is the time that the kernel took, so that its unit is that of the estimates.
#include <string>
#include <vector>

#include "base/uarch.h"
#include "emit/toolchain.h"
#include "pipeline/pipeline.h"

namespace aotc::pipeline {

struct CalibrateOptions {
  std::string like;      ///< whose numbers the others are (uarch_names); a CPU's
  double seconds = 1.2;  ///< that each kernel is timed for
  int jobs = 0;          ///< parallel compiles; 0: the machine's
  emit::CacheOptions cache = emit::user_cache();
};

struct Calibration {
  struct Measured {
    std::string name;
    double value = 0;
    std::string how;
  };
  struct Left {
    std::string name, why;
  };
  Machine machine;                 ///< the code version and the processor that were measured, of one thread; costs are the new ones
  std::vector<Measured> measured;  ///< in the order in which they were
  std::vector<Left> left;          ///< of what was tried: the numbers of `like` stay
};

/// The best code version of this machine, on one thread. `known`: numbers that the caller has measured. Throws Diagnostic:
/// toolchain where no kernel could be measured, io.
Calibration calibrate(const CalibrateOptions& options, const std::vector<Calibration::Measured>& known, const Events& events);

}  // namespace aotc::pipeline
