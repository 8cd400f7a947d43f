#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "artifact.h"
#include "cli.h"
#include "front_options.h"
#include "pipeline/explain.h"

namespace aotc::cli {

Run add_explain(CLI::App& app) {
  auto o = std::make_shared<FrontArgs>();
  o->add_to(app);
  return [o](const Common& common) {
    nlohmann::json e;
    if (is_shared_object(o->model)) {
      e = ArtifactFile(o->model).metadata().at("explain");
    } else {
      const pipeline::FrontOptions options = o->get();
      const pipeline::Front front = pipeline::run_front(options, {});
      e = pipeline::explain(front, pipeline::make_plans(front, options.target));
    }
    if (common.json)
      fmt::print("{}\n", e.dump(1));
    else
      fmt::print("{}", pipeline::explain_text(e));
    return 0;
  };
}

}  // namespace aotc::cli
