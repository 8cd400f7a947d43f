#pragma once
// The bytes of a model's weights: in place in the artifact, a file mapped read-only, or the process's own memory.
#include <stddef.h>
#include <stdint.h>

#include "aotc/aotc.h"
#include "aotc/detail/plan_format.h"
#include "memory.h"

namespace aotc::rt {

struct Weights {
  const uint8_t* data;  ///< host address of the blob
  void* map;            ///< a file's mapping, or null
  size_t map_bytes;
  bool of_file;                 ///< data lies in pages of a file, mapped here or by the loader of the artifact: dropped pages come back
  Block memory;                 ///< that the content was copied or read to, or empty
  void (*release)(void* user);  ///< of the caller's memory, or null
  void* user;
};

/// The artifact's own weights. options: weights_path and flags. NOT_FOUND, INCOMPATIBLE, DAMAGED.
aotc_status weights_open_own(const aotc_module_desc& module, const aotc_model_options& options, Weights* out);
/// Those of a source that names one. NOT_FOUND, INCOMPATIBLE, DAMAGED, OUT_OF_MEMORY, INVALID_ARGUMENT. verify: hash the content.
aotc_status weights_open(const aotc_module_desc& module, const aotc_weights_source& source, bool verify, const aotc_allocator& allocator,
                         Weights* out);
/// Whether the source names where weights come from; INVALID_ARGUMENT where it names several.
aotc_status source_given(const aotc_weights_source& source, bool* given);
/// Maps the pages of the bytes [begin, end) of the blob at once, reading from the file what is not in memory. What the kernel cannot do is
/// left to the runs.
void weights_map_pages(const Weights& weights, uint64_t begin, uint64_t end);
/// Gives the whole pages of the bytes [begin, end) of the blob back to the system, as far as they are of a file; how many bytes those are.
uint64_t weights_drop_pages(const Weights& weights, uint64_t begin, uint64_t end);
/// Copies the bytes [begin, end) of the blob; their pages are dropped as it goes.
void weights_copy(const Weights& weights, uint64_t begin, uint64_t end, uint8_t* to);
/// Without a call of `release`, where `taken` is false: the caller's memory was not taken.
void weights_close(Weights* weights, const aotc_allocator& allocator, bool taken);

}  // namespace aotc::rt
