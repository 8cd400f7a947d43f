#include <fmt/format.h>

#include <algorithm>

#include "command_tree.h"

namespace aotc::cli {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string out;
  for (const std::string& w : words) out += (out.empty() ? "" : between) + w;
  return out;
}

/// The first sentence or clause, for a list: at most 100 characters of it.
std::string brief(const std::string& help) {
  constexpr size_t kMost = 100;
  std::string out = help.substr(0, help.find("; "));
  if (out.size() <= kMost) return out;
  const size_t space = out.rfind(' ', kMost);
  out.resize(space == std::string::npos ? kMost : space);
  return out + " ...";
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}
/// As a word of every of the three shells.
std::string shell_word(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string identifier(std::string program) {
  std::replace(program.begin(), program.end(), '-', '_');
  return program;
}

std::string bash(const CommandTree& tree) {
  std::string names, options, values;
  for (const VerbEntry& v : tree.verbs) {
    names += (names.empty() ? "" : " ") + v.name;
    std::string words, chosen, files;
    for (const OptionEntry& o : v.options) {
      if (o.positional) continue;
      words += (words.empty() ? "" : " ") + joined(o.names);
      if (!o.choices.empty())
        chosen += fmt::format("        {}) COMPREPLY=($(compgen -W {} -- \"$word\")); return ;;\n", joined(o.names, "|"),
                              shell_word(joined(o.choices)));
      else if (o.value)
        files += (files.empty() ? "" : "|") + joined(o.names, "|");
    }
    std::string positional;
    for (const OptionEntry& o : v.options)
      if (o.positional && !o.choices.empty())
        positional += fmt::format("      [[ $word == -* ]] || COMPREPLY=($(compgen -W {} -- \"$word\"))\n", shell_word(joined(o.choices)));
    if (!files.empty()) files = fmt::format("        {}) return ;; # a file: bash's own\n", files);
    values += fmt::format(
        "    {})\n      case $before in\n{}{}      esac\n      [[ $word == -* ]] && COMPREPLY=($(compgen -W {} -- \"$word\"))\n{}      "
        ";;\n",
        v.name, chosen, files, shell_word(words), positional);
  }
  for (const OptionEntry& o : tree.options) options += " " + joined(o.names);
  return fmt::format(R"(# bash completion of {0}; made by: {0} completion bash
_{1}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} verb= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${{COMP_WORDS[i]}} == -* ]] || {{ verb=${{COMP_WORDS[i]}}; break; }}
  done
  case $verb in
    '') COMPREPLY=($(compgen -W {2} -- "$word")) ;;
{3}  esac
}}
complete -o default -F _{1} {0}
)",
                     tree.program, identifier(tree.program), shell_word(names + options), values);
}

/// In the brackets of _arguments and in _describe.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("[]:\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string zsh(const CommandTree& tree) {
  std::string verbs, cases;
  for (const VerbEntry& v : tree.verbs) {
    verbs += "    " + shell_word(v.name + ":" + zsh_text(brief(v.summary))) + "\n";
    std::string specs;
    for (const OptionEntry& o : v.options) {
      const std::string action = o.choices.empty() ? "_files" : "(" + joined(o.choices) + ")";
      if (o.positional) {
        specs += fmt::format("        {} \\\n", shell_word(fmt::format("*:{}:{}", zsh_text(o.names.front()), action)));
        continue;
      }
      for (const std::string& name : o.names) {
        std::string spec = fmt::format("*{}[{}]", name, zsh_text(brief(o.help)));
        if (o.value) spec += fmt::format(":{}:{}", zsh_text(o.names.front().substr(o.names.front().find_first_not_of('-'))), action);
        specs += fmt::format("        {} \\\n", shell_word(spec));
      }
    }
    cases += fmt::format("    {})\n      _arguments \\\n{}        && return\n      ;;\n", v.name, specs);
  }
  return fmt::format(R"(#compdef {0}
# zsh completion of {0}; made by: {0} completion zsh
_{1}() {{
  local -a verbs
  verbs=(
{2}  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
{3}  esac
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _{1} "$@"; else compdef _{1} {0}; fi
)",
                     tree.program, identifier(tree.program), verbs, cases);
}

std::string fish(const CommandTree& tree) {
  std::string out = fmt::format("# fish completion of {0}; made by: {0} completion fish\n", tree.program);
  const auto line = [&](const std::string& when, const std::string& rest) {
    out += fmt::format("complete -c {} -n '{}' {}\n", tree.program, when, rest);
  };
  const auto text = [](const std::string& s) { return "'" + replaced(replaced(s, "\\", "\\\\"), "'", "\\'") + "'"; };
  const auto flags = [](const OptionEntry& o) {
    std::string words;
    for (const std::string& name : o.names) words += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
    return words.substr(1);
  };
  for (const OptionEntry& o : tree.options) line("__fish_use_subcommand", flags(o) + " -d " + text(brief(o.help)));
  for (const VerbEntry& v : tree.verbs) {
    line("__fish_use_subcommand", fmt::format("-f -a {} -d {}", v.name, text(brief(v.summary))));
    const std::string when = "__fish_seen_subcommand_from " + v.name;
    for (const OptionEntry& o : v.options) {
      if (o.positional) {
        if (!o.choices.empty()) line(when, "-f -a " + text(joined(o.choices)));
        continue;
      }
      std::string rest = flags(o) + " -d " + text(brief(o.help));
      if (!o.choices.empty())
        rest += " -x -a " + text(joined(o.choices));
      else if (o.value)
        rest += " -r -F";
      line(when, rest);
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const CommandTree& tree, const std::string& shell) {
  return shell == "bash" ? bash(tree) : shell == "zsh" ? zsh(tree) : fish(tree);
}

}  // namespace aotc::cli
