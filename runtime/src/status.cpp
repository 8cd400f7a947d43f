#include "status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

namespace aotc::rt {
namespace {

// The only mutable state that is not in a model or context. Plain bytes: a destructor would keep the object loaded after dlclose.
thread_local char t_message[1024];

struct Named {
  int32_t value;
  const char* name;
};
#define AOTC_X(name, value, text) {value, text},
constexpr Named kStatus[] = {AOTC_STATUS_LIST(AOTC_X)};
#undef AOTC_X

struct DtypeRow {
  const char* name;
  uint8_t bytes;
};
#define AOTC_X(name, value, text, size) {text, size},
constexpr DtypeRow kDtypes[] = {{"unknown", 0}, AOTC_DTYPE_LIST(AOTC_X)};  // values are 1, 2, ... in order
#undef AOTC_X
#define AOTC_X(name, value, text, size) static_assert(kDtypes[value].bytes == (size), "the list is not dense");
AOTC_DTYPE_LIST(AOTC_X)
#undef AOTC_X

const DtypeRow& row(uint32_t dtype) { return kDtypes[dtype < sizeof(kDtypes) / sizeof(kDtypes[0]) ? dtype : 0]; }

}  // namespace

aotc_status fail(aotc_status status, const char* format, ...) {
  const int saved = errno;
  va_list args;
  va_start(args, format);
  vsnprintf(t_message, sizeof t_message, format, args);
  va_end(args);
  errno = saved;
  return status;
}

const char* last_error() { return t_message; }

const char* status_name(aotc_status status) {
  for (const Named& s : kStatus)
    if (s.value == status) return s.name;
  return "unknown status";
}

const char* dtype_name(uint32_t dtype) { return row(dtype).name; }
uint64_t dtype_bytes(uint32_t dtype) { return row(dtype).bytes; }

void Text::add(const char* format, ...) {
  if (at >= end) return;
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(at, static_cast<size_t>(end - at), format, args);
  va_end(args);
  if (n > 0) at = n < end - at ? at + n : end;
}

}  // namespace aotc::rt
