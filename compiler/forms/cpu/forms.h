#pragma once
// The CPU forms, one a file. list.cpp puts them in order.
#include "forms/form.h"

namespace aotc::forms::cpu {

const Form& gemm_tiles();
const Form& gemm_held();
const Form& gemm_parts();
const Form& gemm_dots();
const Form& gemm();
const Form& gemm_strassen();
const Form& gemm_quant();
const Form& gemm_int8_tiles();
const Form& gemm_int8();
const Form& gemm_bf16w();
const Form& gemm_unpack();
const Form& gemm_bytes_tiles();
const Form& gemm_bytes();
const Form& conv_bytes_tiles();
const Form& conv_bytes();
const Form& conv_bytes_depthwise();
const Form& conv_direct();
const Form& conv_product();
const Form& conv_phases();
const Form& conv_few();
const Form& conv_last_tiles();
const Form& conv_last();
const Form& conv_last_depthwise();
const Form& conv_winograd();
const Form& attention_tiles();
const Form& attention_split();
const Form& attention();
const Form& sort();
const Form& topk();
const Form& scatter();
const Form& index_put();
const Form& add_rows();
const Form& recurrence_tiles();
const Form& recurrence_panels();
const Form& recurrence();
const Form& fourier();
const Form& check();
const Form& exclude();
const Form& cholesky();
const Form& lu();
const Form& qr();
const Form& svd();
const Form& solve_triangular();
const Form& custom();
const Form& far_loop();
const Form& fused_loop();

/// "f32", "i64", "bool": the dtype part of library symbols.
std::string_view symbol_dtype(DType t);
/// "aotc_gemm_f32": an entry of the library (kernels/cpu/kernels.def) without its ISA level.
std::string entry_of(std::string_view kernel, DType type);
bool has_entry(std::string_view kernel, DType type);

}  // namespace aotc::forms::cpu
