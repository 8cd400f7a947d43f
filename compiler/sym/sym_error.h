#pragma once
#include "base/diagnostic.h"

namespace aotc {

/// Symbolic arithmetic without a value: an overflow of int64, or a division by zero. The sizes of a model make it, so whoever reads a model
/// turns it into a Diagnostic with the place.
class SymError : public InternalError {
 public:
  using InternalError::InternalError;
};

}  // namespace aotc
