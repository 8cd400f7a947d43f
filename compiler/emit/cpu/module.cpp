#include "emit/cpu/module.h"

#include <algorithm>

#include "aotc/detail/library_abi.h"
#include "emit/cpu/unit.h"
#include "plan/loop_interface.h"

namespace aotc::emit::cpu {
namespace {

/// Text of one unit at which the next one begins: about a second of compile time.
constexpr size_t kUnitChars = 60'000;

struct Epilogue {
  const loop::LoopKernel* kernel;
  size_t segment;
};
std::vector<Epilogue> epilogues(const loop::Kernel& k) {
  std::vector<Epilogue> out;
  if (const auto* m = std::get_if<loop::MatmulKernel>(&k))
    for (size_t s = 0; s < m->segments.size(); ++s) out.push_back({&m->segments[s].epilogue, s});
  if (const auto* c = std::get_if<loop::ConvKernel>(&k)) out.push_back({&c->epilogue, 0});
  return out;
}

const std::string& name_of(const loop::Kernel& k) {
  return std::visit([](const auto& x) -> const std::string& { return x.name; }, k);
}

}  // namespace

std::string kernel_function(const std::string& kernel, Isa isa) { return fmt::format("{}_{}", kernel, isa_name(loop_isa(isa))); }
std::string epilogue_function(const std::string& kernel, size_t segment, Isa isa) {
  return fmt::format("{}_epi{}_{}", kernel, segment, isa_name(loop_isa(isa)));
}

FunctionSpec epilogue_spec(const loop::Kernel& contraction, const loop::LoopKernel& epilogue, const std::string& symbol) {
  FunctionSpec s;
  s.symbol = symbol;
  s.epilogue = true;
  s.size_symbols = plan::epilogue_symbols(contraction);
  if (const auto* m = std::get_if<loop::MatmulKernel>(&contraction))
    s.first_size = AOTC_GEMM_SIZES + 2 * static_cast<int>(m->segments.size());
  else
    s.first_size = AOTC_CONV_SIZES;
  int next = 0;
  for (const loop::Param& p : epilogue.params)
    s.ptr.push_back(p.role == loop::ParamRole::local || p.role == loop::ParamRole::acc ? -1 : next++);
  return s;
}

std::vector<SourceUnit> emit_module(const loop::Module& m, const std::vector<Isa>& isas) {
  std::vector<SourceUnit> units;
  std::vector<Isa> done;
  for (Isa target : isas) {
    const Isa isa = loop_isa(target);
    if (std::find(done.begin(), done.end(), isa) != done.end()) continue;
    done.push_back(isa);
    std::vector<std::string> functions;
    size_t chars = 0, count = 0;
    const auto flush = [&] {
      if (functions.empty()) return;
      units.push_back({fmt::format("loops{}_{}.cpp", count++, isa_name(isa)), unit_source(functions), unit_flags(isa)});
      functions.clear();
      chars = 0;
    };
    const auto add = [&](std::string text) {
      chars += text.size();
      functions.push_back(std::move(text));
      if (chars >= kUnitChars) flush();
    };
    for (const loop::Kernel& k : m.kernels) {
      if (const auto* l = std::get_if<loop::LoopKernel>(&k)) add(emit_function(*l, kernel_spec(*l, kernel_function(l->name, isa))));
      for (const Epilogue& e : epilogues(k))
        add(emit_function(*e.kernel, epilogue_spec(k, *e.kernel, epilogue_function(name_of(k), e.segment, isa))));
    }
    flush();
  }
  return units;
}

}  // namespace aotc::emit::cpu
