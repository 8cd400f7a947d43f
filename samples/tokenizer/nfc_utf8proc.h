#pragma once
// Normalisation forms by utf8proc (Debian: libutf8proc-dev; link with -lutf8proc).
#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "libraries.h"
#include "utf8.h"

namespace tok {

/// utf8proc's own ordering of marks takes time by the square of how many follow each other, which a client could send: here they are
/// sorted, and utf8proc gives the tables and composes.
inline std::string normalized_by_utf8proc(std::string_view text, Form form) {
  const bool compatible = form == Form::nfkc || form == Form::nfkd, compose = form == Form::nfc || form == Form::nfkc;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  for (size_t at = 0, n; at < text.size(); at += n) {
    utf8proc_int32_t some[32];  // the longest decomposition has 18
    int last_boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_at(text, at, &n)), some, 32, options, &last_boundary);
    if (count < 0 || count > 32) throw TextError("a character has no decomposition");
    codes.insert(codes.end(), some, some + count);
  }
  const auto order = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (size_t begin = 0, end; begin < codes.size(); begin = end) {
    for (end = begin; end < codes.size() && order(codes[end]) != 0; ++end) {}
    std::stable_sort(codes.begin() + static_cast<std::ptrdiff_t>(begin), codes.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](utf8proc_int32_t a, utf8proc_int32_t b) { return order(a) < order(b); });
    if (end == begin) ++end;
  }
  auto size = static_cast<utf8proc_ssize_t>(codes.size());
  if (compose) size = utf8proc_normalize_utf32(codes.data(), size, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < size; ++i) append_utf8(out, static_cast<uint32_t>(codes[static_cast<size_t>(i)]));
  return out;
}

}  // namespace tok
