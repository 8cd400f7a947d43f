#include "graph/ranges.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "graph/builder.h"

using namespace aotc;

namespace {
ValueId constant_of(Builder& b, std::vector<int64_t> elements) {
  const auto data = std::make_shared<const std::vector<int64_t>>(std::move(elements));
  return b.constant({"codes",
                     {DType::i64, {static_cast<int64_t>(data->size())}},
                     data,
                     reinterpret_cast<const std::byte*>(data->data()),
                     data->size() * sizeof(int64_t)});
}
}  // namespace

TEST_CASE("the bounds of a constant are those of all of its elements, however many") {
  Graph g;
  Builder b(g);
  std::vector<int64_t> codes(300'001, 7);
  codes[4096] = -3, codes[300'000] = 4095;  // the first of a part, the last of all
  const auto range = int_range(g, constant_of(b, codes));
  REQUIRE(range);
  CHECK(range->min == -3);
  CHECK(range->max == 4095);
  CHECK_FALSE(int_range(g, constant_of(b, {})));
}
