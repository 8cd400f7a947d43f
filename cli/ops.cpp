#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "about.h"
#include "cli.h"
#include "pipeline/support.h"

namespace aotc::cli {

Run add_ops(CLI::App& app) {
  auto markdown = std::make_shared<bool>(false);
  add_flag(app, "--markdown", *markdown, "as compiler/decompose/OPERATORS.md");
  return [markdown](const Common& common) {
    const nlohmann::json all = pipeline::support();
    if (common.json) {
      print_result(all, about(common));
    } else if (*markdown) {
      fmt::print("{}", pipeline::support_markdown(all));
    } else {
      for (const nlohmann::json& k : all.at("kernels"))
        fmt::print("{:<16}CPU {}; GPU {}\n", k.at("kind").get<std::string>(), k.at("cpu").dump(), k.at("cuda").dump());
      for (const nlohmann::json& f : all.at("families"))
        for (const nlohmann::json& o : f.at("operators")) fmt::print("{}\n", o.get<std::string>());
    }
    return 0;
  };
}

}  // namespace aotc::cli
