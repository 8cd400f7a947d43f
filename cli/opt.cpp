#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli.h"
#include "emit/toolchain.h"
#include "passes/passes.h"
#include "pipeline/stages.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string file, passes, output;
  bool trace = false;
};

int list_passes(const Common& common) {
  nlohmann::json rows = nlohmann::json::array();
  for (const passes::Pass& p : passes::pass_list()) rows.push_back({{"name", p.name}, {"what", p.what}});
  if (common.json) {
    fmt::print("{}\n", rows.dump(1));
  } else {
    for (const passes::Pass& p : passes::pass_list()) fmt::print("{:<18}{}\n", p.name, p.what);
  }
  return 0;
}

int opt(const Options& o, const Common& common) {
  if (o.file.empty()) return list_passes(common);
  passes::PassContext ctx;
  if (o.trace)
    ctx.after = [](std::string_view name, const Graph& g, bool changed, double seconds) {
      spdlog::info("{:<18}{:>6} nodes {:>8.2f} ms{}", name, g.order.size(), seconds * 1e3, changed ? "" : "  (unchanged)");
    };
  // A dump's constants lie beside its texts; those of the result beside it, if it is a file.
  const auto beside = [](const std::string& file) { return (std::filesystem::path(file).parent_path() / ConstantStore::kFolder).string(); };
  const ConstantStore in(beside(o.file));
  ConstantStore out(o.output.empty() ? std::string() : beside(o.output));
  const std::string text = passes::run_on_text(pipeline::read_text(o.file), o.file, o.passes, in, out, ctx);
  if (common.json) {
    fmt::print("{}\n", nlohmann::json{{"passes", o.passes}, {"graph", text}}.dump(1));
  } else if (o.output.empty()) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    emit::write_file(o.output, text);
  }
  return 0;
}

}  // namespace

Run add_opt(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("file", o->file, "graph text; without it the passes are listed");
  app.add_option("--passes", o->passes, "comma-separated names, or 'all'")->default_val("all");
  app.add_option("-o,--output", o->output, "write the text there instead of stdout");
  app.add_flag("--trace", o->trace, "say what each pass did and how long it took");
  return [o](const Common& common) { return opt(*o, common); };
}

}  // namespace aotc::cli
