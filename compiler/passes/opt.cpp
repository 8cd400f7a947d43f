#include "graph/text.h"
#include "passes/passes.h"

namespace aotc::passes {

void run_named(Graph& g, std::string_view passes, PassContext& ctx) {
  while (!passes.empty()) {
    const size_t comma = passes.find(',');
    std::string_view name = passes.substr(0, comma);
    passes = comma == std::string_view::npos ? std::string_view() : passes.substr(comma + 1);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
    if (name.empty()) continue;
    if (name == "all") {
      run_passes(g, ctx);
      continue;
    }
    const Pass* p = find_pass(name);
    if (!p) {
      Diagnostic d(ExitCode::usage, {}, fmt::format("there is no pass '{}'", name));
      std::string known = "all";
      for (const Pass& q : pass_list())
        if (find_pass(q.name) == &q) known += fmt::format(", {}", q.name);
      d.note("known: " + known);
      throw d;
    }
    run_pass(*p, g, ctx);
  }
}

std::string run_on_text(std::string_view text, std::string_view file_name, std::string_view names, const ConstantStore& in,
                        ConstantStore& out, PassContext& ctx) {
  Graph g = parse_graph(text, file_name, {.missing = MissingData::opaque, .constants = &in});
  run_named(g, names, ctx);
  return print(g, {.constants = &out});
}

}  // namespace aotc::passes
