// The instruction sets of this machine.
#include "aotc/detail/cpuid.h"
#include "base/target.h"

namespace aotc {

std::vector<Isa> native_isas() { return isas_of(aotc_cpu_features(aotc_hardware_cpuid, aotc_hardware_xgetbv)); }

}  // namespace aotc
