#pragma once
// What a report says of the cache server.
#include <nlohmann/json_fwd.hpp>

#include "emit/cache_server.h"
#include "pipeline/pipeline.h"

namespace aotc::pipeline {

/// Waits until it has what is to be stored. {"url", "hits", "misses", "stored", "failed"}, in requests, and "warning", which is also told,
/// where some failed. It stands beside the counts, not among the report's warnings: a package of the artifact has those.
nlohmann::json report_of(emit::CacheServer& server, const Events& events);

}  // namespace aotc::pipeline
