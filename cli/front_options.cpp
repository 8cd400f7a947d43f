#include "front_options.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/file.h"
#include "base/named_threads.h"
#include "base/parts.h"
#include "base/uarch.h"
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
    throw Diagnostic(Loc{file, "", "", ""}, "\"methods\" must be an object of shapes by method, and the only key");
  for (const auto& [name, shapes] : j["methods"].items()) give_shapes(method_named(methods, name, "--shapes " + file), file, shapes.dump());
}

}  // namespace

void add_uarch(CLI::App& app, std::string& file) {
  add_option(app, "--uarch", file,
             "what things cost on the machine that the artifact is for: a data file, as aotc calibrate writes one (rows as in "
             "compiler/base/uarch), instead of the numbers that aotc has. Of a CPU or of one GPU architecture; of several code versions of "
             "CPUs it is about the best, whose choices they share");
}

void read_uarch(const std::string& file, Target& target) {
  if (!file.empty()) take_uarch(target, load_uarch(file), file);
}

void FrontArgs::add_to(CLI::App& app, bool several, const std::string& or_else) {
  const Option model = add_option(app, "model", models,
                                  several ? "a .pt2 saved by torch.export.save; or several as the methods of one artifact, NAME=FILE each: "
                                            "prefill=a.pt2 decode=b.pt2. They share weights, and states of equal names"
                                          : "a .pt2 saved by torch.export.save" + or_else);
  model.required();
  if (!several) model.one_value();
  add_option(app, "--shapes", shapes,
             "shapes.json: dimensions, their ranges and variants (schemas/shapes.schema.json); of several methods NAME=FILE, "
             "repeatable, or one file with {\"methods\": {NAME: {..}}}")
      .repeated();
  add_option(app, "--kernels", kernels,
             "kernels.json: kernels of your own for custom operators, as expressions, C or C++ sources, objects, static libraries, CUDA "
             "sources, cubins or PTX (schemas/kernels.schema.json, samples/custom_kernel)");
  add_option(app, "--cpu", cpu,
             "instruction sets: native (default), portable (AVX2 and AVX-512 code in one artifact, the best that the machine supports "
             "runs: for deployment), or a list of avx2,avx512,avx512_bf16,amx");
  add_uarch(app, uarch);
  add_option(app, "--threads", threads,
             fmt::format("thread count that CPU kernels are optimised for; it does not limit threads at run time; default: this machine's "
                         "processors, {} if --cpu names a target",
                         kNamedThreads))
      .range(1, 1024);
  add_flag(app, "--winograd4", winograd4,
           "CPU: allow Winograd F(4x4) for 3x3 convolutions: up to 1.6 times as fast as F(2x2), with 3 times the error of a direct "
           "convolution (check with aotc verify)");
  add_flag(app, "--strassen", strassen,
           "CPU: allow Strassen's algorithm for float32 matmuls with constant weights: up to 1.1 times as fast, with 1.7 times the error "
           "for rows of similar magnitude; of unequal rows that are added, the smaller gets the absolute error of the larger (check with "
           "aotc verify)");
  add_flag(app, "--reproducible", reproducible,
           "CPU: batch-invariant results: a row has the same bits for any batch size, any other rows in the batch and any number of "
           "threads, on machines with AVX2 and with AVX-512; matmuls sum in a fixed order, and one plan serves all sizes");
  add_option(
      app, "--weights", weights,
      "store constant floating-point weights of matmuls, and large embeddings, as int8, int4, fp8 (float8_e4m3fn; GPUs) or, of float32, "
      "bf16, rounded to nearest; inputs, sums and all else keep their types (accuracy: the report, aotc verify)");
  add_option(app, "--max-weight-error", max_weight_error,
             "with --weights: fail if rounding changes a weight by more (relative L2 error); default: 0.01 for int8 (0.02 with "
             "--activations), 0.15 for int4, 0.04 for fp8, 0.005 for bf16")
      .positive();
  add_option(app, "--weight-group", weight_group,
             "with --weights int8, int4 or fp8: consecutive values of a column that share a scale: 32, 64, 128, or 0 for the whole column "
             "(default: 32, with --activations 0)");
  add_option(app, "--activations", activations,
             "with --weights int8; int8: quantise the rows that these matmuls multiply, too, in each run, with a scale per row, where that "
             "is faster (accuracy: aotc verify)");
  add_option(
      app, "--kv-cache", kv_cache,
      "store the keys and values that a decoder keeps in its states in 8 bits, rounded when they are written: int8 (a scale a row), or "
      "fp8 (float8_e4m3fn); half the memory of bfloat16, a quarter of float32 (accuracy: aotc verify)")
      .one_of({"int8", "fp8"});
  add_option(app, "--cuda", cuda,
             "GPU architectures, for example sm_90a or sm_80,sm_90a,sm_100a: each has its own plans and code in the artifact; with --cpu "
             "also CPU code, which runs if there is no suitable GPU");
  add_flag(app, "--ptx", ptx,
           "with --cuda: also embed PTX, so that GPUs newer than the listed architectures can run it by JIT compilation");
  add_flag(app, "--parameters-as-states", parameters_as_states,
           "every parameter is a state that the caller reads and writes (training): nothing is precomputed from its saved value");
  add_option(app, "--states", states,
             "NAME,...: parameters and buffers that are states, which the caller reads and writes; * matches any text")
      .separated_by(',');
  add_option(app, "--f32-matmul", f32_matmul,
             "accuracy of float32 matmuls, convolutions and attention on GPUs, as torch.set_float32_matmul_precision: highest (default: "
             "that of float32), high or medium (TF32, 11 significant bits, where the GPU has it)");
  add_option(app, "--precision", precision,
             "operands of float32 matmuls, convolutions, attention and (on CPUs) recurrent layers: f32 (default); bf16: rounded to bf16, "
             "with float32 sums; residual connections between convolutions are stored as bf16; auto: bf16 where that is faster and the "
             "outputs stay within --max-error (measured on sample inputs; explain shows each step)")
      .one_of({"f32", "bf16", "auto"});
  add_option(app, "--max-error", max_error,
             "with --precision auto: relative L2 error of every output against float64; default: that of the model in bf16 in PyTorch")
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
  read_uarch(uarch, o.target), o.uarch = uarch;
  o.weights = parse_weight_storage(weights, weight_group, activations);
  if (max_weight_error > 0 && !o.weights.any()) throw Diagnostic(ExitCode::usage, {}, "--max-weight-error is for --weights");
  o.weights.max_error = max_weight_error;
  if (o.weights.float8 && !o.target.isas.empty())
    throw Diagnostic(ExitCode::usage, {}, "--weights fp8 is for GPU artifacts: no CPU code takes weights of 8-bit floats")
        .note("give --weights int8 or int4, or --cuda without --cpu");
  if (o.weights.int8_rows && !o.target.traits().int8_rows)
    throw Diagnostic(ExitCode::usage, {}, "--activations is for CPU artifacts: no kernel of a GPU rounds rows as it runs")
        .note("leave it out, or build for the CPU (--cpu)");
  o.cache = passes::parse_cache_storage(kv_cache);
  o.target.numerics.int8_rows = o.weights.int8_rows;
  o.target.numerics.winograd4 = winograd4;
  o.target.numerics.strassen = strassen;
  o.target.numerics.reproducible = reproducible;
  if (reproducible && !o.target.traits().reproducible) throw Diagnostic(ExitCode::usage, {}, "--reproducible is for CPU artifacts (--cpu)");
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
