#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "about.h"
#include "base/file.h"
#include "captured.h"
#include "ci_verbs.h"
#include "custom_operators.h"
#include "failing.h"
#include "import/read_archive.h"
#include "import/save_archive.h"
#include "import/subprogram.h"
#include "known_values.h"
#include "pipeline/work_dir.h"
#include "progress.h"
#include "reduction.h"

namespace aotc::cli {
namespace {

struct Options {
  std::string model, method, inputs, output;
  FailingOptions failing;
  std::string build_options, verify_options;  ///< words as in a shell
  CustomOperators operators;
  double budget_s = 600;
  bool random_weights = false, anonymous = false;
};

std::vector<std::string> targets_of(const import::Json& model) {
  std::vector<std::string> targets;
  for (const import::Json& node : model.at("graph_module").at("graph").at("nodes")) {
    std::string target = node.at("target").get<std::string>();
    if (target.rfind("torch.ops.", 0) == 0) target.erase(0, 10);
    targets.push_back(std::move(target));
  }
  return targets;
}

/// What a part of the program takes where the program fails, or the beginnings of it. named: the part with the program's names.
std::vector<HostTensor> examples_of(KnownValues& known, const import::Json& part, const import::Json& named) {
  std::vector<std::string> names;
  for (const import::UserInput& in : import::user_inputs(named)) names.push_back(in.name);
  if (std::find(names.begin(), names.end(), "") != names.end())
    throw Diagnostic(ExitCode::usage, {}, "--inputs is for programs that take tensors alone; this one takes a number");
  std::vector<HostTensor> values = known.of(names);
  const std::vector<import::UserInput> inputs = import::user_inputs(part);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].sizes || *inputs[i].sizes == values[i].dims) continue;
    const std::vector<int64_t>& sizes = *inputs[i].sizes;
    if (!std::equal(sizes.begin(), sizes.end(), values[i].dims.begin(), values[i].dims.end(), std::less_equal<>()))
      throw Diagnostic(ExitCode::usage, {}, fmt::format("the value of '{}' is smaller than the program says", names[i]));
    values[i] = beginning(values[i], sizes);
  }
  return values;
}

nlohmann::json reduce(const Options& o, const Common& common, const pipeline::Events& events) {
  const pipeline::WorkDir work(o.output);
  if (events.work_dir) events.work_dir(work.str());
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const auto say = [&](const std::string& line) {
    if (!common.quiet && !common.json) fmt::print(stderr, "reduce: {}\n", line);
  };
  Candidate whole{import::model_json(o.model, o.method), import::read_archive(o.model, o.method).data};
  if (o.random_weights) whole.data = drawn_weights(whole.data);
  std::optional<KnownValues> known;
  if (!o.inputs.empty()) {
    import::Program program = import::read_archive(o.model, o.method);
    std::vector<HostTensor> inputs;
    if (is_captured(o.inputs)) {
      Captured run = read_captured(o.inputs);
      whole.data = with_states(std::move(whole.data), run);
      inputs = std::move(run.inputs);
    } else {
      inputs = inputs_from(o.inputs, program);
    }
    program.data = whole.data;
    known.emplace(std::move(program), std::move(inputs));
  }
  const auto save = [&](const std::string& path, const Candidate& c, const import::Json& named) {
    import::save_archive(path, c.model, c.data, known ? examples_of(*known, c.model, named) : std::vector<HostTensor>());
  };
  const std::string candidate = work.file("candidate.pt2");
  Failing failing(o.failing, work.str());
  save(candidate, whole, whole.model);
  const bool fails = failing.learn(candidate);
  if (!fails)
    throw Diagnostic(
        ExitCode::failed, Loc{o.model, "", "", ""},
        fmt::format("does not fail{} ({}): there is nothing to reduce", o.random_weights ? " with random weights" : "", failing.said()));
  say(fmt::format("{} operators fail ({})", import::operators_of(whole.model).size(), failing.said()));
  Reducer reducer{[&](const Candidate& c) {
                    try {
                      save(candidate, c, c.model);
                    } catch (const std::exception&) { return false; }
                    return failing.same(candidate);
                  },
                  say,
                  [&] { return seconds() < o.budget_s; },
                  {}};
  if (known) reducer.size = [&](const std::string& expr) { return known->size(expr); };
  Candidate small = reduced(whole, reducer, work.file("sizes.pt2"));
  if (o.anonymous) {
    Candidate nameless;
    std::map<std::string, std::string> renamed;
    nameless.model = import::anonymous(small.model, renamed);
    for (const auto& [old, name] : renamed) nameless.data[name] = small.data.at(old);
    save(candidate, nameless, small.model);
    if (!failing.same(candidate))
      throw Diagnostic(ExitCode::failed, Loc{o.model, "", "", ""}, "does not fail any more without its names and lines")
          .note("leave --anonymous out");
    save(o.output, nameless, small.model);
    small = std::move(nameless);
  } else {
    save(o.output, small, small.model);
  }
  return {{"output", o.output},
          {"failure", failing.said()},
          {"operators_before", import::operators_of(whole.model).size()},
          {"operators", targets_of(small.model)},
          {"inputs", small.model.at("graph_module").at("graph").at("inputs").size()},
          {"tests", failing.tests()},
          {"complete", seconds() < o.budget_s},
          {"bytes", std::filesystem::file_size(o.output)}};
}

}  // namespace

Run add_reduce(CLI::App& app) {
  auto o = std::make_shared<Options>();
  add_option(app, "model", o->model, "a .pt2 saved by torch.export.save").required();
  add_option(app, "-o,--output", o->output, "the reduced program, a .pt2 that torch.export.load reads").required();
  add_option(app, "--method", o->method, "which program, if the file holds several");
  add_option(
      app, "--inputs", o->inputs,
      "a folder of NAME.npy files, or a captured run (AOTC_CAPTURE): the values at which the program fails. They, or what the program "
      "computes from them, become the example inputs of the reduced program, and the states of the run its buffers");
  add_flag(app, "--build-fails", o->failing.build, "a program fails if aotc build does, with the same exit code and operator or message");
  add_flag(app, "--verify-fails", o->failing.verify, "a program fails if aotc verify does");
  add_option(
      app, "--test", o->failing.test,
      "a command line for sh, with {} for the program's file: a program fails if the command ends with 0, as for creduce and llvm-reduce");
  add_option(app, "--fails", o->failing.fails,
             "a command line for sh, with {} for the program's file: a program fails if the command ends with the same nonzero exit code "
             "as on the whole program");
  add_option(app, "--message", o->failing.message, "text that the output of a failure must contain, besides the exit code");
  add_option(app, "--budget", o->budget_s, "seconds to search; default: 600").positive();
  add_flag(app, "--random-weights", o->random_weights, "replace all weights, buffers and constants by random values");
  add_flag(app, "--anonymous", o->anonymous, "remove source lines, and the names of modules and weights");
  add_custom_operators(app, o->operators);
  add_option(app, "--build-options", o->build_options,
             "options for aotc build, as one word: --build-options '--cpu avx2 --kernels kernels.json'");
  add_option(app, "--verify-options", o->verify_options,
             "options for aotc verify, as one word: --verify-options '--rtol 1e-3 --samples 1'");
  return [o](const Common& common) {
    o->failing.build_words = split_words(o->build_options);
    o->failing.verify_words = split_words(o->verify_options);
    for (const auto& [option, values] :
         {std::pair("--torch-library", &o->operators.libraries), std::pair("--torch-module", &o->operators.modules)})
      for (const std::string& value : *values)
        for (std::vector<std::string>* words : {&o->failing.build_words, &o->failing.verify_words})
          words->insert(words->end(), {option, value});
    const CustomProcesses custom = define(o->operators);
    std::vector<NamedFile> given = {{"model", o->model}};
    if (!o->inputs.empty())
      for (NamedFile& file : captured_files("--inputs", o->inputs)) given.push_back(std::move(file));
    require_apart({{"-o", o->output}}, given);
    require_place_for_file(o->output);
    nlohmann::json told;
    watched(true, [&](const pipeline::Events& events) {
      try {
        told = reduce(*o, common, events);
      } catch (const import::Json::exception& e) {
        throw Diagnostic(Loc{o->model, "", "", ""}, fmt::format("its JSON is not as torch.export.save writes it: {}", e.what()));
      }
    });
    if (common.json) {
      print_result(told, about(common));
    } else if (!common.quiet) {
      fmt::print("{}\n  {} of {} operators, {} inputs, {} bytes; {} tests{}\n  {}\n  {}\n", told["output"].get<std::string>(),
                 told["operators"].size(), told["operators_before"].get<size_t>(), told["inputs"].get<size_t>(),
                 told["bytes"].get<size_t>(), told["tests"].get<int>(), told["complete"].get<bool>() ? "" : " (the time ran out)",
                 fmt::join(told["operators"].get<std::vector<std::string>>(), ", "), told["failure"].get<std::string>());
    }
    return 0;
  };
}

}  // namespace aotc::cli
