#pragma once
// Architectures, and what there is for each: what passes, plans and the pipeline ask instead of the architecture's name.
#include <cstdint>
#include <string_view>

namespace aotc {

enum class Arch : uint8_t { x86_64, cuda };

/// One entry for each architecture (arch.cpp). A new architecture is a new entry.
struct ArchTraits {
  Arch arch = Arch::x86_64;
  std::string_view code;     ///< what its kernels are called in messages: "CPU", "CUDA"
  bool device_code = false;  ///< kernels are images that the runtime loads (cubins), else objects that are linked
  bool graphs = false;       ///< a run may be one launch of a recorded graph
  bool own_weights = false;  ///< a process may run on a copy of the weights in huge pages

  // What may be chosen.
  bool strips = false;          ///< several kernels may run over a strip of rows at a time, in one step
  bool joined_steps = false;    ///< kernels that follow each other may become one launch for some sizes
  bool whole_programs = false;  ///< the search compares forms of a whole program, and what results may lose

  bool int8_rows = false;     ///< products may round the rows that they multiply to 8 bits (Numerics::int8_rows)
  bool reproducible = false;  ///< a row's results may be the same whatever stands beside it (Numerics::reproducible)

  // How kernels behave.
  bool waits_for_conditions = false;  ///< a condition is known before what follows it runs; else writes are masked by it
  bool reduces_in_blocks = false;     ///< a reduction is a block of threads: long ones across rows, and of places, run in two steps, too

  // Which kernels there are.
  bool rows_of_bags = false;       ///< rows are added by bags alone, of tables of 16 bits, too; else one by one, of the sum's type
  bool group_norms = false;        ///< a norm of groups of channels that lie last is one kernel
  bool fourier_in_blocks = false;  ///< Fourier transforms are of a block of threads; else of lanes
  bool mixed_recurrences = false;  ///< a recurrence may have weights of another type than its values
  bool weights_of_4_bits = false;  ///< weights that four bits hold are stored so; else bytes
  bool float32_by_bytes = false;   ///< products with weights in bytes are of float32; else of the values' own type, of 16 bits, too
  bool weights_of_float8 = false;  ///< weights may be 8-bit floats with scales
  bool scales_by_column = false;   ///< scales of weights of few bits lie as [n, groups]; else [groups, n]
  bool scaled_additions = false;   ///< a scaled input may be added to a convolution as one of its weights
  bool far_stores = false;         ///< results may be stored past the caches
};
const ArchTraits& traits_of(Arch arch);

}  // namespace aotc
