#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "about.h"
#include "base/file.h"
#include "cache_options.h"
#include "cli.h"
#include "front_options.h"
#include "pipeline/pipeline.h"
#include "precision.h"
#include "progress.h"
#include "whole_errors.h"

namespace aotc::cli {

Run add_tune(CLI::App& app) {
  struct Options {
    FrontArgs front;
    CacheArgs cache;
    pipeline::BuildOptions build;
  };
  auto o = std::make_shared<Options>();
  o->front.add_to(app, true);
  add_option(app, "--tuning-db", o->build.tuning_db, "tuning database (JSON) to extend; default: the one in the cache");
  add_option(app, "--tune-budget", o->build.tune_budget_s, "seconds to measure; default: 60").not_negative();
  add_option(app, "--remote", o->build.remote,
             "measure on this host (a name that ssh knows); it needs a GPU and its driver only, code is compiled here");
  add_option(app, "-j,--jobs", o->build.jobs, "parallel compiles; default: all processors").not_negative();
  o->cache.add_to(app);
  return [o](const Common& common) {
    o->build.methods = o->front.methods();
    o->build.cache = o->cache.get();
    const std::string& db = o->build.tuning_db;
    for (const pipeline::MethodOptions& m : o->build.methods) {
      const std::vector<NamedFile> read = {{"model", m.front.model}, {"--shapes", m.front.shapes}, {"--uarch", m.front.uarch}};
      require_apart({{"--tuning-db", db}, {"--tuning-db", db.empty() ? db : db + ".probe"}}, read);
      require_apart({"--dump-dir", m.front.dump_dir, {".txt"}}, read);
    }
    if (!db.empty()) require_place_for_file(db);
    o->build.judge = whole_errors();
    nlohmann::json report;
    watched(common.quiet || common.json, [&](const pipeline::Events& events) {
      for (pipeline::MethodOptions& m : o->build.methods)
        choose_precision(m.front, (std::filesystem::temp_directory_path() / "tune").string(), events);
      report = pipeline::tune(o->build, events);
    });
    bool all = true;
    for (const nlohmann::json& p : report.at("parts")) {
      all = all && p.at("missing").empty();
      if (!common.json && !common.quiet)
        fmt::print("{}{}: {} kernel contracts are in the database, {} are not\n",
                   p.contains("method") ? p["method"].get<std::string>() + ", " : "", p.at("target").get<std::string>(),
                   p.at("tuned").dump(), p.at("missing").size());
    }
    if (common.json) print_result(report, about(common));
    return all ? 0 : static_cast<int>(ExitCode::failed);
  };
}

}  // namespace aotc::cli
