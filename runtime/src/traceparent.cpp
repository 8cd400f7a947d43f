#include "traceparent.h"

#include <string.h>

namespace aotc::rt {
namespace {

/// Reads n lower-case hexadecimal digits. *other: some are not `same`.
bool read_hex(const char** at, unsigned n, char same, bool* other) {
  *other = false;
  for (; n > 0; --n, ++*at) {
    const char c = **at;
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
    *other |= c != same;
  }
  return true;
}

bool read_dash(const char** at) { return *(*at)++ == '-'; }

/// Looks at no character behind one that does not fit.
bool is_valid(const char* header) {
  const char* at = header;
  bool version, trace, parent, flags;
  return read_hex(&at, 2, 'f', &version) && version && read_dash(&at) && read_hex(&at, 32, '0', &trace) && trace && read_dash(&at) &&
         read_hex(&at, 16, '0', &parent) && parent && read_dash(&at) && read_hex(&at, 2, '0', &flags) &&
         (*at == 0 || (*at == '-' && memcmp(header, "00", 2) != 0));
}

}  // namespace

[[gnu::cold]] Traceparent read_traceparent(const char* header) {
  Traceparent out = {};
  if (header && is_valid(header)) memcpy(out.text, header, kTraceparent);
  return out;
}

}  // namespace aotc::rt
