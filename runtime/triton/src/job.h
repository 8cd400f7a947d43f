#pragma once
// One request that is being served: what it brings, what it wants, its answer.
#include <vector>

#include "artifact.h"
#include "device.h"

namespace aotc::triton {

uint64_t now_ns();  ///< of the steady clock

class Job {
 public:
  struct Input {
    std::vector<int64_t> shape;  ///< of the artifact's dims
    std::vector<Place> pieces;   ///< in order; the server's until the request is released
    uint64_t bytes = 0;
  };

  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();

  /// From here on finish() answers the request and gives it back.
  void take(TRITONBACKEND_Request* request, TRITONBACKEND_ModelInstance* instance) noexcept { request_ = request, instance_ = instance; }
  /// Reads the request; what is wrong with it is in status. `streams`: answers are several responses, made one by one with respond().
  void open(const Program& program, bool batched, bool streams, TRITONSERVER_MemoryType preferred, int64_t preferred_id);

  /// The next response of those that are several.
  Status respond();
  /// A tensor of the response, dense, `place` the memory for it.
  Status output(const Tensor& tensor, const std::vector<int64_t>& shape, bool batched, Place* place);
  /// Sends the response; `last`: no other comes.
  Status send(bool last);
  /// Answers with the status if nothing final was sent, reports statistics, gives the request back. Any further call does nothing.
  void finish(uint64_t exec_start, uint64_t compute_start, uint64_t compute_end);

  bool cancelled() const;
  bool wants(size_t output) const { return wanted_[output]; }
  bool begins_sequence() const { return flags_ & TRITONSERVER_REQUEST_FLAG_SEQUENCE_START; }
  bool ends_sequence() const { return flags_ & TRITONSERVER_REQUEST_FLAG_SEQUENCE_END; }
  std::string sequence() const;
  uint64_t timeout_us() const;  ///< 0: none
  /// An integer parameter of the request, else `otherwise`.
  int64_t parameter(const char* name, int64_t otherwise) const;
  /// Of W3C Trace Context: the server's span where it traces by OpenTelemetry, else a header of the client's that the server forwards as a
  /// parameter; empty: neither.
  std::string traceparent() const;
  int64_t rows() const { return inputs.empty() || inputs[0].shape.empty() ? 1 : inputs[0].shape[0]; }

  std::vector<Input> inputs;
  Status status;
  bool answered = true;  ///< by this run; false: by a later one

 private:
  Status read(const Program& program, bool batched, TRITONSERVER_MemoryType preferred, int64_t preferred_id);
  Status read_input(const Tensor& tensor, bool batched, TRITONSERVER_MemoryType preferred, int64_t preferred_id, Input* out) const;
  /// nullptr: the request has no parameter of this name and type.
  const void* find_parameter(const char* name, TRITONSERVER_ParameterType type) const;
  TRITONBACKEND_Request* request_ = nullptr;
  TRITONBACKEND_ModelInstance* instance_ = nullptr;
  TRITONBACKEND_Response* response_ = nullptr;
  TRITONBACKEND_ResponseFactory* factory_ = nullptr;
  std::vector<bool> wanted_;
  uint32_t flags_ = 0;
  bool ended_ = false;  ///< a final response was sent
};

}  // namespace aotc::triton
