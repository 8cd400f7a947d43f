// Where slabs have each element: beside the layout as the registers of mma.sync and wgmma read it.
#include "forms/slabs.h"

#include <catch2/catch.hpp>
#include <set>

using namespace aotc;
using namespace aotc::forms;

namespace {

struct Read {
  int64_t column, row, byte, shift;
};

/// All that the lanes of a quad hold of one tile, read as the kernels do: from 16 bytes a lane and column.
std::vector<Read> tile(int64_t strip, int64_t slab, int64_t slabs, int bits) {
  std::vector<Read> all;
  const int64_t slices = bits == 8 ? 4 : 8, first = slab * 16 * slices;
  for (int64_t column = 0; column < 16; ++column)
    for (int64_t t = 0; t < 4; ++t)
      for (int64_t s = 0; s < slices; ++s)
        for (int64_t jj = 0; jj < 4; ++jj) {
          const int64_t lane = (strip * slabs + slab) * 1024 + column * 64 + t * 16,
                        row = first + 16 * s + 2 * t + (jj & 1) + 8 * (jj >> 1);
          if (bits == 8) {
            all.push_back({strip * 16 + column, row, lane + 4 * s + jj, 0});
          } else {
            const int64_t pair = 2 * (s % 2) + (jj >> 1), bit = 4 * pair + 16 * (jj & 1);  // of the 32-bit word of two slices
            all.push_back({strip * 16 + column, row, lane + 4 * (s / 2) + bit / 8, bit % 8});
          }
        }
  return all;
}

}  // namespace

TEST_CASE("slabs have each element where the lanes of a warp read it") {
  for (const int bits : {8, 4})
    for (const int64_t slabs : {1, 3}) {
      std::set<std::pair<int64_t, int64_t>> places;
      bool right = true;
      for (int64_t strip = 0; strip < 2; ++strip)
        for (int64_t slab = 0; slab < slabs; ++slab)
          for (const Read& r : tile(strip, slab, slabs, bits)) {
            const auto at = slab_place(r.column, r.row, slabs, bits);
            right = right && at.byte == r.byte && at.shift == r.shift;
            places.insert({at.byte, at.shift});
          }
      INFO(bits << " bits, " << slabs << " slabs");
      CHECK(right);
      CHECK(places.size() == static_cast<size_t>(2 * slabs * 1024 * 8 / bits));
    }
}

TEST_CASE("slabs are filled up to whole tiles") {
  loop::MatmulKernel k;
  k.in = DType::bf16;
  k.n = 33, k.k = 130;
  loop::Param values;
  values.dtype = DType::i8;
  loop::QuantisedWeight q;
  q.values = k.params.push(values), q.scales = k.params.push({}), q.group = 32, q.by_column = true;
  for (const auto& [bits, tiles] : {std::pair(8, 3 * 3), {4, 3 * 2}}) {
    q.bits = bits, k.b_quantised = q;
    const auto panels = slabs_of(k);
    REQUIRE(panels);
    CHECK((panels->slabs && panels->bits == bits && panels->bytes() == tiles * 1024));
  }
  q.bits = 16, k.b_quantised = q;
  CHECK_FALSE(slabs_of(k));
  k.b_quantised.reset();
  CHECK_FALSE(slabs_of(k));
}
