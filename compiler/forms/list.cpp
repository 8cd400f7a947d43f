#include "forms/list.h"

#include <algorithm>

#include "forms/cpu/forms.h"
#include "forms/cuda/forms.h"
#include "loop/text.h"

namespace aotc::forms {

const Form& copy();

namespace {

using Table = std::vector<const Form*>;

/// In the order in which equal costs are taken; the last row of a kernel kind always fits.
const Table& table_of(Arch arch) {
  static const Table kCpu = {
      &cpu::gemm_quant(),
      &cpu::gemm_unpack(),
      &cpu::gemm_int8_tiles(),
      &cpu::gemm_int8(),
      &cpu::gemm_bytes_tiles(),
      &cpu::gemm_bytes(),
      &cpu::gemm_bf16w(),
      &cpu::gemm_tiles(),
      &cpu::gemm_held(),
      &cpu::gemm_parts(),
      &cpu::gemm_dots(),
      &cpu::gemm_strassen(),
      &cpu::gemm(),  // matrix products: the last takes all
      &cpu::conv_direct(),
      &cpu::conv_product(),
      &cpu::conv_phases(),  // convolutions: one of the first two takes all
      &cpu::conv_winograd(),
      &cpu::conv_last_depthwise(),
      &cpu::conv_few(),
      &cpu::conv_last_tiles(),
      &cpu::conv_bytes_depthwise(),
      &cpu::conv_bytes_tiles(),
      &cpu::conv_bytes(),
      &cpu::conv_last(),  // channels-last: the last takes all of floats
      &cpu::attention_tiles(),
      &cpu::attention_split(),
      &cpu::attention(),  // attention: the last takes all
      &cpu::sort(),
      &cpu::topk(),
      &cpu::scatter(),  // whole-tensor algorithms
      &cpu::index_put(),
      &cpu::add_rows(),
      &cpu::recurrence_tiles(),
      &cpu::recurrence_panels(),
      &cpu::recurrence(),
      &cpu::fourier(),
      &cpu::check(),
      &cpu::exclude(),
      &cpu::cholesky(),
      &cpu::lu(),
      &cpu::qr(),
      &cpu::svd(),
      &cpu::solve_triangular(),
      &cpu::custom(),
      &copy(),             //
      &cpu::far_loop(),    //
      &cpu::fused_loop(),  // fused loops
  };
  static const Table kCuda = {
      &cuda::vector(),
      &cuda::stream(),
      &cuda::wgmma(),
      &cuda::wgmma_parts(),
      &cuda::wgmma_apart(),
      &cuda::wgmma_quant(),
      &cuda::mma(),
      &cuda::simt(),  // matrix products
      &cuda::conv_few(),
      &cuda::conv_patch(),
      &cuda::conv_wgmma(),
      &cuda::conv_wgmma_parts(),
      &cuda::conv_mma(),
      &cuda::conv_simt(),
      &cuda::conv_points(),  // convolutions
      &cuda::attention_wgmma(),
      &cuda::attention_mma(),
      &cuda::attention(),  //
      &cuda::sort_packed(),
      &cuda::sort_radix(),
      &cuda::sort_dealt(),
      &cuda::sort(),
      &cuda::topk_warps(),
      &cuda::topk_bounded(),
      &cuda::topk(),  // whole-tensor algorithms
      &cuda::scatter_last(),
      &cuda::scatter(),
      &cuda::index_put_rows(),
      &cuda::index_put(),
      &cuda::add_rows(),
      &cuda::fourier(),
      &cuda::recurrence_held(),
      &cuda::recurrence(),
      &cuda::check(),
      &cuda::exclude(),
      &cuda::cholesky(),
      &cuda::lu(),
      &cuda::qr(),
      &cuda::svd(),
      &cuda::solve_triangular(),
      &cuda::custom(),  //
      &copy(),          //
      &cuda::loop_flat(),
      &cuda::loop_serial(),
      &cuda::loop_row(),  // fused loops
  };
  return arch == Arch::x86_64 ? kCpu : kCuda;
}

/// For messages.
const char* kind_name(const loop::LoopKernel&) { return "a fused loop"; }
const char* kind_name(const loop::MatmulKernel&) { return "a matrix product"; }
const char* kind_name(const loop::ConvKernel&) { return "a convolution"; }
const char* kind_name(const loop::AttentionKernel&) { return "attention"; }
const char* kind_name(const loop::LibraryKernel& k) { return k.algorithm.c_str(); }

}  // namespace

std::span<const Form* const> forms_of(Arch arch) { return table_of(arch); }

const Form* find_form(std::string_view name) {
  for (Arch arch : {Arch::x86_64, Arch::cuda})
    for (const Form* f : forms_of(arch))
      if (f->name() == name) return f;
  return nullptr;
}

std::vector<Candidate> Form::candidates(const Site&) const { return {{{this, {}}, Fit::yes(), 0}}; }

std::vector<Candidate> candidates(const Site& s) {
  std::vector<Candidate> all;
  for (const Form* f : forms_of(s.machine.arch)) {
    const Fit fit = f->fits(s);
    if (fit) {
      std::vector<Candidate> of = f->candidates(s);
      all.insert(all.end(), std::make_move_iterator(of.begin()), std::make_move_iterator(of.end()));
    } else if (!fit.why.empty()) {
      all.push_back({{f, {}}, fit, 0});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.fit.ok != b.fit.ok ? a.fit.ok : a.fit.ok && a.cost_ns < b.cost_ns;
  });
  return all;
}

Decision decide(const Site& s) {
  Decision d;
  d.candidates = candidates(s);
  if (!d.candidates.empty() && d.candidates.front().fit) {
    d.choice = d.candidates.front().choice;
    d.contract = contract(s);
    return d;
  }
  Diagnostic none(ExitCode::unsupported, {},
                  fmt::format("kernel {}: {} has no {} form", loop::kernel_name(s.kernel),
                              std::visit([](const auto& k) { return kind_name(k); }, s.kernel), s.machine.traits().code));
  for (const Candidate& c : d.candidates) none.note(fmt::format("{}: {}", c.choice.form->name(), c.fit.why));
  throw none;
}

std::string contract(const Site& s) {
  for (const Form* f : forms_of(s.machine.arch))
    if (f->fits(s))
      if (std::string text = f->contract(s); !text.empty()) return fmt::format("{} #{:016x}", text, loop::structure_hash(s.kernel));
  return {};
}

}  // namespace aotc::forms
