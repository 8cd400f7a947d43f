#pragma once
// What the CUDA forms have in common.
#include <string>
#include <vector>

#include "base/uarch.h"
#include "forms/form.h"
#include "forms/roofline.h"

namespace aotc::forms::cuda {

inline constexpr int64_t kMaxGrid = 1 << 30;
inline constexpr int64_t kMaxGridZ = 65535;

/// Products of TF32 for one of float32 on tensor cores, as the user wants it (--f32-matmul).
inline int tf32_products(const Numerics& n) { return n.f32_matmul == F32Matmul::highest ? 3 : 1; }

/// A launch whose int64 arguments are these symbols, of a kernel that waits for the step before itself.
StepSpec cuda_step(const std::vector<SymId>& sizes, const std::string& symbol);
/// The launch of a whole-tensor algorithm: its sizes, one dimension of blocks, so much dynamic shared memory each.
StepSpec library_step(const loop::LibraryKernel& k, int threads, const Expr& blocks, int64_t shared_bytes = 0);
/// `text` with the sizes that a kernel is tuned for: " batch=8 seq=128".
std::string sized(std::string text, const std::vector<SymId>& sizes, const Site& s);
/// A refusal where a size of the image or the result may be 0.
Fit never_empty(const loop::ConvKernel& k, const SymTable& syms);
/// One contract for all forms of sorting: the values' type, lines, entries of a line, how far those are apart.
std::string sort_contract(const loop::LibraryKernel& k, const Site& s);
/// A launch of sorting: `blocks` blocks a line, with so much shared memory each.
StepSpec sort_step(const loop::LibraryKernel& k, int threads, int blocks, int64_t shared_bytes);
/// The text of a kernel that calls NAME<type, descending, blocks, threads, each> of kernels/cuda/NAME.cuh.
std::string sort_source(const std::string& name, const loop::LibraryKernel& k, int threads, int each, int blocks,
                        const std::string& symbol);
/// What part of the keys rows see, by guess, whose mask is said to show a range.
constexpr double kShown = 1.0 / loop::AttentionKernel::kShownPart;
/// One contract for all forms of attention: they are measured against each other.
std::string attention_contract(const loop::AttentionKernel& k, const Site& s);

/// Of a number of keys and values that are stored in bytes: ns of a multiprocessor that makes one of 16 bits of it.
double convert_ns(const loop::AttentionKernel& k, const GpuCosts& u);

}  // namespace aotc::forms::cuda
