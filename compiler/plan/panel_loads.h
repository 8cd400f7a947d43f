#pragma once
// Loads of a constant that is stored as panels: they find their elements there (plan/weights.h, panel_index).
#include <set>
#include <tuple>
#include <vector>

#include "loop/attached.h"
#include "loop/loop.h"
#include "plan/weights.h"

namespace aotc::plan {

/// A call that has the buffer as an argument, and as which of the kernel's parameters.
struct Use {
  size_t call;
  loop::ParamId param;
};
std::vector<Use> uses_of(const loop::Module& m, loop::BufferId b);

/// Calls f for the loops of the kernel: itself, prologues, epilogues.
template <class F>
void for_each_loop(loop::Kernel& kernel, const F& f) {
  if (auto* k = std::get_if<loop::LoopKernel>(&kernel)) return f(*k);
  loop::for_each_attached(kernel, f);
}

/// Whether the parameter is the product's weight of few bits, or its twin's.
inline bool is_few_bits(const loop::MatmulKernel& k, loop::ParamId p) {
  return (k.b_quantised && k.b_quantised->values == p) || (k.twin_quantised && k.twin_quantised->values == p);
}

class PanelLoads {
 public:
  explicit PanelLoads(loop::Module& m) : m_(m) {}
  /// Loads of the call's kernel from the parameter, to which it gives the buffer, become loads from its panels, which panel_index must
  /// know. The kernel is copied where other calls give the parameter another buffer.
  void rewrite(size_t call, loop::ParamId param, loop::BufferId b, const Panels& panels);
  /// The same of a kernel all of whose calls give the parameter buffers of so many elements with such panels.
  void rewrite_kernel(loop::KernelId kernel, loop::ParamId param, int64_t elems, const Panels& panels);

 private:
  loop::Kernel& own_kernel(size_t call, loop::ParamId param, loop::BufferId b);
  std::string fresh_name(const std::string& name) const;

  loop::Module& m_;
  std::set<std::tuple<loop::BufferId, loop::KernelId, loop::ParamId>> done_;
  std::set<std::pair<loop::KernelId, loop::ParamId>> kernels_done_;
};

}  // namespace aotc::plan
