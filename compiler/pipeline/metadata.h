#pragma once
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "pipeline/pipeline.h"
#include "plan/build.h"

namespace aotc::pipeline {
/// {name, id} of the data file that the target's decisions are made by (--uarch), under "uarch"; nothing without one.
void add_uarch(nlohmann::json& to, const Target& target);
/// What the metadata say of it, as it was; null where they say nothing. Throws Diagnostic (what named_uarch throws) and json::exception.
std::shared_ptr<const Uarch> stored_uarch(const nlohmann::json& meta);
/// What an artifact says of itself (schemas/metadata.schema.json): signature, symbols, targets, explain, shapes.json as it was given.
nlohmann::json metadata(const Front& front, const plan::PlanSet& plans, const plan::Decisions& decisions, const Target& target,
                        const std::string& shapes_text);
}  // namespace aotc::pipeline
