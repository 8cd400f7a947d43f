#pragma once
// The CUDA forms, one a file. list.cpp puts them in order.
#include "forms/form.h"

namespace aotc::forms::cuda {

const Form& wgmma();
const Form& wgmma_parts();
const Form& wgmma_apart();
const Form& wgmma_quant();
const Form& mma();
const Form& simt();
const Form& vector();
const Form& stream();
const Form& conv_few();
const Form& conv_patch();
const Form& conv_wgmma();
const Form& conv_wgmma_parts();
const Form& conv_mma();
const Form& conv_simt();
const Form& conv_points();
const Form& attention_wgmma();
const Form& attention_mma();
const Form& attention();
const Form& sort();
const Form& topk_warps();
const Form& topk_bounded();
const Form& sort_packed();
const Form& sort_radix();
const Form& sort_dealt();
const Form& topk();
const Form& scatter();
const Form& scatter_last();
const Form& index_put_rows();
const Form& index_put();
const Form& add_rows();
const Form& fourier();
const Form& recurrence_held();
const Form& recurrence();
const Form& check();
const Form& exclude();
const Form& cholesky();
const Form& lu();
const Form& qr();
const Form& svd();
const Form& solve_triangular();
const Form& custom();
const Form& loop_flat();
const Form& loop_row();
const Form& loop_serial();

}  // namespace aotc::forms::cuda
