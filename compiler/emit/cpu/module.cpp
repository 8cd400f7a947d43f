#include "emit/cpu/module.h"

#include <algorithm>

#include "aotc/detail/library_abi.h"
#include "emit/cpu/unit.h"
#include "plan/loop_interface.h"

namespace aotc::emit::cpu {
namespace {

/// Text of one unit at which the next one begins: about a second of compile time.
constexpr size_t kUnitChars = 60'000;

struct Attached {
  const loop::LoopKernel* kernel;
  std::string function;
};
std::vector<Attached> attached(const loop::Kernel& k, Isa isa) {
  std::vector<Attached> out;
  if (const auto* m = std::get_if<loop::MatmulKernel>(&k)) {
    if (m->a.prologue) out.push_back({&*m->a.prologue, prologue_function(m->name, 'a', isa)});
    if (m->b.prologue) out.push_back({&*m->b.prologue, prologue_function(m->name, 'b', isa)});
    for (size_t s = 0; s < m->segments.size(); ++s) out.push_back({&m->segments[s].epilogue, epilogue_function(m->name, s, isa)});
  }
  if (const auto* c = std::get_if<loop::ConvKernel>(&k)) out.push_back({&c->epilogue, epilogue_function(c->name, 0, isa)});
  return out;
}

}  // namespace

std::string kernel_function(const std::string& kernel, Isa isa) { return fmt::format("{}_{}", kernel, isa_name(loop_isa(isa))); }
std::string epilogue_function(const std::string& kernel, size_t segment, Isa isa) {
  return fmt::format("{}_epi{}_{}", kernel, segment, isa_name(loop_isa(isa)));
}

std::string prologue_function(const std::string& kernel, char operand, Isa isa) {
  return fmt::format("{}_pro_{}_{}", kernel, operand, isa_name(loop_isa(isa)));
}

FunctionSpec attached_spec(const loop::Kernel& contraction, const loop::LoopKernel& attached, const std::string& symbol) {
  FunctionSpec s;
  s.symbol = symbol;
  s.kind = attached.params.raw().back().role == loop::ParamRole::operand ? FunctionKind::prologue : FunctionKind::epilogue;
  s.size_symbols = plan::attached_symbols(contraction);
  if (const auto* m = std::get_if<loop::MatmulKernel>(&contraction))
    s.first_size = AOTC_GEMM_SIZES + 2 * static_cast<int>(m->segments.size());
  else
    s.first_size = AOTC_CONV_SIZES;
  int next = 0;
  for (const loop::Param& p : attached.params) s.ptr.push_back(loop::takes_argument(p.role) ? next++ : -1);
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
      for (const Attached& e : attached(k, isa)) add(emit_function(*e.kernel, attached_spec(k, *e.kernel, e.function)));
    }
    flush();
  }
  return units;
}

}  // namespace aotc::emit::cpu
