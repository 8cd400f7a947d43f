#include "base/arch.h"

#include "base/diagnostic.h"

namespace aotc {

namespace {

constexpr ArchTraits kTraits[] = {
    {.arch = Arch::x86_64,
     .code = "CPU",
     .own_weights = true,
     .strips = true,
     .whole_programs = true,
     .int8_rows = true,
     .reproducible = true,
     .waits_for_conditions = true,
     .mixed_recurrences = true,
     .weights_of_4_bits = true,
     .float32_by_bytes = true,
     .scaled_additions = true,
     .far_stores = true},
    {.arch = Arch::cuda,
     .code = "CUDA",
     .device_code = true,
     .graphs = true,
     .joined_steps = true,
     .reduces_in_blocks = true,
     .rows_of_bags = true,
     .group_norms = true,
     .fourier_in_blocks = true,
     .weights_of_4_bits = true,
     .weights_of_float8 = true,
     .scales_by_column = true},
};

}  // namespace

const ArchTraits& traits_of(Arch arch) {
  for (const ArchTraits& t : kTraits)
    if (t.arch == arch) return t;
  AOTC_CHECK(false, "architecture {} has no traits", static_cast<int>(arch));
}

}  // namespace aotc
