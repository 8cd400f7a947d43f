#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/file.h"
#include "emit/header.h"
#include "emit/system_needs.h"
#include "emit/toolchain.h"
#include "emit/versions.h"
#include "import/size_conditions.h"
#include "pipeline/assemble.h"
#include "pipeline/clock.h"
#include "pipeline/measuring.h"
#include "pipeline/metadata.h"
#include "pipeline/pipeline.h"
#include "pipeline/stages.h"
#include "pipeline/work_dir.h"
#include "plan/build.h"
#include "plan/text.h"
#include "plan/verify.h"
#include "search/tune.h"

namespace aotc::pipeline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kWeightsInFileAbove = uint64_t{1} << 30;

using Warn = std::function<void(const std::string&)>;

std::vector<std::vector<plan::SymRange>> ranges_of(const Front& f) {
  std::vector<std::vector<plan::SymRange>> out;
  for (const import::VariantRange& v : f.variants) {
    std::vector<plan::SymRange> ranges;
    bool any = true;
    for (const auto& [sym, d] : v.ranges) {
      // The operators may have narrowed the archive's ranges.
      const SymInfo& i = f.graph.syms[sym];
      ranges.push_back({sym, std::max(d.min, i.min), std::min(d.max.value_or(kInf), i.max), d.multiple_of});
      any = any && ranges.back().min <= ranges.back().max;
    }
    if (any) out.push_back(std::move(ranges));
  }
  return out;
}

/// Before any work: every file that will be written can stand where it is to stand, and is none of those that are read.
void check_outputs(const BuildOptions& o) {
  const fs::path output = o.output;
  if (output.filename().empty()) throw Diagnostic(ExitCode::usage, Loc{o.output, "", "", ""}, "is the name of a folder; name the artifact");
  for (const char* extension : {".h", ".report.json", ".weights"}) {
    const fs::path beside = fs::path(output).replace_extension(extension);
    if (beside == output)
      throw Diagnostic(ExitCode::usage, Loc{o.output, "", "", ""}, "would be overwritten by a file beside it; call it .so");
    require_place_for_file(beside.string());
  }
  require_place_for_file(o.output);
  std::error_code ec;
  for (const std::string& read : {o.front.model, o.front.shapes})
    if (!read.empty() && fs::equivalent(read, output, ec))
      throw Diagnostic(ExitCode::usage, Loc{o.output, "", "", ""}, "is what is read; the artifact needs a name of its own");
}

plan::PlanSet plans_of(const Front& f, const Machine& machine, const plan::ChooseFn& choose, plan::Decisions* decisions) {
  plan::PlanOptions options;
  options.variants = ranges_of(f);
  options.machine = machine;
  options.choose = choose;
  options.decisions = decisions;
  return plan::build_plans(f.graph, f.module, options);
}

/// The tuning database: the user's, which must be right, or the one of the cache, which may be lost.
search::TuningDb load_tuning(const std::string& path, bool given, const Warn& warn) {
  if (given) return search::TuningDb::load(path);
  try {
    if (!path.empty()) return search::TuningDb::load(path);
  } catch (const Diagnostic& d) { warn(fmt::format("{}: {}; it counts as empty", path, d.message())); }
  return {};
}

/// Whether what is measured can be kept there; a warning says why not. The artifact has the measured choices in any case.
bool can_keep(const std::string& path, const Warn& warn) {
  if (path.empty()) return warn("there is no folder for the tuning database (HOME is not set): what is measured is not kept"), false;
  std::error_code ec;
  fs::create_directories(fs::path(path).parent_path(), ec);
  try {
    const std::string probe = path + ".probe";
    emit::write_file(probe, "");
    fs::remove(probe, ec);
    return true;
  } catch (const Diagnostic&) {
    warn(path + " cannot be written: what is measured goes into the artifact, but is not kept (--tuning-db names another file)");
    return false;
  }
}

/// What the tuning database knows of this module's kernels and, with max-autotune, what is measured now.
search::TuneResult tuned_decisions(const BuildOptions& o, const Front& f, const Machine& machine, const std::string& work_dir,
                                   PhaseClock& clock, const Events& events, const Warn& warn) {
  if (!o.mode.searches && o.tuning_db.empty()) return {};
  const std::string cache = emit::user_cache_dir();
  const std::string path = !o.tuning_db.empty() ? o.tuning_db : cache.empty() ? "" : cache + "/tuning.json";
  search::TuningDb db = load_tuning(path, !o.tuning_db.empty(), warn);
  clock.phase(o.mode.searches ? "tune" : "read " + fs::path(path).filename().string());
  const bool keep = o.mode.searches && can_keep(path, warn);
  search::TuneOptions options;
  std::unique_ptr<search::Measurer> measurer;
  if (o.mode.searches && can_measure(machine))
    measurer = make_measurer(f.graph, f.module, {target_of(o.front.target, machine), machine, work_dir, {}, o.jobs});
  options.machine = machine;
  options.measurer = measurer.get();
  options.budget_s = o.tune_budget_s;
  options.progress = events.progress;
  std::vector<SymTable> tables;
  for (const std::vector<plan::SymRange>& ranges : ranges_of(f)) tables.push_back(plan::narrowed(f.module.syms, ranges));
  if (tables.empty()) tables.push_back(f.module.syms);
  search::TuneResult result = search::tune(f.module, tables, options, db);
  try {
    if (keep) db.save(path);
  } catch (const Diagnostic& d) { warn(fmt::format("{}: {}: what was measured is not kept", path, d.message())); }
  if (o.mode.searches && options.measurer && !result.missing.empty())
    warn(fmt::format(
        "{} of {} kernels were not measured (the first: {}, {}); the cost model chose for them; --tune-budget says how long may be "
        "measured",
        result.missing.size(), result.missing.size() + result.tuned.size(), result.missing.front().contract, result.missing.front().why));
  return result;
}

json report_of(const BuildOptions& o, const Front& f, const plan::PlanSet& plans, const json& meta, const std::vector<PhaseTime>& times) {
  json r = {
      {"artifact", o.output}, {"model", fs::path(o.front.model).filename().string()}, {"target", meta.at("target")}, {"mode", o.mode.name}};
  r["weights_bytes"] = plans.weights_bytes;
  r["arena_bytes"] = meta.at("arena_bytes");
  if (meta.contains("stored_weights")) r["stored_weights"] = meta.at("stored_weights");
  int64_t sum = 0, live = 0;
  size_t steps = 0;
  for (const plan::Plan& p : plans.plans) {
    sum = std::max(sum, p.sum_bytes_max), live = std::max(live, p.live_bytes_max);
    steps = std::max(steps, p.steps.size());
  }
  r["buffers_bytes"] = sum;
  r["live_bytes"] = live;
  r["steps"] = steps;
  r["nodes"] = f.graph.order.size();
  r["kernels"] = meta.at("explain").at("kernels");
  r["variants"] = json::array();
  for (const plan::Plan& p : plans.plans)
    r["variants"].push_back(
        {{"name", p.name}, {"arena_bytes", p.arena_bytes_max}, {"live_bytes", p.live_bytes_max}, {"steps", p.steps.size()}});
  double total = 0;
  r["phases"] = json::array();
  for (const PhaseTime& t : times) total += t.seconds, r["phases"].push_back({{"name", t.name}, {"seconds", t.seconds}});
  r["seconds"] = total;
  return r;
}

}  // namespace

plan::PlanSet make_plans(const Front& front, const Target& target, plan::Decisions* decisions) {
  return plans_of(front, machine_of(target), {}, decisions);
}

json build(const BuildOptions& given, const Events& events) {
  BuildOptions o = given;
  if (o.jobs <= 0) o.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<PhaseTime> times;
  json report;
  check_outputs(o);
  {
    Stages stages(o.front, events);
    const Front f = run_front(o.front, events, stages, &times);
    const Machine machine = machine_of(o.front.target);
    const fs::path output = fs::absolute(o.output);
    std::error_code ec;
    fs::create_directories(output.parent_path(), ec);
    const WorkDir scratch(output);
    if (events.work_dir) events.work_dir(scratch.str());
    const fs::path work = o.keep_dir.empty() ? fs::path(scratch.str()) : fs::absolute(o.keep_dir);
    fs::create_directories(work, ec);
    if (ec) throw Diagnostic(ExitCode::io, Loc{work.string(), "", "", ""}, "cannot be made: " + ec.message());
    const fs::path finished = scratch.file("finished");  // moved to their places when all is there
    fs::create_directories(finished, ec);

    PhaseClock clock(events, &times);
    json warnings = json::array();
    const Warn warn = [&](const std::string& line) {
      warnings.push_back(line);
      if (events.warning) events.warning(line);
    };
    if (const std::string unstated = import::unstated_conditions(f.program); !unstated.empty()) warn(unstated);
    search::TuneResult tuned = tuned_decisions(o, f, machine, scratch.str(), clock, events, warn);
    const plan::ChooseFn choose = search::chooser(std::move(tuned.tuned));
    clock.phase("plan");
    plan::Decisions decisions;
    const plan::PlanSet plans = plans_of(f, machine, choose, &decisions);
    const Target target = emit::used_target(plans, o.front.target);
    stages.after("plan", [&] { return plan::print(plans); });
    stages.check_names();
    json meta = metadata(f, plans, decisions, target, o.front.shapes.empty() ? "" : read_text(o.front.shapes));
    const bool in_file = plans.weights_bytes > 0 && o.weights_in_file.value_or(plans.weights_bytes > kWeightsInFileAbove);
    const std::string weights_name = output.stem().string() + ".weights";
    if (in_file) meta["weights_file"] = weights_name;
    if (target.is_gpu()) meta["graphs"] = o.mode.graphs;

    const std::string artifact = (finished / output.filename()).string();
    AssembleInput in{f.graph, f.module, plans, target, machine, meta.dump(), artifact, work.string()};
    in.keep_text = !o.keep_dir.empty();
    in.jobs = o.jobs;
    if (in_file) in.weights_name = weights_name;
    in.graphs = target.is_gpu() && o.mode.graphs;
    Assembled made = assemble(in, clock, events.progress);
    if (!o.keep_dir.empty()) {
      std::string script = "#!/bin/sh -e\n";
      for (std::string& line : made.command_lines) {
        if (const size_t at = line.find(artifact); at != std::string::npos) line.replace(at, artifact.size(), output.string());
        script += line + "\n";
      }
      emit::write_file((work / "build.sh").string(), script);
      emit::write_file((work / "plan.txt").string(), plan::print(plans));
    }
    clock.phase("report");
    report = report_of(o, f, plans, meta, times);
    report["artifact_bytes"] = fs::file_size(artifact, ec);
    report["machine"] = machine.str();
    if (meta.at("explain").contains("precision")) report["precision"] = meta["explain"]["precision"];
    report["choices"] = meta.at("explain").at("choices");
    report["not_measured"] = json::array();
    for (const search::Unmeasured& u : tuned.missing) report["not_measured"].push_back({{"contract", u.contract}, {"why", u.why}});
    report["compiler"] = made.compiler;
    if (const auto needs = emit::system_needs(artifact)) report["glibc"] = needs->glibc;
    report["objects"] = {{"compiled", made.units - made.cached}, {"cached", made.cached}};
    report["warnings"] = warnings;
    const auto beside = [&](const char* extension) { return fs::path(output.filename()).replace_extension(extension).string(); };
    emit::write_file((finished / beside(".h")).string(), emit::emit_header(f.graph, output.stem().string(), AOTC_VERSION));
    emit::write_file((finished / beside(".report.json")).string(), report.dump(1) + "\n");
    std::vector<std::string> done = {output.filename().string(), beside(".h"), beside(".report.json")};
    if (in_file) done.insert(done.begin(), weights_name);
    for (const std::string& name : done) {
      fs::rename(finished / name, output.parent_path() / name, ec);
      if (ec) throw Diagnostic(ExitCode::io, Loc{(output.parent_path() / name).string(), "", "", ""}, "cannot be written: " + ec.message());
    }
  }
  return report;
}

}  // namespace aotc::pipeline
