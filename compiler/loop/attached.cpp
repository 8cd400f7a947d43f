#include "loop/attached.h"

#include <algorithm>

namespace aotc::loop {

std::vector<Attached> attached(const Kernel& kernel) {
  std::vector<Attached> out;
  if (const auto* m = std::get_if<MatmulKernel>(&kernel)) {
    if (m->a.prologue) out.push_back({&*m->a.prologue, "pro_a"});
    if (m->b.prologue) out.push_back({&*m->b.prologue, "pro_b"});
    if (m->twin && m->twin->prologue) out.push_back({&*m->twin->prologue, "pro_twin"});
    for (size_t s = 0; s < m->segments.size(); ++s) out.push_back({&m->segments[s].epilogue, fmt::format("epi{}", s)});
  }
  if (const auto* c = std::get_if<ConvKernel>(&kernel)) out.push_back({&c->epilogue, "epi0"});
  return out;
}

void for_each_attached(Kernel& kernel, const std::function<void(LoopKernel&)>& f) {
  for (const Attached& a : attached(kernel)) f(const_cast<LoopKernel&>(*a.loop));
}

std::vector<const Operand*> operands(const MatmulKernel& k) {
  std::vector<const Operand*> all = {&k.a, &k.b};
  if (k.twin) all.push_back(&*k.twin);
  return all;
}

bool loads(const LoopKernel& k, ParamId p) {
  return std::any_of(k.insts.begin(), k.insts.end(), [&](const Inst& i) { return i.kind == InstKind::load && i.param == p; });
}

std::vector<ParamId> argument_params(const Kernel& kernel) {
  std::vector<ParamId> r;
  const auto& params = kernel_params(kernel);
  for (size_t i = 0; i < params.size(); ++i)
    if (takes_argument(params.raw()[i].role)) r.push_back(static_cast<ParamId>(i));
  return r;
}

int argument_index(const Kernel& kernel, ParamId p) {
  const auto all = argument_params(kernel);
  const auto it = std::find(all.begin(), all.end(), p);
  AOTC_CHECK(it != all.end(), "a parameter of {} takes no argument", kernel_name(kernel));
  return static_cast<int>(it - all.begin());
}

}  // namespace aotc::loop
