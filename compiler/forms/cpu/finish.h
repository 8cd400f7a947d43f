#pragma once
// Epilogues as data: aotc_finish of aotc/detail/finish_abi.h, which register tiles carry out on their sums.
#include <optional>
#include <string>
#include <vector>

#include "loop/loop.h"

namespace aotc::forms::cpu {

/// See aotc_finish_step.
struct FinishStep {
  int kind = 0;
  loop::ParamId param = kNone<loop::ParamId>;
  double limit = 0;
  int64_t base = 0, pitch = 0;
  friend bool operator==(const FinishStep&, const FinishStep&) = default;
};

/// base + row * pitch + column.
struct FinishPlace {
  int64_t base, pitch;
};
/// Where an index of an epilogue lies so. plane: rows that one point of the first outer var has; the other outer vars but the last run
/// once.
std::optional<FinishPlace> finish_place(const loop::LoopKernel& epilogue, const Expr& plane, const Expr& index);

/// The steps of an epilogue; none where it does anything else than they can say. Sums that may be finished `twice` read nothing of their
/// row.
std::vector<FinishStep> finish_steps(const loop::ConvKernel& k, bool twice);
std::vector<FinishStep> finish_steps(const loop::MatmulKernel& k, const loop::Segment& s);

/// The initialiser of an aotc_finish.
std::string finish_text(const loop::Kernel& kernel, const std::vector<FinishStep>& steps);

}  // namespace aotc::forms::cpu
