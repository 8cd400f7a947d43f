#include "shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cut_file.h"
#include "json_text.h"
#include "sym/sym_error.h"

namespace aotc::cli {
namespace {

constexpr const char* kExitCodes =
    "Exit codes: 0 success, 1 verification failed, 2 usage, 3 bad input, 4 unsupported operator,\n"
    "            5 compiler, linker, NVRTC or LibTorch failed, 6 file error, 70 a bug in aotc, 128 + N ended by signal N";

int fail(const Common& common, ExitCode code, const std::string& text, const nlohmann::json& details) {
  if (common.json) {
    nlohmann::json j = details;
    j["error"] = text;
    j["exit_code"] = static_cast<int>(code);
    std::printf("%s\n", json_text(j).c_str());
  }
  std::fprintf(stderr, "aotc: error: %s\n", text.c_str());
  return static_cast<int>(code);
}

/// The verb's exit code, once all that it printed is written.
int written(int code) {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw std::system_error(errno, std::generic_category(), "cannot write to stdout");
  return code;
}

int run(const Run& verb, const Common& common) {
  try {
    return written(verb(common));
  } catch (const Diagnostic& d) {
    return fail(common, d.code(), d.what(),
                {{"file", d.loc().file}, {"path", d.loc().path}, {"node", d.loc().node}, {"source", d.loc().source}, {"notes", d.notes()}});
  } catch (const SymError& e) {
    return fail(common, ExitCode::bad_input, fmt::format("the model's {}", e.what()), nlohmann::json::object());
  } catch (const InternalError& e) {
    return fail(common, ExitCode::internal, std::string("internal error (a bug in aotc): ") + e.what(), nlohmann::json::object());
  } catch (const std::system_error& e) {
    return fail(common, ExitCode::io, e.what(), nlohmann::json::object());
  } catch (const std::bad_alloc&) {
    return fail(common, ExitCode::internal, "out of memory", nlohmann::json::object());
  } catch (const std::exception& e) {
    return fail(common, ExitCode::internal, std::string("internal error (a bug in aotc): ") + e.what(), nlohmann::json::object());
  }
}

/// Says which verbs there are where the first word is none of them.
bool unknown_verb(const char* name, std::span<const Verb> verbs, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-' ||
      std::any_of(verbs.begin(), verbs.end(), [&](const Verb& v) { return !std::strcmp(v.name, argv[1]); }))
    return false;
  std::string known;
  for (const Verb& v : verbs)
    if (!v.hidden) known += (known.empty() ? "" : ", ") + std::string(v.name);
  std::fprintf(stderr, "%s: error: there is no verb '%s'\n  note: known: %s\n", name, argv[1], known.c_str());
  return true;
}

/// A number, at least or above `least`.
CLI::Validator bounded(double least, bool itself, const char* title) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double v = 0;
        if (CLI::detail::lexical_cast(text, v) && (itself ? v >= least : v > least)) return {};
        return fmt::format("'{}' is not a number {} {}", text, itself ? "of at least" : "above", least);
      },
      title);
}

}  // namespace

CLI::Validator not_negative() { return bounded(0, true, "NONNEGATIVE"); }
CLI::Validator positive() { return bounded(0, false, "POSITIVE"); }

int run_verbs(const char* about, const char* name, std::span<const Verb> verbs, int argc, char** argv) {
  watch_for_cut_files();
  CLI::App app{about};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(name) + " " AOTC_VERSION);
  app.footer(kExitCodes);
  app.failure_message([name](const CLI::App*, const CLI::Error& e) {
    return fmt::format("{}: error: {}\n  note: --help lists the options of a verb\n", name, e.what());
  });
  Common common;
  int code = 0;
  for (const Verb& v : verbs) {
    CLI::App* sub = app.add_subcommand(v.name, v.summary);
    if (v.hidden) sub->group("");
    if (*v.example) sub->footer(std::string("Example:\n  ") + v.example);
    sub->add_flag("--json", common.json, "print the result as JSON on stdout");
    sub->add_flag("-q,--quiet", common.quiet, "no progress, errors only");
    Run verb = v.add(*sub);
    sub->callback([&code, &common, verb = std::move(verb)] { code = run(verb, common); });
  }
  if (unknown_verb(name, verbs, argc, argv)) return static_cast<int>(ExitCode::usage);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (app.exit(e) != 0) return static_cast<int>(ExitCode::usage);
    return run([](const Common&) { return 0; }, common);
  }
  return code;
}

}  // namespace aotc::cli
