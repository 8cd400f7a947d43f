// The verdict of verify: what an output may be where numbers are finite, where eager's or fp64's are not, and at the ends of the types.
#include "judge.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "../graph/host_tensors.h"

using namespace aotc;
using namespace aotc::cli;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

Row judged(DType t, const std::vector<double>& got, const std::vector<double>& eager, const std::vector<double>& truth) {
  const auto n = static_cast<int64_t>(truth.size());
  const HostTensor e = test::tensor(t, {n}, eager), exact = test::tensor(is_float(t) ? DType::f64 : t, {n}, truth);
  const Bound bound = bound_of(e, nullptr, nullptr, exact, {});
  REQUIRE(std::isfinite(bound.limit));
  return judge("y", "", test::tensor(t, {n}, got), e, exact, bound, {});
}
bool passes(DType t, const std::vector<double>& got, const std::vector<double>& eager, const std::vector<double>& truth) {
  return judged(t, got, eager, truth).pass;
}

}  // namespace

TEST_CASE("where eager overflows, what is not near fp64 nor what eager has fails") {
  // x * 300 * 300 in float16, an artifact that always gives 7.
  CHECK(!passes(DType::f16, {7, 7, 7}, {kInfinity, -kInfinity, kInfinity}, {90000, -180000, 70000}));
  CHECK(passes(DType::f16, {kInfinity, -kInfinity, kInfinity}, {kInfinity, -kInfinity, kInfinity}, {90000, -180000, 70000}));
  CHECK(!passes(DType::f16, {kInfinity, kInfinity, kInfinity}, {kInfinity, -kInfinity, kInfinity}, {90000, -180000, 70000}));
  CHECK(!passes(DType::f16, {kNan, -kInfinity, kInfinity}, {kInfinity, -kInfinity, kInfinity}, {90000, -180000, 70000}));
  // Only an element of many: the others say what is allowed.
  CHECK(!passes(DType::f16, {1, 2, 7}, {1, 2, kInfinity}, {1, 2, 90000}));
  CHECK(!passes(DType::f16, {1, 2.5, kInfinity}, {1, 2, kInfinity}, {1, 2, 90000}));
  CHECK(passes(DType::f16, {1, 2, kInfinity}, {1, 2, kInfinity}, {1, 2, 90000}));
  for (const DType t : {DType::bf16, DType::f32}) {
    CHECK(!passes(t, {7}, {kInfinity}, {1e39}));
    CHECK(passes(t, {kInfinity}, {kInfinity}, {1e39}));
    CHECK(!passes(t, {7}, {kNan}, {kNan}));
    CHECK(passes(t, {kNan}, {kNan}, {kNan}));
  }
}

TEST_CASE("where fp64 is finite in the output's type and eager is not, fp64 decides") {
  const Row right = judged(DType::f16, {300, 301}, {kInfinity, kNan}, {300, 301});
  CHECK(right.pass);
  CHECK(right.why.find("2 elements") != std::string::npos);
  CHECK(!passes(DType::f16, {7, 7}, {kInfinity, kNan}, {300, 301}));
  CHECK(!passes(DType::f16, {-kInfinity, kNan}, {kInfinity, kNan}, {300, 301}));
  CHECK(passes(DType::f16, {kInfinity, kNan}, {kInfinity, kNan}, {300, 301}));  // as PyTorch has it
  CHECK(!passes(DType::f32, {1, 0}, {kNan, 0}, {0.125, 0}));
}

TEST_CASE("at the end of a type an infinity and the largest number are neighbours") {
  CHECK(passes(DType::f16, {65504}, {kInfinity}, {65521}));
  CHECK(passes(DType::f16, {kInfinity}, {65504}, {65530}));
  CHECK(!passes(DType::f16, {kInfinity}, {65504}, {65000}));
  CHECK(!passes(DType::f16, {-kInfinity}, {65504}, {65530}));
  CHECK(passes(DType::f32, {kInfinity}, {kInfinity}, {kInfinity}));
  CHECK(!passes(DType::f32, {1e30}, {kInfinity}, {kInfinity}));
  CHECK(!passes(DType::f32, {1, 1e30}, {1, 1e38}, {1, kInfinity}));
}

TEST_CASE("an element beyond the type hides no error of the others") {
  CHECK(!passes(DType::f32, {kInfinity, 2}, {kInfinity, 1}, {1e300, 1}));
  CHECK(passes(DType::f32, {kInfinity, 1}, {kInfinity, 1}, {1e300, 1}));
}

TEST_CASE("squares of large and of tiny float64 neither overflow nor vanish") {
  for (const double scale : {1e200, 1e-200}) {
    CHECK(!passes(DType::f64, {7 * scale, scale}, {scale, scale}, {scale, scale}));
    CHECK(passes(DType::f64, {scale, scale}, {scale, scale}, {scale, scale}));
  }
}

TEST_CASE("finite numbers go by twice eager's error") {
  CHECK(passes(DType::f32, {1.0000002}, {1.0000001}, {1}));
  CHECK(!passes(DType::f32, {1.00001}, {1.0000001}, {1}));
  CHECK(passes(DType::f32, {1.00018}, {1.0001}, {1}));
  CHECK(passes(DType::i64, {3, 4}, {3, 4}, {3, 5}));
  CHECK(!passes(DType::i64, {3, 9}, {3, 4}, {3, 5}));
}
