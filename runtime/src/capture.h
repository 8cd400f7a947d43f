#pragma once
// AOTC_CAPTURE: runs with all that they depend on, written to a folder, for `aotc-device replay`.
#include <stdint.h>

#include "context.h"

namespace aotc::rt {

struct Capture;
/// What the environment asks for, of this model; *out null: nothing. INVALID_ARGUMENT, IO.
aotc_status capture_create(const aotc_model& model, Capture** out);
void capture_free(Capture* capture);

/// One run of a model that has a Capture, within its ContextLock and CudaScope. What it cannot write it leaves out: no run fails for it.
class CapturedRun {
 public:
  /// Before the run: inputs and states are written, so that they are there after a crash.
  CapturedRun(aotc_context* context, const Method& method, const aotc_tensor* in, int32_t n_in, const aotc_tensor* out, int32_t n_out);
  ~CapturedRun();
  CapturedRun(const CapturedRun&) = delete;
  CapturedRun& operator=(const CapturedRun&) = delete;
  /// After the run, whose status it was; on a GPU once the run is done. Returns the run's status, with a message that says where it is.
  aotc_status end(aotc_status status);

 private:
  struct Files;
  void begin();
  bool write_inputs();
  bool write_outputs();
  bool write_description(aotc_status status, bool ended);
  void discard();
  aotc_context* const context_;
  const Method& method_;
  const aotc_tensor* const in_;
  const aotc_tensor* const out_;
  const int32_t n_in_, n_out_;
  uint64_t number_ = 0;
  uint64_t bytes_ = 0;      ///< that it counts for
  Files* files_ = nullptr;  ///< null: the run is not written
  bool too_large_ = false;
};

}  // namespace aotc::rt
