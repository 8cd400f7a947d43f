#include "import/torch_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "import/torch_functions.h"

namespace aotc::import {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libtorch_cpu.so";
constexpr const char* kVariable = "AOTC_LIBTORCH";
/// From the root of a Python environment to the torch package in it.
constexpr const char* kPackages[] = {"/lib/python3*/site-packages/torch", "/lib/python3*/dist-packages/torch",
                                     "/lib/python3/dist-packages/torch"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_file(const fs::path& p) {
  std::error_code e;
  return fs::is_regular_file(p, e);
}

std::vector<std::string> matching(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

/// The version of the LibTorch whose libraries are in this folder: of a Python package or of an unpacked LibTorch; empty when neither says.
std::string version_of(const fs::path& libraries) {
  const fs::path root = libraries.parent_path();
  std::string line;
  if (std::ifstream python(root / "version.py"); python) {
    while (std::getline(python, line)) {
      const size_t a = line.find('\''), b = line.rfind('\'');
      if (line.rfind("__version__", 0) == 0 && a < b) return line.substr(a + 1, b - a - 1);
    }
  }
  if (std::ifstream plain(root / "build-version"); std::getline(plain, line)) return line;
  return {};
}

/// "2.13" of "2.13.0+cpu".
std::string interface_of(const std::string& version) {
  const size_t first = version.find('.');
  return first == std::string::npos ? version : version.substr(0, version.find_first_not_of("0123456789", first + 1));
}

/// The root of the environment that the first python3 of PATH belongs to, links followed or not.
std::vector<std::string> python_roots() {
  std::istringstream path(environment("PATH"));
  for (std::string folder; std::getline(path, folder, ':');) {
    const fs::path python = fs::path(folder) / "python3";
    std::error_code e;
    if (folder.empty() || !is_file(python)) continue;
    std::vector<std::string> out = {fs::path(folder).parent_path().string()};
    const fs::path real = fs::canonical(python, e);
    if (!e) out.push_back(real.parent_path().parent_path().string());
    return out;
  }
  return {};
}

/// The folder lib/aotc of the build or of the installation that this program is of.
fs::path private_folder() {
  std::error_code e;
  const fs::path program = fs::read_symlink("/proc/self/exe", e);
  return program.parent_path().parent_path() / "lib" / "aotc";
}

void* load(const fs::path& library, int flags) {
  void* handle = dlopen(library.c_str(), flags | RTLD_LOCAL);
  if (handle) return handle;
  const char* why = dlerror();
  throw Diagnostic(ExitCode::toolchain, Loc{.file = library.string()}, fmt::format("cannot be loaded: {}", why ? why : "dlopen failed"));
}

const TorchFunctions* load_functions() {
  const fs::path mine = private_folder();
  const std::string wanted = AOTC_LIBTORCH_VERSION;
  Diagnostic missing(ExitCode::toolchain, {},
                     fmt::format("LibTorch {} was not found; reading a .pt2 and comparing with eager need it", interface_of(wanted)));
  std::optional<TorchFolder> found;
  for (const std::string& place : torch_places((mine / "libtorch.path").string())) {
    const Result<TorchFolder> torch = torch_in(place, wanted);
    if (torch) {
      found = *torch;
      break;
    }
    missing.note(fmt::format("looked in {}: {}", place, torch.why()));
  }
  if (!found) {
    missing.note(fmt::format("install it with: pip install torch=={}.*; in an environment that is not active, name the environment in {}",
                             interface_of(wanted), kVariable));
    throw std::move(missing);
  }
  // libaotc_torch.so asks for LibTorch by name alone; what is loaded already is what it gets.
  load(fs::path(found->libraries) / kLibrary, RTLD_LAZY);
  const fs::path side = mine / "libaotc_torch.so";
  void* handle = load(side, RTLD_NOW);
  const auto get = reinterpret_cast<GetTorchFunctions*>(dlsym(handle, kGetTorchFunctions));
  const TorchFunctions* f = get ? get() : nullptr;
  if (!f || std::string_view(f->aotc_version) != AOTC_VERSION)
    throw Diagnostic(ExitCode::toolchain, Loc{.file = side.string()},
                     fmt::format("is not of this aotc ({}): install both from one build", AOTC_VERSION));
  return f;
}

}  // namespace

Result<TorchFolder> torch_in(const std::string& path, const std::string& wanted) {
  std::vector<std::string> folders = {path, path + "/lib"};
  for (const char* package : kPackages)
    for (const std::string& torch : matching(path + package)) folders.push_back(torch + "/lib");
  for (const std::string& folder : folders) {
    if (!is_file(fs::path(folder) / kLibrary)) continue;
    TorchFolder out{fs::path(folder).lexically_normal().string(), version_of(fs::path(folder).lexically_normal())};
    if (out.version.empty() || interface_of(out.version) == interface_of(wanted)) return out;
    return Result<TorchFolder>::fail(fmt::format("LibTorch {}, and this aotc is built against {}", out.version, interface_of(wanted)));
  }
  std::error_code e;
  return Result<TorchFolder>::fail(fs::is_directory(path, e) ? fmt::format("no {}", kLibrary) : "no such folder");
}

std::vector<std::string> torch_places(const std::string& recorded) {
  if (const std::string only = environment(kVariable); !only.empty()) return {only};
  std::vector<std::string> out, roots;
  std::ifstream file(recorded);
  if (std::string line; std::getline(file, line) && !line.empty()) out.push_back(line);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string root = environment(variable); !root.empty()) roots.push_back(root);
  for (std::string& root : python_roots()) roots.push_back(std::move(root));
  if (const std::string home = environment("HOME"); !home.empty()) roots.push_back(home + "/.local");
  roots.insert(roots.end(), {"/usr/local", "/usr"});
  for (std::string& root : roots)
    if (std::find(out.begin(), out.end(), root) == out.end()) out.push_back(std::move(root));
  return out;
}

const TorchFunctions& torch_functions() {
  static const TorchFunctions* const functions = load_functions();
  return *functions;
}

std::unique_ptr<CompositeTracer> make_tracer(HasRule has_rule) { return torch_functions().make_tracer(std::move(has_rule)); }
std::unique_ptr<Reference> make_reference(const Program& program, const ReferenceOptions& options) {
  return torch_functions().make_reference(program, options);
}

}  // namespace aotc::import
