#pragma once
// The families of rules, one file each; table.cpp puts them together.
#include "decompose/rule.h"

namespace aotc::decompose {

RuleTable pointwise_unary_rules();
RuleTable special_rules();
RuleTable bessel_rules();
RuleTable gamma_rules();
RuleTable polynomial_rules();
RuleTable pointwise_binary_rules();
RuleTable activation_rules();
RuleTable cast_rules();
RuleTable creation_rules();
RuleTable view_rules();
RuleTable layout_rules();
RuleTable reduction_rules();
RuleTable scan_rules();
RuleTable norm_rules();
RuleTable linalg_rules();
RuleTable solve_rules();
RuleTable qr_rules();
RuleTable spectral_rules();
RuleTable quantized_rules();
RuleTable einsum_rules();
RuleTable conv_rules();
RuleTable pool_rules();
RuleTable upsample_rules();
RuleTable grid_sample_rules();
RuleTable detection_rules();
RuleTable pad_rules();
RuleTable index_rules();
RuleTable by_data_rules();
RuleTable scatter_rules();
RuleTable segment_rules();
RuleTable sort_rules();
RuleTable attention_rules();
RuleTable rnn_rules();
RuleTable effect_rules();
RuleTable loss_rules();
RuleTable backward_activation_rules();
RuleTable backward_loss_rules();
RuleTable backward_norm_rules();
RuleTable backward_conv_rules();
RuleTable backward_pool_rules();
RuleTable backward_resize_rules();
RuleTable backward_index_rules();
RuleTable backward_attention_rules();
RuleTable backward_distance_rules();

}  // namespace aotc::decompose
