#include "shell.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "about.h"
#include "aotc/aotc.h"
#include "command_tree.h"
#include "cut_file.h"
#include "json_text.h"
#include "nearest.h"
#include "sym/sym_error.h"

namespace aotc::cli {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 success, 1 a check failed, 2 usage, 3 bad input, 4 unsupported operator,\n"
    "            5 compiler, linker, NVRTC or LibTorch failed, 6 file error, 70 a bug in aotc, 128 + N ended by signal N";

int fail(const char* name, const Common& common, ExitCode code, const std::string& text, const nlohmann::json& details) {
  if (common.json) {
    nlohmann::json j = details;
    j["about"] = about(common);
    j["error"] = text;
    j["exit_code"] = static_cast<int>(code);
    std::printf("%s\n", json_text(j).c_str());
  }
  std::fprintf(stderr, "%s: error: %s\n", name, text.c_str());
  return static_cast<int>(code);
}

/// The verb's exit code, once all that it printed is written.
int written(int code) {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw std::system_error(errno, std::generic_category(), "cannot write to stdout");
  return code;
}

int fail_by_a_bug(const char* name, const Common& common, const std::exception& e) {
  return fail(name, common, ExitCode::internal, std::string("internal error (a bug in aotc): ") + e.what(), nlohmann::json::object());
}

/// description: see Verb.
int run(const char* name, const Run& verb, const Common& common, bool description = false) {
  try {
    return written(verb(common));
  } catch (const Diagnostic& d) {
    return fail(name, common, d.code(), d.what(),
                {{"file", d.loc().file}, {"path", d.loc().path}, {"node", d.loc().node}, {"source", d.loc().source}, {"notes", d.notes()}});
  } catch (const SymError& e) {
    return fail(name, common, ExitCode::bad_input, fmt::format("the model's {}", e.what()), nlohmann::json::object());
  } catch (const std::system_error& e) {
    return fail(name, common, ExitCode::io, e.what(), nlohmann::json::object());
  } catch (const std::bad_alloc&) {
    return fail(name, common, ExitCode::internal, "out of memory", nlohmann::json::object());
  } catch (const nlohmann::json::exception& e) {
    if (!description) return fail_by_a_bug(name, common, e);
    return fail(name, common, ExitCode::bad_input, std::string("what the artifact says of itself is damaged, build it again: ") + e.what(),
                nlohmann::json::object());
  } catch (const std::exception& e) { return fail_by_a_bug(name, common, e); }
}

/// Says which verbs, and options before them, there are where the first word is none of them.
bool unknown_verb(const Program& program, int argc, char** argv) {
  if (argc < 2) return false;
  const bool option = argv[1][0] == '-';
  std::vector<std::string> known = {"--help", "-h", "--version", "--json"};
  if (!option) known.clear();
  for (const Verb& v : program.verbs) {
    if (!option && !std::strcmp(v.name, argv[1])) return false;
    if (!option && !v.hidden) known.push_back(v.name);
  }
  if (option && std::find(known.begin(), known.end(), argv[1]) != known.end()) return false;
  std::fprintf(stderr, "%s: error: there is no %s '%s'%s\n  note: known: %s\n", program.name, option ? "option" : "command", argv[1],
               did_you_mean(argv[1], known).c_str(), fmt::format("{}", fmt::join(known, ", ")).c_str());
  return true;
}

/// What the verb was given and does not know: options, each with what it may have been meant to be, and words too many.
std::string unexpected(const CLI::App& app) {
  std::string out;
  for (const CLI::App* verb : app.get_subcommands()) {
    std::vector<std::string> known;
    for (const CLI::Option* o : verb->get_options()) {
      for (const std::string& n : o->get_lnames()) known.push_back("--" + n);
      for (const std::string& n : o->get_snames()) known.push_back("-" + n);
    }
    bool after_option = false;  // what follows an unknown option is most likely its value
    for (const std::string& word : verb->remaining()) {
      const bool option = word.size() > 1 && word[0] == '-';
      if (option)
        out += fmt::format("{}{} has no option '{}'{}", out.empty() ? "" : ", ", verb->get_name(), word,
                           did_you_mean(word.substr(0, word.find('=')), known));
      else if (!after_option)
        out += fmt::format("{}{} takes no further argument: '{}'", out.empty() ? "" : ", ", verb->get_name(), word);
      after_option = option;
    }
  }
  return out;
}

/// --version, alone or with --json.
bool version_asked(const Program& program, int argc, char** argv) {
  bool version = false, json = false;
  for (int i = 1; i < argc; ++i) {
    const bool is_version = !std::strcmp(argv[i], "--version"), is_json = !std::strcmp(argv[i], "--json");
    if (!is_version && !is_json) return false;
    version |= is_version;
    json |= is_json;
  }
  if (!version || !json) return false;
  nlohmann::json j = program.built_with();
  j["program"] = program.name;
  j["version"] = AOTC_VERSION;
  j["abi_version"] = AOTC_ABI_VERSION;
#ifdef __clang__
  j["compiler"] = std::string(__VERSION__);
#else
  j["compiler"] = std::string("GCC ") + __VERSION__;
#endif
  print_json(j);
  return true;
}

}  // namespace

Run add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  add_option(app, "shell", *shell, "bash, zsh or fish").required().one_of({"bash", "zsh", "fish"});
  return [&app, shell](const Common&) {
    const std::string script = completion_script(command_tree(*app.get_parent()), *shell);
    std::fwrite(script.data(), 1, script.size(), stdout);
    return 0;
  };
}

Run add_man_pages(CLI::App& app) {
  auto folder = std::make_shared<std::string>();
  add_option(app, "folder", *folder, "where to write NAME.1").required();
  return [&app, folder](const Common&) {
    for (const ManPage& page : man_pages(command_tree(*app.get_parent()), AOTC_VERSION)) {
      const std::string path = *folder + "/" + page.name + ".1";
      std::ofstream out(path, std::ios::binary);
      out << page.text;
      if (!out.flush()) throw std::system_error(errno, std::generic_category(), "cannot write " + path);
    }
    return 0;
  };
}

int run_verbs(const Program& program, int argc, char** argv) {
  watch_for_cut_files();
  const char* name = program.name;
  CLI::App app{program.about, name};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(name) + " " AOTC_VERSION, "print the version; with --json also what it was built with");
  app.footer(kExitCodes);
  app.failure_message([name](const CLI::App* a, const CLI::Error& e) {
    const std::string extra = dynamic_cast<const CLI::ExtrasError*>(&e) ? unexpected(*a) : std::string{};
    return fmt::format("{}: error: {}\n  note: --help lists the options of a command\n", name, extra.empty() ? e.what() : extra);
  });
  Common common;
  int code = 0;
  for (const Verb& v : program.verbs) {
    CLI::App* sub = app.add_subcommand(v.name, v.summary);
    if (v.hidden) sub->group("");
    if (*v.example) sub->footer(std::string("Example:\n  ") + v.example);
    sub->add_flag("--json", common.json, "print the result as JSON on stdout");
    sub->add_flag("-q,--quiet", common.quiet, "no progress, errors only");
    Run verb = v.add(*sub);
    sub->callback([name, &v, &code, &common, verb = std::move(verb)] {
      common.program = name, common.verb = v.name;
      code = run(name, verb, common, v.description);
    });
  }
  if (unknown_verb(program, argc, argv)) return static_cast<int>(ExitCode::usage);
  bool answered = false;
  if (const int failed = run(
          name, [&](const Common&) { return answered = version_asked(program, argc, argv), 0; }, common);
      answered || failed)
    return failed;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (app.exit(e) != 0) return static_cast<int>(ExitCode::usage);
    return run(
        name, [](const Common&) { return 0; }, common);
  }
  return code;
}

}  // namespace aotc::cli
