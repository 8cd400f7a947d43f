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
      &copy(),
#define AOTC_FORM(name) &cpu::name(),
#include "forms/cpu/forms.def"
#undef AOTC_FORM
  };
  static const Table kCuda = {
      &copy(),
#define AOTC_FORM(name) &cuda::name(),
#include "forms/cuda/forms.def"
#undef AOTC_FORM
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
