#pragma once
// What all kernel kinds have in common, for the files of plan/.
#include <variant>

#include "loop/loop.h"

namespace aotc::plan {

inline const IdVec<loop::ParamId, loop::Param>& params_of(const loop::Kernel& k) {
  return std::visit([](const auto& x) -> const IdVec<loop::ParamId, loop::Param>& { return x.params; }, k);
}
inline const std::string& name_of(const loop::Kernel& k) {
  return std::visit([](const auto& x) -> const std::string& { return x.name; }, k);
}
inline bool takes_argument(const loop::Param& p) { return loop::takes_argument(p.role); }
inline bool reads(const loop::Param& p) { return p.role == loop::ParamRole::input || p.role == loop::ParamRole::inout; }
inline bool writes(const loop::Param& p) { return p.role == loop::ParamRole::output || p.role == loop::ParamRole::inout; }

}  // namespace aotc::plan
