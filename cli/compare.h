#pragma once
// Error measures of verify.
#include "graph/interp.h"

namespace aotc::cli {

/// Element i of t as double (complex: interleaved parts, so 2 elements each).
double element(const HostTensor& t, int64_t i);

struct Difference {
  double l2 = 0;  ///< ||a - truth|| / ||truth||; NaN against NaN and inf against the same inf count as equal
  double max_abs = 0;
  double max_rel = 0;  ///< largest |a - truth| / |truth| over elements with |truth| above 1e-3 of the largest
  bool same_shape = true;
};
Difference compare(const HostTensor& a, const HostTensor& truth);

/// What a reference in the output's type (eager) is away from fp64, of the elements that both have finite in that type: always a number.
struct Distance {
  double l2 = 0;
  int64_t lost = 0;  ///< elements that fp64 has finite in the type and the reference has not
  bool same_shape = true;
};
Distance distance(const HostTensor& reference, const HostTensor& truth);

/// As compare, but where the truth is not finite in a's type, or eager is not though the truth is, a may have what eager has. Elsewhere a
/// is held to the truth. A number beyond the type's may be the infinity that it rounds to or a number within `limit` of it. An element that
/// is none of this makes l2 infinite.
Difference compare(const HostTensor& a, const HostTensor& truth, const HostTensor& eager, double limit);

/// Elements of a that are more than atol + rtol |truth| away from the truth (as numpy.testing.assert_allclose counts them).
struct Outside {
  int64_t count = 0, elements = 0;
  int64_t worst = -1;            ///< the element furthest beyond what is allowed, by its place in memory; -1: none is
  double got = 0, expected = 0;  ///< that element
};
/// Of the same shape. Where the truth is not finite in a's type, or eager is not, as the other comparison says.
Outside outside(const HostTensor& a, const HostTensor& truth, const HostTensor& eager, double rtol, double atol);

/// The slack of the rule, relative: one unit in the last place of a 16-bit float, four of float32 and float64 (outputs of a few elements,
/// where eager can be exact by luck); 0 for integers and bool.
double epsilon(DType t);

}  // namespace aotc::cli
