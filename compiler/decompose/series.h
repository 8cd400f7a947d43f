#pragma once
// Series in which special functions are computed.
#include <span>

#include "decompose/tensor.h"

namespace aotc::decompose {

/// c[0] / 2 + c[1] T1(at) + c[2] T2(at) ..: at from -1 to 1.
T chebyshev(const T& at, std::span<const double> c);

/// exp(x*x) * erfc(x) of x >= 0, in float64.
T scaled_erfc(const T& x);

/// (2j)! / B_2j from j = 1 on, of the series of Euler and Maclaurin.
inline constexpr double kEulerMaclaurin[] = {12.0,
                                             -720.0,
                                             30240.0,
                                             -1209600.0,
                                             47900160.0,
                                             -1.8924375803183791606e9,
                                             7.47242496e10,
                                             -2.950130727918164224e12,
                                             1.1646782814350067249e14,
                                             -4.5979787224074726105e15,
                                             1.8152105401943546773e17,
                                             -7.1661652561756670113e18};

}  // namespace aotc::decompose
