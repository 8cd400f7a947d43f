#include "pipeline/methods.h"

#include <algorithm>
#include <set>

#include "emit/c_names.h"
#include "import/read_archive.h"
#include "loop/attached.h"

namespace aotc::pipeline {
namespace {

constexpr size_t kMostNameBytes = 64;
constexpr double kMostCost = 0.05;  ///< that a kernel may take longer, by the cost model, to read a layout that is stored already

std::string type_text(const TensorType& t, const SymTable& syms) {
  std::string dims;
  for (const Expr& d : t.dims) dims += (dims.empty() ? "" : ", ") + d.str(syms);
  return fmt::format("{}[{}]", dtype_name(t.dtype), dims);
}

bool all_zeros(const ConstData& c) {
  if (c.exchangeable) return false;
  return std::all_of(c.data, c.data + c.bytes, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

void check_names(const std::vector<MethodOptions>& methods) {
  std::set<std::string> seen;
  for (const MethodOptions& m : methods) {
    const auto refuse = [&](const std::string& why) {
      throw Diagnostic(ExitCode::usage, Loc{m.front.model, "", "", ""}, fmt::format("'{}' is no name for a method: {}", m.name, why))
          .note("callers know a method by a C identifier: aotc build prefill=a.pt2 decode=b.pt2 -o model.so");
    };
    if (m.name.empty()) refuse("it is empty");
    if (m.name.size() > kMostNameBytes) refuse(fmt::format("it has more than {} characters", kMostNameBytes));
    if (const std::string& as_c = emit::c_identifier(m.name); as_c != m.name) refuse("it is no C identifier");
    if (m.name[0] == '_' || m.name.find("__") != std::string::npos) refuse("names that begin with _ or have __ are the compiler's");
    if (emit::is_reserved(m.name)) refuse("C and C++ reserve it");
    if (!seen.insert(m.name).second) refuse("another method has it");
  }
}

void share_states(std::vector<MethodOptions>& methods) {
  if (methods.size() < 2) return;
  std::set<std::string> states;
  for (const MethodOptions& m : methods) {
    import::Program p = import::read_archive(m.front.model, m.front.program);
    if (!m.front.states.empty()) import::choose_states(p, m.front.states);
    for (const import::ProgramInput& in : p.inputs)
      if (in.is_state) states.insert(in.target);
    for (const import::ProgramOutput& o : p.outputs)
      if (o.kind == import::OutputKind::buffer_mutation) states.insert(o.target);
  }
  for (MethodOptions& m : methods) m.front.states.shared = {states.begin(), states.end()};
}

void StateNames::add(const std::string& method, const Graph& graph) {
  for (const StateInfo& s : graph.states) {
    const ConstData initial = s.initial == kNone<ConstId> ? ConstData{} : graph.constants[s.initial];
    Known own{method, type_text(s.type, graph.syms), initial, s.initial == kNone<ConstId> || all_zeros(initial)};
    const auto [it, fresh] = known_.emplace(s.name, own);
    const Known& first = it->second;
    const auto refuse = [&](const std::string& what) {
      throw Diagnostic(Loc{}, fmt::format("state '{}' of method '{}' {}", s.name, method, what))
          .note("states are shared by name: what one method writes the others read, so type, shape and initial content must be the same")
          .note("give the buffer another name in one of the models, or build it into an artifact of its own");
    };
    if (fresh) continue;
    if (first.type != own.type) refuse(fmt::format("is {}, but that of method '{}' is {}", own.type, first.method, first.type));
    if (first.zeros != own.zeros || (!own.zeros && !plan::same_content(first.initial, own.initial)))
      refuse(fmt::format("has another initial content than that of method '{}'", first.method));
  }
}

void share_caches(std::vector<MethodOptions>& methods) {
  if (methods.size() < 2 || methods.front().front.cache == passes::CacheStorage::as_is) return;
  std::set<std::string> names;
  for (const MethodOptions& m : methods) {
    FrontOptions quiet = parts_of(m.front).front();
    quiet.print_ir_after.clear(), quiet.dump_dir.clear();
    for (const passes::StoredCache& c : run_front(quiet, {}).stored_caches.caches) names.insert(c.name);
  }
  for (MethodOptions& m : methods) m.front.cache_names = {names.begin(), names.end()};
}

void StoredCacheNames::add(const MethodOptions& method, const Front& front) {
  const passes::StoredCaches& s = front.stored_caches;
  if (s.storage != passes::CacheStorage::as_is) asked_ = s.storage;
  for (const passes::StoredCache& c : s.caches) stored_.emplace(c.name, method.name);
  for (const auto& [name, why] : s.left) left_.emplace(name, why);
  for (const auto& [name, why] : left_)
    if (const auto it = stored_.find(name); it != stored_.end())
      throw Diagnostic(ExitCode::unsupported, Loc{method.front.model, "", "", ""},
                       fmt::format("--kv-cache: the state '{}' would be stored in bytes for method '{}' and cannot be for all: {}", name,
                                   it->second, why))
          .note(
              "states are shared by methods and by CPU and GPU code; leave --kv-cache out, or build the program into an artifact of its "
              "own");
}

void StoredCacheNames::check() const {
  if (asked_ == passes::CacheStorage::as_is || !stored_.empty()) return;
  Diagnostic d(ExitCode::unsupported, {}, "--kv-cache: the program has no state that it could store in bytes");
  for (const auto& [name, why] : left_) d.note(fmt::format("'{}': {}", name, why));
  throw d.note(
      "it looks for buffers of float32, bfloat16 or float16 that runs write in whole rows along the last dimension (index_copy_, "
      "index_put_, "
      "slices, or all of it), and that attention alone reads, as keys or values: through slices, transposes, lookups and repeats of rows");
}

std::vector<std::string> StoredCacheNames::warnings(const Front& front) {
  std::vector<std::string> all;
  if (front.stored_caches.caches.empty()) return all;  // an error says it
  for (const auto& [name, why] : front.stored_caches.left)
    all.push_back(fmt::format("--kv-cache: the state '{}' stays as it is: {}", name, why));
  return all;
}

void KernelNames::add(const std::string& method, loop::Module& module) {
  std::set<std::string> own;
  for (const loop::Kernel& k : module.kernels) own.insert(loop::kernel_name(k));
  for (loop::Kernel& k : module.kernels)
    std::visit(
        [&](auto& kernel) {
          std::string name = kernel.name;
          for (int n = 1; taken_.count(name) || (name != kernel.name && own.count(name)); ++n)
            name = fmt::format("{}_{}{}", kernel.name, method, n > 1 ? std::to_string(n) : "");
          kernel.name = name;
        },
        k);
  for (const loop::Kernel& k : module.kernels) taken_.emplace(loop::kernel_name(k), method);
}

void StoredLayouts::add(const Graph& graph, const plan::PlanSet& plans) {
  for (const plan::Weight& w : plans.weights) stored_.add(graph.constants[w.source], w.panels);
  any_ = any_ || !plans.weights.empty();
}

plan::ChooseFn StoredLayouts::prefer(plan::ChooseFn choose, const Front& front) const {
  if (!any_) return choose;
  /// The layouts that all constants of a kernel's parameter are stored in.
  struct Known {
    std::map<loop::ParamId, std::vector<std::optional<forms::WeightForm>>> of;
  };
  const auto known = std::make_shared<std::map<std::string, Known>>();
  std::map<std::string, std::set<loop::ParamId>> seen;
  std::set<std::string> fixed;
  std::vector<loop::Call> calls = front.module.calls;
  for (const std::vector<loop::Call>& other : front.module.other_calls) calls.insert(calls.end(), other.begin(), other.end());
  for (const loop::Call& call : calls) {
    const loop::Kernel& kernel = front.module.kernels[call.kernel];
    const std::vector<loop::ParamId> params = loop::argument_params(kernel);
    for (size_t i = 0; i < params.size(); ++i) {
      const loop::Buffer& b = front.module.buffers[call.args.at(i)];
      if (b.kind != loop::BufferKind::constant) continue;
      if (b.panels) fixed.insert(loop::kernel_name(kernel));  // one layout for all that read it
      std::vector<std::optional<forms::WeightForm>> have;
      for (const std::optional<forms::WeightForm>* f : stored_.of(front.graph.constants[static_cast<ConstId>(b.index)])) have.push_back(*f);
      std::vector<std::optional<forms::WeightForm>>& of = (*known)[loop::kernel_name(kernel)].of[params[i]];
      if (seen[loop::kernel_name(kernel)].insert(params[i]).second)
        of = have;
      else
        std::erase_if(of, [&](const auto& form) { return std::find(have.begin(), have.end(), form) == have.end(); });
    }
  }
  for (const std::string& kernel : fixed) known->erase(kernel);
  return [known, choose = std::move(choose)](const forms::Site& site) {
    forms::Decision d = choose ? choose(site) : forms::decide(site);
    const auto it = known->find(loop::kernel_name(site.kernel));
    if (d.by != "cost model" || it == known->end()) return d;
    using Layouts = std::vector<std::optional<forms::WeightForm>>;
    const auto has = [](const Layouts& all, const std::optional<forms::WeightForm>& form) {
      return std::find(all.begin(), all.end(), form) != all.end();
    };
    const auto stored = [&](const forms::Choice& c) {
      const auto weight = c.form->weight(site.kernel, c);
      if (!weight)  // it reads the constants as they are
        return std::all_of(it->second.of.begin(), it->second.of.end(), [&](const auto& p) { return has(p.second, std::nullopt); });
      const auto of = it->second.of.find(weight->first);
      return of != it->second.of.end() && has(of->second, weight->second);
    };
    if (stored(d.choice)) return d;
    const auto chosen =
        std::find_if(d.candidates.begin(), d.candidates.end(), [&](const auto& c) { return c.fit && c.choice == d.choice; });
    if (chosen == d.candidates.end()) return d;
    for (const forms::Candidate& c : d.candidates)
      if (c.fit && c.cost_ns <= (1 + kMostCost) * chosen->cost_ns && stored(c.choice)) {
        d.choice = c.choice;
        break;
      }
    return d;
  };
}

}  // namespace aotc::pipeline
