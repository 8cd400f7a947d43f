#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "artifact/versions.h"
#include "base/file.h"
#include "base/machine.h"
#include "emit/blob.h"
#include "emit/header.h"
#include "emit/system_needs.h"
#include "emit/toolchain.h"
#include "import/size_conditions.h"
#include "import/torch_library.h"
#include "pipeline/alternatives.h"
#include "pipeline/assemble.h"
#include "pipeline/clock.h"
#include "pipeline/comparison.h"
#include "pipeline/gpu_code.h"
#include "pipeline/metadata.h"
#include "pipeline/pipeline.h"
#include "pipeline/stages.h"
#include "pipeline/tuning.h"
#include "pipeline/work_dir.h"
#include "plan/blob.h"
#include "plan/build.h"
#include "plan/text.h"
#include "plan/verify.h"
#include "search/tune.h"

namespace aotc::pipeline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kWeightsInFileAbove = uint64_t{1} << 30;

std::vector<NamedFile> files_read(const BuildOptions& o) {
  return {{"model", o.front.model}, {"--shapes", o.front.shapes}, {"--tuning-db", o.tuning_db}};
}

/// What modes that search write for the tuning database that was given.
std::vector<NamedFile> tuning_files(const BuildOptions& o) {
  if (!o.mode.searches || o.tuning_db.empty()) return {};
  return {{"--tuning-db", o.tuning_db}, {"--tuning-db", o.tuning_db + ".probe"}};
}

/// Before any work: every file that will be written can stand where it is to stand, and is none of those that are read.
void check_outputs(const BuildOptions& o) {
  const fs::path output = o.output;
  if (output.filename().empty()) throw Diagnostic(ExitCode::usage, Loc{o.output, "", "", ""}, "is the name of a folder; name the artifact");
  std::vector<NamedFile> written = tuning_files(o);
  written.push_back({"-o", o.output});
  for (const char* extension : {".h", ".report.json", ".weights"}) {
    const fs::path beside = fs::path(output).replace_extension(extension);
    if (beside == output)
      throw Diagnostic(ExitCode::usage, Loc{o.output, "", "", ""}, "would be overwritten by a file beside it; call it .so");
    written.push_back({"-o " + o.output, beside.string()});
  }
  const std::vector<NamedFile> read = files_read(o);
  require_apart(written, read);
  require_apart({"--keep", o.keep_dir, {".sh", ".txt", ".cpp", ".cu", ".o", ".map", ".ld", ".so", ".bin", ".h", ".cuh", ".a"}}, read);
  require_apart({"--dump-dir", o.front.dump_dir, {".txt", ".bin"}}, read);
  for (const NamedFile& w : written) require_place_for_file(w.path);
}

plan::PlanSet plans_of(const Front& f, const Machine& machine, const plan::ChooseFn& choose, const search::Alternatives& alternatives,
                       plan::Decisions* decisions) {
  plan::PlanOptions options;
  alternatives.apply(options);
  options.variants = ranges_of(f);
  options.classes.emplace();
  options.size_classes = f.classes;
  options.machine = machine;
  options.choose = choose;
  options.decisions = decisions;
  return plan::build_plans(f.graph, f.module, options);
}

/// The folder as an absolute path; throws Diagnostic (io) where it is not there and cannot be made.
std::string made_folder(const std::string& path) {
  std::error_code ec;
  const fs::path folder = fs::absolute(path);
  fs::create_directories(folder, ec);
  if (ec) throw Diagnostic(ExitCode::io, Loc{folder.string(), "", "", ""}, "cannot be made: " + ec.message());
  return folder.string();
}

/// The model for one kind of machine.
struct Part {
  Front front;
  Machine machine;
  Target target;
  plan::PlanSet plans;
  artifact::CudaCode cuda;  ///< GPU
  json meta;
  std::vector<search::Unmeasured> not_measured;
  json tuning;  ///< of reports; null where nothing could be measured
  bool own_weights = false;
};

/// What the metadata of the artifact have of a part that is not the first.
json further_part(const json& meta) {
  json p;
  for (const char* key : {"target", "code", "f32_matmul", "graphs", "own_weights", "weights_bytes", "arena_bytes", "explain"})
    if (meta.contains(key)) p[key] = meta.at(key);
  return p;
}

json report_of(const BuildOptions& o, const Part& part, const json& meta, const std::vector<PhaseTime>& times) {
  const plan::PlanSet& plans = part.plans;
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
  r["nodes"] = part.front.graph.order.size();
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

/// What the report has of a part that is not the first.
json report_of_further(const Part& part) {
  const json& explained = part.meta.at("explain");
  json r = {{"target", part.meta.at("target")},
            {"machine", part.machine.str()},
            {"weights_bytes", part.meta.at("weights_bytes")},
            {"arena_bytes", part.meta.at("arena_bytes")},
            {"kernels", explained.at("kernels")},
            {"choices", explained.at("choices")},
            {"not_measured", not_measured(part.not_measured)}};
  if (!part.tuning.is_null()) r["tuning"] = part.tuning;
  for (const char* key : {"precision", "trades", "alternatives", "comparison"})
    if (explained.contains(key)) r[key] = explained.at(key);
  return r;
}

/// For --keep: a script that makes the artifact again, byte for byte, as `output` or what it is given; what it reads, and the plans.
void keep(const std::vector<Part>& parts, const Assembled& made, const plan::SharedBlob& blob, int jobs, const fs::path& folder,
          const std::string& output) {
  std::error_code ec;
  std::string script = "#!/bin/sh -e\n# Makes the artifact again: build.sh [OUTPUT]. Objects of machine code for GPUs stay as they are.\n";
  script += "aotc=${AOTC:-" + emit::shell_line({fs::read_symlink("/proc/self/exe", ec).string()}) + "}\n";
  script += "out=" + emit::shell_line({output}) + "\nout=${1:-$out}\n";
  for (const std::string& line : made.command_lines) script += line + "\n";
  script += emit::shell_line(made.linked.command) + "\n";
  std::vector<std::string> finish = {"finish-artifact", made.linked.file};
  const emit::SealedWeights& weights = made.linked.weights;
  if (!made.linked.spliced.empty()) {
    const std::string file = (folder / "weights.bin").string();
    emit::write_blob_file(file, blob.bytes(), [&](std::span<std::byte> out) { blob.write(out, jobs); });
    finish.insert(finish.end(), {"--section", made.linked.spliced, "--blob", file});
  } else if (!weights.section.empty()) {
    finish.insert(finish.end(), {"--section", weights.section});
  } else if (weights.bytes) {
    finish.insert(finish.end(), {"--file-bytes", std::to_string(weights.bytes), "--file-hash", std::to_string(weights.hash.value())});
  }
  script += "\"$aotc\" " + emit::shell_line(finish) + " -o \"$out\"\nrm -f " + emit::shell_line({made.linked.file}) + "\n";
  const fs::path path = folder / "build.sh";
  emit::write_file(path.string(), script);
  fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add, ec);
  for (const Part& p : parts)
    emit::write_file((folder / (parts.size() > 1 ? "plan." + p.target.str() + ".txt" : "plan.txt")).string(), plan::print(p.plans));
}

/// The part's plans and, for GPUs, their machine code. Where NVRTC does not survive a kernel, or works too
/// long on one, plans are made again without that choice.
void plan_and_compile(Part& part, const BuildOptions& o, const FrontOptions& options, const plan::ChooseFn& choose,
                      plan::Decisions& decisions, const std::string& work_dir, PhaseClock& clock, const Events& events, const Warn& warn) {
  constexpr size_t kRounds = 4;  // each may have waited for the time limit
  const bool several = parts_of(o.front).size() > 1;
  std::vector<LostChoice> lost;
  for (size_t round = 0;; ++round) {
    clock.phase("plan");
    decisions.clear();
    part.plans = plans_of(part.front, part.machine, without(choose, lost), options.alternatives, &decisions);
    part.target = artifact::used_target(part.plans, options.target);
    if (!part.target.is_gpu()) return;
    clock.phase("compile CUDA kernels" + (several ? " for " + part.target.str() : std::string()));
    const std::string name = several ? "kernels." + part.target.str() + ".cu" : "kernels.cu";
    const std::string text = o.keep_dir.empty() ? "" : (fs::path(made_folder(o.keep_dir)) / name).string();
    artifact::CubinOptions cubins{work_dir, emit::user_cache_dir(), o.jobs, events.progress};
    if (round + 1 < kRounds) cubins.slow_s = kSlowNvrtc_s;
    cubins.patient = patient(part.plans, lost);
    cubins.waiting = events.info;
    part.cuda = gpu_code(part.front.module, part.plans, part.target, part.machine, text, cubins);
    const std::vector<LostChoice> more = lost_choices(part.plans, part.cuda.cubins);
    if (more.empty()) return;
    for (const LostChoice& l : more) {
      if (round + 1 == kRounds) throw given_up(l);
      warn(str(l) + (l.how.late ? "; another choice takes its place, if there is one (aotc explain names it)"
                                : "; another choice takes its place (aotc explain names it)"));
    }
    add(lost, more);
  }
}

/// Plans and metadata of a part whose front is made. Stages are those of its front.
Part plan_part(const BuildOptions& o, FrontOptions options, Front front, Stages& stages, const std::string& work_dir, PhaseClock& clock,
               const Events& events, const Warn& warn) {
  Part part;
  part.front = std::move(front);
  part.machine = machine_of(options.target);
  PartTuning tuning = tuned_decisions(o, options, part.front, stages, part.machine, work_dir, clock, events, warn);
  search::TuneResult& tuned = tuning.result;
  const search::Trades trades = std::move(tuned.trades);
  const plan::ChooseFn choose = with_alternatives(search::chooser(std::move(tuned.tuned)), options.alternatives);
  part.not_measured = std::move(tuned.missing);
  plan::Decisions decisions;
  plan_and_compile(part, o, options, choose, decisions, work_dir, clock, events, warn);
  stages.after("plan", [&] { return plan::print(part.plans); });
  stages.check_names();
  part.meta = metadata(part.front, part.plans, decisions, part.target, options.shapes.empty() ? "" : read_file(options.shapes));
  if (!trades.tried.empty()) part.meta["explain"]["trades"] = trades_json(trades);
  if (!tuning.alternatives.tried.empty()) part.meta["explain"]["alternatives"] = alternatives_json(tuning.alternatives);
  if (!tuning.comparison.tried.empty()) part.meta["explain"]["comparison"] = comparison_json(tuning.comparison);
  if (tuning.seconds > 0) part.tuning = tuning_json(tuning, o.tune_budget_s);
  if (part.target.is_gpu())
    part.meta["graphs"] = o.mode.graphs;
  else if (part.own_weights = tuning.own_weights; part.own_weights)
    part.meta["own_weights"] = true;
  return part;
}

}  // namespace

plan::PlanSet make_plans(const Front& front, const Target& target, plan::Decisions* decisions) {
  return plans_of(front, machine_of(target), {}, {}, decisions);
}

json build(const BuildOptions& given, const Events& events) {
  BuildOptions o = given;
  if (o.jobs <= 0) o.jobs = usable_processors();
  std::vector<PhaseTime> times;
  json report;
  check_outputs(o);
  {
    const fs::path output = fs::absolute(o.output);
    json warnings = json::array();
    const Warn warn = [&](const std::string& line) {
      warnings.push_back(line);
      if (events.warning) events.warning(line);
    };
    std::optional<WorkDir> scratch;
    std::vector<Part> parts;
    plan::SharedBlob blob;
    for (const FrontOptions& front : parts_of(o.front)) {
      Stages stages(front, events);
      Front made = run_front(front, events, stages, &times);
      made.stored_weights.check_error();
      if (!scratch) {
        scratch.emplace(output);
        if (events.work_dir) events.work_dir(scratch->str());
        for (const std::string& doubt :
             {import::untried_archive(made.program.torch_version), import::untried_libtorch(), import::unstated_conditions(made.program)})
          if (!doubt.empty()) warn(doubt);
        for (const std::string& line : made.narrowed) warn(line);
      }
      PhaseClock clock(events, &times);
      parts.push_back(plan_part(o, front, std::move(made), stages, scratch->str(), clock, events, warn));
    }
    for (Part& part : parts) blob.add(part.plans.weights, part.front.graph.constants);
    const Part& first = parts.front();
    json meta = first.meta;
    if (parts.size() > 1) meta["first_target"] = first.target.str();
    for (size_t p = 1; p < parts.size(); ++p) {
      meta["parts"].push_back(further_part(parts[p].meta));
      meta["target"] = meta["target"].get<std::string>() + "," + parts[p].target.str();
    }
    std::error_code ec;
    const fs::path work = o.keep_dir.empty() ? scratch->str() : made_folder(o.keep_dir);
    const fs::path finished = scratch->file("finished");  // moved to their places when all is there
    fs::create_directories(finished, ec);
    const bool in_file = blob.bytes() > 0 && o.weights_in_file.value_or(blob.bytes() > kWeightsInFileAbove);
    const std::string weights_name = output.stem().string() + ".weights";
    if (in_file) meta["weights_file"] = weights_name;

    PhaseClock clock(events, &times);
    const std::string artifact = (finished / output.filename()).string();
    AssembleInput in{{}, blob, meta.dump(-1, ' ', false, json::error_handler_t::replace), artifact, work.string()};
    for (const Part& p : parts) {
      const bool gpu = p.target.is_gpu();
      in.parts.push_back(
          {p.front.graph, p.front.module, p.plans, p.target, p.machine, gpu && o.mode.graphs, p.own_weights, gpu ? &p.cuda : nullptr});
    }
    in.jobs = o.jobs;
    if (in_file) in.weights_name = weights_name;
    Assembled made = assemble(in, clock, events.progress);
    if (!o.keep_dir.empty()) keep(parts, made, blob, o.jobs, work, output.string());
    clock.phase("report");
    report = report_of(o, first, meta, times);
    for (size_t p = 1; p < parts.size(); ++p) report["parts"].push_back(report_of_further(parts[p]));
    report["blob_bytes"] = blob.bytes();
    report["artifact_bytes"] = fs::file_size(artifact, ec);
    report["machine"] = first.machine.str();
    if (!first.tuning.is_null()) report["tuning"] = first.tuning;
    for (const char* key : {"precision", "trades", "alternatives", "comparison"})
      if (meta.at("explain").contains(key)) report[key] = meta["explain"][key];
    report["choices"] = meta.at("explain").at("choices");
    report["not_measured"] = not_measured(first.not_measured);
    report["compiler"] = made.compiler;
    if (const auto needs = emit::system_needs(artifact)) report["glibc"] = needs->glibc;
    report["objects"] = {{"compiled", made.units - made.cached}, {"cached", made.cached}};
    report["warnings"] = warnings;
    const auto beside = [&](const char* extension) { return fs::path(output.filename()).replace_extension(extension).string(); };
    emit::write_file((finished / beside(".h")).string(), emit::emit_header(first.front.graph, output.stem().string(), AOTC_VERSION));
    emit::write_file((finished / beside(".report.json")).string(), report.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
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
