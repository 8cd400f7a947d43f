#pragma once
// What the kernel tests share: the library's entries, element conversions, guarded buffers.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "aotc/detail/library_abi.h"
#include "aotc/detail/team_abi.h"
#include "base/dtype.h"
#include "entries.h"
#include "isas.h"

namespace kernel_test {

using aotc::DType;
using aotc::test::runs_here;

inline float half_to_float(uint16_t h) {
  const int e = (h >> 10) & 31, m = h & 1023;
  const float s = h & 0x8000 ? -1.0f : 1.0f;
  if (e == 31) return m ? NAN : s * INFINITY;
  return s * (e ? std::ldexp(1.0f + m / 1024.0f, e - 15) : std::ldexp(m / 1024.0f, -14));
}
inline uint16_t float_to_half(float f) {  // round to nearest even; exact enough for test data
  if (std::isnan(f)) return 0x7e00;
  const uint16_t s = std::signbit(f) ? 0x8000 : 0;
  f = std::fabs(f);
  if (f >= 65520.0f) return s | 0x7c00;
  if (f < std::ldexp(1.0f, -14)) return s | static_cast<uint16_t>(std::nearbyint(std::ldexp(f, 24)));
  int e;
  const float m = std::frexp(f, &e);  // in [0.5, 1)
  const int q = static_cast<int>(std::nearbyint(std::ldexp(m, 11)));
  return s | static_cast<uint16_t>(((e + 14) << 10) + (q - 1024));
}

inline double get(const void* p, int64_t i, DType t) {
  const char* b = static_cast<const char*>(p) + i * aotc::dtype_bytes(t);
  auto as = [&](auto x) {
    std::memcpy(&x, b, sizeof(x));
    return x;
  };
  switch (t) {
    case DType::f32: return as(float{});
    case DType::f64: return as(double{});
    case DType::f16: return half_to_float(as(uint16_t{}));
    case DType::bf16: {
      uint32_t bits = static_cast<uint32_t>(as(uint16_t{})) << 16;
      float f;
      std::memcpy(&f, &bits, 4);
      return f;
    }
    case DType::boolean:
    case DType::u8: return as(uint8_t{});
    case DType::i8: return as(int8_t{});
    case DType::i16: return as(int16_t{});
    case DType::i32: return as(int32_t{});
    default: return static_cast<double>(as(int64_t{}));
  }
}
inline void put(void* p, int64_t i, DType t, double v) {
  char* b = static_cast<char*>(p) + i * aotc::dtype_bytes(t);
  auto as = [&](auto x) { std::memcpy(b, &x, sizeof(x)); };
  switch (t) {
    case DType::f32: return as(static_cast<float>(v));
    case DType::f64: return as(v);
    case DType::f16: return as(float_to_half(static_cast<float>(v)));
    case DType::bf16: {
      float f = static_cast<float>(v);
      uint32_t bits;
      std::memcpy(&bits, &f, 4);
      if (!std::isnan(f)) bits += 0x7fff + ((bits >> 16) & 1);
      return as(static_cast<uint16_t>(bits >> 16));
    }
    case DType::boolean:
    case DType::u8: return as(static_cast<uint8_t>(v));
    case DType::i8: return as(static_cast<int8_t>(v));
    case DType::i16: return as(static_cast<int16_t>(v));
    case DType::i32: return as(static_cast<int32_t>(v));
    default: return as(static_cast<int64_t>(v));
  }
}

/// Relative error that one rounding of the dtype makes.
inline double epsilon(DType t) {
  switch (t) {
    case DType::f64: return 1e-15;
    case DType::f32: return 1.2e-7;
    case DType::f16: return 1e-3;
    case DType::bf16: return 8e-3;
    default: return 0;
  }
}

/// In which contractions sum.
inline DType acc_of(DType t) { return t == DType::f64 || t == DType::i64 ? t : aotc::is_float(t) ? DType::f32 : DType::i32; }

/// Exactly `elems` elements on the heap, so that a sanitiser sees one element too far; starts `lead` elements off alignment.
class Buffer {
 public:
  Buffer(int64_t elems, DType t, int64_t lead = 0)
      : bytes_(static_cast<size_t>((elems + lead) * aotc::dtype_bytes(t))), data_(bytes_ ? bytes_ : 1), type(t), size(elems), lead_(lead) {}
  void* ptr() { return data_.data() + lead_ * aotc::dtype_bytes(type); }
  double get(int64_t i) { return kernel_test::get(ptr(), i, type); }
  void put(int64_t i, double v) { kernel_test::put(ptr(), i, type, v); }
  template <class Rng>
  void fill(Rng& rng) {
    std::uniform_real_distribution<double> real(-1, 1);
    std::uniform_int_distribution<int> whole(aotc::is_bool(type) ? 0 : type == DType::u8 ? 0 : -9, aotc::is_bool(type) ? 1 : 9);
    for (int64_t i = 0; i < size; ++i) put(i, aotc::is_float(type) ? real(rng) : whole(rng));
  }

 private:
  size_t bytes_;
  std::vector<char> data_;

 public:
  DType type;
  int64_t size;

 private:
  int64_t lead_;
};

/// Every element as it stands behind ptr(): what references sum, read once.
inline std::vector<double> values_of(Buffer& b) {
  std::vector<double> all(static_cast<size_t>(b.size));
  for (int64_t i = 0; i < b.size; ++i) all[static_cast<size_t>(i)] = b.get(i);
  return all;
}

/// 64-byte aligned scratch of an exact size, full of NaNs.
class Scratch {
 public:
  explicit Scratch(int64_t bytes) : mem_(static_cast<size_t>(bytes) + 64), bytes_(bytes) { std::memset(mem_.data(), 0xff, mem_.size()); }
  void* ptr() {
    auto p = reinterpret_cast<uintptr_t>(mem_.data());
    return reinterpret_cast<void*>((p + 63) / 64 * 64);
  }

 private:
  std::vector<char> mem_;
  int64_t bytes_;
};

/// Calls the entry for all units in two parts: the later one first, as two threads may; or, where `split` is odd, in order, the second with
/// what the first has left in the scratch, as one thread does with its pieces. True: in order.
inline bool run_parts(const Entry& e, aotc_kargs args, int64_t work, int64_t split) {
  int64_t held[AOTC_HELD];
  for (int64_t& word : held) word = -1;
  const bool in_order = split % 2 != 0;
  if (in_order) args.held = held, e.fn(&args, 0, split);
  e.fn(&args, split, work);
  if (!in_order) e.fn(&args, 0, split);
  return in_order;
}

constexpr int kTeam = 3;  ///< threads of run_team

/// The calls of the threads of a team: at the same time, or one after another, the first of which finds no other. scratch_stride: bytes
/// from thread to thread.
inline void run_team(const Entry& e, aotc_team_kargs team, int64_t work, bool together, int64_t scratch_stride) {
  alignas(64) std::array<aotc_team_range, AOTC_TEAM_RANGES> ranges{};
  team.team = ranges.data(), team.args.threads = kTeam;
  char* const scratch = static_cast<char*>(team.args.scratch);
  std::vector<std::thread> others;
  for (int t = kTeam; t-- > 0;) {
    team.args.thread = t, team.args.scratch = scratch + t * scratch_stride;
    if (!together || t == 0)
      e.fn(&team.args, 0, work);
    else
      others.emplace_back([&e, own = team, work] { e.fn(&own.args, 0, work); });
  }
  for (std::thread& t : others) t.join();
}

}  // namespace kernel_test
