#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "artifact.h"
#include "cli.h"
#include "front_options.h"
#include "interrupt.h"
#include "pipeline/explain.h"
#include "precision.h"

namespace aotc::cli {

Run add_explain(CLI::App& app) {
  auto o = std::make_shared<FrontArgs>();
  auto kernel = std::make_shared<std::string>();
  auto check_weights = std::make_shared<bool>(false);
  o->add_to(app);
  add_check_weights(app, *check_weights);
  app.add_option("--kernel", *kernel, "only this kernel: its choices, what they were chosen from, predicted and measured times, refusals");
  return [o, kernel, check_weights](const Common& common) {
    nlohmann::json e;
    if (is_shared_object(o->model)) {
      e = ArtifactFile(o->model, *check_weights).metadata().at("explain");
    } else {
      pipeline::FrontOptions options = o->get();
      if (options.precision.mode == "auto") {
        Interrupt interrupt;
        pipeline::Events events;
        events.work_dir = [&](const std::string& folder) { interrupt.remove_at_end(folder); };
        choose_precision(options, (std::filesystem::temp_directory_path() / "explain").string(), events);
      }
      const pipeline::Front front = pipeline::run_front(options, {});
      plan::Decisions decisions;
      const plan::PlanSet plans = pipeline::make_plans(front, options.target, &decisions);
      e = pipeline::explain(front, plans.plans, decisions);
    }
    if (!kernel->empty()) e = pipeline::explain_kernel(e, *kernel);
    if (common.json)
      fmt::print("{}\n", e.dump(1));
    else
      fmt::print("{}", kernel->empty() ? pipeline::explain_text(e) : pipeline::explain_kernel_text(e));
    return 0;
  };
}

}  // namespace aotc::cli
