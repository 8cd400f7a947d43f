#include "decompose/table.h"

#include <map>
#include <string_view>

#include "decompose/complex.h"
#include "decompose/families.h"

namespace aotc::decompose {

std::vector<Family> families() {
  return {
      {"pointwise, one operand", "", pointwise_unary_rules()},
      {"special functions", "", special_rules()},
      {"functions of Bessel and Airy, quantiles", "", bessel_rules()},
      {"incomplete gamma functions, zeta", "", gamma_rules()},
      {"orthogonal polynomials", "", polynomial_rules()},
      {"pointwise, two operands and more", "", pointwise_binary_rules()},
      {"activations", "", activation_rules()},
      {"casts and copies", "", cast_rules()},
      {"tensors made of sizes and numbers", "", creation_rules()},
      {"views", "", view_rules()},
      {"layout: joining, repeating, turning", "", layout_rules()},
      {"reductions", "", reduction_rules()},
      {"running sums, products, extremes", "", scan_rules()},
      {"normalisation", "", norm_rules()},
      {"products of matrices", "matrix products", linalg_rules()},
      {"factorisations, solving", "matrix products, Cholesky and LU factors, triangular systems", solve_rules()},
      {"reflections, QR", "QR factors, matrix products, triangular systems", qr_rules()},
      {"singular values, eigenvalues, exponentials of matrices", "singular values and vectors, matrix products", spectral_rules()},
      {"einsum", "matrix products", einsum_rules()},
      {"Fourier transforms", "", fourier_rules()},
      {"quantisation, products of small integers", "matrix products", quantized_rules()},
      {"convolutions", "convolutions", conv_rules()},
      {"pooling", "", pool_rules()},
      {"resizing", "", upsample_rules()},
      {"sampling at coordinates", "scatter (gradients)", grid_sample_rules()},
      {"torchvision: regions, moved taps, boxes", "matrix products, sort, what excludes what follows", detection_rules()},
      {"padding", "", pad_rules()},
      {"indexing, lookups", "", index_rules()},
      {"sizes found in data", "scatter", by_data_rules()},
      {"writing by index", "scatter, index_put", scatter_rules()},
      {"segments, histograms", "scatter", segment_rules()},
      {"sorting, selecting", "sort, topk", sort_rules()},
      {"attention", "attention, matrix products", attention_rules()},
      {"recurrent layers", "recurrences, matrix products", rnn_rules()},
      {"losses, distances", "", loss_rules()},
      {"assertions and effects", "", effect_rules()},
      {"gradients of activations", "", backward_activation_rules()},
      {"gradients of losses", "", backward_loss_rules()},
      {"gradients of normalisation", "", backward_norm_rules()},
      {"gradients of convolutions", "convolutions, matrix products", backward_conv_rules()},
      {"gradients of pooling", "", backward_pool_rules()},
      {"gradients of resizing, padding", "index_put", backward_resize_rules()},
      {"gradients of indexing, lookups", "scatter, index_put", backward_index_rules()},
      {"gradients of attention", "matrix products", backward_attention_rules()},
      {"gradients of distances", "", backward_distance_rules()},
  };
}

std::vector<RuleTable> all_rules() {
  std::vector<RuleTable> all;
  for (const Family& f : families()) all.push_back(f.rules);
  return all;
}

RuleFn find_rule(std::string_view overload) {
  static const std::map<std::string_view, RuleFn> table = [] {
    std::map<std::string_view, RuleFn> m;
    for (const RuleTable& family : all_rules())
      for (const RuleRow& row : family)
        each_word(row.overloads, [&](std::string_view overload) {
          const bool fresh = m.emplace(overload, row.fn).second;
          AOTC_CHECK(fresh, "two rules for {}", overload);
        });
    return m;
  }();
  const auto it = table.find(overload);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace aotc::decompose
