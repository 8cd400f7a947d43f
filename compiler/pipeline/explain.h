#pragma once
// What `aotc explain` tells, as data: it is made once, goes into the artifact's metadata, and the command line renders it.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pipeline/pipeline.h"
#include "plan/build.h"

namespace aotc::pipeline {

/// {"kernels": [{name kind calls nodes ops}], "steps": [{kernel label ops lines}], "lines": [the user's], "not_fused": [{value why}],
/// "prologues": [{value why}],
///  "variants": [{name ranges chosen_for arena_bytes buffers_bytes live_bytes demands: [{operations read written products in}] of each
///  step, args: [places in buffers] of each step, labels and kernels of the steps where they are not the module's, buffers: [{name bytes
///  dtype begin end offset place}]}], "guards": [..], "layouts": {convolutions channels_last gained_us reordered: [{value bytes}]},
///  "expanded":
///  [{node operator source into}]}, the last one where operators without a rule were taken apart. "choices": [{kernel variant choice by
///  contract candidates: [{choice predicted_us measured_us}] refused: [{choice why}]}]. Metadata add "uarch" to it (add_uarch).
/// Bytes are at the top of the ranges (at the hint where a range has no top).
nlohmann::json explain(const Front& front, const plan::PlanSet& plans, const plan::Decisions& decisions);
/// The part of an explanation that is about one kernel: its operators and, per variant, the choice and what it was chosen from. Throws
/// Diagnostic (usage) with the known names.
nlohmann::json explain_kernel(const nlohmann::json& explanation, const std::string& name);
std::string explain_kernel_text(const nlohmann::json& explained_kernel);
/// The text of explain's JSON, for people.
std::string explain_text(const nlohmann::json& e);

}  // namespace aotc::pipeline
