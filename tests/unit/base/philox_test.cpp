#include "base/philox.h"

#include <catch2/catch.hpp>

// at::philox_engine(seed = key, subsequence 0, offset = counter) of ATen/core/PhiloxRNGEngine.h; the first is also the generator's
// published answer.
TEST_CASE("Philox gives the words that PyTorch's engine gives") {
  struct Row {
    uint64_t counter, key, words;
  };
  constexpr Row kRows[] = {{0x0u, 0x0u, 0xe169c58d6627e8d5u},
                           {0x1u, 0x0u, 0x5cb200dbf8e4cca4u},
                           {0x123456789abcdef0u, 0xfedcba9876543210u, 0x61176af13640118fu},
                           {0xffffffffffffffffu, 0xffffffffffffffffu, 0x430ac65a4d18d7d2u},
                           {0x5u, 0x10000000000u, 0xaf00a86129377652u}};
  for (const Row& r : kRows) CHECK(aotc::philox(r.counter, r.key) == r.words);
}
