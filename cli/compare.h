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

/// The slack of the rule, relative: one unit in the last place of a 16-bit float, four of float32 and float64 (outputs of a few elements,
/// where eager can be exact by luck); 0 for integers and bool.
double epsilon(DType t);

}  // namespace aotc::cli
