#pragma once
#include "forms/form.h"

namespace aotc::forms {

/// The only instance of a form.
template <class F>
const Form& instance() {
  static const F form;
  return form;
}

}  // namespace aotc::forms
