#pragma once
// SHA-256 (FIPS 180-4).
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace aotc {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void add(std::string_view bytes);
  /// Of all that was added; nothing may be added afterwards.
  Digest finish();

 private:
  void block(const uint8_t* p);
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_ = {};
  uint64_t bytes_ = 0;
};

/// 64 hex digits.
std::string hex(const Digest& digest);

}  // namespace aotc
