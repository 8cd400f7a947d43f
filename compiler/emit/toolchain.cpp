#include "emit/toolchain.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/diagnostic.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/process.h"
#include "emit/blob.h"
#include "emit/embedded.h"
#include "emit/object_cache.h"

namespace aotc::emit {

namespace fs = std::filesystem;

namespace {

// Generated code keeps NaN and infinity as they are; contraction to FMA is the only freedom taken.
constexpr const char* kCommonFlags[] = {"-std=c++17",
                                        "-fPIC",
                                        "-fno-exceptions",
                                        "-fno-rtti",
                                        "-fvisibility=hidden",
                                        "-fno-gnu-unique",
                                        "-fno-threadsafe-statics",
                                        "-ffunction-sections",
                                        "-fdata-sections",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-ffp-contract=fast",
                                        "-fno-asynchronous-unwind-tables",
                                        "-fno-plt",
                                        "-g0"};

constexpr const char* kLinkFlags[] = {
    "-shared",     "-nodefaultlibs", "-Wl,--gc-sections",   "-Wl,-z,relro",    "-Wl,-z,now",          "-Wl,-z,noexecstack",
    "-Wl,-z,defs", "-Wl,-Bsymbolic", "-Wl,--build-id=sha1", "-Wl,--as-needed", "-Wl,--hash-style=gnu"};

Diagnostic failed(const std::string& what, const ProcessResult& r) {
  std::string text = r.output.size() > 6000 ? r.output.substr(0, 6000) + "\n..." : r.output;
  return Diagnostic(ExitCode::toolchain, {}, fmt::format("{} failed with exit code {}", what, r.exit_code))
      .note(text)
      .note("--keep DIR leaves the sources and the command lines");
}

/// The compiler's own fault, which less optimization mostly avoids.
bool crashed(const ProcessResult& r) { return !r.ok() && r.output.find("internal compiler error") != std::string::npos; }

/// A function's frame is larger than the unit's flags allow.
bool frame_too_large(const ProcessResult& r) { return !r.ok() && r.output.find("frame-larger-than") != std::string::npos; }

/// What is added, in order, to a command that failed so. Of options of a kind the last counts. Constants that GCSE keeps over a long
/// function are spilled, a vector each; a frame that stays too large is taken as it is.
std::vector<std::vector<std::string>> milder_options(const ProcessResult& r) {
  if (crashed(r)) return {{"-O1"}};
  if (frame_too_large(r)) return {{"-fno-gcse"}, {"-fno-gcse", "-O1"}, {"-fno-gcse", "-O1", "-Wno-frame-larger-than"}};
  return {};
}

}  // namespace

std::string shell_line(const std::vector<std::string>& words) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  std::string line;
  for (const std::string& w : words) {
    if (!line.empty()) line += ' ';
    if (!w.empty() && w.find_first_not_of(kPlain) == std::string::npos) {
      line += w;
      continue;
    }
    line += '\'';
    for (const char c : w) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

uint64_t hash_bytes(std::string_view bytes, uint64_t seed) {
  uint64_t h = seed;
  for (const char c : bytes) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return h;
}

std::string user_cache_dir() {
  if (const char* x = std::getenv("XDG_CACHE_HOME"); x && *x == '/') return std::string(x) + "/aotc";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/aotc";
  return {};
}

CacheOptions user_cache() { return {user_cache_dir(), uint64_t{5} << 30}; }

void write_file(const std::string& path, std::string_view bytes) {
  require_place_for_file(path);
  const std::string aside = fmt::format("{}.{}.tmp", path, getpid());
  std::ofstream out(aside, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  std::error_code ec;
  if (out) fs::rename(aside, path, ec);
  if (!out || ec) {
    fs::remove(aside, ec);
    throw Diagnostic(ExitCode::io, Loc{path, "", "", ""}, "cannot be written").note("is the folder there, writable and not full?");
  }
}

CompileResult compile(const Compiler& compiler, const std::vector<TranslationUnit>& units, const CompileOptions& o) {
  const fs::path work = o.work_dir;
  std::error_code ec;
  fs::create_directories(work / "include", ec);
  CacheKey headers_key;
  headers_key.add(compiler.version);
  for (const EmbeddedFile& f : embedded_files()) {
    if (f.name.rfind("include/", 0) != 0) continue;
    const fs::path path = work / f.name;
    fs::create_directories(path.parent_path(), ec);
    write_file(path.string(), f.text());
    headers_key.add(f.name).add(f.text());
  }
  CompileResult result;
  std::vector<std::vector<std::string>> commands;
  const ObjectCache cache(o.cache);
  std::vector<Digest> keys;
  for (const TranslationUnit& u : units) {
    const std::string source = (work / u.name).string(), object = (work / (fs::path(u.name).stem().string() + ".o")).string();
    write_file(source, u.source);
    std::vector<std::string> cmd = compiler.command;
    cmd.insert(cmd.end(), {"-c", "-I", (work / "include").string(), "-ffile-prefix-map=" + work.string() + "=."});
    const size_t keyed = cmd.size();  // what comes before says nothing of the object, or is in the version
    cmd.insert(cmd.end(), std::begin(kCommonFlags), std::end(kCommonFlags));
    cmd.insert(cmd.end(), u.flags.begin(), u.flags.end());
    CacheKey key = headers_key;
    key.add(u.source);
    for (size_t i = keyed; i < cmd.size(); ++i) key.add(cmd[i]);
    keys.push_back(key.digest());
    cmd.insert(cmd.end(), {"-o", object, source});
    result.objects.push_back(object);
    result.command_lines.push_back(shell_line(cmd));
    commands.push_back(std::move(cmd));
  }
  std::vector<char> cached(units.size());
  parallel_for(units.size(), cache.readers(), [&](size_t i) { cached[i] = cache.take(keys[i], result.objects[i]); });
  std::vector<size_t> numbers;  // of the units that are compiled
  std::vector<std::vector<std::string>> to_run;
  for (size_t i = 0; i < units.size(); ++i) {
    if (cached[i]) continue;
    numbers.push_back(i);
    to_run.push_back(std::move(commands[i]));
  }
  result.cached = units.size() - numbers.size();
  size_t done = result.cached;
  run_processes(to_run, o.jobs, [&](size_t i, const ProcessResult& r) {
    const size_t unit = numbers[i];
    bool compiled = r.ok();
    for (const std::vector<std::string>& more : milder_options(r)) {
      if (compiled) break;
      std::vector<std::string> command = to_run[i];
      command.insert(command.end(), more.begin(), more.end());
      compiled = run_process(command).ok();
      result.command_lines[unit] = shell_line(command);
    }
    if (!compiled) throw failed("compiling " + units[unit].name, r);
    cache.put_file(keys[unit], result.objects[unit]);
    if (o.progress) o.progress(++done, units.size(), units[unit].name);
  });
  return result;
}

std::vector<std::string> write_embedded(const std::string& folder, const std::string& work_dir) {
  const fs::path work = work_dir;
  std::error_code ec;
  std::vector<std::string> paths;
  for (const EmbeddedFile& f : embedded_files()) {
    if (f.name.rfind(folder + "/", 0) != 0) continue;
    const fs::path path = work / f.name;
    fs::create_directories(path.parent_path(), ec);
    paths.push_back(path.string());
    write_file(paths.back(), f.text());
  }
  return paths;
}

bool finish_artifact(const std::string& linked, const std::string& output, const Blob* blob, SealedWeights& weights) {
  std::error_code ec;
  if (blob) {
    weights.hash = splice(linked, output, *blob);
    if (!weights.hash) return false;
    fs::permissions(output, fs::status(linked, ec).permissions(), ec);
  } else if (fs::copy_file(linked, output, fs::copy_options::overwrite_existing, ec); ec) {
    throw Diagnostic(ExitCode::io, Loc{output, "", "", ""}, "cannot be written: " + ec.message());
  }
  seal_artifact(output, weights);
  return true;
}

Linked link_artifact(const Compiler& compiler, std::vector<std::string> objects, const Blob* blob, const std::string& work_dir,
                     const SealedWeights& weights_file, const std::string& soname, const std::string& output) {
  const fs::path work = work_dir;
  write_file((work / "symbols.map").string(), embedded("link/exports.map").text());
  std::error_code ec;
  // The C library is linked by stand-ins, so that the glibc demanded is not the build machine's.
  const std::vector<std::string> archives = write_embedded("lib", work_dir), glibc = write_embedded("glibc", work_dir);
  Linked done{{}, (work / "linked.so").string(), "", weights_file};
  // -Xlinker takes what holds commas, as names and folders may, for one word.
  const auto link = [&](const std::vector<std::string>& extra) {
    std::vector<std::string> cmd = compiler.command;
    cmd.insert(cmd.end(), std::begin(kLinkFlags), std::end(kLinkFlags));
    for (const std::string& word : {"--version-script=" + (work / "symbols.map").string(), "-soname=" + soname})
      cmd.insert(cmd.end(), {"-Xlinker", word});
    cmd.insert(cmd.end(), {"-Wl,-u,aotc_get_api", "-o", done.file});
    cmd.insert(cmd.end(), objects.begin(), objects.end());
    cmd.insert(cmd.end(), extra.begin(), extra.end());
    cmd.push_back("-Wl,--start-group");
    cmd.insert(cmd.end(), archives.begin(), archives.end());
    cmd.push_back("-Wl,--end-group");
    cmd.insert(cmd.end(), glibc.begin(), glibc.end());
    cmd.push_back("-lgcc");
    done.command = std::move(cmd);
    return run_process(done.command);
  };
  bool finished = false;
  if (blob) {
    done.weights.section = blob->section;
    const std::string object = (work / "blob.o").string(), script = (work / "blob.ld").string();
    write_stand_in(object, *blob);
    write_file(script, last_section_script(blob->section));
    finished = link({object, "-Xlinker", "-T", "-Xlinker", script}).ok() && finish_artifact(done.file, output, blob, done.weights);
    if (finished) {
      done.spliced = blob->section;
    } else {  // a linker that cannot do that: the blob goes through it
      write_blob_object(object, blob->section, blob->symbol, blob->bytes, blob->fill);
      objects.push_back(object);
    }
  }
  if (!finished) {
    if (const ProcessResult r = link({}); !r.ok()) throw failed("linking", r);
    finish_artifact(done.file, output, nullptr, done.weights);
  }
  fs::remove(done.file, ec);
  return done;
}

}  // namespace aotc::emit
