#include "pipeline/tuning.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/machine.h"
#include "base/parts.h"
#include "emit/toolchain.h"
#include "pipeline/alternatives.h"
#include "pipeline/cache_report.h"
#include "pipeline/comparison.h"
#include "pipeline/measuring.h"
#include "pipeline/metadata.h"
#include "pipeline/methods.h"
#include "pipeline/stages.h"
#include "pipeline/work_dir.h"
#include "plan/verify.h"
#include "search/remote_worker.h"

namespace aotc::pipeline {

namespace fs = std::filesystem;
using nlohmann::json;

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

std::vector<SymTable> tables_of(const Front& f) {
  std::vector<SymTable> tables;
  for (const std::vector<plan::SymRange>& ranges : ranges_of(f)) tables.push_back(plan::narrowed(f.module.syms, ranges));
  if (tables.empty()) tables.push_back(f.module.syms);
  return tables;
}

namespace {

constexpr double kAlternativesShare = 0.3;  ///< of the budget, at most, for alternatives of the whole program
constexpr double kComparisonShare = 0.15;   ///< of the budget, for what was decided beside what default makes

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

Diagnostic missed(const std::string& path, const Goal& goal, const std::vector<search::Unmeasured>& missing) {
  Diagnostic d(
      ExitCode::bad_input, Loc{path, "", "", ""},
      fmt::format("has no measurement of {} kernel contract{} for {}", missing.size(), missing.size() == 1 ? "" : "s", goal.str()));
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(missing.size(), kShown); ++i) d.note(missing[i].contract);
  if (missing.size() > kShown) d.note(fmt::format("and {} more", missing.size() - kShown));
  d.note("aotc tune fills it, on the machine or with --remote HOST; without --error-on-tuning-miss the cost model decides");
  return d;
}

/// BuildOptions::judge for this program at the tuned sizes of a variant.
void add_judge(const BuildOptions& o, const Front& f, MeasuringOptions& to) {
  if (!o.judge.errors) return;
  const auto program = std::make_shared<const import::Program>(with_stored_weights(f.program, f.stored_weights));
  const auto sizes_of = [program](const SymTable& syms) {
    WholeJudge::Sizes sizes;
    for (uint32_t s = 0; s < program->syms.size(); ++s)
      if (const auto id = static_cast<SymId>(s); program->syms[id].kind == SymKind::shape) sizes[id] = syms.hint(Expr::symbol(id));
    return sizes;
  };
  to.references = [&o, program, sizes_of](const SymTable& syms, double seconds) {
    return o.judge.references(*program, sizes_of(syms), seconds);
  };
  to.errors = [&o, program, sizes_of](const SymTable& syms, const std::string& artifact, size_t candidates, double seconds) {
    return o.judge.errors(*program, sizes_of(syms), artifact, candidates, seconds);
  };
}

}  // namespace

json trades_json(const search::Trades& trades) {
  json steps = json::array();
  for (const search::Trade& t : trades.tried)
    steps.push_back({{"contract", t.contract},
                     {"choice", forms::str(t.choice)},
                     {"us", std::round(t.ns) / 1e3},
                     {"accurate_us", std::round(t.accurate_ns) / 1e3},
                     {"error", t.error},
                     {"taken", t.taken},
                     {"why", t.why}});
  return {{"error", trades.error}, {"bound", trades.bound}, {"steps", steps}};
}

json not_measured(const std::vector<search::Unmeasured>& missing) {
  json out = json::array();
  for (const search::Unmeasured& u : missing) out.push_back({{"contract", u.contract}, {"why", u.why}});
  return out;
}

json tuning_json(const PartTuning& tuning, double budget_s) { return {{"budget_s", budget_s}, {"seconds", tuning.seconds}}; }

PartTuning tuned_decisions(const BuildOptions& o, FrontOptions& front_options, Front& f, Stages& stages, const Goal& goal,
                           const std::string& work_dir, PhaseClock& clock, const Events& events, const Warn& warn) {
  const Target& target = front_options.target;
  const Machine& machine = goal.machine;
  PartTuning part;
  part.own_weights = machine.traits().own_weights && o.owns_weights();
  if (!o.mode.searches && o.tuning_db.empty() && !o.error_on_tuning_miss) return part;
  const std::string cache = emit::user_cache_dir();
  const std::string path = !o.tuning_db.empty() ? o.tuning_db : cache.empty() ? "" : cache + "/tuning.json";
  search::TuningDb db = load_tuning(path, !o.tuning_db.empty(), warn);
  clock.phase(o.mode.searches ? "tune" : "read " + fs::path(path).filename().string());
  const bool keep = o.mode.searches && can_keep(path, warn);
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  std::vector<search::Unmeasured> missing;
  std::optional<MeasuringOptions> measuring;
  if (o.mode.searches) {
    WorkerCommand worker = own_worker("measure-worker");
    if (!o.remote.empty()) {
      Result<WorkerCommand> there = search::worker_on(o.remote);
      if (!there) throw Diagnostic(ExitCode::io, {}, "--remote: " + there.why());
      worker = std::move(*there);
    }
    const std::string why = cannot_measure(machine, worker);
    if (why.empty()) measuring = MeasuringOptions{target_of(target, machine), goal, work_dir, worker, o.jobs, o.cache, {}, {}, {}, f.own};
    if (why.empty() && !machine.traits().device_code && machine.cores > usable_processors())
      warn(fmt::format("{} threads share {} processors while they are measured; --threads {} measures what runs here", machine.cores,
                       usable_processors(), usable_processors()));
    if (!why.empty()) warn(fmt::format("nothing is measured for {}: {}{}", machine.name(), o.remote.empty() ? "" : o.remote + ": ", why));
  }
  const std::string hardware = goal.str(), library = search::kernel_library_hash();
  const std::string program = machine.traits().whole_programs ? alternatives_key(front_options, f) : "";
  const bool measures = measuring && o.tune_budget_s > 0;
  if (machine.traits().whole_programs) {
    const search::AlternativesRecord* known = db.find_program<search::AlternativesRecord>(program, hardware, library);
    const double seconds = kAlternativesShare * o.tune_budget_s;
    if (known && (known->complete || !measures || known->seconds >= seconds)) {
      part.alternatives = *known;
    } else if (measures) {
      part.alternatives = measure_alternatives(front_options, f, *measuring, seconds, events);
      db.put_program(program, hardware, library, part.alternatives);
    } else {
      missing.push_back(
          {"alternatives of " + program, measuring ? "the time for measuring ran out" : "the tuning database does not have it"});
    }
    take_alternatives(part.alternatives, front_options, f, events, stages);
  }
  search::TuneOptions options;
  std::unique_ptr<search::Measurer> measurer;
  if (measuring) {
    measuring->alternatives = front_options.alternatives;
    add_judge(o, f, *measuring);
    measurer = make_measurer(f.graph, f.module, *measuring);
  }
  options.goal = goal;
  options.measurer = measurer.get();
  const double comparison_s = machine.traits().whole_programs ? kComparisonShare * o.tune_budget_s : 0;
  options.budget_s = std::max(0.0, o.tune_budget_s - comparison_s - spent());
  options.progress = events.progress;
  if (f.precision.mode == "f32" && !target.numerics.int8_rows) options.program = f.program.source_id + " " + f.stored_weights.storage.str();
  search::TuneResult& result = part.result = search::tune(f.module, tables_of(f), options, db);
  result.missing.insert(result.missing.begin(), missing.begin(), missing.end());
  const Decided decided{result, front_options, f, part.own_weights, o.own_weights};
  if (const std::vector<search::Group> groups = machine.traits().whole_programs ? groups_of(decided, goal) : std::vector<search::Group>();
      !groups.empty()) {
    const std::string key = comparison_key(program, decided, goal);
    const search::ComparisonRecord* known = db.find_program<search::ComparisonRecord>(key, hardware, library);
    if (known && (known->complete || !measures)) {
      part.comparison = *known;
    } else if (measures) {
      part.comparison = measure_comparison(groups, decided, *measuring, std::max(comparison_s, o.tune_budget_s - spent()),
                                           known ? *known : search::ComparisonRecord(), events);
      db.put_program(key, hardware, library, part.comparison);
    } else {
      result.missing.push_back(
          {"comparison of " + key, measuring ? "the time for measuring ran out" : "the tuning database does not have it"});
    }
    measurer.reset();
    if (!part.comparison.tried.empty()) keep_only(part.comparison, groups, decided, goal, events, stages);
  }
  if (measuring) part.seconds = spent();
  try {
    if (keep) db.save(path);
  } catch (const Diagnostic& d) { warn(fmt::format("{}: {}: what was measured is not kept", path, d.message())); }
  if (o.error_on_tuning_miss && !result.missing.empty()) throw missed(path, goal, result.missing);
  if (o.mode.searches && measuring && !result.missing.empty())
    warn(fmt::format(
        "{} of {} kernels were not measured (the first: {}, {}); the cost model chose for them; --tune-budget says how long may be "
        "measured",
        result.missing.size(), result.missing.size() + result.tuned.size(), result.missing.front().contract, result.missing.front().why));
  return part;
}

json tune(const BuildOptions& given, const Events& events) {
  BuildOptions o = given;
  o.mode.searches = true;
  if (o.jobs <= 0) o.jobs = usable_processors();
  std::vector<PhaseTime> times;
  json report = {{"parts", json::array()}, {"warnings", json::array()}};
  const Warn warn = [&](const std::string& line) {
    report["warnings"].push_back(line);
    if (events.warning) events.warning(line);
  };
  const WorkDir scratch(fs::temp_directory_path() / "tune.so");
  if (events.work_dir) events.work_dir(scratch.str());
  share_states(o.methods);
  std::vector<std::pair<std::string, FrontOptions>> all;
  for (const MethodOptions& m : o.methods)
    for (const FrontOptions& front : parts_of(m.front)) all.emplace_back(m.name, front);
  for (const auto& [method, front] : all) {
    Stages stages(front, events);
    FrontOptions options = front;
    Front f = run_front(options, events, stages, &times);
    const Goal goal = goal_of(front.target);
    PhaseClock clock(events, &times);
    const PartTuning tuning = tuned_decisions(o, options, f, stages, goal, scratch.str(), clock, events, warn);
    const search::TuneResult& result = tuning.result;
    report["parts"].push_back({{"target", front.target.str()},
                               {"machine", goal.str()},
                               {"tuned", result.tuned.size()},
                               {"missing", not_measured(result.missing)}});
    add_uarch(report["parts"].back(), front.target);
    if (o.methods.size() > 1) report["parts"].back()["method"] = method;
  }
  if (o.cache.server) report["server"] = report_of(*o.cache.server, events);
  return report;
}

}  // namespace aotc::pipeline
