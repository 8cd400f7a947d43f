#include <fmt/format.h>

#include <algorithm>

#include "command_tree.h"

namespace aotc::cli {
namespace {

/// Text that troff takes as it is: no escapes, no requests at a line's begin, hyphens that can be searched and copied.
std::string troff(const std::string& text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins = c == '\n';
  }
  return out;
}

std::string head(const std::string& name, const std::string& program, const std::string& version, const std::string& summary) {
  return fmt::format(".TH \"{}\" 1 \"\" \"{} {}\" \"User commands\"\n.SH NAME\n{} \\- {}\n", troff(name), program, version, troff(name),
                     troff(summary));
}

std::string options(const std::vector<OptionEntry>& all, bool positional) {
  std::string out;
  for (const OptionEntry& o : all) {
    if (o.positional != positional) continue;
    std::string names, value;
    for (const std::string& n : o.names) names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", troff(n));
    if (!o.choices.empty())
      for (const std::string& c : o.choices) value += (value.empty() ? " " : "|") + troff(c);
    else if (o.value && !o.positional)
      value = " \\fIVALUE\\fR";
    out += fmt::format(".TP\n{}{}\n{}\n", names, value, troff(o.help));
  }
  return out;
}

std::string footer(const std::string& text) {
  if (text.empty()) return {};
  const size_t colon = text.find(":");
  const std::string title = text.substr(0, colon);
  std::string upper;
  for (const char c : title) upper += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return fmt::format(".SH \"{}\"\n.nf\n{}\n.fi\n", troff(upper),
                     troff(text.substr(std::min(text.size(), text.find_first_not_of(" \n", colon + 1)))));
}

}  // namespace

std::vector<ManPage> man_pages(const CommandTree& tree, const std::string& version) {
  const size_t colon = tree.about.find(": ");
  std::string summary = colon == std::string::npos ? tree.about : tree.about.substr(colon + 2);
  if (!summary.empty() && summary.back() == '.') summary.pop_back();
  std::string verbs, others;
  for (const VerbEntry& v : tree.verbs)
    verbs += fmt::format(".TP\n\\fB{}\\fR(1)\n{}\n", troff(tree.program + "-" + v.name), troff(v.summary));
  std::vector<ManPage> out = {
      {tree.program, head(tree.program, tree.program, version, summary) +
                         fmt::format(".SH SYNOPSIS\n\\fB{}\\fR \\fIVERB\\fR [\\fIOPTIONS\\fR]\n.SH VERBS\n{}.SH OPTIONS\n{}{}",
                                     troff(tree.program), verbs, options(tree.options, false), footer(tree.footer))}};
  for (const VerbEntry& v : tree.verbs) {
    const std::string name = tree.program + "-" + v.name;
    std::string arguments;
    for (const OptionEntry& o : v.options)
      if (o.positional) arguments += fmt::format(" {}\\fI{}\\fR{}", o.required ? "" : "[", troff(o.names.front()), o.required ? "" : "]");
    const std::string positional = options(v.options, true);
    out.push_back(
        {name, head(name, tree.program, version, v.summary) +
                   fmt::format(".SH SYNOPSIS\n\\fB{} {}\\fR [\\fIOPTIONS\\fR]{}\n{}{}.SH OPTIONS\n{}{}{}.SH \"SEE ALSO\"\n\\fB{}\\fR(1)\n",
                               troff(tree.program), troff(v.name), arguments, positional.empty() ? "" : ".SH ARGUMENTS\n", positional,
                               options(v.options, false), footer(v.footer), footer(tree.footer), troff(tree.program))});
  }
  return out;
}

}  // namespace aotc::cli
