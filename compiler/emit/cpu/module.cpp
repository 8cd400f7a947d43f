#include "emit/cpu/module.h"

#include <algorithm>

#include "emit/cpu/custom_call.h"
#include "emit/cpu/loop_call.h"
#include "emit/cpu/unit.h"

namespace aotc::emit::cpu {
namespace {

/// Text of one unit at which the next one begins: about a second of compile time.
constexpr size_t kUnitChars = 60'000;

}  // namespace

std::string kernel_function(const std::string& kernel, Isa isa) { return fmt::format("{}_{}", kernel, isa_name(loop_isa(isa))); }
std::string attached_function(const std::string& kernel, const loop::Attached& attached, Isa isa) {
  return fmt::format("{}_{}_{}", kernel, attached.suffix, isa_name(loop_isa(isa)));
}

FunctionSpec attached_spec(const loop::Kernel& contraction, const loop::LoopKernel& attached, const std::string& symbol) {
  FunctionSpec s;
  s.symbol = symbol;
  s.kind = attached.params.raw().back().role == loop::ParamRole::operand ? FunctionKind::prologue : FunctionKind::epilogue;
  s.size_symbols = attached_symbols(contraction);
  s.first_size = own_sizes(contraction);
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
    FeatureSet common = features_of(target);  // of all that share this code
    for (Isa other : isas)
      if (loop_isa(other) == isa) common = common & features_of(other);
    std::vector<std::string> functions, calls;
    size_t chars = 0, count = 0;
    const auto flush = [&] {
      if (functions.empty()) return;
      units.push_back({fmt::format("loops{}_{}.cpp", count++, isa_name(isa)), unit_source(functions), unit_flags(common)});
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
      if (const auto* l = std::get_if<loop::LibraryKernel>(&k); l && l->algorithm == op_name(Op::custom))
        calls.push_back(emit_custom_call(*l, isa, kernel_function(l->name, isa)));
      for (const loop::Attached& e : loop::attached(k))
        add(emit_function(*e.loop, attached_spec(k, *e.loop, attached_function(loop::kernel_name(k), e, isa))));
    }
    flush();
    if (!calls.empty()) units.push_back({fmt::format("own_kernels_{}.cpp", isa_name(isa)), custom_unit_source(calls), unit_flags(common)});
  }
  return units;
}

}  // namespace aotc::emit::cpu
