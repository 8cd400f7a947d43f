#pragma once
// The machine code of a part for GPUs, and what becomes of kernels whose code NVRTC does not survive.
#include <functional>
#include <string>
#include <vector>

#include "artifact/cubins.h"
#include "pipeline/pipeline.h"

namespace aotc::pipeline {

/// Processor time, in seconds, after which NVRTC is taken from a kernel while there are other ways to compute it. Most take less than 5.
constexpr double kSlowNvrtc_s = 20;

/// A kernel's choice whose code NVRTC does not survive, or works on for too long.
struct LostChoice {
  std::string kernel;  ///< its name
  forms::Choice choice;
  artifact::LostCubin how;
};
std::vector<LostChoice> lost_choices(const plan::PlanSet& plans, const artifact::Cubins& made);
/// "kernel k in form f: NVRTC 13.0 crashed (Segmentation fault) for sm_90a; its source: FILE"
std::string str(const LostChoice& lost);

/// Adds what is lost now to what was lost before; of a choice that is lost again the new reason counts.
void add(std::vector<LostChoice>& lost, std::vector<LostChoice> more);

/// By kernel of the plans: whether a choice of it was given up as slow before, and is taken all the same, since nothing else is left.
std::vector<bool> patient(const plan::PlanSet& plans, const std::vector<LostChoice>& lost);

/// The error of a kernel for which nothing else is tried.
Diagnostic given_up(const LostChoice& lost);

/// What `choose` (empty: the cost model) decides where that is not lost, else the best candidate of another form, else the best of the same
/// one, else the best of those that were only slow. The other lost candidates are refused, with the reason. Throws Diagnostic (toolchain)
/// where nothing is left.
plan::ChooseFn without(plan::ChooseFn choose, std::vector<LostChoice> lost);

/// The text of the plans' kernels, also left in `keep` unless that is empty, and their machine code. own: the user's kernels, or null.
artifact::CudaCode gpu_code(const loop::Module& module, const plan::PlanSet& plans, const Target& target, const Goal& goal,
                            const own::Kernels* own, const std::string& keep, const artifact::CubinOptions& options);

}  // namespace aotc::pipeline
