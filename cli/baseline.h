#pragma once
// bench --baseline: the artifact beside another one, in turns, or beside the times of an earlier bench --json.
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "artifact.h"
#include "cli.h"
#include "regression.h"

namespace aotc::cli {

struct BaselineOptions {
  std::string file;              ///< empty: there is none
  double max_regression = 0.05;  ///< of the time
};
/// --baseline and --max-regression.
void add_baseline(CLI::App& app, BaselineOptions& options);

/// Medians of blocks of times, for stored baselines: at most so many.
constexpr size_t kStoredBlocks = 40;

/// What the times of a bench are held against. `bench`: its JSON with `block_p50_us`, `threads` and `inputs` (names and dims); `session`:
/// of `artifact`, bound to `inputs`. An artifact is timed in turns with it, for some `seconds` and up to eight times as long where noise
/// leaves it open. Throws Diagnostic where the baseline is of another machine, other threads or sizes, or is neither an artifact nor such a
/// JSON. Returns `baseline` of bench.schema.json.
nlohmann::json against_baseline(const BaselineOptions& options, const nlohmann::json& bench, const Artifact& artifact, Session& session,
                                const std::vector<HostTensor>& inputs, double seconds, uint32_t context_flags, uint32_t model_flags);
/// A line of it; where it is open or slower also on stderr. The exit code: 1 where it is slower.
int report_baseline(const nlohmann::json& baseline, const Common& common);

/// In turns: blocks of runs of both until the verdict stands or eight times `seconds` are over.
Ratio time_in_turns(Session& baseline, Session& program, double seconds, double max_regression, double* baseline_us, double* program_us);

}  // namespace aotc::cli
