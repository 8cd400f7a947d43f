#pragma once
#include <complex>
#include <cstdint>

namespace aotc {

/// e^(2 pi i j / n), each part rounded once: exact where it is 0, 1 or -1, and parts that are equal but for their sign are so to the bit.
/// n > 0, 0 <= j < n, 8 n representable.
std::complex<double> unit_root(int64_t j, int64_t n);

}  // namespace aotc
