#include "emit/cpu_units.h"

#include <set>

#include "emit/cpu/loop_emitter.h"
#include "emit/cpu/unit.h"
#include "emit/tables.h"
#include "plan/interface.h"

namespace aotc::emit {
namespace {

constexpr size_t kUnitChars = 24 * 1024;  // about a second of compiler time: units of one build compile in parallel

std::string epilogue(const loop::Kernel& kernel, const loop::LoopKernel& e, size_t segment, Isa isa) {
  const plan::KernelInterface call = plan::interface_of(kernel, {}, e.syms);
  cpu::FunctionSpec spec;
  spec.symbol = epilogue_name(loop::kernel_name(kernel), segment, isa);
  spec.size_symbols = plan::epilogue_symbols(kernel);
  spec.first_size = static_cast<int>(call.sizes.size() - spec.size_symbols.size());
  for (uint32_t p = 0; p < e.params.size(); ++p) {
    const loop::ParamId id = static_cast<loop::ParamId>(p);
    const loop::ParamRole role = e.params[id].role;
    spec.ptr.push_back(role == loop::ParamRole::acc || role == loop::ParamRole::local ? -1 : plan::argument_index(kernel, id));
  }
  spec.epilogue = true;
  return cpu::emit_function(e, spec);
}

std::vector<std::string> functions_of(const loop::Kernel& kernel, Isa isa) {
  std::vector<std::string> out;
  if (const auto* k = std::get_if<loop::LoopKernel>(&kernel))
    out.push_back(cpu::emit_function(*k, cpu::kernel_spec(*k, generated_name(k->name, isa))));
  if (const auto* k = std::get_if<loop::MatmulKernel>(&kernel))
    for (size_t s = 0; s < k->segments.size(); ++s) out.push_back(epilogue(kernel, k->segments[s].epilogue, s, isa));
  if (const auto* k = std::get_if<loop::ConvKernel>(&kernel)) out.push_back(epilogue(kernel, k->epilogue, 0, isa));
  return out;
}

}  // namespace

std::vector<TranslationUnit> cpu_units(const loop::Module& module, const Target& target) {
  std::vector<TranslationUnit> units;
  std::set<Isa> done;
  for (const Isa isa : target.isas) {
    const Isa loops = cpu::loop_isa(isa);
    if (!done.insert(loops).second) continue;
    std::vector<std::string> batch;
    size_t chars = 0, number = 0;
    auto flush = [&] {
      if (batch.empty()) return;
      units.push_back({fmt::format("kernels_{}_{}.cpp", isa_name(loops), number++), cpu::unit_source(batch), cpu::unit_flags(loops)});
      batch.clear();
      chars = 0;
    };
    for (const loop::Kernel& kernel : module.kernels)
      for (std::string& f : functions_of(kernel, loops)) {
        if (chars + f.size() > kUnitChars) flush();
        chars += f.size();
        batch.push_back(std::move(f));
      }
    flush();
  }
  return units;
}

}  // namespace aotc::emit
