#pragma once
// Vectors of any element type, as wide as the instruction set's, with the compiler's own operators.

namespace {

#if defined(__AVX512F__)
constexpr int kAnyVecBytes = 64;
#else
constexpr int kAnyVecBytes = 32;
#endif

template <class T>
struct AnyVec {
  typedef T V __attribute__((vector_size(kAnyVecBytes)));
  typedef T U __attribute__((vector_size(kAnyVecBytes), aligned(alignof(T)), may_alias));  ///< at any element
  static constexpr int kLanes = kAnyVecBytes / static_cast<int>(sizeof(T));
};

}  // namespace
