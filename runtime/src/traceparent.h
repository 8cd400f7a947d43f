#pragma once
// The header of W3C Trace Context that tells which request a run is for.

namespace aotc::rt {

constexpr unsigned kTraceparent = 55;  ///< characters of version 00; those of later versions begin with them

/// The first 55 characters of a header, or nothing where there is none or it is malformed (https://www.w3.org/TR/trace-context/).
struct Traceparent {
  char text[kTraceparent + 1];
};
/// header: the caller's, or null.
Traceparent read_traceparent(const char* header);

}  // namespace aotc::rt
