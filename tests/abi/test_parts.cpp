// Parts of the runtime on their own: the CPU's features, the postfix evaluator, dense copies.
#include <catch2/catch.hpp>
#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "aotc/detail/cpuid.h"
#include "cpu.h"
#include "dense.h"
#include "slots.h"

using namespace aotc::rt;

namespace {

// A Granite-Rapids-like CPU, with bits that a test takes away.
struct Fake {
  uint32_t one_c, seven_b, seven_c, seven_d, seven1_a, ext_c;
  uint64_t xcr0;
  bool permits = true;
  int asked = 0;
  const char* vendor = "GenuineIntel";
  uint32_t one_a = 0;
} fake;

constexpr Fake kAll = {1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29,
                       1u << 3 | 1u << 5 | 1u << 8 | 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31,
                       1u << 11,
                       1u << 22 | 1u << 24 | 1u << 25,
                       1u << 5,
                       1u << 5,
                       0x600e7};

const CpuProbe kFake = {[](uint32_t leaf, uint32_t sub, uint32_t out[4]) {
                          std::memset(out, 0, 16);
                          if (leaf == 0) {
                            out[0] = 31;
                            std::memcpy(&out[1], fake.vendor, 4);
                            std::memcpy(&out[3], fake.vendor + 4, 4);
                            std::memcpy(&out[2], fake.vendor + 8, 4);
                          }
                          if (leaf == 1) out[0] = fake.one_a, out[2] = fake.one_c;
                          if (leaf == 7 && sub == 0) {
                            out[0] = 1;
                            out[1] = fake.seven_b;
                            out[2] = fake.seven_c;
                            out[3] = fake.seven_d;
                          }
                          if (leaf == 7 && sub == 1) out[0] = fake.seven1_a;
                          if (leaf == 0x80000000u) out[0] = 0x80000008u;
                          if (leaf == 0x80000001u) out[2] = fake.ext_c;
                        },
                        [] { return fake.xcr0; },
                        [] {
                          ++fake.asked;
                          return fake.permits;
                        }};

#define AOTC_X(name, value, text, features) {value, features, nullptr, nullptr},
const aotc_isa_table kTables[] = {AOTC_ISA_LIST(AOTC_X)};
#undef AOTC_X

int best() {
  const aotc_isa_table* t = acquire_isa(kTables, sizeof kTables / sizeof kTables[0], kFake);
  return t ? t->isa : -1;
}

int64_t value(std::initializer_list<int64_t> code, bool* ok) {
  int64_t out = 0;
  const int64_t symbols[] = {-7, 3};
  *ok = eval(code.begin(), 0, static_cast<uint32_t>(code.size()), symbols, nullptr, &out);
  return out;
}

}  // namespace

TEST_CASE("every feature has a CPUID fact, and those beside the code versions are found, too") {
#define AOTC_X(feature, word, bits) | AOTC_CPU_##feature
  CHECK((0u AOTC_CPU_FACT_LIST(AOTC_X)) == AOTC_CPU_ALL);
#undef AOTC_X
  fake = kAll;
  CHECK(cpu_features(kFake) == (AOTC_CPU_ALL & ~static_cast<uint32_t>(AOTC_CPU_AVX_VNNI)));
  fake.seven1_a |= 1u << 4;
  CHECK(cpu_features(kFake) == AOTC_CPU_ALL);
  fake.seven_c = 0;  // AVX-VNNI alone: neither needs the other
  CHECK(cpu_features(kFake) == (AOTC_CPU_ALL & ~static_cast<uint32_t>(AOTC_CPU_AVX512_VNNI | AOTC_CPU_AVX512_BF16)));
}

TEST_CASE("the best code version that a masked CPU can run") {
  fake = kAll;
  CHECK(best() == AOTC_ISA_AMX);
  fake.xcr0 = 0xe7;  // the operating system keeps no tiles
  CHECK(best() == AOTC_ISA_AVX512_BF16);
  fake = kAll;
  fake.seven_d = 0;
  CHECK(best() == AOTC_ISA_AVX512_BF16);
  fake.seven_c = 0;  // vnni belongs to it
  CHECK(best() == AOTC_ISA_AVX512);
  fake.seven_c = kAll.seven_c;
  fake.seven1_a = 0;
  CHECK(best() == AOTC_ISA_AVX512);
  fake.xcr0 = 0x7;  // AVX-512 off in the operating system
  CHECK(best() == AOTC_ISA_AVX2);
  fake = kAll;
  fake.seven_b &= ~(1u << 16);
  CHECK(best() == AOTC_ISA_AVX2);
  fake.seven_b &= ~(1u << 5);
  CHECK(best() == -1);
  CHECK(std::string(last_error()).find("avx2 lacks avx2") != std::string::npos);
  fake = kAll;
  fake.one_c &= ~(1u << 12);
  CHECK(best() == -1);
  CHECK(std::string(last_error()).find("fma") != std::string::npos);
  fake = kAll;
  fake.one_c &= ~(1u << 27);
  CHECK(best() == -1);
  CHECK(std::string(last_error()).find("operating system support") != std::string::npos);
}

TEST_CASE("denormal numbers take no longer on AMD's processors from family 19h on") {
  fake = kAll;
  for (const uint32_t model : {0x00a10f11u, 0x00b00f20u}) {  // families 19h and 1ah
    fake.one_a = model, fake.vendor = "AuthenticAMD";
    CHECK(free_denormals(kFake));
    fake.vendor = "GenuineIntel";
    CHECK_FALSE(free_denormals(kFake));
  }
  fake.one_a = 0x00830f10, fake.vendor = "AuthenticAMD";  // family 17h
  CHECK_FALSE(free_denormals(kFake));
  fake = kAll;
}

TEST_CASE("tiles are asked for where the best version needs them, and a refusal takes the next one") {
  fake = kAll;
  CHECK(best() == AOTC_ISA_AMX);
  CHECK(fake.asked == 1);
  fake.permits = false;
  CHECK(best() == AOTC_ISA_AVX512_BF16);
  CHECK_FALSE(acquire_isa(&kTables[AOTC_ISA_AMX], 1, kFake));
  CHECK(std::string(last_error()).find("amx lacks operating system support for AMX") != std::string::npos);
  fake = kAll;
  CHECK(acquire_isa(kTables, AOTC_ISA_AMX, kFake)->isa == AOTC_ISA_AVX512_BF16);
  CHECK(fake.asked == 0);
}

TEST_CASE("postfix code") {
  bool ok = false;
  CHECK(value({AOTC_X_SYM, 0, AOTC_X_SYM, 1, AOTC_X_FLOORDIV}, &ok) == -3);
  CHECK(value({AOTC_X_SYM, 0, AOTC_X_SYM, 1, AOTC_X_MOD}, &ok) == 2);
  CHECK(value({AOTC_X_SYM, 1, AOTC_X_SYM, 0, AOTC_X_MOD}, &ok) == -4);
  CHECK(value({AOTC_X_SYM, 0, AOTC_X_SYM, 1, AOTC_X_MIN}, &ok) == -7);
  CHECK(value({AOTC_X_SYM, 0, AOTC_X_SYM, 1, AOTC_X_MAX}, &ok) == 3);
  CHECK(value({AOTC_X_SYM, 0, AOTC_X_SYM, 1, AOTC_X_SUB, AOTC_X_CONST, 5, AOTC_X_MUL}, &ok) == -50);
  CHECK(ok);
  for (const auto& bad :
       std::initializer_list<std::initializer_list<int64_t>>{{AOTC_X_CONST, 1, AOTC_X_CONST, 0, AOTC_X_FLOORDIV},
                                                             {AOTC_X_CONST, INT64_MAX, AOTC_X_CONST, 1, AOTC_X_ADD},
                                                             {AOTC_X_CONST, INT64_MIN, AOTC_X_CONST, -1, AOTC_X_MOD},
                                                             {AOTC_X_CONST, 1LL << 40, AOTC_X_CONST, 1LL << 40, AOTC_X_MUL},
                                                             {AOTC_X_ADD},
                                                             {AOTC_X_CONST, 1, AOTC_X_CONST, 2},
                                                             {AOTC_X_CONST},
                                                             {4711},
                                                             {}}) {
    value(bad, &ok);
    CHECK_FALSE(ok);
  }
}

namespace {

/// Writes 1, 2, ... as the elements of a dense tensor of this shape lie in memory with these strides, and reads them densely.
template <class T>
void check_dense_copy(uint32_t dtype, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t last = 0, n = 1;
  for (size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d], n *= shape[d];
  std::vector<T> memory(static_cast<size_t>(last) + 1), out(static_cast<size_t>(n)), expected(out.size());
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = 0;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) at += rest % shape[d] * strides[d];
    memory[static_cast<size_t>(at)] = static_cast<T>(i + 1);
  }
  for (int64_t i = 0; i < n; ++i) {  // elements may share memory
    int64_t rest = i, at = 0;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) at += rest % shape[d] * strides[d];
    expected[static_cast<size_t>(i)] = memory[static_cast<size_t>(at)];
  }
  aotc_tensor t = aotc_host_tensor(memory.data(), shape.data(), static_cast<int32_t>(shape.size()), dtype, memory.size() * sizeof(T));
  t.strides = strides.data();
  uint64_t span = 0;
  REQUIRE(aotc::rt::tensor_span("x", t, out.size() * sizeof(T), &span) == AOTC_STATUS_OK);
  CHECK(span <= memory.size() * sizeof(T));
  aotc::rt::copy_dense(t, out.data());
  CHECK(out == expected);
}

}  // namespace

TEST_CASE("tensors of any strides are copied densely") {
  const std::pair<std::vector<int64_t>, std::vector<int64_t>> layouts[] = {
      {{2, 3, 5, 7}, {105, 1, 21, 3}},         // channels last
      {{2, 70, 5, 65}, {22750, 1, 4550, 70}},  // more than a tile
      {{65, 70}, {1, 65}},                     // transposed
      {{4, 1, 6}, {6, 999, 1}},                // dense but for an axis of size 1
      {{4, 3, 6}, {0, 6, 1}},                  // expanded
      {{4, 3, 6}, {0, 0, 0}},
      {{3, 4, 5}, {100, 7, 2}},  // sliced with steps
      {{1, 1}, {5, 5}},
      {{5, 4, 3, 2, 2}, {1, 5, 20, 60, 120}},  // all axes turned
      {{6, 4}, {1, 1}},                        // overlapping windows
  };
  for (const auto& [shape, strides] : layouts) {
    check_dense_copy<uint8_t>(AOTC_DTYPE_U8, shape, strides);
    check_dense_copy<uint16_t>(AOTC_DTYPE_F16, shape, strides);
    check_dense_copy<float>(AOTC_DTYPE_F32, shape, strides);
    check_dense_copy<double>(AOTC_DTYPE_F64, shape, strides);
    check_dense_copy<std::complex<double>>(AOTC_DTYPE_C128, shape, strides);
  }
}
