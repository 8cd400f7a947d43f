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
#include "pipeline/cache_report.h"
#include "pipeline/clock.h"
#include "pipeline/comparison.h"
#include "pipeline/exchange.h"
#include "pipeline/gpu_code.h"
#include "pipeline/metadata.h"
#include "pipeline/methods.h"
#include "pipeline/own_objects.h"
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
  std::vector<NamedFile> files = {{"--tuning-db", o.tuning_db}};
  for (const MethodOptions& m : o.methods)
    files.insert(files.end(), {{"model", m.front.model}, {"--shapes", m.front.shapes}, {"--uarch", m.front.uarch}});
  if (const own::Kernels* own = o.methods.front().front.own.get()) {
    files.push_back({"--kernels", own->file});
    for (const own::CodeFile& c : own->codes) files.push_back({"--kernels", c.file});
    for (const own::CudaSource& c : own->cuda_sources) files.push_back({"--kernels", c.file});
    for (const own::CudaBinary& c : own->cuda_binaries) files.push_back({"--kernels", c.file});
  }
  return files;
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
      throw Diagnostic(ExitCode::usage, Loc{o.output, "", "", ""},
                       fmt::format("would be overwritten by a file beside it; call it {}", o.prefix.empty() ? ".so" : ".a"));
    written.push_back({"-o " + o.output, beside.string()});
  }
  const std::vector<NamedFile> read = files_read(o);
  require_apart(written, read);
  require_apart({"--keep", o.keep_dir, {".sh", ".txt", ".cpp", ".cu", ".o", ".map", ".ld", ".so", ".bin", ".h", ".cuh", ".a"}}, read);
  for (const MethodOptions& m : o.methods) require_apart({"--dump-dir", m.front.dump_dir, {".txt", ".bin"}}, read);
  for (const NamedFile& w : written) require_place_for_file(w.path);
}

plan::PlanSet plans_of(const Front& f, const Goal& goal, const plan::ChooseFn& choose, const search::Alternatives& alternatives,
                       plan::Decisions* decisions) {
  plan::PlanOptions options;
  alternatives.apply(options);
  options.variants = ranges_of(f);
  if (!goal.numerics.reproducible) options.classes.emplace();  // else one plan serves all sizes
  options.size_classes = f.classes;
  options.goal = goal;
  options.choose = choose;
  options.decisions = decisions;
  return plan::build_plans(f.graph, f.module, options);
}

/// A method for one kind of machine.
struct Part {
  Front front;
  Goal goal;
  Target target;
  plan::PlanSet plans;
  artifact::CudaCode cuda;  ///< GPU
  json meta;
  std::vector<search::Unmeasured> not_measured;
  FrontOptions options;  ///< that the front was made with
  std::string front_id;
  json tuning;  ///< of reports; null where nothing could be measured
  bool own_weights = false;
  plan::SharedBlob::Added added;  ///< its weights that no earlier part or method stores alike
};

/// A method for every kind of machine.
struct Method {
  const MethodOptions& options;
  std::vector<Part> parts;
};

/// What the metadata of the artifact have of a part that is not the first.
json further_part(const json& meta) {
  json p;
  for (const char* key : {"target", "uarch", "code", "f32_matmul", "graphs", "own_weights", "weights_bytes", "arena_bytes", "explain"})
    if (meta.contains(key)) p[key] = meta.at(key);
  return p;
}

/// What reports have of the plans of a method.
json report_of_plans(const MethodOptions& method, const Part& part, const json& meta) {
  const plan::PlanSet& plans = part.plans;
  json r = {{"model", fs::path(method.front.model).filename().string()}, {"target", meta.at("target")}};
  r["weights_bytes"] = plans.weights_bytes;
  r["arena_bytes"] = meta.at("arena_bytes");
  for (const char* key : {"stored_weights", "kv_cache"})
    if (meta.contains(key)) r[key] = meta.at(key);
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
  return r;
}

json report_of(const BuildOptions& o, const Part& part, const json& meta, const std::vector<PhaseTime>& times) {
  json r = report_of_plans(o.methods.front(), part, meta);
  r["artifact"] = o.output, r["mode"] = o.mode.name;
  r["emit"] = o.prefix.empty() ? "shared" : "static";
  if (!o.prefix.empty()) r["prefix"] = o.prefix;
  add_uarch(r, part.target);
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
            {"machine", part.goal.str()},
            {"weights_bytes", part.meta.at("weights_bytes")},
            {"arena_bytes", part.meta.at("arena_bytes")},
            {"kernels", explained.at("kernels")},
            {"choices", explained.at("choices")},
            {"not_measured", not_measured(part.not_measured)}};
  if (!part.tuning.is_null()) r["tuning"] = part.tuning;
  for (const char* key : {"precision", "trades", "alternatives", "comparison", "uarch"})
    if (explained.contains(key)) r[key] = explained.at(key);
  return r;
}

/// What the report has of each of several methods. Its first part is that of the report.
json report_of_method(const Method& method) {
  const Part& first = method.parts.front();
  json r = report_of_plans(method.options, first, first.meta);
  r["name"] = method.options.name;
  r["added_bytes"] = first.added.bytes;
  r["second_layouts"] = json::array();
  for (const plan::SharedBlob::Added::Layout& l : first.added.second) r["second_layouts"].push_back({{"name", l.name}, {"bytes", l.bytes}});
  const json& explained = first.meta.at("explain");
  r["choices"] = explained.at("choices");
  r["not_measured"] = not_measured(first.not_measured);
  if (!first.tuning.is_null()) r["tuning"] = first.tuning;
  for (const char* key : {"precision", "trades", "alternatives", "comparison"})
    if (explained.contains(key)) r[key] = explained.at(key);
  for (size_t p = 1; p < method.parts.size(); ++p) {
    r["parts"].push_back(report_of_further(method.parts[p]));
    r["parts"].back()["added_bytes"] = method.parts[p].added.bytes;
  }
  return r;
}

/// A name for files of one part of one method; empty where there is nothing to tell apart.
std::string label(const BuildOptions& o, const std::string& method, const Target& target) {
  std::string text = o.methods.size() > 1 ? "." + method : "";
  if (parts_of(o.methods.front().front).size() > 1) text += "." + target.str();
  return text;
}

/// The last lines of the script of --keep: from objects to "$out".
std::string finish_lines(const BuildOptions& o, const emit::Linked& linked, const plan::SharedBlob& blob, const fs::path& folder) {
  std::vector<std::string> finish = {"finish-artifact", linked.file};
  const emit::SealedWeights& weights = linked.weights;
  if (!linked.spliced.empty()) {
    const std::string file = (folder / "weights.bin").string();
    emit::write_blob_file(file, blob.bytes(), [&](std::span<std::byte> out) { blob.write(out, o.jobs); });
    finish.insert(finish.end(), {"--section", linked.spliced, "--blob", file});
  } else if (!weights.section.empty()) {
    finish.insert(finish.end(), {"--section", weights.section});
  } else if (weights.bytes) {
    finish.insert(finish.end(), {"--file-bytes", std::to_string(weights.bytes), "--file-hash", std::to_string(weights.hash.value())});
  }
  return emit::shell_line(linked.command) + "\n\"$aotc\" " + emit::shell_line(finish) + " -o \"$out\"\nrm -f " +
         emit::shell_line({linked.file}) + "\n";
}

std::string archive_lines(const emit::Archived& archived) {
  std::string lines;
  for (const std::vector<std::string>& command : archived.commands) lines += emit::shell_line(command) + "\n";
  return lines + "mv " + emit::shell_line({archived.file}) + " \"$out\"\n";
}

/// For --keep: a script that makes the artifact again, byte for byte, as `output` or what it is given; what it reads, and the plans.
void keep(const BuildOptions& o, const std::vector<Method>& methods, const Assembled& made, const plan::SharedBlob& blob,
          const fs::path& folder) {
  std::error_code ec;
  std::string script = "#!/bin/sh -e\n# Makes the artifact again: build.sh [OUTPUT]. Objects of machine code for GPUs stay as they are.\n";
  script += "aotc=${AOTC:-" + emit::shell_line({fs::read_symlink("/proc/self/exe", ec).string()}) + "}\n";
  script += "out=" + emit::shell_line({fs::absolute(o.output).string()}) + "\nout=${1:-$out}\n";
  for (const std::string& line : made.command_lines) script += line + "\n";
  script += o.prefix.empty() ? finish_lines(o, made.linked, blob, folder) : archive_lines(made.archived);
  const fs::path path = folder / "build.sh";
  emit::write_file(path.string(), script);
  fs::permissions(path, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add, ec);
  for (const Method& m : methods)
    for (const Part& p : m.parts)
      emit::write_file((folder / ("plan" + label(o, m.options.name, p.target) + ".txt")).string(), plan::print(p.plans));
}

/// The part's plans and, for GPUs, their machine code. Where NVRTC does not survive a kernel, or works too
/// long on one, plans are made again without that choice.
void plan_and_compile(Part& part, const BuildOptions& o, const std::string& method, const FrontOptions& options,
                      const plan::ChooseFn& choose, plan::Decisions& decisions, const std::string& work_dir, PhaseClock& clock,
                      const Events& events, const Warn& warn) {
  constexpr size_t kRounds = 4;  // each may have waited for the time limit
  const bool several = !label(o, method, options.target).empty();
  std::vector<LostChoice> lost;
  for (size_t round = 0;; ++round) {
    clock.phase("plan");
    decisions.clear();
    part.plans = plans_of(part.front, part.goal, without(choose, lost), options.alternatives, &decisions);
    part.target = artifact::used_target(part.plans, options.target);
    if (!part.target.traits().device_code) return;
    clock.phase("compile CUDA kernels" + (several ? " for " + label(o, method, part.target).substr(1) : std::string()));
    const std::string name = "kernels" + label(o, method, part.target) + ".cu";
    const std::string text = o.keep_dir.empty() ? "" : (fs::absolute(made_folder(o.keep_dir)) / name).string();
    artifact::CubinOptions cubins{work_dir, o.cache, o.jobs, events.progress};
    if (round + 1 < kRounds) cubins.slow_s = kSlowNvrtc_s;
    cubins.patient = patient(part.plans, lost);
    cubins.waiting = events.info;
    part.cuda = gpu_code(part.front.module, part.plans, part.target, part.goal, part.front.own.get(), text, cubins);
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

/// A method among those that were made before it.
struct Among {
  const std::string& method;
  const StoredLayouts& layouts;
  KernelNames& kernels;  ///< for CPUs
};

/// Plans and metadata of a part whose front is made. Stages are those of its front.
Part plan_part(const BuildOptions& o, const Among& among, FrontOptions options, Front front, Stages& stages, const std::string& work_dir,
               PhaseClock& clock, const Events& events, const Warn& warn) {
  Part part;
  part.front = std::move(front);
  part.goal = goal_of(options.target);
  PartTuning tuning = tuned_decisions(o, options, part.front, stages, part.goal, work_dir, clock, events, warn);
  part.options = options, part.front_id = front_id(part.front);
  search::TuneResult& tuned = tuning.result;
  const search::Trades trades = std::move(tuned.trades);
  if (!options.target.traits().device_code) among.kernels.add(among.method, part.front.module);
  const plan::ChooseFn choose =
      among.layouts.prefer(with_alternatives(search::chooser(std::move(tuned.tuned)), options.alternatives), part.front);
  part.not_measured = std::move(tuned.missing);
  plan::Decisions decisions;
  plan_and_compile(part, o, among.method, options, choose, decisions, work_dir, clock, events, warn);
  stages.after("plan", [&] { return plan::print(part.plans); });
  stages.check_names();
  part.meta = metadata(part.front, part.plans, decisions, part.target, shapes_of(options));
  if (!trades.tried.empty()) part.meta["explain"]["trades"] = trades_json(trades);
  if (!tuning.alternatives.tried.empty()) part.meta["explain"]["alternatives"] = alternatives_json(tuning.alternatives);
  if (!tuning.comparison.tried.empty()) part.meta["explain"]["comparison"] = comparison_json(tuning.comparison);
  if (tuning.seconds > 0) part.tuning = tuning_json(tuning, o.tune_budget_s);
  if (part.target.traits().graphs)
    part.meta["graphs"] = o.mode.graphs;
  else if (part.own_weights = tuning.own_weights; part.own_weights)
    part.meta["own_weights"] = true;
  return part;
}

const Part& first_of(const std::vector<Method>& methods, size_t part) { return methods.front().parts.at(part); }

/// Each method's code of a part exists for every code version that one of them has.
void use_all_code(std::vector<Method>& methods) {
  for (size_t p = 0; p < methods.front().parts.size(); ++p) {
    Target all = first_of(methods, p).target;
    for (const Method& m : methods)
      for (const Isa isa : m.parts[p].target.isas)
        if (!all.has(isa)) all.isas.push_back(isa);
    std::sort(all.isas.begin(), all.isas.end());
    for (Method& m : methods) m.parts[p].target.isas = all.isas;
    json code = json::array();
    for (const Isa isa : all.isas) {
      uint32_t needs = 0;
      for (const Method& m : methods) needs |= artifact::cpu_needs(m.parts[p].plans, isa);
      code.push_back({{"version", isa_name(isa)}, {"needs", feature_names(needs)}});
    }
    for (Method& m : methods) m.parts[p].meta["code"] = code, m.parts[p].meta["target"] = m.parts[p].target.str();
  }
}

/// The description of a method: its first part, and what others have beside that.
json metadata_of(const Method& method) {
  const std::vector<Part>& parts = method.parts;
  json meta = parts.front().meta;
  if (parts.size() > 1) meta["first_target"] = parts.front().target.str();
  for (size_t p = 1; p < parts.size(); ++p) {
    meta["parts"].push_back(further_part(parts[p].meta));
    meta["target"] = meta["target"].get<std::string>() + "," + parts[p].target.str();
  }
  return meta;
}

/// The description of the artifact: that of its first method, and what each is called; the others' descriptions are with their names.
json metadata_of(const std::vector<Method>& methods) {
  json meta = metadata_of(methods.front());
  meta["methods"] = json::array({{{"name", methods.front().options.name}}});
  for (size_t m = 1; m < methods.size(); ++m) {
    json further = metadata_of(methods[m]);
    further["name"] = methods[m].options.name;
    meta["methods"].push_back(std::move(further));
  }
  return meta;
}

}  // namespace

/// All code of an artifact computes with the same weights.
static void check_same_rounding(const passes::StoredWeights& a, const passes::StoredWeights& b) {
  if (a.rounded == b.rounded) return;
  const auto& more = a.rounded.size() > b.rounded.size() ? a.rounded : b.rounded;
  const auto& less = &more == &a.rounded ? b.rounded : a.rounded;
  const auto odd =
      std::find_if(more.begin(), more.end(), [&](const auto& r) { return std::find(less.begin(), less.end(), r) == less.end(); });
  throw Diagnostic(ExitCode::unsupported, {},
                   fmt::format("--weights: '{}' would be rounded for one of CPU and GPU, and not for the other", odd->name))
      .note("each rounds what its own products multiply; build CPU and GPU code apart");
}

plan::PlanSet make_plans(const Front& front, const Target& target, plan::Decisions* decisions) {
  return plans_of(front, goal_of(target), {}, {}, decisions);
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
    check_names(o.methods);
    share_states(o.methods);
    share_caches(o.methods);
    std::optional<WorkDir> scratch;
    std::vector<Method> methods;
    StateNames states;
    StoredCacheNames caches;
    KernelNames kernels;
    std::vector<StoredLayouts> layouts(parts_of(o.methods.front().front).size());
    for (const MethodOptions& method : o.methods) {
      Method& m = methods.emplace_back(Method{method, {}});
      m.parts.reserve(layouts.size());
      for (const FrontOptions& front : parts_of(method.front)) {
        Stages stages(front, events);
        Front made = run_front(front, events, stages, &times);
        made.stored_weights.check_error();
        caches.add(method, made);
        if (!m.parts.empty()) check_same_rounding(m.parts.front().front.stored_weights, made.stored_weights);
        if (m.parts.empty()) {
          if (!scratch) scratch.emplace(output), events.work_dir ? events.work_dir(scratch->str()) : void();
          states.add(method.name, made.graph);
          for (const std::string& doubt :
               {import::untried_archive(made.program.torch_version), import::untried_libtorch(), import::unstated_conditions(made.program)})
            if (!doubt.empty()) warn(doubt);
          for (const std::string& line : made.narrowed) warn(line);
          for (const std::string& line : StoredCacheNames::warnings(made)) warn(line);
        }
        PhaseClock clock(events, &times);
        StoredLayouts& stored = layouts.at(m.parts.size());
        m.parts.push_back(
            plan_part(o, {method.name, stored, kernels}, front, std::move(made), stages, scratch->str(), clock, events, warn));
        if (o.methods.size() > 1) stored.add(m.parts.back().front.graph, m.parts.back().plans);
      }
    }
    caches.check();
    plan::SharedBlob blob;
    for (size_t p = 0; p < layouts.size(); ++p)
      for (Method& m : methods) {
        Part& part = m.parts.at(p);
        part.added = blob.add(part.plans.weights, part.front.graph.constants, p);
      }
    use_all_code(methods);
    const Part& first = methods.front().parts.front();
    json meta = metadata_of(methods);
    std::vector<LaidOut> laid_out;
    for (size_t p = 0; p < layouts.size(); ++p)
      for (const Method& m : methods) {
        const Part& part = m.parts[p];
        laid_out.push_back({m.options.name, part.options, part.goal.machine, part.front, part.front_id, part.plans.weights});
      }
    meta["weights_layout"] = layout_json(laid_out, blob.bytes());
    std::error_code ec;
    const fs::path work = o.keep_dir.empty() ? fs::path(scratch->str()) : fs::absolute(made_folder(o.keep_dir));
    const fs::path finished = scratch->file("finished");  // moved to their places when all is there
    fs::create_directories(finished, ec);
    const bool in_file = blob.bytes() > 0 && o.weights_in_file.value_or(blob.bytes() > kWeightsInFileAbove);
    const std::string weights_name = output.stem().string() + ".weights";
    if (in_file) meta["weights_file"] = weights_name;

    PhaseClock clock(events, &times);
    const std::string artifact = (finished / output.filename()).string();
    AssembleInput in{{}, blob, meta.dump(-1, ' ', false, json::error_handler_t::replace), artifact, work.string()};
    in.cache = o.cache;
    for (size_t p = 0; p < layouts.size(); ++p) {
      const Part& of_first = first_of(methods, p);
      const ArchTraits& traits = of_first.target.traits();
      AssemblePart& part = in.parts.emplace_back(AssemblePart{{}, of_first.target, of_first.goal.machine, traits.graphs && o.mode.graphs});
      for (const Method& m : methods) {
        const Part& own = m.parts[p];
        part.methods.push_back({{m.options.name, own.front.graph, own.front.module, own.plans}, traits.device_code ? &own.cuda : nullptr});
        part.own_weights = part.own_weights || own.own_weights;
      }
    }
    in.jobs = o.jobs;
    in.weights_layout = layout_id(meta["weights_layout"]);
    in.prefix = o.prefix;
    if (in_file) in.weights_name = weights_name;
    OwnObjects own(o.methods.front().front.own.get(), work.string());
    for (const Method& m : methods)
      for (const Part& part : m.parts)
        for (const std::string& object : own.of(part.front.module, part.target))
          if (std::find(in.own_objects.begin(), in.own_objects.end(), object) == in.own_objects.end()) in.own_objects.push_back(object);
    Assembled made = assemble(in, clock, events.progress);
    made.command_lines.insert(made.command_lines.end(), own.command_lines().begin(), own.command_lines().end());
    if (!o.keep_dir.empty()) keep(o, methods, made, blob, work);
    clock.phase("report");
    report = report_of(o, first, meta, times);
    for (size_t p = 1; p < layouts.size(); ++p) report["parts"].push_back(report_of_further(first_of(methods, p)));
    for (const Method& m : methods)
      if (methods.size() > 1) report["methods"].push_back(report_of_method(m));
    report["blob_bytes"] = blob.bytes();
    report["weights_layout"] = meta["weights_layout"]["id"];
    report["artifact_bytes"] = fs::file_size(artifact, ec);
    report["machine"] = first.goal.str();
    if (!first.tuning.is_null()) report["tuning"] = first.tuning;
    for (const char* key : {"precision", "trades", "alternatives", "comparison"})
      if (meta.at("explain").contains(key)) report[key] = meta["explain"][key];
    report["choices"] = meta.at("explain").at("choices");
    report["not_measured"] = not_measured(first.not_measured);
    report["compiler"] = made.compiler;
    if (const auto needs = emit::system_needs(artifact)) report["glibc"] = needs->glibc;
    report["objects"] = {{"compiled", made.units - made.cached}, {"cached", made.cached}};
    if (o.cache.server) report["objects"]["server"] = report_of(*o.cache.server, events);
    report["warnings"] = warnings;
    std::vector<emit::HeaderMethod> headers;
    for (const Method& m : methods) headers.push_back({m.options.name, m.parts.front().front.graph});
    const auto beside = [&](const char* extension) { return fs::path(output.filename()).replace_extension(extension).string(); };
    emit::write_file((finished / beside(".h")).string(), emit::emit_header(headers, o.prefix.empty() ? output.stem().string() : o.prefix,
                                                                           AOTC_VERSION, {!o.prefix.empty(), o.header_includes}));
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
