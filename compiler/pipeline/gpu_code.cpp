#include "pipeline/gpu_code.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "emit/toolchain.h"
#include "loop/text.h"
#include "own/description.h"

namespace aotc::pipeline {

std::vector<LostChoice> lost_choices(const plan::PlanSet& plans, const artifact::Cubins& made) {
  std::vector<LostChoice> out;
  for (const artifact::LostCubin& l : made.lost) {
    const plan::KernelConfig& c = plans.configs[l.kernel];
    if (!c.joined) out.push_back({plans.kernels[idx(c.kernel)], c.choice, l});
    for (size_t p = 0; c.joined && p < c.joined->parts.size(); ++p) {
      const forms::JoinedPart& part = c.joined->parts[p];
      out.push_back({plans.kernels[idx(part.kernel)], part.choice, l});
    }
  }
  return out;
}

std::string str(const LostChoice& lost) {
  return fmt::format("kernel {} in form {}: {} for {}{}", lost.kernel, forms::str(lost.choice), lost.how.why, lost.how.sm,
                     lost.how.source.empty() ? "" : "; its source: " + lost.how.source);
}

void add(std::vector<LostChoice>& lost, std::vector<LostChoice> more) {
  for (LostChoice& m : more) {
    const auto same =
        std::find_if(lost.begin(), lost.end(), [&](const LostChoice& l) { return l.kernel == m.kernel && l.choice == m.choice; });
    if (same == lost.end())
      lost.push_back(std::move(m));
    else
      *same = std::move(m);
  }
}

std::vector<bool> patient(const plan::PlanSet& plans, const std::vector<LostChoice>& lost) {
  const auto was_slow = [&](loop::KernelId kernel, const forms::Choice& choice) {
    return std::any_of(lost.begin(), lost.end(),
                       [&](const LostChoice& l) { return l.how.late && l.kernel == plans.kernels[idx(kernel)] && l.choice == choice; });
  };
  std::vector<bool> out;
  for (const plan::KernelConfig& c : plans.configs)
    out.push_back(c.joined ? std::any_of(c.joined->parts.begin(), c.joined->parts.end(),
                                         [&](const forms::JoinedPart& p) { return was_slow(p.kernel, p.choice); })
                           : was_slow(c.kernel, c.choice));
  return out;
}

Diagnostic given_up(const LostChoice& lost) {
  return Diagnostic(ExitCode::toolchain, {}, str(lost))
      .note("no other way to compute it is left, or as many others as are tried did not end better")
      .note("another release of NVRTC may compile it: AOTC_NVRTC or CUDA_HOME names one");
}

plan::ChooseFn without(plan::ChooseFn choose, std::vector<LostChoice> lost) {
  if (lost.empty()) return choose;
  return [choose = std::move(choose), lost = std::move(lost)](const forms::Site& s) {
    const std::string& kernel = loop::kernel_name(s.kernel);
    const auto find = [&](const forms::Choice& c) {
      return std::find_if(lost.begin(), lost.end(), [&](const LostChoice& l) { return l.kernel == kernel && l.choice == c; });
    };
    forms::Decision d = choose ? choose(s) : forms::decide(s);
    for (forms::Candidate& c : d.candidates)
      if (const auto l = find(c.choice); c.fit && l != lost.end()) c.fit = {false, l->how.why};
    const auto refused =
        std::stable_partition(d.candidates.begin(), d.candidates.end(), [](const forms::Candidate& c) { return c.fit.ok; });
    const auto was = find(d.choice);
    if (was == lost.end()) return d;
    const auto of_no_lost_form = [&](const forms::Candidate& c) {
      return std::none_of(lost.begin(), lost.end(),
                          [&](const LostChoice& l) { return l.kernel == kernel && l.choice.form == c.choice.form; });
    };
    if (refused == d.candidates.begin()) {
      const auto slow = std::find_if(d.candidates.begin(), d.candidates.end(), [&](const forms::Candidate& c) {
        const auto l = find(c.choice);
        return l != lost.end() && l->how.late;
      });
      if (slow == d.candidates.end()) throw given_up(*was);
      slow->fit = Fit::yes();
      d.choice = slow->choice;
      std::rotate(d.candidates.begin(), slow, slow + 1);
      return d;
    }
    const auto other = std::find_if(d.candidates.begin(), refused, of_no_lost_form);
    d.choice = (other == refused ? d.candidates.begin() : other)->choice;
    d.by = "cost model";
    return d;
  };
}

artifact::CudaCode gpu_code(const loop::Module& module, const plan::PlanSet& plans, const Target& target, const Goal& goal,
                            const own::Kernels* own, const std::string& keep, const artifact::CubinOptions& options) {
  artifact::CudaCode code;
  code.sources = artifact::cuda_sources(module, plans, goal);
  for (std::string& source : code.sources)
    if (own) source = own::with_cuda_sources(*own, std::move(source));
  if (!keep.empty()) emit::write_file(keep, artifact::cuda_prelude() + fmt::format("{}", fmt::join(code.sources, "")));
  std::vector<std::string> names;
  for (const plan::KernelConfig& c : plans.configs) names.push_back(c.symbol);
  artifact::CubinOptions with_given = options;
  if (own) with_given.given = [own](const std::string& source, const std::string& sm) { return own::compiled_code(*own, source, sm); };
  code.cubins = artifact::compile_cubins(code.sources, names, target.sms, with_given);
  return code;
}

}  // namespace aotc::pipeline
