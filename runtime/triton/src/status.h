#pragma once
// How a step of this backend went, in Triton's codes; and the server's log.
#include <string>

#include "aotc/aotc.hpp"
#include "triton_api.h"

namespace aotc::triton {

struct [[nodiscard]] Status {
  bool ok = true;
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_UNKNOWN;
  std::string text;
  bool lost = false;  ///< the device is lost to this process
  explicit operator bool() const { return ok; }
};

Status invalid(std::string text);      ///< the client's or the config's fault: HTTP 400
Status unavailable(std::string text);  ///< cannot be had on this machine or now
Status internal(std::string text);
/// A status of the C ABI; `what` (may be empty) goes before its message.
Status of_aotc(const aotc::host::Status& status, const std::string& what);
/// Of the server's own functions. Takes the error.
Status of_triton(TRITONSERVER_Error* error);
/// Null on success; the server's afterwards.
TRITONSERVER_Error* to_triton(const Status& status);
/// For calls whose failure leaves nothing to be done: it goes to the log.
void log_failure(TRITONSERVER_Error* error, const char* what);
void log(TRITONSERVER_LogLevel level, const std::string& text);

/// Runs an entry point's body: what it throws (memory that could not be had) comes back as an error, since nothing may be thrown into the
/// server.
template <class Body>
TRITONSERVER_Error* guarded(const Body& body) {
  try {
    return to_triton(body());
  } catch (const std::exception& e) { return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, e.what()); } catch (...) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "an exception of an unknown kind");
  }
}

}  // namespace aotc::triton
