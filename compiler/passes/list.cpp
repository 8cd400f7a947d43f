#include <chrono>

#include "graph/verify.h"
#include "passes/add_picked_rows.h"
#include "passes/add_weights.h"
#include "passes/align_products.h"
#include "passes/assign_names.h"
#include "passes/canonical_views.h"
#include "passes/channels_last.h"
#include "passes/check_state_writes.h"
#include "passes/columns_as_rows.h"
#include "passes/cse.h"
#include "passes/dce.h"
#include "passes/drop_limits.h"
#include "passes/fold_constants.h"
#include "passes/fold_conv_bn.h"
#include "passes/fold_pads.h"
#include "passes/forward_substitution.h"
#include "passes/fuse_attention.h"
#include "passes/hoist_slices.h"
#include "passes/integer_products.h"
#include "passes/keep_bytes.h"
#include "passes/lower_fourier.h"
#include "passes/mask_ranges.h"
#include "passes/merge_products.h"
#include "passes/narrow_convolutions.h"
#include "passes/narrow_sorts.h"
#include "passes/open_attention.h"
#include "passes/operands_in_order.h"
#include "passes/passes.h"
#include "passes/pick_first.h"
#include "passes/precision.h"
#include "passes/products_in_lanes.h"
#include "passes/products_of_few_terms.h"
#include "passes/products_of_picked.h"
#include "passes/quantize_weights.h"
#include "passes/repeated_products.h"
#include "passes/round_streams.h"
#include "passes/round_weights.h"
#include "passes/scales_behind.h"
#include "passes/simplify.h"
#include "passes/split_reductions.h"
#include "passes/split_scans.h"
#include "passes/store_cache.h"
#include "passes/stored_bytes.h"
#include "passes/sums_of_products.h"
#include "passes/transposed_phases.h"
#include "passes/transposed_products.h"
#include "passes/unroll_recurrences.h"
#include "passes/whole_windows.h"
#include "passes/widen_float8.h"

namespace aotc::passes {
namespace {

constexpr Pass kPasses[] = {
    {"dce", dce, "erase what no output needs"},
    {"lower_fourier", lower_fourier, "short Fourier transforms, and those without a kernel, become products with DFT matrices"},
    {"unroll_recurrences", unroll_recurrences, "short recurrent layers whose weights no GPU cluster holds are unrolled", For::gpus},
    {"cse", cse, "compute equal nodes once"},
    {"canonical_views", canonical_views, "merge and drop views"},
    {"simplify", simplify, "exact algebra"},
    {"forward_substitution", forward_substitution, "rows that are solved one after the other become one triangular system"},
    {"keep_bytes", keep_bytes, "quantised values stay bytes through pools and requantisation", For::cpus},
    {"integer_products", integer_products, "quantised operands are multiplied as bytes", For::cpus},
    {"drop_limits", drop_limits, "clamps that a known range of values makes needless"},
    {"widen_float8", widen_float8, "products of 8-bit floats multiply bfloat16 where the target has none of theirs"},
    {"round_weights", round_weights, "weights of products are rounded to few bits (--weights)"},
    {"fold_constants", fold_constants, "compute what depends on constants alone"},
    {"canonical_views", canonical_views, "again, on folded constants"},
    {"simplify", simplify, "again, on folded constants"},
    {"sums_of_products", sums_of_products, "sums of products of tensors that lack each other's dims are products of matrices"},
    {"canonical_views", canonical_views, "again, around such products"},
    {"repeated_products", repeated_products, "products that repeat along a batch dim are computed once"},
    {"canonical_views", canonical_views, "again, around those"},
    {"fold_pads", fold_pads, "zeros around a convolution's images are its padding"},
    {"fold_conv_bn", fold_conv_bn, "scales per output channel are folded into constant weights"},
    {"add_weights", add_weights, "added convolutions of the same input become one"},
    {"fold_conv_bn", fold_conv_bn, "again, on merged convolutions"},
    {"fuse_attention", fuse_attention, "softmax between two products becomes attention; grouped heads; causal masks"},
    {"canonical_views", canonical_views, "again, around attention"},
    {"hoist_slices", hoist_slices, "slices are sunk below producers: unread rows are not computed"},
    {"pick_first", pick_first, "gathers are sunk below pointwise producers"},
    {"canonical_views", canonical_views, "again, around slices that moved"},
    {"fold_constants", fold_constants, "again, what the rewrites left"},
    {"cse", cse, "again, on the simplified graph"},
    {"store_cache", store_cache, "keys and values that states keep are stored in bytes (--kv-cache)"},
    {"precision", precision, "products, convolutions, attention and recurrences of float32 in bf16 (--precision)"},
    {"fold_constants", fold_constants, "again, rounded weights"},
    {"round_streams", round_streams, "convolution outputs that other kernels read are stored as bf16 (--precision bf16)"},
    {"open_attention", open_attention, "float32 attention becomes products and a softmax where that costs less", For::gpus},
    {"mask_ranges", mask_ranges, "attention is told which keys each row of its mask shows", For::gpus},
    {"transposed_phases", transposed_phases, "transposed convolutions become convolutions of their phases", For::gpus},
    {"whole_windows", whole_windows, "depthwise convolutions that cover their whole input become sums"},
    {"narrow_convolutions", narrow_convolutions, "columns of windows become channels where there are few channels"},
    {"fold_constants", fold_constants, "again, their weights"},
    {"channels_last", channels_last, "channels-last layout for convolutions that are faster so, and for everything between them"},
    {"canonical_views", canonical_views, "again, what was reordered twice"},
    {"fold_constants", fold_constants, "again, reordered constants"},
    {"operands_in_order", operands_in_order, "operands of products are computed in the order in which they are multiplied"},
    {"canonical_views", canonical_views, "again, in operands"},
    {"transposed_products", transposed_products, "products whose operands lie across memory are transposed", For::cpus},
    {"merge_products", merge_products, "products of one matrix with several weights become one"},
    {"align_products", align_products, "rows of 16-bit products are padded to multiples of 16 bytes", For::gpus},
    {"fold_constants", fold_constants, "again, padded weights"},
    {"products_of_picked", products_of_picked, "a row times a gathered matrix reads the matrix in place", For::cpus},
    {"products_in_lanes", products_in_lanes,
     "small products side by side in memory, and column-major matrices times a vector, get a lane each", For::cpus},
    {"stored_bytes", stored_bytes, "weights of products that the archive stores in bytes are integers with scales"},
    {"scales_behind", scales_behind, "scales of int8 weights are applied to the sums", For::cpus},
    {"products_of_few_terms", products_of_few_terms, "products of few terms are written out as sums"},
    {"canonical_views", canonical_views, "again, around written-out products"},
    {"quantize_weights", quantize_weights, "rounded weights of products are constants of few bits (--weights)"},
    {"check_state_writes", check_state_writes, "where states are written is checked before anything is"},
    {"add_picked_rows", add_picked_rows, "gathered rows are added without an intermediate (embedding bags)"},
    {"columns_as_rows", columns_as_rows, "gathers along rows read a transposed copy", For::cpus},
    {"narrow_sorts", narrow_sorts, "64-bit integers of few bits are sorted as such", For::gpus},
    {"split_reductions", split_reductions, "long reductions to few results run in two steps"},
    {"split_scans", split_scans, "scans along few long lines run in parts", For::gpus},
    {"assign_names", assign_names, "a name for every node"},
};

bool runs_for(const Pass& pass, const Target& target) {
  return pass.targets == For::all || (pass.targets == For::gpus) == target.traits().device_code;
}

/// Changes when nodes, their inputs, constants, guards or names do.
size_t fingerprint(const Graph& g) {
  size_t h = g.guards.size() * 31 + g.constants.size();
  auto mix = [&h](size_t x) { h = (h ^ x) * 0x100000001b3u; };
  for (NodeId id : g.order) {
    mix(idx(id));
    for (ValueId v : g.nodes[id].inputs) mix(idx(v));
    mix(std::hash<std::string>()(g.nodes[id].name));
  }
  for (const OutputInfo& o : g.outputs) mix(idx(o.value));
  return h;
}

}  // namespace

std::span<const Pass> pass_list() { return kPasses; }

const Pass* find_pass(std::string_view name) {
  for (const Pass& p : kPasses)
    if (p.name == name) return &p;
  return nullptr;
}

void run_pass(const Pass& pass, Graph& g, PassContext& ctx) {
  const size_t before = ctx.after ? fingerprint(g) : 0;
  const auto start = std::chrono::steady_clock::now();
  if (runs_for(pass, ctx.target)) pass.fn(g, ctx);
  if (pass.fn != dce) dce(g, ctx);  // what a rewrite leaves behind would count as a use to the next pass
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  verify(g, pass.name);
  verify_live(g, pass.name);
  if (ctx.after) ctx.after(pass.name, g, fingerprint(g) != before, seconds);
}

void run_passes(Graph& g, PassContext& ctx, const std::function<bool(std::string_view pass)>& left_out) {
  for (const Pass& p : kPasses)
    if (!left_out || !left_out(p.name)) run_pass(p, g, ctx);
}

}  // namespace aotc::passes
