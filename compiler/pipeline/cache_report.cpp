#include "pipeline/cache_report.h"

#include <nlohmann/json.hpp>

namespace aotc::pipeline {

nlohmann::json report_of(emit::CacheServer& server, const Events& events) {
  const emit::CacheServer::Told told = server.finish();
  nlohmann::json report = {
      {"url", server.url()}, {"hits", told.hits}, {"misses", told.misses}, {"stored", told.stored}, {"failed", told.failed}};
  if (told.warning.empty()) return report;
  if (events.warning) events.warning(told.warning);
  report["warning"] = told.warning;
  return report;
}

}  // namespace aotc::pipeline
