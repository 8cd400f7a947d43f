#pragma once
// The weights of a model: in place in the artifact, or a file mapped read-only.
#include <stddef.h>
#include <stdint.h>

#include "aotc/aotc.h"
#include "aotc/detail/plan_format.h"

namespace aotc::rt {

struct Weights {
  const uint8_t* data = nullptr;  ///< host address of the blob
  void* map = nullptr;            ///< a file's mapping
  size_t map_bytes = 0;
};

/// options: weights_path and flags. NOT_FOUND, INCOMPATIBLE, OUT_OF_MEMORY.
aotc_status weights_open(const aotc_module_desc& module, const aotc_model_options& options, Weights* out);
/// Maps the pages of the bytes [begin, end) of the blob at once, reading from the file what is not in memory. What the kernel cannot do is
/// left to the runs.
void weights_map_pages(const Weights& weights, uint64_t begin, uint64_t end);
/// Copies the bytes [begin, end) of the blob; their mapped pages are given back as it goes.
void weights_copy(const Weights& weights, uint64_t begin, uint64_t end, uint8_t* to);
void weights_close(Weights* weights);

}  // namespace aotc::rt
