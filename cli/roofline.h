#pragma once
// What steps did of what the machine can do at most.
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "artifact.h"
#include "peaks.h"
#include "timing.h"

namespace aotc::cli {

/// The roofline of a run of the artifact on these inputs, which `session` has run: measured on a CPU, known of a GPU.
Peaks peaks_of(const Artifact& artifact, const Session& session, int threads, const std::vector<HostTensor>& inputs);

/// Adds to each step of a profile (profile_json) gflops, gbytes (a second) and roofline, the time that the machine needs at the least for
/// the step's work by the time it took, with `bound` saying which of products, operations or memory that least is; to the profile `peaks`.
/// From the demands in the artifact's metadata; nothing is added where they are missing or a size in them is not a dimension of an input.
void add_roofline(nlohmann::json& profile, const Artifact& artifact, const Session& session, const std::vector<HostTensor>& inputs,
                  const Peaks& peaks);

/// The steps of one run, that of the median, each on as many threads as took part, in the format of Chrome's trace viewer (and Perfetto's):
/// written aside, then renamed. kernels: events of a GPU (cupti.h). Throws Diagnostic (io).
void write_trace(const std::string& path, const Profile& runs, const nlohmann::json& profile, const nlohmann::json& kernels,
                 const std::string& artifact);

}  // namespace aotc::cli
