#include "pipeline/calibrate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>

#include "base/diagnostic.h"
#include "forms/list.h"
#include "forms/rules.h"
#include "graph/text.h"
#include "loop/lower.h"
#include "pipeline/clock.h"
#include "pipeline/measuring.h"
#include "pipeline/work_dir.h"

namespace aotc::pipeline {
namespace {

using Measured = Calibration::Measured;

/// A graph with one kernel that a form computes, by which one number is told. Kernels take less than a millisecond where they can: on a
/// machine with other work most calls go through without a break then.
struct Probe {
  std::string_view number, form;
  std::string_view graph, passes;
  std::string_view how;
  std::optional<Feature> needs;  ///< of the machine
  WeightStorage weights = {};    ///< for the passes of weights
  bool all_processors = false;   ///< the number is of the whole machine
};

constexpr std::string_view kProduct = R"(graph @product
input %x : float32[256, 256] "x"
const %w : float32[256, 256] "w"
%y = matmul(%x, %w) : float32[256, 256]
output %y "y"
)";
constexpr std::string_view kHalfProduct = R"(graph @product
input %x : bfloat16[256, 256] "x"
const %w : bfloat16[256, 256] "w"
%y = matmul(%x, %w) : float32[256, 256]
output %y "y"
)";
constexpr std::string_view kWeightProduct = R"(graph @product
input %x : float32[64, 512] "x"
const %w : float32[512, 512] "w"
%t = permute(%w) {perm=[1, 0]} : float32[512, 512]
%y = matmul(%x, %t) : float32[64, 512]
output %y "y"
)";
constexpr std::string_view kByteProduct = R"(graph @product
input %x : uint8[64, 512] "x"
const %w : int8[512, 512] "w"
%t = permute(%w) {perm=[1, 0]} : int8[512, 512]
%y = matmul(%x, %t) : int32[64, 512]
output %y "y"
)";
constexpr std::string_view kConvolution = R"(graph @convolution
input %x : float32[1, 64, 34, 34] "x"
const %w : float32[4, 64, 3, 3] "w"
%y = conv(%x, %w)
output %y "y"
)";
constexpr std::string_view kStridedConvolution = R"(graph @convolution
input %x : float32[1, 64, 96, 96] "x"
const %w : float32[4, 64, 3, 3] "w"
%y = conv(%x, %w) {stride=[3, 3]}
output %y "y"
)";
constexpr std::string_view kSum = R"(graph @loop
input %x : float32[16777216] "x"
input %z : float32[16777216] "z"
%y = add(%x, %z)
output %y "y"
)";

/// In the order in which they are told: each by those before it.
const Probe kProbes[] = {
    {"ns_per_cycle", "gemm", kProduct, "", "a float32 product of 256 x 256 x 256: the cycles that estimates count", {}},
    {"bf16_macs", "gemm", kHalfProduct, "", "a bf16 product of 256 x 256 x 256 by AVX512_BF16", Feature::AVX512_BF16},
    {"quant_macs",
     "gemm_quant",
     kWeightProduct,
     "round_weights,quantize_weights",
     "64 float32 rows times an int8 weight of 512 x 512",
     {},
     {8, 32}},
    {"int8_macs", "gemm_int8", kWeightProduct, "round_weights,quantize_weights", "the same with rows rounded to bytes", {}, {8, 0, true}},
    {"byte_macs", "gemm_bytes", kByteProduct, "", "64 rows of bytes times a weight of bytes of 512 x 512", {}},
    {"gather", "conv_product", kConvolution, "", "a 3x3 convolution of 64 channels to 4 at 32 x 32 pixels as a product", {}},
    {"gather_strided", "conv_product", kStridedConvolution, "", "the same with a stride of 3", {}},
    {"memory_bytes_per_ns", "loop", kSum, "", "a sum of two arrays of 64 MB, on all processors that the process may use", {}, {}, true},
};

/// Transposed: times by bytes of an element.
std::string transposition(std::string_view dtype) {
  return fmt::format("graph @turn\ninput %x : {0}[64, 4096] \"x\"\n%y = permute(%x) {{perm=[1, 0]}} : {0}[4096, 64]\noutput %y \"y\"\n",
                     dtype);
}
constexpr double kTurned = 64 * 4096;  ///< elements

constexpr int kTurns = 6;
constexpr int kMoreTurns = 12;  ///< of what all other numbers rest on
constexpr double kFurthest =
    16;  ///< times the number that there was: what lies beyond is no property of a machine but a fault of the measurement

/// Three digits; no number of a data file is less.
double rounded(double x) {
  x = std::max(x, 1e-6);
  const double unit = std::pow(10.0, std::floor(std::log10(x)) - 2);
  return std::stod(fmt::format("{:.12g}", std::round(x / unit) * unit));
}

/// The one kernel of a graph that the form computes, and how.
struct Subject {
  Graph graph;
  loop::Module module;
  loop::KernelId kernel{};
  forms::Choice choice;
};

class Calibrator {
 public:
  Calibrator(const CalibrateOptions& o, const std::vector<Measured>& known, const Events& events)
      : o_(o), events_(events), clock_(events, nullptr), work_(std::filesystem::temp_directory_path() / "calibrate.so") {
    if (events.work_dir) events.work_dir(work_.str());
    uarch_ = std::make_shared<Uarch>(parse_uarch("like " + o.like, "--like"));
    uarch_->name = o.like;
    AOTC_CHECK(!uarch_->is_gpu, "{} is no CPU", o.like);
    machine_ = this_machine(native_isas(), 1);
    for (const auto& [name, bytes] :
         {std::pair("l1_bytes", machine_.l1_bytes), {"l2_bytes", machine_.l2_bytes}, {"l3_bytes", machine_.l3_bytes}})
      take({name, static_cast<double>(bytes), "of the first processor, as Linux tells it"});
    for (const Measured& m : known) take(m);
  }

  Calibration run() {
    clock_.phase("measure");
    constexpr size_t kAll = std::size(kProbes) + 1;
    for (size_t i = 0; i < std::size(kProbes); ++i) {
      if (events_.progress) events_.progress(i, kAll, std::string(kProbes[i].number));
      tell(kProbes[i]);
    }
    if (events_.progress) events_.progress(kAll - 1, kAll, "turned_ns");
    turn();
    if (kernels_ == 0) throw Diagnostic(ExitCode::toolchain, {}, "no kernel could be measured: " + first_failure_);
    out_.machine = machine_;
    return std::move(out_);
  }

 private:
  void take(const Measured& m) {
    set_number(*uarch_, m.name, m.value);
    take_costs(machine_, uarch_);
    out_.measured.push_back({m.name, number_of(*uarch_, m.name), m.how});
  }
  void leave(std::string_view name, const std::string& why) { out_.left.push_back({std::string(name), why}); }

  /// Fails where the form takes no kernel of the graph here.
  Result<Subject> subject_of(std::string_view text, std::string_view passes, const WeightStorage& weights, std::string_view form,
                             const Goal& goal) const {
    Subject s;
    s.graph = parse_graph(text, "calibrate");
    passes::PassContext context;
    passes::StoredWeights stored;
    context.target.isas = {machine_.isa}, context.weights = weights, context.stored = &stored;
    for (size_t begin = 0; begin < passes.size();) {
      const size_t comma = std::min(passes.find(',', begin), passes.size());
      passes::run_pass(*passes::find_pass(passes.substr(begin, comma - begin)), s.graph, context);
      begin = comma + 1;
    }
    s.module = loop::lower(s.graph, forms::rules_of(goal.machine));
    for (size_t k = 0; k < s.module.kernels.size(); ++k)
      for (const forms::Candidate& c : forms::candidates(site(s, static_cast<loop::KernelId>(k), goal)))
        if (c.fit && (form.empty() || c.choice.form->name() == form)) {
          s.kernel = static_cast<loop::KernelId>(k), s.choice = c.choice;
          return s;
        }
    return Result<Subject>::fail(fmt::format("{} computes none of its kernels on {}", form, goal.machine.name()));
  }
  static forms::Site site(const Subject& s, loop::KernelId k, const Goal& goal) {
    return {s.module.kernels[k], s.module.syms, goal.machine, goal.numerics};
  }

  /// Nanoseconds of a call: the least of some turns, since other work on the machine makes them longer and never shorter.
  Result<double> time(const Subject& s, const Goal& goal, int turns = kTurns) {
    MeasuringOptions options{{}, goal, work_.str()};
    options.target.isas = {machine_.isa}, options.target.threads = goal.machine.cores;
    options.jobs = o_.jobs > 0 ? o_.jobs : usable_processors();
    options.cache = o_.cache;
    const auto measurer = make_measurer(s.graph, s.module, options);
    double least = 0;
    for (int turn = 0; turn < turns; ++turn) {
      const search::Timing t = measurer->measure({s.kernel, &s.module.syms}, {s.choice}, o_.seconds / kTurns).at(0);
      if (t.error.empty()) {
        least = turn == 0 ? t.ns : std::min(least, t.ns);
        continue;
      }
      if (first_failure_.empty()) first_failure_ = t.error;
      return Result<double>::fail(t.error);
    }
    ++kernels_;
    return least;
  }

  /// What the form's estimate of the choice is with that number.
  static double estimate(const Subject& s, Goal goal, const Uarch& costs, std::string_view number, double value) {
    auto with = std::make_shared<Uarch>(costs);
    set_number(*with, number, value);
    take_costs(goal.machine, with);
    for (const forms::Candidate& c : forms::candidates(site(s, s.kernel, goal)))
      if (c.choice == s.choice) return c.cost_ns;
    return 0;
  }

  /// The number with which the estimate is `ns`; nothing where none within the bounds gives that.
  std::optional<double> solve(const Subject& s, const Goal& goal, std::string_view number, double ns) const {
    const double known = number_of(*uarch_, number);
    double low = std::log(known / kFurthest), high = std::log(known * kFurthest);
    const auto at = [&](double x) { return estimate(s, goal, *uarch_, number, std::exp(x)) - ns; };
    const bool falls = at(high) < at(low);
    if (at(low) * at(high) > 0) return std::nullopt;
    for (int i = 0; i < 50; ++i) {
      const double middle = (low + high) / 2;
      ((at(middle) > 0) == falls ? low : high) = middle;
    }
    return std::exp((low + high) / 2);
  }

  void tell(const Probe& p) {
    if (p.needs && !machine_.has(*p.needs)) return leave(p.number, "this machine has no such instructions");
    Goal goal{machine_, {}};
    goal.numerics.int8_rows = p.weights.int8_rows;
    if (p.all_processors) goal.machine.cores = usable_processors();
    const Result<Subject> s = subject_of(p.graph, p.passes, p.weights, p.form, goal);
    if (!s) return leave(p.number, s.why());
    const Result<double> ns = time(*s, goal, &p == kProbes ? kMoreTurns : kTurns);
    if (!ns) return leave(p.number, ns.why());
    const auto value = solve(*s, goal, p.number, *ns);
    if (!value)
      return leave(p.number, fmt::format("{} took {:.0f} us, which no number from a sixteenth to sixteen times {} explains", p.how,
                                         *ns / 1e3, number_of(*uarch_, p.number)));
    take({std::string(p.number), rounded(*value), fmt::format("{} took {:.0f} us", p.how, *ns / 1e3)});
  }

  void turn() {
    const Goal goal{machine_, {}};
    double ns[2] = {};
    for (const int i : {0, 1}) {
      const Result<Subject> s = subject_of(transposition(i == 0 ? "float32" : "uint8"), "", {}, "", goal);
      const Result<double> t = s ? time(*s, goal) : Result<double>::fail(s.why());
      if (!t) {
        for (const char* number : {"reorder_ns_per_byte", "turned_ns", "turned_byte_ns"}) leave(number, t.why());
        return;
      }
      ns[i] = *t / kTurned;
    }
    const double byte = std::clamp((ns[0] - ns[1]) / 3, 0.0, ns[1]);
    const std::string how = fmt::format("64 x 4096 elements transposed: {:.3g} ns each of float32, {:.3g} of bytes", ns[0], ns[1]);
    take({"reorder_ns_per_byte", rounded(ns[0] / 4), how});
    take({"turned_ns", rounded(ns[1] - byte), how});
    take({"turned_byte_ns", rounded(byte), how});
  }

  const CalibrateOptions& o_;
  const Events& events_;
  PhaseClock clock_;
  WorkDir work_;
  std::shared_ptr<Uarch> uarch_;
  Machine machine_;
  Calibration out_;
  size_t kernels_ = 0;
  std::string first_failure_;
};

}  // namespace

Calibration calibrate(const CalibrateOptions& options, const std::vector<Measured>& known, const Events& events) {
  return Calibrator(options, known, events).run();
}

}  // namespace aotc::pipeline
