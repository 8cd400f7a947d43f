#pragma once
// The road of a model, whole: archive → Graph → Loop → Plan → artifact. The command line and the tests drive it; all options travel in
// structs, all progress leaves through Events.
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/machine.h"
#include "base/target.h"
#include "emit/toolchain.h"
#include "graph/graph.h"
#include "import/expand.h"
#include "import/probes.h"
#include "import/program.h"
#include "import/shapes.h"
#include "import/states.h"
#include "loop/loop.h"
#include "passes/passes.h"
#include "plan/build.h"
#include "search/alternatives.h"
#include "search/measurer.h"

namespace aotc::own {
struct Kernels;
}

namespace aotc::pipeline {

/// What a build tells while it runs. Called from one thread; any member may be empty.
struct Events {
  std::function<void(const std::string& phase)> phase;                               ///< a phase starts
  std::function<void(size_t done, size_t total, const std::string& what)> progress;  ///< within a phase
  std::function<void(const std::string& line)> info;
  std::function<void(const std::string& line)> warning;     ///< the build goes on; also in the report
  std::function<void(const std::string& folder)> work_dir;  ///< a folder that must not outlive the build, should the process end early
  /// IR text after a pass or stage ("import", "expand", "decompose", every pass, "loop", "plan"); only for the names asked for.
  std::function<void(const std::string& stage, const std::string& text)> ir;
};

/// In which precision contractions of float32 multiply (the pass precision), and what is told of it.
struct PrecisionOptions {
  std::string mode = "f32";                               ///< as it was asked for: f32, bf16 or auto
  std::function<passes::Precision(size_t place)> choose;  ///< empty: all stay float32
  double max_error = 0;                                   ///< auto: the bound that was given; 0: eager bf16's own error
  /// auto: what was measured, by place.
  struct Measured {
    double error = 0;  ///< of the outputs against fp64 with this contraction alone in bf16, what float32 has taken off; NaN: not measured
    std::string why;   ///< of the choice
  };
  std::vector<Measured> measured;
  double error = 0, bound = 0;  ///< auto: of the choice, on the samples
};

/// The method of an artifact that was built of one program without a name; PyTorch calls what it exports so.
constexpr const char* kOnlyMethod = "forward";

struct FrontOptions {
  std::string model;               ///< path of the .pt2
  std::string program;             ///< which, of an archive that holds several; empty: its only one
  std::string shapes;              ///< path of shapes.json, or empty
  std::string shapes_text;         ///< what that file says of this program, where it speaks of several methods; empty: all of it
  Target target;                   ///< one part (parts_of)
  std::string uarch;               ///< path of the data file that target.uarch was read from, or empty
  std::optional<Machine> machine;  ///< that decisions are made for; unset: machine_of(target)
  import::StateChoice states;
  import::Probes probes;                    ///< values that are outputs, too
  std::shared_ptr<const own::Kernels> own;  ///< the user's kernels for custom operators, or null; their operators are defined
  PrecisionOptions precision;
  WeightStorage weights;                          ///< of products, for CPU targets
  passes::CacheStorage cache{};                   ///< of keys and values that states keep
  std::vector<std::string> cache_names;           ///< states that another method stores so
  search::Alternatives alternatives;              ///< that take the place of what is done by itself
  std::map<std::string, ConstData> replaced;      ///< other values for weights of the archive, by name (replaced.h)
  std::vector<PrecisionOptions> part_precisions;  ///< of each part of the target; empty: all have `precision`
  std::set<std::string> print_ir_after;           ///< stage names; "all" for every one
  std::string dump_dir;                           ///< every stage's text as NN-stage.txt; empty: none
};

/// Everything before code is emitted: what `inspect` and `explain` show.
struct Front {
  import::Program program;  ///< with operators that have no rule replaced
  std::vector<import::Expansion> expansions;
  std::vector<std::string> narrowed;  ///< a line for each operator that takes sizes from the archive's ranges
  std::vector<import::VariantRange> variants;
  std::shared_ptr<const own::Kernels> own;  ///< as given
  Graph graph;
  passes::LayoutChoice layouts;
  std::vector<passes::PrecisionStep> precisions;  ///< of the contractions of float32
  PrecisionOptions precision;                     ///< what was asked for
  std::vector<passes::RoundedStream> rounded_streams;
  passes::StoredWeights stored_weights;
  passes::StoredCaches stored_caches;
  loop::Module module;
  std::vector<plan::SizeClass> classes;  ///< GPU: of the variants; empty: build_plans finds them
};

struct PhaseTime {
  std::string name;
  double seconds;
};

/// Reads a kernels.json and makes its operators known to the reader of archives. Throws Diagnostic.
std::shared_ptr<const own::Kernels> load_own_kernels(const std::string& file);

/// Throws Diagnostic. Unsupported operators are reported all at once, before any other work.
Front run_front(const FrontOptions& options, const Events& events, std::vector<PhaseTime>* times = nullptr);

/// The program with the numbers that rounding gave its weights, all else as in the archive: what verify compares with.
import::Program with_stored_weights(const import::Program& program, const passes::StoredWeights& stored);
/// metadata's and report's "stored_weights", and from them what with_stored_weights needs.
nlohmann::json stored_weights_json(const passes::StoredWeights& stored);
passes::StoredWeights stored_weights_of(const nlohmann::json& stored);
/// metadata's and report's "kv_cache".
nlohmann::json stored_caches_json(const passes::StoredCaches& stored);

/// One plan a variant, for what is shown (explain); build makes its own with the tuned choices.
plan::PlanSet make_plans(const Front& front, const Target& target, plan::Decisions* decisions);

/// What a build aims at, by the names that users of torch.compile know.
struct Mode {
  std::string_view name;
  bool searches;  ///< kernel candidates are measured
  bool graphs;    ///< GPU: a run is one launch of a CUDA graph
  std::string_view text;
};
constexpr Mode kModes[] = {
    {"default", false, false, "the cost model's choice"},
    {"reduce-overhead", false, true, "on a GPU a run is one launch of a CUDA graph"},
    {"max-autotune", true, true,
     "measure candidates; on a GPU CUDA graphs; on a CPU also --own-weights, and --winograd4 and --strassen in layers where the outputs "
     "stay within the limits of aotc verify"},
    {"max-autotune-no-cudagraphs", true, false, "measure candidates; on a CPU as max-autotune"},
};

/// Who tells errors of whole programs on sample inputs of given sizes; both fail with what keeps them from it.
struct WholeJudge {
  using Sizes = std::map<SymId, int64_t>;
  /// As search::Measurer::references.
  std::function<Result<double>(const import::Program& program, const Sizes& sizes, double seconds)> references;
  /// Of an artifact whose last input picks the candidate by its size; as search::Measurer::errors.
  std::function<Result<std::vector<search::WholeError>>(const import::Program& program, const Sizes& sizes, const std::string& artifact,
                                                        size_t candidates, double seconds)>
      errors;
};

/// A program of the artifact, and the name that callers know it by.
struct MethodOptions {
  std::string name = kOnlyMethod;
  FrontOptions front;  ///< its target: what may be several parts, alike in all methods
};

struct BuildOptions {
  std::vector<MethodOptions> methods = {{}};  ///< at least one; the first is what callers get that name none
  std::string output;                         ///< path of the .so; header and report stand beside it with the same stem
  std::string prefix;                         ///< not empty: a static archive whose names begin so, in the place of the .so
  bool header_includes = false;               ///< emit::HeaderStyle::includes
  Mode mode = kModes[0];
  double tune_budget_s = 60;
  std::string tuning_db;              ///< read (and in max-autotune written); empty: the user's cache
  bool error_on_tuning_miss = false;  ///< a kernel that could be tuned and is not in the database is a Diagnostic
  WholeJudge judge;                   ///< in modes that search; empty: accuracy is not traded for time
  std::string remote;                 ///< the machine that measures, as ssh knows it; empty: this one
  int jobs = 0;                       ///< 0: the machine's
  emit::CacheOptions cache = emit::user_cache();
  std::string keep_dir;                 ///< plan, sources and a script of the compiler lines are left here; empty: none
  std::optional<bool> weights_in_file;  ///< unset: by size (above 1 GB)
  bool own_weights = false;             ///< CPU: models copy their weights to huge pages; whoever measures gives memory for time as well

  bool owns_weights() const { return own_weights || mode.searches; }
};

/// The shapes.json of these options, or what it says of their program; empty: none. Throws Diagnostic (io).
std::string shapes_of(const FrontOptions& options);

/// The options for each part of the target; where there are several, each has a folder of its own in dump_dir.
std::vector<FrontOptions> parts_of(const FrontOptions& options);

/// Builds the artifact: model.so, model.h, model.report.json (schemas/report.schema.json), each written aside and renamed. Returns the
/// report.
nlohmann::json build(const BuildOptions& options, const Events& events);

/// Measures what a build in mode max-autotune would and keeps it in the tuning database; makes no artifact. Returns {"parts": [{target
/// machine tuned missing}], "warnings", "server" (pipeline/cache_report.h) where there is one}.
nlohmann::json tune(const BuildOptions& options, const Events& events);

}  // namespace aotc::pipeline
