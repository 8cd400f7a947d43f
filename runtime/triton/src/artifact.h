#pragma once
// Artifacts that are open, and what their methods take and give, in Triton's terms.
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "settings.h"
#include "status.h"

namespace aotc::triton {

struct Dim {
  int64_t value;       ///< -1: any size in [min, max]
  int64_t min, max;    ///< max INT64_MAX: unbounded
  std::string symbol;  ///< empty: fixed
};

/// An input or output. On the wire (in configs and requests) complex numbers are floats with a last dim of 2, float8 its byte, and what has
/// no dim beside the batch has one of 1, since Triton wants one.
struct Tensor {
  std::string name;
  uint32_t dtype = 0;  ///< AOTC_DTYPE_*
  uint64_t element_bytes = 0;
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;  ///< on the wire
  const char* type_name = "";                              ///< "FP32"; in configs behind TYPE_
  std::vector<Dim> dims;
  std::vector<int64_t> tail;  ///< dims on the wire behind `dims`
  bool found = false;         ///< outputs: a run finds sizes in its data

  /// The wire's dims, -1 where there is a range; without the first when it is the batch.
  std::vector<int64_t> wire_dims(bool batched) const;
  /// A shape of `dims` on the wire.
  std::vector<int64_t> wire_shape(const std::vector<int64_t>& shape, bool batched) const;
  /// Whether there is a dim of 1 on the wire for want of others.
  bool lone(bool batched) const { return dims.size() == (batched ? 1 : 0) && tail.empty(); }
  std::string describe() const;  ///< "FP32 [batch 1..64, 384]"
};

/// A method. Keeps its artifact open.
struct Program {
  aotc::host::Method method;
  std::string name;
  std::vector<Tensor> inputs, outputs;
  bool updates_states = false;
  std::vector<std::string> multiples;  ///< symbols that take multiples of a number only

  const Tensor* input(const std::string& name) const;
  const Tensor* output(const std::string& name) const;
};

/// An artifact's model on one device: one copy of the weights.
struct Artifact {
  aotc::host::Model model;
  int32_t device = AOTC_DEVICE_HOST;  ///< where it runs
  /// name empty: the first.
  Status program(const std::string& name, Program* out) const;
};

/// Artifacts by file: who asks for the same file (whatever the path), device, flags and budget gets the same one, so instances and models
/// share weights. A file that was replaced is another file. Thread-safe.
class Artifacts {
 public:
  Status open(const std::string& path, int32_t device, const Settings& settings, std::shared_ptr<Artifact>* out);

 private:
  /// Device and number of the file, its time, device, flags, budget.
  using Key = std::tuple<uint64_t, uint64_t, int64_t, int64_t, int32_t, uint32_t, int64_t>;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<Artifact>> open_;
};

std::string text_of(const std::vector<int64_t>& shape);  ///< "[2, -1]"

}  // namespace aotc::triton
