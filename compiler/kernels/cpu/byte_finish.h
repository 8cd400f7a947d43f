#pragma once
// What becomes of sums of bytes, as data (aotc_byte_finish of aotc/detail/bytes_abi.h), where vectors have 512 bits: 64 columns at a time,
// whose scales stay in registers while rows go by, and whose bytes are one store.
#include "aotc/detail/bytes_abi.h"
#include "simd.h"

namespace {

#if defined(__AVX512BW__)

class ByteFinish {
  const aotc_byte_finish* f_;
  const aotc_kargs* args_;

  template <class T>
  T* at(const aotc_byte_place& p, int64_t m, int64_t n) const {
    return static_cast<T*>(args_->ptr[p.ptr]) + p.base + m * p.pitch + n;
  }

  static constexpr float kMostStep = 0x1p30f;  // that is rounded to 32 bits

  static __m512i byte(__m512i q, __m512i zero) {
    return _mm512_min_epi32(_mm512_max_epi32(_mm512_add_epi32(q, zero), _mm512_setzero_si512()), _mm512_set1_epi32(255));
  }

  /// Bytes of NV vectors of q, `zero` higher, in the order of columns.
  template <int NV>
  static __m512i packed(const __m512i (&q)[NV], int zero) {
    __m512i low = _mm512_packs_epi32(q[0], q[NV > 1]), high = NV > 2 ? _mm512_packs_epi32(q[NV / 2], q[NV - 1]) : low;
    if (zero) {
      const __m512i all = _mm512_set1_epi16(static_cast<int16_t>(zero));
      low = _mm512_adds_epi16(low, all), high = _mm512_adds_epi16(high, all);
    }
    const __m512i turned = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    return _mm512_permutexvar_epi32(turned, _mm512_packus_epi16(low, high));
  }

  /// 16 NV columns, or fewer of the last vector.
  template <int NV, int kAdd>
  __attribute__((noinline)) void columns(const int32_t* sums, int64_t ld, int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    const auto last = static_cast<__mmask16>((1u << (cols - 16 * (NV - 1))) - 1);
    const __mmask64 all = cols >= 64 ? ~__mmask64{0} : (__mmask64{1} << cols) - 1;
    const auto mask = [&](int j) { return j + 1 < NV ? __mmask16{0xffff} : last; };
    const bool has_sub = f_->sub.ptr >= 0, has_bytes = f_->bytes.ptr >= 0, has_floats = f_->floats.ptr >= 0;
    const bool has_least = f_->at_least > -__builtin_inff();
    __m512i sub[NV];
    __m512 scale[NV], bias[NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      sub[j] = has_sub ? _mm512_maskz_loadu_epi32(mask(j), at<int32_t>(f_->sub, 0, col + 16 * j)) : _mm512_setzero_si512();
      scale[j] = f_->scale.ptr >= 0 ? _mm512_maskz_loadu_ps(mask(j), at<float>(f_->scale, 0, col + 16 * j)) : _mm512_set1_ps(f_->scale_all);
      bias[j] = f_->bias.ptr >= 0 ? _mm512_maskz_loadu_ps(mask(j), at<float>(f_->bias, 0, col + 16 * j)) : _mm512_setzero_ps();
    }
    const bool trips = f_->trips != 0;
    const float by = has_bytes ? f_->steps : 1;  // all that is added is made of steps
    const __m512 first = _mm512_set1_ps(trips ? f_->trip_steps : by), trip_scale = _mm512_set1_ps(f_->trip_scale * by);
    const __m512i trip_zero = _mm512_set1_epi32(f_->trip_zero);
    const __m512 steps = _mm512_set1_ps(by), again = _mm512_set1_ps(f_->again), add_scale = _mm512_set1_ps(f_->add_scale * by);
    const __m512 at_least = _mm512_set1_ps(f_->at_least * by), at_most = _mm512_set1_ps(min_of(f_->at_most * by, kMostStep));
    __m512 most = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      scale[j] = _mm512_mul_ps(scale[j], first), bias[j] = _mm512_mul_ps(bias[j], first);
      most = _mm512_max_ps(most, _mm512_max_ps(_mm512_abs_ps(scale[j]), _mm512_mul_ps(_mm512_abs_ps(bias[j]), _mm512_set1_ps(0x1p-29f))));
    }
    // No sum is beyond what 32 bits hold; of what is added beside it a byte's worth is known not to be.
    const bool small = !_mm512_cmp_ps_mask(most, _mm512_set1_ps(0.25f), _CMP_NLE_UQ);
    const bool adds_small = kAdd == AOTC_BYTES_ADD_NONE || (kAdd == AOTC_BYTES_ADD_U8 && f_->add_scale * by < 0x1p20f);
    const bool has_most = !(trips ? f_->trip_scale * by < 0x1p20f : small) || !adds_small || f_->at_most < __builtin_inff();
    const __m512i add_zero = _mm512_set1_epi32(f_->add_zero), zero = _mm512_set1_epi32(f_->zero);
    const char* add = kAdd == AOTC_BYTES_ADD_NONE ? nullptr : at<char>(f_->add, 0, 0);
    const int64_t add_elem = kAdd == AOTC_BYTES_ADD_F32 ? 4 : 1, add_pitch = f_->add.pitch * add_elem;
    if (add) add += (f_->add.base * (add_elem - 1)) + row * add_pitch + col * add_elem;
    uint8_t* bytes = has_bytes ? at<uint8_t>(f_->bytes, row, col) : nullptr;
    float* floats = has_floats ? at<float>(f_->floats, row, col) : nullptr;
    for (int64_t r = 0; r < rows; ++r, sums += ld) {
      __m512 x[NV];
      __m512i q[NV];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) q[j] = _mm512_loadu_si512(sums + 16 * j);
      if (has_sub) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) q[j] = _mm512_sub_epi32(q[j], sub[j]);
      }
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) x[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(q[j]), scale[j], bias[j]);
      if (trips) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          if (!small) x[j] = _mm512_min_ps(_mm512_set1_ps(kMostStep), x[j]);
          x[j] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(byte(_mm512_cvtps_epi32(x[j]), trip_zero), trip_zero)), trip_scale);
        }
      }
      if constexpr (kAdd == AOTC_BYTES_ADD_F32) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j)
          x[j] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask(j), reinterpret_cast<const float*>(add) + 16 * j), steps, x[j]);
      } else if constexpr (kAdd == AOTC_BYTES_ADD_U8) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          const __m512i of = _mm512_sub_epi32(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask(j), add + 16 * j)), add_zero);
          x[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(of), add_scale, x[j]);
        }
      }
      add += add_pitch;
      if (has_least) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) x[j] = _mm512_max_ps(at_least, x[j]);  // the second where there is a NaN
      }
      if (has_most) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) x[j] = _mm512_min_ps(at_most, x[j]);
      }
      if (has_bytes) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) q[j] = _mm512_cvtps_epi32(x[j]);
        const __m512i b = packed(q, f_->zero);
        if constexpr (NV == 4) {
          _mm512_mask_storeu_epi8(bytes, all, b);
        } else if constexpr (NV == 2) {
          _mm256_mask_storeu_epi8(bytes, static_cast<__mmask32>(all), _mm512_castsi512_si256(b));
        } else {
          _mm_mask_storeu_epi8(bytes, static_cast<__mmask16>(all), _mm512_castsi512_si128(b));
        }
        bytes += f_->bytes.pitch;
      }
      if (has_floats) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          if (has_bytes) { x[j] = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(byte(q[j], zero), zero)), again); }
          _mm512_mask_storeu_ps(floats + 16 * j, mask(j), x[j]);
        }
        floats += f_->floats.pitch;
      }
    }
  }

  template <int NV>
  void columns(const int32_t* sums, int64_t ld, int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    switch (f_->add_kind) {
      case AOTC_BYTES_ADD_NONE: return columns<NV, AOTC_BYTES_ADD_NONE>(sums, ld, row, rows, col, cols);
      case AOTC_BYTES_ADD_F32: return columns<NV, AOTC_BYTES_ADD_F32>(sums, ld, row, rows, col, cols);
      default: return columns<NV, AOTC_BYTES_ADD_U8>(sums, ld, row, rows, col, cols);
    }
  }

 public:
  ByteFinish(const aotc_kargs* args, const aotc_byte_finish* f) : f_(f && f->taken ? f : nullptr), args_(args) {}
  /// Whether it says what becomes of the sums.
  bool is() const { return f_ != nullptr; }

  /// rows x cols sums, `ld` apart, `ld` a multiple of 16; row, col: of the first one.
  void finish(const int32_t* sums, int64_t ld, int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    for (; cols > 48; cols -= 64, col += 64, sums += 64) columns<4>(sums, ld, row, rows, col, min_of<int64_t>(cols, 64));
    if (cols > 16) columns<2>(sums, ld, row, rows, col, min_of<int64_t>(cols, 32)), cols -= 32, col += 32, sums += 32;
    if (cols > 0) columns<1>(sums, ld, row, rows, col, cols);
  }
};

#else

class ByteFinish {
 public:
  ByteFinish(const aotc_kargs*, const aotc_byte_finish*) {}
  bool is() const { return false; }
  void finish(const int32_t*, int64_t, int64_t, int64_t, int64_t, int64_t) const {}
};

#endif

}  // namespace
