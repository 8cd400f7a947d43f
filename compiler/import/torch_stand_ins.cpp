#include "import/torch_stand_ins.h"

#include <ATen/Functions.h>
#include <c10/core/alignment.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "base/diagnostic.h"
#include "base/philox.h"
#include "import/random_numbers.h"

namespace aotc::import {
namespace {

using Values = std::vector<c10::IValue>;

/// Rows in runs that end at offs[i], each run times matrix i. (rows, matrices, offs, ...)
Values grouped_products(const PNode& node, const Values& args) {
  const auto sizes_fit = [&] {
    return args.size() > 2 && args[2].isTensor() && args[0].toTensor().dim() == 2 && args[1].toTensor().dim() == 3;
  };
  if (!sizes_fit())
    throw Diagnostic(ExitCode::unsupported, Loc{.node = node.name, .source = node.source},
                     fmt::format("{}: only rows times a stack of matrices, with offsets, can be run", node.name));
  const at::Tensor x = args[0].toTensor(), w = args[1].toTensor(), ends = args[2].toTensor().to(at::kLong);
  at::Tensor y = at::zeros({x.size(0), w.size(2)}, x.options());
  int64_t begin = 0;
  for (int64_t i = 0; i < ends.size(0); ++i) {
    const int64_t end = ends[i].item<int64_t>();
    if (end > begin) y.slice(0, begin, end).copy_(at::mm(x.slice(0, begin, end), w[i]));
    begin = end;
  }
  return {y};
}

/// (rows, columns, scale_a, scale_b, bias, ..), or with lists of scales and what says how they lie: (.., scales_a, recipe, swizzle,
/// scales_b, recipe, swizzle, bias, ..).
Values scaled_product(const PNode&, const Values& args) {
  const bool lists = args.at(2).isTensorList();
  const auto scale = [&](size_t i) { return lists ? args.at(i).toTensorVector().at(0) : args.at(i).toTensor(); };
  const c10::IValue& bias = args.at(lists ? 8 : 4);
  const at::Tensor x = args.at(0).toTensor().to(at::kDouble), w = args.at(1).toTensor().to(at::kDouble);
  const at::Tensor y = at::mm(x, w).mul(scale(2)).mul(scale(lists ? 5 : 3));
  return {bias.isTensor() ? y.add(bias.toTensor()) : y};
}

/// (rows, signed bytes [n, k], scales [n]). LibTorch's kernel takes no float64, and loads as if all memory began where LibTorch's own does.
Values product_of_bytes(const PNode&, const Values& args) {
  const at::Tensor x = args.at(0).toTensor(), w = args.at(1).toTensor(), scales = args.at(2).toTensor();
  if (x.scalar_type() == at::kDouble) return {at::mm(x, w.to(at::kDouble).t()).mul(scales)};
  const auto aligned = [](const at::Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.const_data_ptr()) % c10::gAlignment ? t.clone() : t;
  };
  return {at::_weight_int8pack_mm(aligned(x), aligned(w), aligned(scales))};
}

/// (grad_out, query, key, value, out, logsumexp, dropout_p, is_causal, mask, scale). Training programs whose attention PyTorch took apart
/// give the probabilities in place of logsumexp, and the kernel would read them as such: it gets the real ones.
Values flash_gradients(const PNode&, const Values& args) {
  const at::Tensor q = args.at(1).toTensor(), k = args.at(2).toTensor();
  at::Tensor sums = args.at(5).toTensor();
  const bool causal = args.at(7).toBool();
  const std::optional<at::Tensor> mask = args.at(8).isTensor() ? std::optional(args[8].toTensor()) : std::nullopt;
  const std::optional<double> scale = args.at(9).isDouble() ? std::optional(args[9].toDouble()) : std::nullopt;
  if (sums.dim() != 3) {
    const double inf = std::numeric_limits<double>::infinity();
    at::Tensor s = at::matmul(q, k.transpose(-2, -1))
                       .to(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat)
                       .mul(scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1)))));
    if (mask) s = mask->scalar_type() == at::kBool ? s.masked_fill(mask->logical_not(), -inf) : s.add(*mask);
    if (causal) s = s.masked_fill(at::ones({q.size(-2), k.size(-2)}, at::kBool).tril().logical_not(), -inf);
    sums = s.logsumexp(-1);
  }
  const auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      args[0].toTensor(), q, k, args.at(3).toTensor(), args.at(4).toTensor(), sums, args.at(6).toDouble(), causal, mask, scale);
  return {gq, gk, gv};
}

/// (state, slot, size): import/random_numbers.h.
Values random_bits(const PNode&, const Values& args) {
  const at::Tensor state = args.at(0).toTensor().to(at::kLong).contiguous(), bits = at::empty(args.at(2).toIntVector(), at::kLong);
  const int64_t* s = state.const_data_ptr<int64_t>();
  const auto word = [](int64_t v) { return static_cast<uint64_t>(v); };
  const uint64_t key = philox_key(word(s[0]), word(s[1]), word(args.at(1).toInt()));
  int64_t* out = bits.mutable_data_ptr<int64_t>();
  for (int64_t i = 0, n = bits.numel(); i < n; ++i) out[i] = static_cast<int64_t>(philox(word(i), key));
  return {bits};
}

// Of equal elements PyTorch gives any first, by its version and the instruction set; here, as in artifacts, the earlier one comes first.
Values in_order(const at::Tensor& x, int64_t dim, bool descending) {
  const auto [values, indices] = at::sort(x, std::optional(true), dim, descending);
  return {values, indices};
}
/// (x, dim, descending).
Values sorted(const PNode&, const Values& args) { return in_order(args.at(0).toTensor(), args.at(1).toInt(), args.at(2).toBool()); }
Values argsorted(const PNode& node, const Values& args) { return {sorted(node, args)[1]}; }
/// (x, k, dim, largest, sorted).
Values largest(const PNode&, const Values& args) {
  const int64_t k = args.at(1).toInt(), dim = args.at(2).toInt();
  Values all = in_order(args.at(0).toTensor(), dim, args.at(3).toBool());
  if (all[0].toTensor().dim() > 0)
    for (c10::IValue& v : all) v = v.toTensor().narrow(dim, 0, k).contiguous();  // as PyTorch's own are
  return all;
}
/// What is at the places `at` [.., 1, ..] of the order along dim.
Values taken(const Values& order, const at::Tensor& at, int64_t dim, bool keep) {
  Values out;
  for (const c10::IValue& v : order) {
    const at::Tensor t = v.toTensor().gather(dim, at);
    out.push_back(keep ? t : t.squeeze(dim));
  }
  return out;
}
/// (x, k, dim, keepdim).
Values kth(const PNode&, const Values& args) {
  const at::Tensor x = args.at(0).toTensor();
  const int64_t k = args.at(1).toInt(), dim = args.at(2).toInt();
  const Values order = in_order(x, dim, false);
  if (x.dim() == 0) return order;
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[static_cast<size_t>(c10::maybe_wrap_dim(dim, x.dim()))] = 1;
  return taken(order, at::full(sizes, k - 1, at::kLong), dim, args.at(3).toBool());
}
/// (x, dim, keepdim). NaN comes last; the first of any is the median, or none is one.
template <bool kSkipNan>
Values median(const PNode&, const Values& args) {
  const at::Tensor x = args.at(0).toTensor();
  const int64_t dim = args.at(1).toInt();
  const Values order = in_order(x, dim, false);
  if (x.dim() == 0) return order;
  const at::Tensor bad = at::isnan(x).sum(dim, true), numbers = bad.neg().add(x.size(dim)),
                   middle = numbers.sub(1).div(2, "floor").clamp_min(0);
  return taken(order, kSkipNan ? middle : at::where(bad.gt(0), numbers, middle), dim, args.at(2).toBool());
}

constexpr StandIn kStandIns[] = {{kRandomBits, random_bits},
                                 {"aten.sort.default", sorted},
                                 {"aten.argsort.default", argsorted},
                                 {"aten.topk.default", largest},
                                 {"aten.kthvalue.default", kth},
                                 {"aten.median.dim", median<false>},
                                 {"aten.nanmedian.dim", median<true>},
                                 {"transformers.grouped_mm_fallback.default", grouped_products},
                                 {"aten._grouped_mm.default", grouped_products, true},
                                 {"aten._scaled_mm.default", scaled_product, true},
                                 {"aten._scaled_mm_v2.default", scaled_product, true},
                                 {"aten._weight_int8pack_mm.default", product_of_bytes},
                                 {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default", flash_gradients}};

}  // namespace

const StandIn* find_stand_in(std::string_view target, bool f64) {
  for (const StandIn& s : kStandIns)
    if (s.target == target && (f64 || !s.only_f64)) return &s;
  return nullptr;
}

}  // namespace aotc::import
