#include "opt/opt.h"

#include <fmt/format.h>

#include "forms/layout.h"
#include "forms/rules.h"
#include "loop/lower.h"
#include "loop/partition.h"
#include "loop/text.h"
#include "plan/text.h"
#include "sym/text_reader.h"

namespace aotc::opt {
namespace {

using loop::BufferKind;

constexpr Stage kLoop = {"loop", "a graph to fused loops"}, kPlan = {"plan", "loops to plans, one a variant"};

[[noreturn]] void wrong_stage(std::string_view stage, std::string_view takes, const Ir& ir) {
  throw Diagnostic(ExitCode::usage, {},
                   fmt::format("the stage '{}' takes {}, and this is {}", stage, takes,
                               ir.plans    ? "a text of plans"
                               : ir.module ? "a text of loops"
                                           : "a graph"));
}

/// The graph behind a text of loops, as far as planning asks for it.
Graph signature_of(const loop::Module& m) {
  Graph g;
  g.syms = m.syms;
  auto buffer = [&](BufferKind kind, uint32_t index) -> const loop::Buffer* {
    for (const loop::Buffer& b : m.buffers)
      if (b.kind == kind && b.index == index) return &b;
    return nullptr;
  };
  uint32_t constants = 0;
  for (const loop::Buffer& b : m.buffers)
    if (b.kind == BufferKind::constant) constants = std::max(constants, b.index + 1);
  AOTC_CHECK(constants <= m.buffers.size() + (1u << 20), "a constant has number {}", constants - 1);
  for (uint32_t i = 0; const loop::Buffer* b = buffer(BufferKind::input, i); ++i) g.add_input(b->name, b->type);
  for (uint32_t i = 0; const loop::Buffer* b = buffer(BufferKind::output, i); ++i)
    g.outputs.push_back({b->name, kNone<ValueId>, "", b->alias_input});
  for (uint32_t i = 0; const loop::Buffer* b = buffer(BufferKind::state, i); ++i)
    g.states.push({b->name, b->type, kNone<ConstId>, kNone<ValueId>, kNone<ValueId>});
  for (uint32_t i = 0; i < constants; ++i) {
    const loop::Buffer* b = buffer(BufferKind::constant, i);
    g.constants.push(b ? made_up_constant(b->name, b->type) : ConstData{});
  }
  return g;
}

/// "batch in [2, 64] by 2, len=8"
std::vector<plan::SymRange> parse_variant(const std::string& text, const SymTable& syms) {
  std::vector<plan::SymRange> ranges;
  TextReader in(text, "variant");
  in.need_line();
  if (in.accept_word("default")) {
    in.end_line();
    return ranges;
  }
  do {
    const std::string_view name = in.word();
    const auto sym = syms.find(name);
    if (!sym) in.fail(fmt::format("there is no symbol {}", name));
    plan::SymRange r{*sym};
    if (in.accept('=')) {
      r.min = r.max = in.integer(0);
    } else {
      in.want_word("in");
      in.want('[');
      r.min = in.integer(0);
      in.want(',');
      r.max = in.bound();
      in.want(']');
      if (in.accept_word("by")) r.multiple_of = in.integer(1);
    }
    if (r.max < syms[*sym].min || r.min > syms[*sym].max || r.max < r.min) in.fail("the range is empty");
    ranges.push_back(r);
  } while (in.accept(','));
  in.end_line();
  return ranges;
}

void plan_stage(Ir& ir, const Options& o) {
  Graph graph = ir.graph ? *ir.graph : signature_of(*ir.module);
  for (ConstData& c : graph.constants)
    if (!has_data(c)) c = made_up_constant(c.name, c.type);
  plan::PlanOptions options;
  for (const std::string& v : o.variants) options.variants.push_back(parse_variant(v, ir.module->syms));
  if (o.size_classes) options.classes.emplace();
  options.goal = goal_of(o.context.target);
  o.alternatives.apply(options);
  ir.plans = plan::build_plans(graph, *ir.module, options);
}

}  // namespace

Ir parse(std::string_view text, std::string_view file_name, const ParseOptions& options) {
  TextReader in(text, file_name);
  in.need_line();
  Ir ir;
  if (in.accept_word("graph"))
    ir.graph = parse_graph(text, file_name, options);
  else if (in.accept_word("module"))
    ir.module = loop::parse_module(text, file_name);
  else if (in.accept_word("plans"))
    ir.plans = plan::parse_plans(text, file_name);
  else
    in.fail("the text of a graph begins with 'graph', of loops with 'module', of plans with 'plans'");
  return ir;
}

void run(Ir& ir, std::string_view names, const Options& options) {
  passes::PassContext context = options.context;
  context.conv_ns = forms::conv_costs(goal_of(context.target));
  context.contraction_ns = forms::contraction_costs(goal_of(context.target));
  context.handed_on = [&](const Graph& g) { return loop::handed_on(loop::partition(g, forms::rules_of(machine_of(context.target)))); };
  loop::FusionRules rules = forms::rules_of(machine_of(context.target));
  options.alternatives.apply(rules);
  for (size_t begin = 0; begin <= names.size();) {
    const size_t comma = std::min(names.find(',', begin), names.size());
    std::string_view name = names.substr(begin, comma - begin);
    begin = comma + 1;
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (name.empty()) continue;
    if (name == kPlan.name) {
      if (!ir.module || ir.plans) wrong_stage(name, "a text of loops", ir);
      plan_stage(ir, options);
      continue;
    }
    if (name != kLoop.name && name != "all" && !passes::find_pass(name)) {
      std::string known;
      for (const Stage& s : stages()) known += (known.empty() ? "" : ", ") + std::string(s.name);
      throw Diagnostic(ExitCode::usage, {}, fmt::format("there is no pass or stage '{}'", name)).note("known: " + known);
    }
    if (!ir.graph || ir.module) wrong_stage(name, "a graph", ir);
    if (name == kLoop.name)
      ir.module = loop::lower(*ir.graph, rules);
    else if (name == "all")
      passes::run_passes(*ir.graph, context, [&](std::string_view pass) { return options.alternatives.skips(pass); });
    else
      passes::run_pass(*passes::find_pass(name), *ir.graph, context);
  }
}

std::string print(const Ir& ir, const PrintOptions& options) {
  if (ir.plans) return plan::print(*ir.plans);
  return ir.module ? loop::print(*ir.module) : aotc::print(*ir.graph, options);
}

std::vector<Stage> stages() {
  std::vector<Stage> all = {{"all", "every pass, in order"}};
  for (const passes::Pass& p : passes::pass_list())
    if (passes::find_pass(p.name) == &p)
      all.push_back({p.name, p.what, p.targets == passes::For::cpus ? "CPUs" : p.targets == passes::For::gpus ? "GPUs" : ""});
  all.insert(all.end(), {kLoop, kPlan});
  return all;
}

}  // namespace aotc::opt
