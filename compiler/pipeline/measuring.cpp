#include "pipeline/measuring.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "artifact/versions.h"
#include "base/file.h"
#include "emit/toolchain.h"
#include "forms/cpu/far_stores.h"
#include "loop/attached.h"
#include "pipeline/assemble.h"
#include "pipeline/gpu_code.h"
#include "pipeline/own_objects.h"
#include "plan/verify.h"
#include "search/device.h"
#include "search/tune.h"

namespace aotc::pipeline {
namespace {

using loop::BufferKind;
using nlohmann::json;

constexpr uint64_t kMostColdBytes = 64 << 20;
constexpr double kTurnSeconds = 0.01;  ///< of calls of a whole artifact one after the other

/// The largest sizes of what a run of the whole module touches, so that a kernel finds its operands as it would there.
uint64_t touched_bytes(const loop::Module& m, const SymTable& syms) {
  uint64_t bytes = 0;
  for (const loop::Buffer& b : m.buffers) bytes += static_cast<uint64_t>(std::max<int64_t>(0, syms.hint(b.type.bytes())));
  return bytes;
}

class ArtifactMeasurer final : public search::Measurer {
 public:
  ArtifactMeasurer(const Graph& g, const loop::Module& m, const MeasuringOptions& o)
      : graph_(g), module_(m), options_(o), worker_(o.worker) {}

  std::vector<search::Timing> measure(const search::Subject& s, const std::vector<forms::Choice>& choices, double seconds) override {
    const Result<OneKernel> one = one_kernel(graph_, module_, s, choices.size());
    const auto choose = [&](const forms::Site&, size_t candidate) {
      forms::Decision d;
      d.choice = choices.at(candidate);
      return d;
    };
    std::vector<std::string> lost;
    std::vector<search::Timing> out =
        times(one, choices.size(), choose, seconds, std::min(kMostColdBytes, touched_bytes(module_, *s.syms)), &lost);
    if (lost.empty()) return out;
    std::vector<forms::Choice> left;
    for (size_t i = 0; i < choices.size(); ++i)
      if (lost[i].empty()) left.push_back(choices[i]);
    AOTC_CHECK(left.size() < choices.size(), "a kernel that no candidate launches was lost");
    const std::vector<search::Timing> of_left = left.empty() ? std::vector<search::Timing>{} : measure(s, left, seconds);
    for (size_t i = 0, next = 0; i < choices.size(); ++i) out[i] = lost[i].empty() ? of_left[next++] : search::Timing{0, 0, lost[i]};
    return out;
  }

  std::vector<search::Timing> measure_whole(const SymTable& syms, const std::vector<search::Tuned>& sets, double seconds) override {
    const Result<OneKernel> whole = whole_module(graph_, module_, syms, sets.size());
    std::vector<plan::ChooseFn> choosers;
    for (const search::Tuned& t : sets) choosers.push_back(with_alternatives(search::chooser(t), options_.alternatives));
    return times(
        whole, sets.size(), [&](const forms::Site& site, size_t n) { return choosers.at(n)(site); }, seconds, 0, nullptr);
  }

  Result<double> references(const SymTable& syms, double seconds) override {
    return options_.references ? options_.references(syms, seconds) : Measurer::references(syms, seconds);
  }

  Result<std::vector<search::WholeError>> errors(const SymTable& syms, const std::vector<search::Tuned>& sets, double seconds) override {
    using R = Result<std::vector<search::WholeError>>;
    if (!options_.errors) return Measurer::errors(syms, sets, seconds);
    const auto start = std::chrono::steady_clock::now();
    const Result<OneKernel> whole = whole_module(graph_, module_, syms, sets.size());
    if (!whole) return R::fail(whole.why());
    std::vector<plan::ChooseFn> choosers;
    for (const search::Tuned& t : sets) choosers.push_back(with_alternatives(search::chooser(t), options_.alternatives));
    const std::string path = next_path();
    try {
      build(
          *whole, sets.size(), [&](const forms::Site& site, size_t n) { return choosers.at(n)(site); }, path, nullptr,
          options_.alternatives);
    } catch (const Diagnostic& d) { return R::fail(d.message()); }
    const double built_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    R answer = options_.errors(syms, path, sets.size(), seconds - built_s);
    std::error_code ec;
    std::filesystem::remove(path, ec);
    return answer;
  }

  void build_at(const WholeChoice& choice, const std::string& path) {
    const Result<OneKernel> whole = whole_module(graph_, module_, *choice.syms, 1);
    if (!whole) throw Diagnostic(ExitCode::unsupported, {}, whole.why());
    build(
        *whole, 1, [&](const forms::Site& site, size_t) { return choice.choose(site); }, path, nullptr, choice.alternatives,
        choice.own_weights);
  }

  std::vector<search::Timing> times_of(const SymTable& syms, const std::vector<std::string>& paths, double seconds) {
    const Result<OneKernel> whole = whole_module(graph_, module_, syms, 1);
    if (!whole) return std::vector<search::Timing>(paths.size(), {0, 0, whole.why()});
    json job = job_of(*whole, paths.size(), seconds);
    job["artifacts"] = paths;
    job["turn_seconds"] = kTurnSeconds;
    const Result<json> answer = worker_.ask(job, 20 + 10 * seconds, "");
    return answer ? read(*answer, paths.size()) : std::vector<search::Timing>(paths.size(), {0, 0, answer.why()});
  }

 private:
  using Choose = std::function<forms::Decision(const forms::Site&, size_t candidate)>;

  std::string next_path() { return (std::filesystem::path(options_.work_dir) / fmt::format("measure{}.so", number_++)).string(); }

  /// cold_bytes: of the caches, emptied before each run. `lost`: as build has it; nothing is measured then.
  std::vector<search::Timing> times(const Result<OneKernel>& one, size_t n, const Choose& choose, double seconds, uint64_t cold_bytes,
                                    std::vector<std::string>* lost) {
    auto all = [&](const std::string& error) { return std::vector<search::Timing>(n, {0, 0, error}); };
    if (!one) return all(one.why());
    const std::string path = next_path();
    std::string attachment;
    try {
      build(*one, n, choose, path, lost, options_.alternatives);
      if (lost && !lost->empty()) return all("another candidate is lost");
      if (worker_.elsewhere()) attachment = read_file(path);
    } catch (const Diagnostic& d) { return all(d.message()); }
    json job = job_of(*one, n, seconds);
    job["cold_bytes"] = cold_bytes;
    if (worker_.elsewhere())
      job["artifact_bytes"] = attachment.size();
    else
      job["artifact"] = path;
    const Result<json> answer = worker_.ask(job, 20 + 10 * seconds, attachment);
    std::error_code ec;
    std::filesystem::remove(path, ec);
    if (!answer) return all(answer.why());
    return read(*answer, n);
  }

  json job_of(const OneKernel& one, size_t n, double seconds) const {
    json values = json::object();
    for (const auto& [input, value] : one.values) values[std::to_string(input)] = value;
    return {{"shapes", one.shapes},
            {"values", values},
            {"candidate", one.candidate_input},
            {"candidates", n},
            {"threads", options_.goal.machine.traits().device_code ? 1 : options_.goal.machine.cores},
            {"gpu", options_.goal.machine.traits().device_code ? 0 : -1},
            {"seconds", seconds}};
  }

  /// own_weights: in huge pages, as what is built in a mode that measures has them.
  /// Where NVRTC does not survive the code of some candidates, `lost` says why, by candidate, and there is no artifact; without it that is
  /// a Diagnostic.
  void build(const OneKernel& one, size_t n, const Choose& choose, const std::string& path, std::vector<std::string>* lost,
             const search::Alternatives& alternatives, bool own_weights = true) {
    plan::PlanOptions options;
    options.goal = options_.goal;
    alternatives.apply(options);
    for (size_t i = 0; i < n; ++i) options.variants.push_back({{one.candidate, static_cast<int64_t>(i), static_cast<int64_t>(i), 1}});
    options.choose = [&](const forms::Site& site) { return choose(site, static_cast<size_t>(site.syms[one.candidate].min)); };
    const plan::PlanSet plans = plan::build_plans(one.graph, one.module, options);
    const Events nobody;
    PhaseClock quiet(nobody, nullptr);
    const Target target = artifact::used_target(plans, options_.target);
    plan::SharedBlob blob;
    std::vector<plan::Weight> weights = plans.weights;
    blob.add(weights, one.graph.constants);
    artifact::CudaCode cuda;
    if (target.traits().device_code) {
      artifact::CubinOptions cubins{options_.work_dir, options_.cache, options_.jobs, {}};
      if (lost) cubins.slow_s = kSlowNvrtc_s;
      cuda = gpu_code(one.module, plans, target, options_.goal, options_.own.get(), "", cubins);
    }
    for (const artifact::LostCubin& l : cuda.cubins.lost) {
      if (!lost) throw Diagnostic(ExitCode::toolchain, {}, l.why);
      lost->resize(n);
      for (size_t i = 0; i < n; ++i)
        for (const plan::Step& step : plans.plans[i].steps)
          if (step.config == static_cast<int>(l.kernel)) (*lost)[i] = l.why;
    }
    if (!cuda.cubins.lost.empty()) return;
    AssembleInput in{
        {{{{{"forward", one.graph, one.module, plans}, &cuda}}, target, options_.goal.machine}}, blob, "{}", path, options_.work_dir};
    in.parts.front().own_weights = own_weights && target.traits().own_weights;
    in.jobs = options_.jobs;
    in.cache = options_.cache;
    in.own_objects = own_objects_.of(one.module, target);
    assemble(in, quiet, {});
  }

  /// What another machine answers may be anything.
  static std::vector<search::Timing> read(const json& answer, size_t n) {
    std::vector<search::Timing> out(n, {0, 0, "the worker's answer has no time"});
    const auto timings = answer.find("timings");
    if (timings == answer.end() || !timings->is_array()) return out;
    for (size_t i = 0; i < std::min(n, timings->size()); ++i) {
      const json& t = timings->at(i);
      if (const double ns = number(t, "ns"); ns > 0)
        out[i] = {ns, number(t, "spread"), "", number(t, "ratio"), number(t, "ratio_error")};
      else if (t.is_object() && t.contains("error") && t["error"].is_string())
        out[i].error = t["error"].get<std::string>();
    }
    return out;
  }
  /// 0 where there is none.
  static double number(const json& of, const char* key) {
    const auto it = of.is_object() ? of.find(key) : of.end();
    return it != of.end() && it->is_number() ? it->get<double>() : 0;
  }

  const Graph& graph_;
  const loop::Module& module_;
  const MeasuringOptions options_;
  WorkerProcess worker_;
  OwnObjects own_objects_{options_.own.get(), options_.work_dir};
  size_t number_ = 0;
};

SymId add_candidate(SymTable& syms, size_t candidates) {
  SymInfo number;
  number.name = "candidate";
  number.max = static_cast<int64_t>(candidates) - 1;
  return syms.add(number);
}

/// An input that nobody reads gives a symbol its value.
void add_carrier(OneKernel& one, SymId s, const std::string& name) {
  const TensorType t{DType::boolean, {Expr::symbol(s)}};
  one.module.buffers.push({name, BufferKind::input, t, static_cast<uint32_t>(one.graph.inputs.size())});
  one.graph.add_input(name, t);
  one.shapes.push_back({std::max<int64_t>(0, one.graph.syms.hint(Expr::symbol(s)))});
}
}  // namespace

static std::optional<std::pair<int64_t, int64_t>> values_of(const loop::Kernel& kernel, loop::ParamId param, const SymTable& syms) {
  if (const auto* k = std::get_if<loop::AttentionKernel>(&kernel); k && k->shown && k->shown->end.param == param) {
    const int64_t end = std::max<int64_t>(1, syms.hint(k->kv_len) / loop::AttentionKernel::kShownPart);
    return std::pair(end, end);
  }
  if (const auto* k = std::get_if<loop::MatmulKernel>(&kernel); k && k->runs && k->runs->ends == param) {
    const int64_t rows = std::max<int64_t>(0, syms.hint(k->m)), runs = std::max<int64_t>(1, syms.hint(k->runs->count));
    return std::pair(rows / runs, rows);
  }
  return std::nullopt;
}

Result<OneKernel> whole_module(const Graph& graph, const loop::Module& module, const SymTable& syms, size_t candidates) {
  OneKernel one;
  one.graph = graph;
  one.graph.syms = syms;
  one.candidate = add_candidate(one.graph.syms, candidates);
  one.module = module;
  one.module.syms = one.graph.syms;
  for (const InputInfo& i : graph.inputs) {
    std::vector<int64_t> shape;
    for (const Expr& d : graph.type(i.value).dims) shape.push_back(std::max<int64_t>(0, syms.hint(d)));
    one.shapes.push_back(std::move(shape));
  }
  one.candidate_input = one.graph.inputs.size();
  add_carrier(one, one.candidate, "candidate");
  return one;
}

Result<OneKernel> one_kernel(const Graph& graph, const loop::Module& module, const search::Subject& subject, size_t candidates) {
  using R = Result<OneKernel>;
  const loop::Call* call = nullptr;
  const auto look = [&](const std::vector<loop::Call>& calls) {
    for (const loop::Call& c : calls)
      if (!call && c.kernel == subject.kernel) call = &c;
  };
  look(module.calls);
  for (const std::vector<loop::Call>& calls : module.other_calls) look(calls);
  if (!call) return R::fail("nothing calls it");
  const loop::Kernel& kernel = module.kernels[subject.kernel];
  const auto params = loop::argument_params(kernel);
  OneKernel one;
  one.graph.name = "measure";
  one.graph.syms = *subject.syms;
  one.candidate = add_candidate(one.graph.syms, candidates);
  one.module.syms = one.graph.syms;
  one.module.kernels.push(kernel);
  loop::Call only{loop::KernelId{0}, {}, "measured", {}};
  std::map<loop::BufferId, loop::BufferId> known;
  auto input = [&](const std::string& name, const TensorType& t) {
    one.graph.add_input(name, t);
    std::vector<int64_t> shape;
    for (const Expr& d : t.dims) shape.push_back(std::max<int64_t>(0, one.graph.syms.hint(d)));
    one.shapes.push_back(std::move(shape));
  };
  for (size_t i = 0; i < params.size(); ++i) {
    const loop::BufferId from = call->args[i];
    const loop::Param& param = loop::kernel_params(kernel)[params[i]];
    if (auto it = known.find(from); it != known.end()) {
      if (loop::writes(param)) return R::fail("it reads what it writes");
      only.args.push_back(it->second);
      continue;
    }
    const loop::Buffer& source = module.buffers[from];
    loop::Buffer b{fmt::format("b{}", i), BufferKind::input, source.type, 0};
    if (loop::writes(param)) {
      b.kind = BufferKind::output;
      b.index = static_cast<uint32_t>(one.graph.outputs.size());
      Value v;
      v.type = source.type, v.name = b.name, v.kind = ValueKind::node;
      one.graph.outputs.push_back({b.name, one.graph.values.push(std::move(v)), "", -1});
    } else if (source.kind == BufferKind::constant) {
      b.kind = BufferKind::constant;
      b.panels = source.panels;
      b.index = static_cast<uint32_t>(idx(one.graph.constants.push(graph.constants[static_cast<ConstId>(source.index)])));
    } else {
      b.index = static_cast<uint32_t>(one.graph.inputs.size());
      if (const auto values = values_of(kernel, params[i], one.graph.syms)) one.values[b.index] = *values;
      input(b.name, source.type);
    }
    only.args.push_back(known[from] = one.module.buffers.push(std::move(b)));
  }
  for (uint32_t s = 0; s < subject.syms->size(); ++s)
    if ((*subject.syms)[static_cast<SymId>(s)].kind == SymKind::shape) add_carrier(one, static_cast<SymId>(s), fmt::format("size_{}", s));
  one.candidate_input = one.graph.inputs.size();
  add_carrier(one, one.candidate, "candidate");
  one.module.calls.push_back(std::move(only));
  return one;
}

std::string cannot_measure(const Machine& machine, const WorkerCommand& worker) {
  if (!machine.traits().device_code) {
    if (worker.elsewhere) return "another machine measures for GPUs only";
    const std::vector<Isa> native = native_isas();
    return std::find(native.begin(), native.end(), machine.isa) != native.end() ? "" : fmt::format("this CPU lacks {}", machine.name());
  }
  int found = search::gpu_architecture(0);
  if (worker.elsewhere) {
    const Result<json> answer = WorkerProcess(worker).ask({{"architecture_of", 0}}, 60);
    if (!answer) return answer.why();
    const auto architecture = answer->find("architecture");
    if (architecture == answer->end() || !architecture->is_number_integer()) return "the worker's answer has no architecture";
    found = architecture->get<int>();
  }
  if (found == machine.sm) return "";
  return found == 0 ? "there is no GPU" : fmt::format("its GPU is sm_{}, not {}", found, machine.name());
}

Target target_of(const Target& target, const Machine& machine) {
  Target one = target;
  if (!machine.traits().device_code) one.isas = {machine.isa};
  return one;
}

void build_whole(const WholeChoice& whole, const MeasuringOptions& options, const std::string& path) {
  ArtifactMeasurer(*whole.graph, *whole.module, options).build_at(whole, path);
}

std::vector<search::Timing> time_in_turns(const WholeChoice& whole, const std::vector<std::string>& paths, const MeasuringOptions& options,
                                          double seconds) {
  return ArtifactMeasurer(*whole.graph, *whole.module, options).times_of(*whole.syms, paths, seconds);
}

plan::ChooseFn with_alternatives(plan::ChooseFn choose, const search::Alternatives& alternatives) {
  if (!alternatives.has(search::Alternative::stores_far)) return choose;
  return [choose = std::move(choose)](const forms::Site& site) {
    forms::Decision d = choose(site);
    if (std::optional<forms::Choice> far = forms::cpu::stored_far(site); far && !(*far == d.choice))
      d.choice = std::move(*far), d.by = "measured in the whole";
    return d;
  };
}

std::unique_ptr<search::Measurer> make_measurer(const Graph& graph, const loop::Module& module, const MeasuringOptions& options) {
  return std::make_unique<ArtifactMeasurer>(graph, module, options);
}

}  // namespace aotc::pipeline
