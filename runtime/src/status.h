#pragma once
// Failures of the runtime: a status, and a message for the calling thread.
#include "aotc/aotc.h"

namespace aotc::rt {

/// Stores the printf-style message as the thread's last error and returns `status`. errno is left alone.
[[gnu::cold]] aotc_status fail(aotc_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));
const char* last_error();
const char* status_name(aotc_status status);
const char* dtype_name(uint32_t dtype);  ///< "float32"; "unknown" for a value that is not in the list
uint64_t dtype_bytes(uint32_t dtype);    ///< 0 for a value that is not in the list

/// A growing message in a caller's buffer; what does not fit is cut off.
struct Text {
  char* at;
  char* end;
  void add(const char* format, ...) __attribute__((format(printf, 2, 3)));
};

}  // namespace aotc::rt

#define RT_TRY(call)                                   \
  do {                                                 \
    const aotc_status rt_status = (call);              \
    if (rt_status != AOTC_STATUS_OK) return rt_status; \
  } while (0)
