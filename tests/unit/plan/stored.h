#pragma once
// The form in which a kernel form stores a constant operand, with the form's first choice.
#include "forms/list.h"

namespace aotc::test {

inline std::optional<forms::WeightForm> stored(const char* form, const loop::Kernel& k) {
  const Machine machine = machine_of(Isa::avx512, 1);
  const SymTable syms;
  const forms::Form* f = forms::find_form(form);
  const auto all = f->candidates({k, syms, machine, {}});
  const auto w = f->weight(k, all.at(0).choice);
  return w ? std::optional(w->second) : std::nullopt;
}

}  // namespace aotc::test
