#pragma once
// The artifact: runs of rows, each a piece of one slot's sequence (inputs and outputs: ../llm/slots.py).
#include <string>
#include <vector>

#include "adapters.h"
#include "aotc/aotc.hpp"
#include "description.h"

namespace llm {

struct Row {
  int64_t slot;
  int64_t position;  ///< of its first token
  const int64_t* tokens;
  int64_t count;        ///< 1 to chunk
  int64_t adapter = 0;  ///< row of the adapters' states; 0: none
};

/// Use it from one thread at a time.
class Decoder {
 public:
  /// Throws std::runtime_error where the artifact cannot be loaded or is not the program that the description describes.
  Decoder(const std::string& artifact, const Description& description, int threads);

  /// Feeds the rows, no two of one slot. wanted: (row, token) of which outputs are asked for, one at least; logits() and hidden() have
  /// them in this order until the next run. traceparent: whose run it is.
  aotc::host::Status run(const std::vector<Row>& rows, const std::vector<std::pair<int64_t, int64_t>>& wanted,
                         const std::string& traceparent);
  /// Positions [begin, end) of one slot hold what they do in another. False: they could not be copied, and the slot is as it was.
  bool can_copy() const { return can_copy_; }
  bool copy(int64_t to_slot, int64_t from_slot, int64_t begin, int64_t end);
  /// Forgets what all slots hold: after a run that failed. Adapters stay.
  aotc::host::Status reset();
  /// Gives the memory of the weights back to the system; the next run reads them again. False: an artifact on a GPU, or of an older aotc.
  bool trim() { return model_.trim().code == AOTC_STATUS_OK; }
  const std::vector<AdaptedLayer>& adapted() const { return adapted_; }
  /// The rows of one adapter. Throws std::runtime_error.
  void write_adapter(int64_t row, const std::vector<AdapterRow>& rows);
  float* logits(size_t i) { return logits_.data() + i * static_cast<size_t>(d_.vocabulary); }
  const float* hidden(size_t i) const { return hidden_.data() + i * static_cast<size_t>(d_.hidden); }
  /// How many outputs one run can be asked for.
  int64_t most_wanted() const { return most_wanted_; }

 private:
  Description d_;
  aotc::host::Model model_;
  aotc::host::Context context_;
  int64_t most_wanted_ = 0;
  std::vector<std::string> caches_;  ///< states that slots have parts of
  std::vector<AdaptedLayer> adapted_;
  uint32_t adapter_type_ = AOTC_DTYPE_F32;
  bool can_copy_ = false;  ///< its states are keys and values as ../llm/slots.py lays them out
  std::vector<int64_t> ids_, slots_, positions_, lengths_, span_, wanted_, adapters_;
  std::vector<float> logits_, hidden_;
};

}  // namespace llm
