#include "opt/opt.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/parts.h"
#include "cli.h"
#include "emit/toolchain.h"
#include "front_options.h"
#include "json_text.h"
#include "passes/precision.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string file, passes, output, cpu, cuda, uarch, precisions, alternatives;
  std::vector<std::string> variants;
  bool trace = false, size_classes = false;
};

int list_stages(const Common& common) {
  nlohmann::json rows = nlohmann::json::array();
  for (const opt::Stage& s : opt::stages()) rows.push_back({{"name", s.name}, {"what", s.what}});
  if (common.json) {
    print_json(rows);
  } else {
    for (const opt::Stage& s : opt::stages())
      fmt::print("{:<18}{}{}\n", s.name, s.what, s.targets.empty() ? "" : fmt::format(" ({})", s.targets));
  }
  return 0;
}

int run_opt(const Options& o, const Common& common) {
  if (o.file.empty()) return list_stages(common);
  if (!o.cpu.empty() && !o.cuda.empty()) throw Diagnostic(ExitCode::usage, {}, "--cpu and --cuda exclude each other");
  require_apart({{"-o", o.output}}, {{"file", o.file}, {"--uarch", o.uarch}});
  if (!o.output.empty()) require_place_for_file(o.output);
  opt::Options options;
  options.variants = o.variants;
  options.size_classes = o.size_classes;
  options.context.target = o.cuda.empty() ? parse_cpu_target(o.cpu.empty() ? "native" : o.cpu) : parse_cuda_target(o.cuda);
  if (parts_of(options.context.target).size() > 1)
    throw Diagnostic(ExitCode::usage, {}, "--cuda: opt takes one architecture, because each has its own plans");
  read_uarch(o.uarch, options.context.target);
  if (!o.precisions.empty()) options.context.precision = passes::parse_precisions(o.precisions);
  const Result<search::Alternatives> alternatives = search::Alternatives::parse(o.alternatives);
  if (!alternatives) throw Diagnostic(ExitCode::usage, {}, "--alternatives: " + alternatives.why());
  options.alternatives = *alternatives;
  if (o.trace)
    options.context.after = [](std::string_view name, const Graph& g, bool changed, double seconds) {
      spdlog::info("{:<18}{:>6} nodes {:>8.2f} ms{}", name, g.order.size(), seconds * 1e3, changed ? "" : "  (unchanged)");
    };
  // A dump's constants lie beside its texts; those of the result beside it, if it is a file.
  const auto beside = [](const std::string& file) { return (std::filesystem::path(file).parent_path() / ConstantStore::kFolder).string(); };
  const ConstantStore in(beside(o.file));
  ConstantStore out(o.output.empty() ? std::string() : beside(o.output));
  opt::Ir ir = opt::parse(read_file(o.file), o.file, {.missing = MissingData::opaque, .constants = &in});
  opt::run(ir, o.passes, options);
  const std::string text = opt::print(ir, {.constants = &out});
  if (common.json) {
    print_json(nlohmann::json{{"passes", o.passes}, {ir.plans ? "plan" : ir.module ? "loop" : "graph", text}});
  } else if (o.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    emit::write_file(o.output, text);
  }
  return 0;
}

}  // namespace

Run add_opt(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "file", o->file, "text of a graph, of loops or of plans; without it the passes and stages are listed");
  add_option(app, "--passes", o->passes,
             "comma-separated: passes ('all' for every one), 'loop' for a graph's fused loops, 'plan' for the plans of loops; without it "
             "the text is verified and printed");
  add_option(app, "--variant", o->variants, "of the stage plan, several times: \"batch=1\", \"batch in [2, 64] by 2\", \"default\"");
  add_flag(app, "--size-classes", o->size_classes, "of the stage plan: a plan for each size class of a variant, as build makes them");
  add_option(app, "--precision", o->precisions,
             "of contractions of float32, for the pass precision: bf16, or of each in turn (bf16,f32: the first, all others)");
  add_option(app, "--cpu", o->cpu, "instruction sets, as for build");
  add_option(app, "--cuda", o->cuda, "GPU architectures, as for build");
  add_uarch(app, o->uarch);
  add_option(app, "--alternatives", o->alternatives,
             "what max-autotune may do otherwise for a whole program, with spaces between: \"strips_off loops_apart\"");
  add_option(app, "-o,--output", o->output, "write the text there instead of stdout");
  add_flag(app, "--trace", o->trace, "say what each pass did and how long it took");
  return [o](const Common& common) { return run_opt(*o, common); };
}

}  // namespace aotc::cli
