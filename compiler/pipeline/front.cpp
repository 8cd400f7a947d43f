#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/file.h"
#include "base/parts.h"
#include "decompose/decompose.h"
#include "emit/toolchain.h"
#include "forms/layout.h"
#include "forms/rules.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "import/expand.h"
#include "import/read_archive.h"
#include "import/shared_storage.h"
#include "loop/lower.h"
#include "loop/partition.h"
#include "loop/text.h"
#include "loop/tidy.h"
#include "loop/verify.h"
#include "own/description.h"
#include "passes/passes.h"
#include "pipeline/clock.h"
#include "pipeline/pipeline.h"
#include "pipeline/replaced.h"
#include "pipeline/stages.h"
#include "pipeline/tuning.h"
#include "plan/module_passes.h"
#include "plan/verify.h"

namespace aotc::pipeline {
namespace {

/// The size classes of a module whose calls are joined, each with calls joined for its sizes where that gives other calls than the
/// module's. other_calls has those before anything was joined, which are dropped.
std::vector<plan::SizeClass> classes_with_calls(Front& f, const Goal& goal) {
  std::vector<plan::SizeClass> classes;
  try {
    classes = plan::classes_of(f.graph, f.module, ranges_of(f), goal, {}, {});
  } catch (const Diagnostic& d) {  // of a kernel without a form: build_plans tells all of them
    if (d.code() != ExitCode::unsupported) throw;
  }
  std::vector<std::optional<size_t>> lists;
  for (const plan::SizeClass& c : classes)
    lists.push_back(plan::join_calls_for(f.module, 0, plan::narrowed(f.module.syms, c.ranges), goal));
  f.module.other_calls.erase(f.module.other_calls.begin());
  loop::drop_unused(f.module);
  for (size_t i = 0; i < classes.size(); ++i)
    if (lists[i]) classes[i].calls = static_cast<int>(*lists[i]) - 1;
  return classes;
}

}  // namespace

std::vector<FrontOptions> parts_of(const FrontOptions& options) {
  std::vector<FrontOptions> parts;
  const std::vector<Target> targets = parts_of(options.target);
  for (const Target& target : targets) {
    parts.push_back(options);
    parts.back().target = target;
    parts.back().part_precisions.clear();
    if (!options.part_precisions.empty()) parts.back().precision = options.part_precisions.at(parts.size() - 1);
    if (targets.size() > 1 && !options.dump_dir.empty())
      parts.back().dump_dir = (std::filesystem::path(options.dump_dir) / target.str()).string();
  }
  return parts;
}

std::shared_ptr<const own::Kernels> load_own_kernels(const std::string& file) {
  own::Kernels all = own::read_kernels(file);
  for (const own::Kernel& k : all.rows)
    if (decompose::has_rule(k.target, false))
      throw Diagnostic(all.at(k.path + ".schema"), fmt::format("aotc computes {} itself", k.op)).note("leave its kernel out");
  own::define_operators(all);
  return std::make_shared<const own::Kernels>(std::move(all));
}

std::string shapes_of(const FrontOptions& options) {
  return !options.shapes_text.empty() || options.shapes.empty() ? options.shapes_text : read_file(options.shapes);
}

Stages::Stages(const FrontOptions& options, const Events& events) : options_(options), events_(events) {
  if (options_.dump_dir.empty()) return;
  constants_.emplace((std::filesystem::path(made_folder(options_.dump_dir)) / ConstantStore::kFolder).string());
}

void Stages::after(const std::string& stage, const std::function<std::string()>& text) { tell(stage, text, text); }

void Stages::after(const std::string& stage, const Graph& g, bool changed) {
  const auto text = [&](ConstantStore* constants) { return changed ? print(g, {.constants = constants}) : std::string("(unchanged)\n"); };
  tell(
      stage, [&] { return text(nullptr); }, [&] { return text(&*constants_); });
}

void Stages::tell(const std::string& stage, const std::function<std::string()>& text, const std::function<std::string()>& dumped) {
  const bool wanted = options_.print_ir_after.count(stage) || options_.print_ir_after.count("all");
  seen_.insert(stage);
  ++number_;
  if (!wanted && options_.dump_dir.empty()) return;
  if (wanted && events_.ir) events_.ir(stage, text());
  if (!options_.dump_dir.empty())
    emit::write_file((std::filesystem::path(options_.dump_dir) / fmt::format("{:02}-{}.txt", number_, stage)).string(), dumped());
}

void Stages::check_names() const {
  for (const std::string& name : options_.print_ir_after) {
    if (name == "all" || seen_.count(name)) continue;
    std::string known;
    for (const std::string& s : seen_) known += (known.empty() ? "" : ", ") + s;
    throw Diagnostic(ExitCode::usage, {}, "--print-ir-after: there is no stage '" + name + "'").note("the stages are " + known);
  }
}

Front run_front(const FrontOptions& options, const Events& events, std::vector<PhaseTime>* times) {
  Stages stages(options, events);
  return run_front(options, events, stages, times);
}

Front run_front(const FrontOptions& options, const Events& events, Stages& stages, std::vector<PhaseTime>* times) {
  PhaseClock clock(events, times);
  Front f;
  clock.phase("read " + std::filesystem::path(options.model).filename().string());
  std::optional<import::ShapesSpec> spec;
  if (!options.shapes.empty()) spec = import::parse_shapes(shapes_of(options), options.shapes);
  f.program = import::read_archive(options.model, options.program);
  replace_data(f.program, options.replaced);
  import::choose_states(f.program, options.states);
  f.variants = import::apply_shapes(f.program, spec);
  import::add_probes(f.program, options.probes);
  stages.after("import", [&] { return import::dump(f.program); });

  clock.phase("decompose");
  import::Expander expander(decompose::has_rule);
  f.graph = decompose::decompose(
      f.program, [&](import::Program& p, const std::string& node) { return expander.expand(p, node); }, &f.narrowed, options.own.get());
  f.own = options.own;
  f.expansions = expander.done();
  stages.after("expand", [&] { return f.expansions.empty() ? std::string("(unchanged)\n") : import::dump(f.program); });
  verify(f.graph, "decompose");
  stages.after("decompose", f.graph);

  clock.phase("passes");
  Goal goal = goal_of(options.target);
  if (options.machine) goal.machine = *options.machine;
  passes::PassContext context;
  context.target = options.target;
  context.conv_ns = forms::conv_costs(goal);
  context.layouts = &f.layouts;
  f.precision = options.precision;
  context.precision = options.precision.choose;
  context.contraction_ns = forms::contraction_costs(goal);
  context.precisions = &f.precisions;
  if (options.precision.mode == "bf16")
    context.handed_on = [&](const Graph& g) { return loop::handed_on(loop::partition(g, forms::rules_of(goal.machine))); };
  context.rounded_streams = &f.rounded_streams;
  context.weights = options.weights;
  context.stored = &f.stored_weights;
  context.cache = options.cache;
  context.cache_names = options.cache_names;
  context.stored_caches = &f.stored_caches;
  context.after = [&](std::string_view name, const Graph& g, bool changed, double) { stages.after(std::string(name), g, changed); };
  passes::run_passes(f.graph, context, [&](std::string_view pass) { return options.alternatives.skips(pass); });

  clock.phase("fuse");
  loop::FusionRules rules = forms::rules_of(goal.machine);
  rules.ordered_sums = options.target.numerics.reproducible;
  options.alternatives.apply(rules);
  f.module = loop::lower(f.graph, rules);
  loop::verify(f.module, "lower");
  stages.after("loop", [&] { return loop::print(f.module); });
  const bool joins = plan::joins_calls(goal.machine.arch);
  const auto run = [&](bool joining) {
    for (const plan::ModulePass& pass : plan::module_passes()) {
      if (pass.arch != goal.machine.arch || pass.joins != joining) continue;
      pass.run(f.module, goal);
      loop::verify(f.module, pass.name);
      stages.after(std::string(pass.name), [&] { return loop::print(f.module); });
    }
  };
  run(false);
  if (joins) f.module.other_calls.push_back(f.module.calls);  // of which size classes join theirs
  run(true);
  if (joins) {
    f.classes = classes_with_calls(f, goal);
    loop::verify(f.module, "join_calls");
  }
  return f;
}

auto with_stored_weights(const import::Program& program, const passes::StoredWeights& stored) -> import::Program {
  import::Program out = program;
  std::set<std::string> states, exchangeable;
  for (const import::ProgramInput& in : program.inputs) {
    if (in.is_state || import::state_of(program, in)) states.insert(in.target);
    if (const auto it = program.data.find(in.target); it != program.data.end() && decompose::exchangeable(in, it->second.type))
      exchangeable.insert(in.target);
  }
  for (const import::ProgramOutput& o : program.outputs)
    if (o.kind == import::OutputKind::buffer_mutation) states.insert(o.target);
  for (const passes::RoundedConstant& r : stored.rounded) {
    const auto it = program.data.find(r.name);
    if (it == program.data.end()) throw Diagnostic(Loc{.file = program.file}, fmt::format("has no weight '{}'", r.name));
    const ConstData& from = it->second;
    const auto numbers = passes::round_weight(from, r.columns_first, stored.storage).numbers;
    // Names of one piece of memory (tied weights) are one constant to the passes; so are those of equal bytes that are not exchangeable.
    for (const auto& [name, c] : program.data) {
      if (states.count(name) || c.type != from.type || c.bytes != from.bytes) continue;
      if (c.data != from.data && (exchangeable.count(name) || std::memcmp(c.data, from.data, c.bytes) != 0)) continue;
      ConstData& to = out.data.at(name);
      to.keepalive = numbers.memory(), to.data = numbers.data();
      for (import::SharedStorage& s : out.storages) std::erase(s.targets, name);
    }
  }
  return out;
}

}  // namespace aotc::pipeline
