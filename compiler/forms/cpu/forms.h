#pragma once
// The CPU forms (forms.def) and the names of the library.
#include "forms/instance.h"

namespace aotc::forms::cpu {

#define AOTC_FORM(name) const Form& name();
#include "forms/cpu/forms.def"
#undef AOTC_FORM

/// "f32", "i64", "bool": the dtype part of library symbols.
std::string_view symbol_dtype(DType t);
/// "aotc_gemm_f32": an entry of the library (kernels/cpu/kernels.def) without its ISA level.
std::string entry_of(std::string_view kernel, DType type);
bool has_entry(std::string_view kernel, DType type);

}  // namespace aotc::forms::cpu
