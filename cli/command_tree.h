#pragma once
// What the command line takes, as data: read off CLI11's own tree, so that help, completion and man pages say the same.
#include <string>
#include <vector>

#include "options.h"

namespace aotc::cli {

struct OptionEntry {
  std::vector<std::string> names;  ///< "--shapes", "-o"; of a positional argument its bare name alone
  std::string help;
  std::vector<std::string> choices;  ///< where the value is one of these
  bool positional = false;
  bool value = false;  ///< takes one; positional arguments always
  bool required = false;
};

struct VerbEntry {
  std::string name, summary, footer;
  std::vector<OptionEntry> options;  ///< with those of all verbs, and --help
};

struct CommandTree {
  std::string program, about, footer;
  std::vector<OptionEntry> options;  ///< of the program itself
  std::vector<VerbEntry> verbs;      ///< those that are listed
};

CommandTree command_tree(const CLI::App& root);

/// A script that completes verbs, options, choices and files in "bash", "zsh" or "fish".
std::string completion_script(const CommandTree& tree, const std::string& shell);

struct ManPage {
  std::string name;  ///< "aotc-build", of section 1
  std::string text;  ///< troff
};
/// One of the program, one of each verb.
std::vector<ManPage> man_pages(const CommandTree& tree, const std::string& version);

}  // namespace aotc::cli
