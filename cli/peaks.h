#pragma once
// What a machine can do at most: what `bench --profile` holds the times of steps against.
#include <cstdint>
#include <map>
#include <string>

namespace aotc::cli {

struct Peaks {
  std::map<std::string, double> products;  ///< multiply-adds a ns, by the element type of the operands; a type that is not in it: not known
  double operations = 0;                   ///< of float32 elements, a ns; 0: not known
  double bytes = 0;                        ///< a ns, from memory; 0: not known
  std::string text;                        ///< what they are and whence, a line
};

/// Measured here and now, in some 0.2 s, on so many threads: the multiply-adds of the best instructions of `isa` (a name of base/target.h)
/// and those before it, on numbers that are not zeros, and reading `touched` bytes again and again (at most 512 MB of them): what a run
/// touches in all says which cache its data come from.
Peaks measure_cpu(int threads, const std::string& isa, uint64_t touched);

/// From what the driver says of the GPU (processors, clocks, width of the memory) and what a processor of its architecture multiplies in a
/// cycle. f32_matmul: the artifact's, "highest" where empty. Nothing is known of an architecture that is not in its table.
Peaks gpu_peaks(int gpu, const std::string& f32_matmul);

}  // namespace aotc::cli
