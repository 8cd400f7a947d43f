#pragma once
// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): every
// number is a function of its counter and a key, so that elements can be made in any order, on any number of threads, on CPUs and GPUs
// alike.
#include <cstdint>

namespace aotc {

/// The first two words, the first one low, of Philox4x32-10 at the counter {low, high, 0, 0} with the key {low, high}.
constexpr uint64_t philox(uint64_t counter, uint64_t key) {
  uint32_t c[4] = {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0;
    c[1] = static_cast<uint32_t>(b);
    c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1;
    c[3] = static_cast<uint32_t>(a);
  }
  return c[0] | uint64_t{c[1]} << 32;
}

/// The key of the numbers that operator `slot` of a program draws in its run number `run`, of the program's seed.
constexpr uint64_t philox_key(uint64_t seed, uint64_t run, uint64_t slot) { return philox((run << 24) + slot, seed); }

}  // namespace aotc
