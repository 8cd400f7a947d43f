#include "pipeline/own_objects.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/process.h"
#include "emit/cpu/unit.h"
#include "emit/embedded.h"
#include "emit/toolchain.h"

namespace aotc::pipeline {
namespace {

namespace fs = std::filesystem;
using own::CodeFile;
using own::CodeKind;

constexpr const char* kSourceFlags[] = {"-fPIC",
                                        "-fvisibility=hidden",
                                        "-ffunction-sections",
                                        "-fdata-sections",
                                        "-fno-plt",
                                        "-g0",
                                        "-O3",
                                        "-fno-stack-protector",
                                        "-fno-asynchronous-unwind-tables"};

std::vector<std::string> language_flags(const std::string& file) {
  if (fs::path(file).extension() == ".c") return {"-x", "c", "-std=gnu11"};
  return {"-x", "c++", "-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics", "-fno-gnu-unique"};
}

std::string shortened(const std::string& output) { return output.size() > 6000 ? output.substr(0, 6000) + "\n..." : output; }

/// Global symbols that an object defines, as nm -P has them.
std::set<std::string> defined(const std::string& nm) {
  std::set<std::string> names;
  std::istringstream in(nm);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, type;
    if (words >> name >> type && (type == "T" || type == "W" || type == "i")) names.insert(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> OwnObjects::of(const loop::Module& module, const Target& target) {
  std::set<std::string> called;
  for (const loop::Kernel& k : module.kernels)
    if (const auto* l = std::get_if<loop::LibraryKernel>(&k); l && l->algorithm == op_name(Op::custom))
      called.insert(std::get<std::string>(l->attrs.at(Attr::function)));
  std::vector<std::string> objects;
  if (!kernels_ || target.traits().device_code) return objects;
  for (size_t c = 0; c < kernels_->codes.size(); ++c) {
    const CodeFile& code = kernels_->codes[c];
    if (std::none_of(code.functions.begin(), code.functions.end(),
                     [&](const std::string& f) { return called.count(own::entry_symbol(*kernels_, c, f)) != 0; }))
      continue;
    std::set<Isa> isas;
    for (const Isa isa : target.isas) isas.insert(emit::cpu::loop_isa(isa));
    if (code.kind != CodeKind::source)
      objects.push_back(made({c, ""}));
    else
      for (const Isa isa : isas) objects.push_back(made({c, std::string(isa_name(isa))}));
  }
  return objects;
}

void OwnObjects::run(const std::vector<std::string>& command, const CodeFile& code, const std::string& what) {
  const ProcessResult r = run_process(command);
  if (r.exit_code == 127)
    throw Diagnostic(ExitCode::toolchain, {}, fmt::format("{} was not found", command.front())).note("Debian: apt-get install binutils");
  if (!r.ok())
    throw Diagnostic(ExitCode::toolchain, kernels_->at(code.path),
                     fmt::format("{} {} failed with exit code {}", what, code.file, r.exit_code))
        .note(shortened(r.output));
  lines_.push_back(emit::shell_line(command));
}

std::string OwnObjects::compiled(const CodeFile& code, const std::string& isa, const std::string& object) {
  const emit::Compiler compiler = emit::find_compiler();
  emit::write_embedded("include/aotc", work_dir_);
  const std::string folder = fs::path(code.file).parent_path().string();
  std::vector<std::string> cmd = compiler.command;
  cmd.insert(cmd.end(), {"-c", "-I", (fs::path(work_dir_) / "include").string(), "-ffile-prefix-map=" + folder + "=.",
                         isa == isa_name(Isa::avx2) ? "-march=x86-64-v3" : "-march=x86-64-v4"});
  if (isa != isa_name(Isa::avx2)) cmd.push_back("-mprefer-vector-width=512");
  cmd.insert(cmd.end(), std::begin(kSourceFlags), std::end(kSourceFlags));
  const std::vector<std::string> language = language_flags(code.file);
  cmd.insert(cmd.end(), language.begin(), language.end());
  cmd.insert(cmd.end(), code.flags.begin(), code.flags.end());
  cmd.insert(cmd.end(), {"-o", object, code.file});
  run(cmd, code, "compiling");
  return object;
}

/// An artifact has the C library of glibc 2.17 and nothing else: a name that is not there is found here, where it can be said whose it is.
void OwnObjects::check_alone(const CodeFile& code, const std::string& object) {
  const emit::Compiler compiler = emit::find_compiler();
  std::vector<std::string> cmd = compiler.command;
  const std::string trial = (fs::path(work_dir_) / "own_trial.so").string();
  cmd.insert(cmd.end(), {"-shared", "-nodefaultlibs", "-Wl,-z,defs", "-Wl,-z,noexecstack", "-o", trial, object});
  for (const std::string& stand_in : emit::write_embedded("glibc", work_dir_)) cmd.push_back(stand_in);
  cmd.push_back("-lgcc");
  const ProcessResult r = run_process(cmd);
  std::error_code ec;
  fs::remove(trial, ec);
  if (!r.ok())
    throw Diagnostic(ExitCode::toolchain, kernels_->at(code.path), fmt::format("{} does not link", code.file))
        .note(
            "an artifact has the functions of the C library and of libm that glibc 2.17 has, and no others: not those of libstdc++, of "
            "other "
            "libraries or of aotc; objects are compiled with -fPIC")
        .note(shortened(r.output));
}

std::string OwnObjects::made(const Version& v) {
  std::string& object = objects_[v];
  if (!object.empty()) return object;
  const CodeFile& code = kernels_->codes.at(v.code);
  const auto path = [&](const char* stage) {
    return (fs::path(work_dir_) / fmt::format("own{}{}{}{}.o", v.code, v.isa.empty() ? "" : "_", v.isa, stage)).string();
  };
  std::string input = code.file;
  if (code.kind == CodeKind::source) input = compiled(code, v.isa, path("_compiled"));
  std::vector<std::string> merge = emit::find_compiler().command;
  merge.insert(merge.end(), {"-r", "-nostdlib", "-o", path("_merged")});
  for (const std::string& f : code.functions) merge.push_back("-Wl,-u," + f);
  merge.push_back(input);
  run(merge, code, "merging");
  const ProcessResult nm = run_process({"nm", "-P", "-g", path("_merged")});
  if (!nm.ok()) throw Diagnostic(ExitCode::toolchain, {}, "nm failed").note(shortened(nm.output)).note("Debian: apt-get install binutils");
  const std::set<std::string> there = defined(nm.output);
  std::vector<std::string> localise = {"objcopy", "--strip-debug"};
  for (const std::string& f : code.functions) {
    if (!there.count(f)) {
      std::string names;
      for (const std::string& name : there) names += (names.empty() ? "" : ", ") + name;
      throw Diagnostic(kernels_->at(code.path), fmt::format("{} has no function '{}'", code.file, f))
          .note("its functions: " + (names.empty() ? "none" : shortened(names)) + "; those of C++ are declared extern \"C\"");
    }
    localise.insert(localise.end(), {"--keep-global-symbol=" + f});
  }
  localise.insert(localise.end(), {path("_merged"), path("_local")});
  run(localise, code, "objcopy of");
  std::vector<std::string> rename = {"objcopy"};
  for (const std::string& f : code.functions)
    rename.push_back(fmt::format("--redefine-sym={}={}{}", f, own::entry_symbol(*kernels_, v.code, f), v.isa));
  rename.insert(rename.end(), {path("_local"), path("")});
  run(rename, code, "objcopy of");
  check_alone(code, path(""));
  return object = path("");
}

}  // namespace aotc::pipeline
