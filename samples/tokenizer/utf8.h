#pragma once
// Text in UTF-8: code points in and out.
#include <cstdint>
#include <string>
#include <string_view>

namespace tok {

inline void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[more] | c >> (6 * more));
  for (int i = more; i-- > 0;) out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
}

/// The code point at text[at], `at` below the size, and how many bytes it takes. Where the bytes are no UTF-8: U+FFFD, and of them as many
/// as one replacement stands for (the longest that could have begun a character, one at least).
inline uint32_t code_at(std::string_view text, size_t at, size_t* bytes) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<uint32_t>(static_cast<unsigned char>(text[at + i])) : 0u; };
  const uint32_t lead = byte(0);
  *bytes = 1;
  if (lead < 0x80) return lead;
  const size_t n = lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3 : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
  // The second byte of some leads is bounded: no long forms, no surrogates, nothing beyond U+10FFFF.
  const uint32_t least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80, most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  uint32_t c = lead & (0x7f >> n);
  for (size_t i = 1; i < n; ++i) {
    const uint32_t b = byte(i);
    if (b < (i == 1 ? least : 0x80) || b > (i == 1 ? most : 0xbf)) return 0xfffd;
    c = c << 6 | (b & 0x3f);
    *bytes = i + 1;
  }
  return n ? c : 0xfffd;
}

/// The text with U+FFFD for what is no UTF-8.
inline std::string repaired(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0, n; at < text.size(); at += n) append_utf8(out, code_at(text, at, &n));
  return out;
}

}  // namespace tok
