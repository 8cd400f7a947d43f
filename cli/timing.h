#pragma once
// Times of runs and of their steps.
#include <chrono>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "artifact.h"

namespace aotc::cli {

using Clock = std::chrono::steady_clock;
inline double microseconds(Clock::time_point from) { return std::chrono::duration<double, std::micro>(Clock::now() - from).count(); }

/// Inputs of an artifact without its archive: symbols by what is given, else the first size that they were tuned for, else 8.
std::vector<HostTensor> made_inputs(const Artifact& artifact, const std::map<std::string, int64_t>& given);
/// Binds them, runs once and waits. All integers become 1 where the model refuses those that are there (0 as a divisor).
void bind_made_inputs(Session& session, std::vector<HostTensor>& inputs);

/// The sizes of the artifact's symbols (and expressions of them, where an input has no plain one) in these inputs, by name.
nlohmann::json sizes_of(const Artifact& artifact, const std::vector<HostTensor>& inputs);
void print_sizes(const nlohmann::json& sizes);
/// What of the weights runs copy to the GPU, where there are such.
void print_streamed(const aotc_model_info& model);

/// Adds the time of each run, from outside, until `seconds` are over and there are `least`.
void time_runs(Session& session, double seconds, int least, std::vector<double>& us);
/// p50_us p95_us p99_us min_us runs; of no times zeros. Sorts.
nlohmann::json percentiles(std::vector<double>& us);

/// GPU: runs queued one after the other, and how long each call takes: run_us submit_p50_us submit_p99_us.
nlohmann::json queued(Session& session, double seconds);
/// GPU: microseconds of a run on these inputs that is queued as a graph.
double queued_as_graph(const Artifact& artifact, int threads, search::Device* device, const std::vector<HostTensor>& inputs,
                       double seconds);
void print_queued(const nlohmann::json& q);

/// Contexts of one artifact at work at once, a thread each, every one with its own runs and its own waits, until `seconds` are over:
/// percentiles of a run with its wait, `submit` of the calls alone, runs_per_second of all.
nlohmann::json together(const std::vector<Session*>& sessions, double seconds);
void print_together(const nlohmann::json& t);

/// Runs with the time of every step.
struct Profile {
  struct OneRun {
    double us;                  ///< from outside
    std::vector<double> steps;  ///< us each
  };
  std::vector<OneRun> runs;
  std::vector<std::string> labels;
  std::vector<int32_t> threads;  ///< of each step: that took part
};
/// Of a session with AOTC_CONTEXT_PROFILE.
void time_steps(Session& session, double seconds, Profile& out);
/// The mean of the runs in the middle half by their whole time: every step's share of it, the rest outside of the steps, the slowest first.
/// They add up, and the whole is close to the median.
nlohmann::json profile_json(Profile p);
/// GPU: takes off each step what its mark adds, `mark_us`: the steps' sum less `chain_us`, what a run takes that is queued as a graph
/// without marks, by the number of steps. So the steps add up to such a run; what they overlap there is taken off all alike. A step keeps
/// an eighth.
void take_off_marks(nlohmann::json& profile, double chain_us);
/// p50: without measured steps. With what add_roofline (roofline.h) added, where it did.
void print_profile(const nlohmann::json& p, double p50);

}  // namespace aotc::cli
