#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "pipeline/pipeline.h"
#include "plan/build.h"

namespace aotc::pipeline {
/// What an artifact says of itself (schemas/metadata.schema.json): signature, symbols, targets, explain, shapes.json as it was given.
nlohmann::json metadata(const Front& front, const plan::PlanSet& plans, const plan::Decisions& decisions, const Target& target,
                        const std::string& shapes_text);
}  // namespace aotc::pipeline
