#include "artifact/cubins.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>

#include "base/file.h"
#include "base/parallel.h"
#include "emit/cuda/joined.h"
#include "emit/embedded.h"
#include "emit/object_cache.h"
#include "emit/toolchain.h"
#include "plan/verify.h"

namespace aotc::artifact {

std::vector<emit::cuda::SourceFile> cuda_headers() {
  std::vector<emit::cuda::SourceFile> out;
  for (const emit::EmbeddedFile& f : emit::embedded_files())
    if (f.name.rfind("cuda/", 0) == 0) out.push_back({std::string(f.name.substr(5)), std::string(f.text())});
  return out;
}

std::string cuda_prelude() { return "#include \"gemm.cuh\"\n"; }

/// Of a launch of several kernels.
static std::string joined_source(const loop::Module& module, const SymTable& syms, const plan::KernelConfig& c, const Goal& goal) {
  emit::cuda::JoinedText text;
  text.threads = c.joined->threads;
  text.beside = c.joined->beside;
  for (const forms::JoinedPart& p : c.joined->parts) {
    const std::string symbol = fmt::format("{}_part{}", c.symbol, text.parts.size());
    text.parts.push_back({symbol, p.choice.form->source({module.kernels[p.kernel], syms, goal.machine, goal.numerics}, p.choice, symbol)});
  }
  for (const forms::JoinedCall& call : c.joined->calls) {
    text.calls.push_back({static_cast<size_t>(call.part), call.args, call.sizes});
    for (int i : call.args) text.n_ptr = std::max(text.n_ptr, static_cast<size_t>(i) + 1);
    for (int i : call.sizes) text.n_size = std::max(text.n_size, static_cast<size_t>(i) + 1);
  }
  return emit::cuda::emit_joined(text, c.symbol);
}

std::vector<std::string> cuda_sources(const loop::Module& module, const plan::PlanSet& plans, const Goal& goal) {
  std::vector<std::string> sources;
  std::vector<SymTable> syms;
  for (const plan::Plan& p : plans.plans) syms.push_back(plan::narrowed(module.syms, p.ranges));
  for (const plan::KernelConfig& c : plans.configs) {
    const SymTable& own = syms.at(static_cast<size_t>(c.plan));
    sources.push_back(c.joined ? joined_source(module, own, c, goal)
                               : c.choice.form->source({module.kernels[c.kernel], own, goal.machine, goal.numerics}, c.choice, c.symbol));
  }
  return sources;
}

namespace {

/// By fault of what it does; other signals come from outside.
constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};

/// As many workers as are asked at the same time.
class Workers {
 public:
  explicit Workers(WorkerCommand command) : command_(std::move(command)) {}
  std::unique_ptr<WorkerProcess> take() {
    const std::lock_guard<std::mutex> guard(lock_);
    if (idle_.empty()) return std::make_unique<WorkerProcess>(command_);
    std::unique_ptr<WorkerProcess> worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }
  void give(std::unique_ptr<WorkerProcess> worker) {
    const std::lock_guard<std::mutex> guard(lock_);
    idle_.push_back(std::move(worker));
  }

 private:
  const WorkerCommand command_;
  std::mutex lock_;
  std::vector<std::unique_ptr<WorkerProcess>> idle_;
};

Diagnostic failed(const WorkerProcess& worker, const std::string& why) {
  Diagnostic d(ExitCode::toolchain, {}, "the process that runs NVRTC: " + why);
  if (worker.signal() == SIGKILL) d.note("the system may have run out of memory: fewer --jobs need less");
  return d;
}

/// Why NVRTC is lost, or empty; throws what is not its fault.
std::string fault_of(const WorkerProcess& worker, const std::string& why, const std::string& version) {
  switch (worker.loss()) {
    case WorkerProcess::Loss::late: return fmt::format("NVRTC {} {}", version, why);
    case WorkerProcess::Loss::ended:
      if (!worker.signal()) return fmt::format("NVRTC {} ended its process", version);
      if (std::find(std::begin(kFaults), std::end(kFaults), worker.signal()) == std::end(kFaults)) break;
      return fmt::format("NVRTC {} crashed ({})", version, strsignal(worker.signal()));
    default: break;
  }
  throw failed(worker, why);
}

struct Job {
  std::string name, sm, text;
};

/// Looks at a compile: tells that it is waited for, gives it up when it has taken more than `slow_s` of processor time.
class Lookout {
 public:
  Lookout(const Job& job, double slow_s, std::function<void(const std::string& line)> tell)
      : job_(job), slow_s_(slow_s), tell_(std::move(tell)) {}
  bool operator()(double cpu_s) {
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
    if (s >= next_s_) {
      tell_(fmt::format("waiting for NVRTC, which has worked on kernel {} for {} for {:.0f} s", job_.name, job_.sm, s));
      next_s_ *= 2;
    }
    slow_ = cpu_s > slow_s_;
    return !slow_;
  }
  bool slow() const { return slow_; }
  std::string why() const { return fmt::format("took longer than {:.0f} s of processor time", slow_s_); }

 private:
  const Job& job_;
  const double slow_s_;
  const std::function<void(const std::string&)> tell_;
  const std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  double next_s_ = 10;
  bool slow_ = false;
};

/// The machine code; or why it is lost.
Result<std::string> compile(WorkerProcess& worker, const Job& job, const std::string& to, double limit_s, Lookout& lookout,
                            const std::string& version) {
  const WorkerProcess::Watch watch = std::ref(lookout);
  const nlohmann::json request = {{"source_bytes", job.text.size()}, {"name", job.name + ".cu"}, {"sm", job.sm}, {"to", to}};
  Result<nlohmann::json> answer = worker.ask(request, limit_s, job.text, watch);
  if (!answer && worker.loss() == WorkerProcess::Loss::ended) {
    fault_of(worker, answer.why(), version);
    answer = worker.ask(request, limit_s, job.text, watch);
  }
  if (lookout.slow()) return Result<std::string>::fail(fault_of(worker, lookout.why(), version));
  if (!answer) return Result<std::string>::fail(fault_of(worker, answer.why(), version));
  if (answer->contains("refused")) {
    Diagnostic d(ExitCode::toolchain, Loc{job.name + ".cu", "", "", ""}, answer->at("refused").get<std::string>());
    for (const nlohmann::json& note : answer->at("notes")) d.note(note.get<std::string>());
    throw d;
  }
  std::string code = read_file(to);
  std::error_code ec;
  std::filesystem::remove(to, ec);
  return code;
}

/// Leaves the source of a kernel that NVRTC did not survive; returns its path, or nothing where there is no place for it.
std::string leave_source(const Job& job, const emit::CacheOptions& cache) {
  if (cache.folder.empty() || cache.read_only) return {};
  const std::filesystem::path folder = std::filesystem::path(cache.folder) / "nvrtc-crashes";
  const std::string path = (folder / fmt::format("{}.{}.{:016x}.cu", job.name, job.sm, emit::hash_bytes(job.text))).string();
  std::error_code ec;
  std::filesystem::create_directories(folder, ec);
  try {
    emit::write_file(path, job.text);
  } catch (const Diagnostic&) { return {}; }
  return path;
}

/// {"version", "build"} of the NVRTC that the workers load.
nlohmann::json about_nvrtc(Workers& workers) {
  std::unique_ptr<WorkerProcess> worker = workers.take();
  const Result<nlohmann::json> about = worker->ask({{"about", "nvrtc"}}, 60);
  if (!about) throw failed(*worker, about.why());
  if (about->contains("missing")) throw Diagnostic(ExitCode::toolchain, {}, about->at("missing").get<std::string>());
  workers.give(std::move(worker));
  return *about;
}

}  // namespace

Cubins compile_cubins(const std::vector<std::string>& sources, const std::vector<std::string>& names, const std::vector<std::string>& sms,
                      const CubinOptions& options) {
  Workers workers(options.worker);
  const nlohmann::json nvrtc = about_nvrtc(workers);
  const emit::ObjectCache cache(options.cache);
  emit::CacheKey headers_key;
  headers_key.add(nvrtc.at("build").get<std::string>());
  for (const emit::cuda::SourceFile& h : cuda_headers()) headers_key.add(h.name).add(h.text);

  Cubins made;
  made.of.assign(sms.size(), std::vector<std::string>(sources.size()));
  std::atomic<size_t> done{0}, cached{0};
  std::mutex telling;
  const size_t total = sms.size() * sources.size();
  std::vector<LostCubin> lost(total);
  const auto wait = [&](const std::string& line) {
    const std::lock_guard<std::mutex> guard(telling);
    if (options.waiting) options.waiting(line);
  };
  parallel_for(total, options.jobs, [&](size_t i) {
    const std::string &sm = sms[i / sources.size()], &source = sources[i % sources.size()], &name = names[i % sources.size()];
    std::string& to = made.of[i / sources.size()][i % sources.size()];
    const Digest key = emit::CacheKey(headers_key).add(source).add(sm).digest();
    if (std::optional<std::string> given = options.given ? options.given(source, sm) : std::nullopt) {
      to = std::move(*given);
    } else if (std::optional<std::string> known = cache.take(key)) {
      to = std::move(*known);
      ++cached;
    } else {
      std::unique_ptr<WorkerProcess> worker = workers.take();
      const std::string file = (std::filesystem::path(options.work_dir) / fmt::format("cubin{}", i)).string();
      const size_t kernel = i % sources.size();
      const bool patient = kernel < options.patient.size() && options.patient[kernel];
      const Job job{name, sm, cuda_prelude() + source};
      Lookout lookout(job, patient ? std::numeric_limits<double>::infinity() : options.slow_s, wait);
      const Result<std::string> code = compile(*worker, job, file, options.limit_s, lookout, nvrtc.at("version").get<std::string>());
      workers.give(std::move(worker));
      if (code)
        cache.put(key, to = *code);
      else
        lost[i] = {kernel, sm, code.why(), leave_source(job, options.cache), lookout.slow()};
    }
    const std::lock_guard<std::mutex> guard(telling);
    if (options.progress) options.progress(++done, total, name + " for " + sm);
  });
  for (LostCubin& l : lost)
    if (!l.why.empty()) made.lost.push_back(std::move(l));
  made.cached = cached;
  return made;
}

}  // namespace aotc::artifact
