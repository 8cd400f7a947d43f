#pragma once
// Whether the file that this artifact was loaded from is whole.
#include "aotc/aotc.h"

namespace aotc::rt {

/// Code and tables, and with `all` the weights within it and the rest: DAMAGED where they are not what was built, or the seal is lost. What
/// cannot be asked is no fault, but with `all`: the file is gone (NOT_FOUND) or is another one by now (INCOMPATIBLE).
aotc_status seal_check(bool all);

}  // namespace aotc::rt
