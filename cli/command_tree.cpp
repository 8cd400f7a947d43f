#include "command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace aotc::cli {
namespace {

/// CLI11 keeps choices in the text of the type alone: "TEXT:{f32,bf16,auto}".
std::vector<std::string> choices_of(const std::string& type) {
  const size_t open = type.find('{'), close = type.find('}');
  std::vector<std::string> out;
  if (open == std::string::npos || close == std::string::npos) return out;
  for (size_t at = open + 1; at <= close;) {
    const size_t end = std::min(type.find(',', at), close);
    out.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

OptionEntry entry(const CLI::Option& o) {
  OptionEntry out;
  out.positional = o.nonpositional() ? false : o.get_positional();
  for (const std::string& name : o.get_lnames()) out.names.push_back("--" + name);
  for (const std::string& name : o.get_snames()) out.names.push_back("-" + name);
  if (out.names.empty())
    out.names.push_back(o.get_name());
  else
    out.positional = false;
  out.help = o.get_description();
  out.choices = choices_of(o.get_type_name());
  out.value = o.get_items_expected_max() > 0;
  out.required = o.get_required();
  return out;
}

std::vector<OptionEntry> options_of(const CLI::App& app) {
  std::vector<OptionEntry> out;
  for (const CLI::Option* o : app.get_options())
    if (!o->get_group().empty()) out.push_back(entry(*o));
  return out;
}

}  // namespace

CommandTree command_tree(const CLI::App& root) {
  CommandTree out{root.get_name(), root.get_description(), root.get_footer(), options_of(root), {}};
  for (const CLI::App* verb : root.get_subcommands([](const CLI::App*) { return true; }))
    if (!verb->get_group().empty()) out.verbs.push_back({verb->get_name(), verb->get_description(), verb->get_footer(), options_of(*verb)});
  return out;
}

}  // namespace aotc::cli
