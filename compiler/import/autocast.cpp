#include "import/autocast.h"

#include "base/words.h"
#include "import/graph_reader.h"
#include "import/operands.h"

namespace aotc::import {
namespace {

// What LibTorch's dispatcher has kernels for.
constexpr std::string_view kCpu =
    "aten._addmm_activation.default aten._convolution.deprecated aten._grid_sampler_2d_cpu_fallback.default "
    "aten._lu_with_info.default aten._native_multi_head_attention.default aten.adaptive_avg_pool3d.default "
    "aten.adaptive_max_pool3d.default aten.addbmm.default aten.addmm.default aten.avg_pool3d.default aten.baddbmm.default "
    "aten.binary_cross_entropy.default aten.binary_cross_entropy_with_logits.default aten.bmm.default aten.cat.default "
    "aten.cdist.default aten.cholesky.default aten.cholesky_inverse.default aten.cholesky_solve.default aten.conv1d.default "
    "aten.conv1d.padding aten.conv2d.default aten.conv2d.padding aten.conv3d.default aten.conv3d.padding aten.conv_tbc.default "
    "aten.conv_transpose1d.default aten.conv_transpose2d.input aten.conv_transpose3d.input aten.cosine_embedding_loss.default "
    "aten.cross_entropy_loss.default aten.ctc_loss.IntList aten.ctc_loss.Tensor aten.fake_quantize_per_tensor_affine.default "
    "aten.fft_fft.default aten.fft_fft2.default aten.fft_fftn.default aten.fft_hfft.default aten.fft_ifft.default "
    "aten.fft_ifft2.default aten.fft_ifftn.default aten.fft_ihfft.default aten.fft_irfft.default aten.fft_irfft2.default "
    "aten.fft_irfftn.default aten.fft_rfft.default aten.fft_rfft2.default aten.fft_rfftn.default aten.fractional_max_pool2d.default "
    "aten.fractional_max_pool3d.default aten.geqrf.default aten.grid_sampler.default aten.grid_sampler_2d.default "
    "aten.grid_sampler_3d.default aten.hinge_embedding_loss.default aten.huber_loss.default aten.index_copy.default "
    "aten.inverse.default aten.kl_div.default aten.l1_loss.default aten.linalg_cholesky.default aten.linalg_cholesky_ex.default "
    "aten.linalg_cond.default aten.linalg_cond.p_str aten.linalg_eig.default aten.linalg_eigh.default aten.linalg_eigvals.default "
    "aten.linalg_eigvalsh.default aten.linalg_householder_product.default aten.linalg_inv.default aten.linalg_inv_ex.default "
    "aten.linalg_lstsq.default aten.linalg_matrix_rank.atol_rtol_float aten.linalg_matrix_rank.atol_rtol_tensor "
    "aten.linalg_matrix_rank.default aten.linalg_matrix_rank.tol_tensor aten.linalg_qr.default aten.linalg_solve.default "
    "aten.linalg_svd.default aten.linalg_svdvals.default aten.linalg_tensorinv.default aten.linalg_tensorsolve.default "
    "aten.linalg_vecdot.default aten.linear.default aten.lu_solve.default aten.margin_ranking_loss.default aten.matmul.default "
    "aten.max_pool3d.default aten.max_unpool2d.default aten.max_unpool3d.default aten.mkldnn_rnn_layer.default aten.mm.default "
    "aten.mse_loss.default aten.multi_margin_loss.default aten.multilabel_margin_loss.default "
    "aten.multilabel_margin_loss_forward.default aten.nanquantile.default aten.nanquantile.scalar aten.nll_loss.default "
    "aten.nll_loss2d.default aten.orgqr.default aten.ormqr.default aten.pinverse.default aten.poisson_nll_loss.default "
    "aten.polar.default aten.prelu.default aten.prod.default aten.prod.dim_int aten.qr.default aten.quantile.default "
    "aten.quantile.scalar aten.reflection_pad1d.default aten.reflection_pad2d.default aten.replication_pad1d.default "
    "aten.replication_pad2d.default aten.replication_pad3d.default aten.scaled_dot_product_attention.default "
    "aten.smooth_l1_loss.default aten.soft_margin_loss.default aten.stack.default aten.stft.center aten.stft.default "
    "aten.svd.default aten.trace.default aten.triangular_solve.default aten.triplet_margin_loss.default aten.view_as_complex.default";
constexpr std::string_view kCuda =
    "aten._convolution.default aten._convolution.deprecated aten._scaled_dot_product_flash_attention.default "
    "aten._thnn_fused_gru_cell.default aten._thnn_fused_lstm_cell.default aten._upsample_bicubic2d_aa.default "
    "aten._upsample_bilinear2d_aa.default aten._upsample_nearest_exact1d.default aten._upsample_nearest_exact2d.default "
    "aten._upsample_nearest_exact3d.default aten.acos.default aten.addbmm.default aten.addcdiv.default aten.addcmul.default "
    "aten.addmm.default aten.addmv.default aten.addr.default aten.asin.default aten.atan2.default aten.baddbmm.default "
    "aten.bilinear.default aten.binary_cross_entropy.default aten.binary_cross_entropy_with_logits.default aten.bmm.default "
    "aten.cdist.default aten.chain_matmul.default aten.conv1d.default aten.conv2d.default aten.conv3d.default aten.conv_tbc.default "
    "aten.conv_transpose1d.default aten.conv_transpose2d.input aten.conv_transpose3d.input aten.convolution.default "
    "aten.cosh.default aten.cosine_embedding_loss.default aten.cosine_similarity.default aten.cross.default "
    "aten.cudnn_convolution.default aten.cudnn_convolution_transpose.default aten.cumprod.default aten.cumsum.default "
    "aten.dist.default aten.dot.default aten.einsum.default aten.erfinv.default aten.exp.default aten.expm1.default "
    "aten.frobenius_norm.dim aten.grid_sampler.default aten.group_norm.default aten.gru_cell.default "
    "aten.hinge_embedding_loss.default aten.huber_loss.default aten.index_put.default aten.kl_div.default aten.l1_loss.default "
    "aten.layer_norm.default aten.linalg_matrix_norm.default aten.linalg_matrix_norm.str_ord aten.linalg_multi_dot.default "
    "aten.linalg_vecdot.default aten.linalg_vector_norm.default aten.linear.default aten.log.default aten.log10.default "
    "aten.log1p.default aten.log2.default aten.log_softmax.int aten.logsumexp.default aten.lstm_cell.default "
    "aten.margin_ranking_loss.default aten.matmul.default aten.mm.default aten.mse_loss.default aten.multi_margin_loss.default "
    "aten.multilabel_margin_loss.default aten.mv.default aten.native_layer_norm.default aten.nll_loss.default "
    "aten.nll_loss2d.default aten.norm.Scalar aten.norm.ScalarOpt_dim aten.nuclear_norm.default aten.nuclear_norm.dim "
    "aten.pdist.default aten.poisson_nll_loss.default aten.pow.Scalar aten.pow.Tensor_Scalar aten.pow.Tensor_Tensor "
    "aten.prelu.default aten.prod.default aten.prod.dim_int aten.reciprocal.default aten.renorm.default aten.rms_norm.default "
    "aten.rnn_relu_cell.default aten.rnn_tanh_cell.default aten.rsqrt.default aten.scaled_dot_product_attention.default "
    "aten.scatter_add.default aten.sinh.default aten.smooth_l1_loss.default aten.soft_margin_loss.default aten.softmax.int "
    "aten.softplus.default aten.sum.default aten.sum.dim_IntList aten.tan.default aten.tensordot.default "
    "aten.triplet_margin_loss.default aten.upsample_bicubic2d.default aten.upsample_bilinear2d.default "
    "aten.upsample_linear1d.default aten.upsample_nearest1d.default aten.upsample_nearest2d.default aten.upsample_nearest3d.default "
    "aten.upsample_trilinear3d.default aten.vdot.default";

bool is_eligible(DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32; }

}  // namespace

std::optional<std::string_view> autocast_region(const std::vector<Arg>& args) {
  const auto* device = args.empty() ? nullptr : std::get_if<std::string>(&args[0]);
  const bool* enabled = args.size() > 2 ? std::get_if<bool>(&args[2]) : nullptr;
  if (!enabled) return std::nullopt;
  if (!*enabled) return std::string_view();
  if (!device || (*device != "cpu" && *device != "cuda")) return std::nullopt;
  return *device == "cpu" ? kCpu : kCuda;
}

/// An operator with a kernel for autocast casts its operands: down, up to float32, or to the widest of them. Which of these it is shows in
/// its result, whose type the archive has. So does that of an operator which is made of such ones.
void GraphReader::cast_operands(PNode& node) {
  std::optional<DType> type;
  for (const Arg& a : node.results)
    each_tensor(a, [&](const std::string& name) {
      const DType t = p_.tensors.at(name).dtype;
      if (!type) type = is_eligible(t) ? t : DType::f32;
    });
  bool none = true, says = false;
  for (const NamedArg& a : node.args) {
    says = says || std::holds_alternative<DType>(a.value);
    each_tensor(a.value, [&](const std::string& name) { none = none && p_.tensors.at(name).dtype != type; });
  }
  if (!type || !(has_word(autocast_, node.target) || (none && !says))) return;
  int number = 0;
  const auto cast = [&](TensorRef& t) {
    TensorMeta meta = p_.tensors.at(t.name);
    if (!is_eligible(meta.dtype) || meta.dtype == *type) return;
    meta.dtype = *type;
    const std::string name = own(node.name, fmt::format("autocast_{}", number++), std::move(meta));
    add_node(node, "aten.to.dtype", {{"self", t}, {"dtype", *type}, {"non_blocking", false}, {"copy", false}, {"memory_format", NoneArg{}}},
             name);
    t = TensorRef{name};
  };
  for (NamedArg& a : node.args) {
    if (auto* one = std::get_if<TensorRef>(&a.value)) cast(*one);
    if (auto* list = std::get_if<TensorList>(&a.value))
      for (TensorRef& t : *list) cast(t);
    if (auto* list = std::get_if<OptTensorList>(&a.value))
      for (std::optional<TensorRef>& t : *list)
        if (t) cast(*t);
  }
}

}  // namespace aotc::import
