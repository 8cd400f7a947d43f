#pragma once
#include "forms/form.h"

namespace aotc::forms {

/// cuda: of a form whose step is launched several times, one after another, with the same arguments, scratch included, but for the last of
/// its sizes: the launch's number. The plan has a step a launch.
class Repeated {
 public:
  virtual ~Repeated() = default;
  virtual int launches(const loop::Kernel& k, const Choice& c) const = 0;
};

}  // namespace aotc::forms
