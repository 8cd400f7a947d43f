#include "emit/static_archive.h"

#include <filesystem>

#include "aotc/detail/blob_hash.h"
#include "base/diagnostic.h"
#include "base/process.h"
#include "emit/blob.h"

namespace aotc::emit {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLarge = 0x10000000;  // SHF_X86_64_LARGE of the psABI, which older elf.h do not name

/// Of the compiler's own folders (cross compilers), else of PATH.
std::string tool(const Compiler& compiler, const std::string& name) {
  std::vector<std::string> command = compiler.command;
  command.push_back("-print-prog-name=" + name);
  const ProcessResult r = run_process(command);
  const std::string path = r.output.substr(0, r.output.find('\n'));
  return r.ok() && !path.empty() ? path : name;
}

void run(const std::vector<std::string>& command, const std::string& what) {
  const ProcessResult r = run_process(command);
  if (r.ok()) return;
  if (r.exit_code == 127)
    throw Diagnostic(ExitCode::toolchain, {}, fmt::format("{} was not found", command.front())).note("Debian: apt-get install binutils");
  throw Diagnostic(ExitCode::toolchain, {}, fmt::format("{} failed with exit code {}", what, r.exit_code))
      .note(r.output.size() > 6000 ? r.output.substr(0, 6000) + "\n..." : r.output)
      .note("a static archive needs the linker and objcopy of GNU binutils 2.29 or later");
}

}  // namespace

uint64_t write_weights_object(const Blob& weights, const std::string& work_dir, std::string& object) {
  uint64_t hash = 0;
  const auto fill = [&](std::span<std::byte> out) {
    weights.fill(out);
    hash = aotc_blob_hash(out.data(), weights.bytes);
  };
  object = (fs::path(work_dir) / (weights.symbol + ".o")).string();
  // Behind all else in the program, where no displacement of 32 bits goes over it.
  write_blob_object(object, weights.section, weights.symbol, weights.bytes, fill, kLarge);
  return hash;
}

Archived link_static_archive(const Compiler& compiler, const std::vector<std::string>& objects, const std::string& weights_object,
                             const std::string& prefix, const std::string& work_dir, const std::string& output) {
  const fs::path work = work_dir;
  const std::string merged = (work / "merged.o").string(), local = (work / "local.o").string();
  const std::string model = (work / (prefix + "_model.o")).string(), objcopy = tool(compiler, "objcopy");
  Archived done{{}, (work / "linked.a").string()};
  std::vector<std::string> merge = compiler.command;
  // Groups of functions that several objects have are resolved here: a program would else drop one model's for another's.
  for (const char* flag : {"-r", "-nostdlib", "-Wl,--gc-sections", "-Wl,-u,aotc_get_api", "-Wl,--force-group-allocation", "-o"})
    merge.push_back(flag);
  merge.push_back(merged);
  merge.insert(merge.end(), objects.begin(), objects.end());
  const auto add = [&](const char* folder, const char* before, const char* after) {
    merge.push_back(before);
    for (const std::string& path : write_embedded(folder, work_dir)) merge.push_back(path);
    merge.push_back(after);
  };
  add("linked", "-Wl,--whole-archive", "-Wl,--no-whole-archive");  // what it defines is not taken of the others
  add("lib", "-Wl,--start-group", "-Wl,--end-group");
  std::vector<std::string> archive = {tool(compiler, "ar"), "rcsD", done.file, model};
  if (!weights_object.empty()) archive.push_back(weights_object);
  done.commands = {merge,
                   {objcopy, "--strip-debug", "--keep-global-symbol=aotc_get_api", merged, local},
                   {objcopy, "--redefine-sym=aotc_get_api=" + prefix + "_get_api", local, model},
                   {"rm", "-f", done.file},
                   archive};
  for (const std::vector<std::string>& command : done.commands) run(command, fs::path(command.front()).filename().string());
  std::error_code ec;
  fs::rename(done.file, output, ec);
  if (ec) throw Diagnostic(ExitCode::io, Loc{output, "", "", ""}, "cannot be written: " + ec.message());
  for (const std::string& name : {merged, local}) fs::remove(name, ec);
  return done;
}

}  // namespace aotc::emit
