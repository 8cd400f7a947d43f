#pragma once
#include "base/diagnostic.h"

namespace aotc {

/// A node that is not well typed (graph/infer.h). Where the node comes from an archive, that is the archive's fault.
class TypeError : public InternalError {
 public:
  using InternalError::InternalError;
};

}  // namespace aotc
