#include "status.h"

namespace aotc::triton {
namespace {

struct Row {
  aotc_status status;
  TRITONSERVER_Error_Code code;
};
// What is not listed is INTERNAL.
constexpr Row kCodes[] = {
    {AOTC_STATUS_INVALID_ARGUMENT, TRITONSERVER_ERROR_INVALID_ARG},
    {AOTC_STATUS_SHAPE_MISMATCH, TRITONSERVER_ERROR_INVALID_ARG},
    {AOTC_STATUS_INDEX_OUT_OF_RANGE, TRITONSERVER_ERROR_INVALID_ARG},
    {AOTC_STATUS_ASSERTION_FAILED, TRITONSERVER_ERROR_INVALID_ARG},
    {AOTC_STATUS_INCOMPATIBLE, TRITONSERVER_ERROR_UNSUPPORTED},
    {AOTC_STATUS_NOT_FOUND, TRITONSERVER_ERROR_NOT_FOUND},
    {AOTC_STATUS_OUT_OF_MEMORY, TRITONSERVER_ERROR_UNAVAILABLE},
    {AOTC_STATUS_DEVICE_LOST, TRITONSERVER_ERROR_UNAVAILABLE},
    {AOTC_STATUS_WRONG_STATE, TRITONSERVER_ERROR_UNAVAILABLE},
    {AOTC_STATUS_DEADLINE_EXCEEDED, TRITONSERVER_ERROR_UNAVAILABLE},
    {AOTC_STATUS_CANCELLED, TRITONSERVER_ERROR_CANCELLED},
};

}  // namespace

Status invalid(std::string text) { return {false, TRITONSERVER_ERROR_INVALID_ARG, std::move(text)}; }
Status unavailable(std::string text) { return {false, TRITONSERVER_ERROR_UNAVAILABLE, std::move(text)}; }
Status internal(std::string text) { return {false, TRITONSERVER_ERROR_INTERNAL, std::move(text)}; }

Status of_aotc(const aotc::host::Status& status, const std::string& what) {
  if (status) return {};
  Status s = internal(what.empty() ? status.message : what + ": " + status.message);
  for (const Row& row : kCodes)
    if (row.status == status.code) s.code = row.code;
  s.lost = status.code == AOTC_STATUS_DEVICE_LOST;
  return s;
}

Status of_triton(TRITONSERVER_Error* error) {
  if (!error) return {};
  Status s = internal(TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return s;
}

TRITONSERVER_Error* to_triton(const Status& status) { return status ? nullptr : TRITONSERVER_ErrorNew(status.code, status.text.c_str()); }

void log_failure(TRITONSERVER_Error* error, const char* what) {
  if (const Status s = of_triton(error); !s) log(TRITONSERVER_LOG_ERROR, std::string(what) + ": " + s.text);
}

void log(TRITONSERVER_LogLevel level, const std::string& text) {
  if (!TRITONSERVER_LogIsEnabled(level)) return;
  if (TRITONSERVER_Error* error = TRITONSERVER_LogMessage(level, "aotc", 0, ("aotc: " + text).c_str())) TRITONSERVER_ErrorDelete(error);
}

}  // namespace aotc::triton
