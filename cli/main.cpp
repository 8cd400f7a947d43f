#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli.h"
#include "sym/sym_error.h"

namespace aotc::cli {
namespace {

constexpr Verb kVerbs[] = {
    {"build", "compile a .pt2 into model.so, model.h and model.report.json",
     "aotc build model.pt2 --shapes shapes.json -o out/model.so --cpu native", add_build},
    {"inspect", "show the signature, symbols, operators and, of an artifact, its kernels, arena and versions",
     "aotc inspect model.so --json", add_inspect},
    {"verify", "run an artifact against the original graph (LibTorch, op by op) and against fp64",
     "aotc verify model.so --against model.pt2 --dim batch=7 --samples 3", add_verify},
    {"bench", "measure load time, first call, latency percentiles and memory",
     "aotc bench model.so --dim batch=8 --threads 2 --against model.pt2", add_bench},
    {"run", "run an artifact on .npy files", "aotc run model.so --input x=x.npy --output-dir out", add_run},
    {"explain", "which operators went into which kernel and why, buffers, arena, variants, guards",
     "aotc explain model.pt2 --shapes shapes.json", add_explain},
    {"ops", "the operators that have a rule, and the element types of each kind of kernel on CPUs and GPUs", "aotc ops --json", add_ops},
    {"opt", "for developers: IR text in, passes and stages, IR text out", "aotc opt file.graph --passes=all,loop,plan", add_opt},
    {"measure-worker", "times candidates for max-autotune: JSON requests on stdin, a line each", "", add_measure_worker, true},
};

constexpr const char* kExitCodes =
    "Exit codes: 0 success, 1 verification failed, 2 usage, 3 bad input, 4 unsupported operator,\n"
    "            5 compiler, linker, NVRTC or LibTorch failed, 6 file error, 70 a bug in aotc, 128 + N ended by signal N";

int fail(const Common& common, ExitCode code, const std::string& text, const nlohmann::json& details) {
  if (common.json) {
    nlohmann::json j = details;
    j["error"] = text;
    j["exit_code"] = static_cast<int>(code);
    std::printf("%s\n", j.dump(1).c_str());
  }
  std::fprintf(stderr, "aotc: error: %s\n", text.c_str());
  return static_cast<int>(code);
}

int run(const Run& verb, const Common& common) {
  try {
    return verb(common);
  } catch (const Diagnostic& d) {
    return fail(common, d.code(), d.what(),
                {{"file", d.loc().file}, {"path", d.loc().path}, {"node", d.loc().node}, {"source", d.loc().source}, {"notes", d.notes()}});
  } catch (const SymError& e) {
    return fail(common, ExitCode::bad_input, fmt::format("the model's {}", e.what()), nlohmann::json::object());
  } catch (const InternalError& e) {
    return fail(common, ExitCode::internal, std::string("internal error (a bug in aotc): ") + e.what(), nlohmann::json::object());
  } catch (const std::bad_alloc&) {
    return fail(common, ExitCode::internal, "out of memory", nlohmann::json::object());
  } catch (const std::exception& e) {
    return fail(common, ExitCode::internal, std::string("internal error (a bug in aotc): ") + e.what(), nlohmann::json::object());
  }
}

}  // namespace
}  // namespace aotc::cli

int main(int argc, char** argv) {
  using namespace aotc::cli;
  spdlog::set_default_logger(spdlog::stderr_color_st("aotc"));
  spdlog::set_pattern("%^%v%$");

  CLI::App app{"aotc: ahead-of-time compiler for PyTorch models. model.pt2 in, model.so and model.h out."};
  app.require_subcommand(1);
  app.set_version_flag("--version", "aotc " AOTC_VERSION);
  app.footer(kExitCodes);
  Common common;
  int code = 0;
  for (const Verb& v : kVerbs) {
    CLI::App* sub = app.add_subcommand(v.name, v.summary);
    if (v.hidden) sub->group("");
    if (*v.example) sub->footer(std::string("Example:\n  ") + v.example);
    sub->add_flag("--json", common.json, "print the result as JSON on stdout");
    sub->add_flag("-q,--quiet", common.quiet, "no progress, errors only");
    Run verb = v.add(*sub);
    sub->callback([&code, &common, verb = std::move(verb)] { code = run(verb, common); });
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) { return app.exit(e) == 0 ? 0 : static_cast<int>(aotc::ExitCode::usage); }
  return code;
}
