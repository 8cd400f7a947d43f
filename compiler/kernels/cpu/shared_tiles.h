#pragma once
// Tiles of micro.h that several families have in common: compiled once for an instruction set, in tiles_f32.cpp and tiles_bf16.cpp. Where
// AOTC_SHARED_TILES is set, as it is for the library, the other units refer to the tables of these; else each unit has its own.
#include "micro.h"

#if defined(AOTC_SHARED_TILES) && !defined(__AMX_TILE__)

/// TABLE(NAME, VARIABLE, MAKER, ARGS...): aotc_tiles_<NAME>_<isa>, to which VARIABLE<ARGS> refers, is MAKER<ARGS>().
#if defined(__AVX512BF16__)
#define AOTC_TILES_F32(TABLE)
#define AOTC_TILES_BF16(TABLE)                                      \
  TABLE(bf16_finish, kMicro, micro_table, MulDot, false, true)      \
  TABLE(bf16_rows_finish, kMicro, micro_table, MulDot, true, true)  \
  TABLE(bf16_half, kMicroHalf, half_table, MulDot, false, true)     \
  TABLE(bf16_rows_half, kMicroHalf, half_table, MulDot, true, true) \
  TABLE(bf16_ordered, kMicroOrdered, ordered_table, MulDot, false)  \
  TABLE(bf16_rows_ordered, kMicroOrdered, ordered_table, MulDot, true)
#else
#if defined(__AVX512F__)
#define AOTC_TILES_HALF(TABLE)                                          \
  TABLE(f32_half, kMicroHalf, half_table, MulPlain<float>, false, true) \
  TABLE(f32_rows_half, kMicroHalf, half_table, MulPlain<float>, true, true)
#else
#define AOTC_TILES_HALF(TABLE)
#endif
#define AOTC_TILES_F32(TABLE)                                                  \
  TABLE(f32, kMicro, micro_table, MulPlain<float>, false, false)               \
  TABLE(f32_rows, kMicro, micro_table, MulPlain<float>, true, false)           \
  TABLE(f32_finish, kMicro, micro_table, MulPlain<float>, false, true)         \
  TABLE(f32_rows_finish, kMicro, micro_table, MulPlain<float>, true, true)     \
  TABLE(f32_ordered, kMicroOrdered, ordered_table, MulPlain<float>, false)     \
  TABLE(f32_rows_ordered, kMicroOrdered, ordered_table, MulPlain<float>, true) \
  AOTC_TILES_HALF(TABLE)
#define AOTC_TILES_BF16(TABLE)                                      \
  TABLE(bf16_finish, kMicro, micro_table, MulBf16, false, true)     \
  TABLE(bf16_rows_finish, kMicro, micro_table, MulBf16, true, true) \
  TABLE(bf16_ordered, kMicroOrdered, ordered_table, MulBf16, false) \
  TABLE(bf16_rows_ordered, kMicroOrdered, ordered_table, MulBf16, true)
#endif

#define AOTC_TILES_NAME(name) AOTC_CAT(AOTC_CAT(aotc_tiles, name), AOTC_ISA)
#define AOTC_TILES_DECLARED(name, ...) extern "C" __attribute__((visibility("hidden"))) const AOTC_TILES AOTC_TILES_NAME(name);
#define AOTC_TILES_REFERRED(name, variable, maker, ...) \
  template <>                                           \
  inline constexpr const MicroTable& variable<__VA_ARGS__> = AOTC_TILES_NAME(name);
/// In the unit that has them.
#define AOTC_TILES_DEFINED(name, variable, maker, ...) extern "C" constinit const AOTC_TILES AOTC_TILES_NAME(name) = maker<__VA_ARGS__>();

AOTC_TILES_F32(AOTC_TILES_DECLARED)
AOTC_TILES_BF16(AOTC_TILES_DECLARED)
namespace {
AOTC_TILES_F32(AOTC_TILES_REFERRED)
AOTC_TILES_BF16(AOTC_TILES_REFERRED)
}  // namespace

#endif
