#include "front_options.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/named_threads.h"
#include "base/parts.h"
#include "import/read_archive.h"

namespace aotc::cli {

namespace {

struct NamedArg {
  std::optional<std::string> name;
  std::string file;
};
/// "NAME=FILE", or a file's path as it is.
NamedArg named(const std::string& arg) {
  std::error_code ec;
  const size_t eq = arg.find('=');
  if (eq == std::string::npos || std::filesystem::exists(arg, ec)) return {std::nullopt, arg};
  return {arg.substr(0, eq), arg.substr(eq + 1)};
}

std::string names_of(const std::vector<pipeline::MethodOptions>& methods) {
  std::string names;
  for (const pipeline::MethodOptions& m : methods) names += (names.empty() ? "" : ", ") + m.name;
  return names;
}

pipeline::MethodOptions& method_named(std::vector<pipeline::MethodOptions>& methods, const std::string& name, const std::string& option) {
  for (pipeline::MethodOptions& m : methods)
    if (m.name == name) return m;
  throw Diagnostic(ExitCode::usage, {}, fmt::format("{}: there is no method '{}'", option, name))
      .note("the methods are " + names_of(methods));
}

void give_shapes(pipeline::MethodOptions& m, const std::string& file, const std::string& text) {
  if (!m.front.shapes.empty())
    throw Diagnostic(ExitCode::usage, {}, fmt::format("--shapes of method '{}' are given twice: {} and {}", m.name, m.front.shapes, file));
  m.front.shapes = file, m.front.shapes_text = text;
}

/// --shapes FILE: of the only method or, where it says {"methods": {NAME: ..}}, of those that it names.
void give_shapes(std::vector<pipeline::MethodOptions>& methods, const std::string& file) {
  const nlohmann::json j = nlohmann::json::parse(read_file(file), nullptr, false);  // what is wrong with it is said where it is read
  if (!j.is_object() || !j.contains("methods")) {
    if (methods.size() > 1)
      throw Diagnostic(ExitCode::usage, Loc{file, "", "", ""}, "does not say whose shapes these are: there are several methods")
          .note("--shapes NAME=FILE, or {\"methods\": {NAME: {\"dims\": ..}}} in the file; the methods are " + names_of(methods));
    return give_shapes(methods.front(), file, "");
  }
  if (!j["methods"].is_object() || j.size() > 1)
    throw Diagnostic(Loc{file, "", "", ""}, "\"methods\" is an object of shapes by method, and nothing stands beside it");
  for (const auto& [name, shapes] : j["methods"].items()) give_shapes(method_named(methods, name, "--shapes " + file), file, shapes.dump());
}

}  // namespace

void FrontArgs::add_to(CLI::App& app, bool several) {
  const Option model = add_option(app, "model", models,
                                  several ? "a .pt2 saved by torch.export.save; or several as the methods of one artifact, NAME=FILE "
                                            "each: prefill=a.pt2 decode=b.pt2. They share weights, and states of one name"
                                          : "a .pt2 saved by torch.export.save");
  model.required();
  if (!several) model.one_value();
  add_option(app, "--shapes", shapes,
             "shapes.json: dimensions, their ranges and variants (schemas/shapes.schema.json); of several methods NAME=FILE, "
             "repeatable, or one file with {\"methods\": {NAME: {..}}}")
      .repeated();
  add_option(app, "--kernels", kernels,
             "kernels.json: kernels of your own for the archive's custom operators, as expressions, C or C++ sources, objects, static "
             "libraries or CUDA sources (schemas/kernels.schema.json, samples/custom_kernel)");
  add_option(app, "--cpu", cpu,
             "instruction sets: native (default), portable (avx2 and avx512 code in one artifact, the machine takes its best: for "
             "deployment), or a list of avx2,avx512,avx512_bf16,amx");
  add_option(app, "--threads", threads,
             fmt::format("threads of a run that choices aim at; default: the processors that this process may use for --cpu native, {} "
                         "for instruction sets that are named",
                         kNamedThreads))
      .range(1, 1024);
  add_flag(app, "--winograd4", winograd4,
           "CPU: 3x3 convolutions may go by Winograd's F(4x4): up to 1.6 times as fast as F(2x2), at 3 times the error of a direct "
           "sum in each (check with aotc verify)");
  add_flag(app, "--strassen", strassen,
           "CPU: products of float32 with constant weights may go by Strassen's seven products of halves: up to 1.1 times as fast, at 1.7 "
           "times the error where rows are alike, and the error of the larger row where they are not (check with aotc verify)");
  add_flag(app, "--reproducible", reproducible,
           "CPU: a row of the results has the same bits whatever rows stand beside it in the batch, on any number of threads of one "
           "instruction set: products sum in one order, and one plan serves all sizes");
  add_option(
      app, "--weights", weights,
      "CPU: constant float32 weights of products, and large embeddings, are stored as int8, int4 or bf16, rounded to nearest; inputs, sums "
      "and all else stay float32 (what that costs in accuracy: the report, aotc verify)");
  add_option(app, "--max-weight-error", max_weight_error,
             "with --weights: fail where rounding changes a weight by more (relative L2 error); default: 0.01 for int8 (0.02 with "
             "--activations), 0.15 for int4, 0.005 for bf16")
      .positive();
  add_option(app, "--weight-group", weight_group,
             "values of a column that share a scale: 32, 64, 128, or 0 for all (default: 32, with --activations 0)");
  add_option(app, "--activations", activations,
             "CPU, with --weights int8: int8: products with these weights round the rows that they multiply to 8 bits as well, a scale a "
             "row, and sum bytes, where that is faster (what that costs in accuracy: aotc verify)");
  add_option(app, "--cuda", cuda,
             "GPU architectures, for example sm_90a or sm_80,sm_90a,sm_100a: each has plans and code of its own in the artifact; with "
             "--cpu also those for CPUs, which are taken where no GPU can run it");
  add_flag(app, "--ptx", ptx, "with --cuda: code for the driver's compiler too, so that GPUs later than the newest architecture run it");
  add_flag(app, "--parameters-as-states", parameters_as_states,
           "every parameter is a state that the caller reads and writes (training): nothing is computed from its saved value");
  add_option(app, "--states", states, "NAME,...: so are these parameters and buffers; * stands for any text").separated_by(',');
  add_option(
      app, "--f32-matmul", f32_matmul,
      "accuracy of float32 products on GPUs: highest (default: that of float32), high or medium (where the GPU has them, products of "
      "TF32, which has 11 bits), as torch.set_float32_matmul_precision");
  add_option(app, "--precision", precision,
             "what products, convolutions, attention and (on CPUs) recurrent layers of float32 multiply: f32 (default); bf16: rounded "
             "operands, float32 sums, all "
             "else float32, but convolutions' results that others add to are stored as bf16; auto: bf16 operands where that is faster "
             "and the outputs stay within --max-error (measured on sample inputs; explain shows it step by step)")
      .one_of({"f32", "bf16", "auto"});
  add_option(app, "--max-error", max_error,
             "of --precision auto: relative L2 error of every output against fp64; default: that of the model in bf16 in PyTorch")
      .positive();
  add_option(app, "--print-ir-after", print_ir_after,
             "print the IR after these stages or passes (import, decompose, a pass, loop, plan, all)")
      .separated_by(',');
  add_option(app, "--dump-dir", dump_dir, "write the IR after every stage and pass into this folder");
}

std::vector<pipeline::MethodOptions> FrontArgs::methods() const {
  const pipeline::FrontOptions options = get();
  std::vector<pipeline::MethodOptions> methods;
  const auto add = [&](const std::string& name, const std::string& file, const std::string& program) {
    methods.push_back({name, options});
    methods.back().front.model = file, methods.back().front.program = program;
  };
  for (const std::string& arg : models) {
    const NamedArg n = named(arg);
    if (!n.name && models.size() > 1)
      throw Diagnostic(ExitCode::usage, {}, fmt::format("'{}' has no name: with several programs each is NAME=FILE", arg))
          .note("aotc build prefill=a.pt2 decode=b.pt2 -o model.so");
    const std::vector<std::string> programs = import::programs_of(n.file);
    if (programs.size() == 1)
      add(n.name.value_or(pipeline::kOnlyMethod), n.file, "");
    else if (n.name)
      add(*n.name, n.file, *n.name);
    else
      for (const std::string& p : programs) add(p, n.file, p);
  }
  for (const std::string& arg : shapes) {
    const NamedArg n = named(arg);
    if (n.name)
      give_shapes(method_named(methods, *n.name, "--shapes"), n.file, "");
    else
      give_shapes(methods, n.file);
  }
  if (methods.size() > 1 && !options.dump_dir.empty())
    for (pipeline::MethodOptions& m : methods) m.front.dump_dir = (std::filesystem::path(options.dump_dir) / m.name).string();
  return methods;
}

pipeline::MethodOptions FrontArgs::method(const std::string& name) const {
  std::vector<pipeline::MethodOptions> all = methods();
  if (!name.empty()) return method_named(all, name, "--method");
  if (all.size() > 1)
    throw Diagnostic(ExitCode::usage, Loc{model(), "", "", ""},
                     fmt::format("holds {} programs; say which with --method: {}", all.size(), names_of(all)));
  return all.front();
}

pipeline::FrontOptions FrontArgs::get() const {
  if (ptx && cuda.empty()) throw Diagnostic(ExitCode::usage, {}, "--ptx is for GPU artifacts (--cuda)");
  pipeline::FrontOptions o;
  if (!cpu.empty() || cuda.empty()) o.target = parse_cpu_target(cpu.empty() ? "native" : cpu);
  if (!cuda.empty()) o.target.sms = parse_cuda_target(cuda).sms;
  if (ptx) add_ptx(o.target);
  o.target.threads = threads;
  o.weights = passes::parse_weight_storage(weights, weight_group, activations);
  if (max_weight_error > 0 && !o.weights.any()) throw Diagnostic(ExitCode::usage, {}, "--max-weight-error is for --weights");
  o.weights.max_error = max_weight_error;
  if (o.weights.any() && o.target.is_gpu())
    throw Diagnostic(ExitCode::usage, {}, "--weights is for CPU artifacts: no kernel of a GPU takes weights of few bits")
        .note("leave it out, or build for the CPU (--cpu)");
  o.target.numerics.int8_rows = o.weights.int8_rows;
  o.target.numerics.winograd4 = winograd4;
  o.target.numerics.strassen = strassen;
  o.target.numerics.reproducible = reproducible;
  if (reproducible && o.target.is_gpu()) throw Diagnostic(ExitCode::usage, {}, "--reproducible is for CPU artifacts (--cpu)");
  for (const auto& [given, option] : {std::pair(strassen, "--strassen"), {!activations.empty(), "--activations"}})
    if (reproducible && given)
      throw Diagnostic(ExitCode::usage, {},
                       fmt::format("--reproducible excludes {}: its sums depend on what is summed beside them", option));
  o.states = {parameters_as_states, states};
  if (!kernels.empty()) o.own = pipeline::load_own_kernels(kernels);
  if (!f32_matmul.empty() && cuda.empty()) throw Diagnostic(ExitCode::usage, {}, "--f32-matmul is for GPU artifacts (--cuda)");
  if (!f32_matmul.empty()) o.target.numerics.f32_matmul = parse_f32_matmul(f32_matmul);
  if (max_error > 0 && precision != "auto") throw Diagnostic(ExitCode::usage, {}, "--max-error is for --precision auto");
  o.precision.mode = precision;
  o.target.numerics.bf16_rounds_once = precision == "auto";
  o.precision.max_error = max_error;
  if (precision == "bf16") o.precision.choose = [](size_t) { return passes::Precision::bf16; };
  o.print_ir_after = {print_ir_after.begin(), print_ir_after.end()};
  o.dump_dir = dump_dir;
  return o;
}

}  // namespace aotc::cli
