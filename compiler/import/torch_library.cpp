#include "import/torch_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "import/torch_functions.h"

namespace aotc::import {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libtorch_cpu.so";
constexpr const char* kVariable = "AOTC_LIBTORCH";

bool is_file(const fs::path& p) {
  std::error_code e;
  return fs::is_regular_file(p, e);
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

TorchPlace place_of(const PythonSites& sites) {
  TorchPlace out{sites.what, sites.none, {}};
  for (const std::string& site : sites.folders) out.paths.push_back(site + "/torch");
  return out;
}

/// LibTorch in the first path of the place that has it; says in `missing` what it met.
std::optional<TorchFolder> find_in(const TorchPlace& place, Diagnostic& missing) {
  std::string why = place.none;
  for (const std::string& path : place.paths) {
    const Result<TorchFolder> torch = torch_in(path, AOTC_LIBTORCH_VERSION);
    if (torch) return *torch;
    why += fmt::format("{}{}: {}", why.empty() ? "" : ", ", path, torch.why());
  }
  missing.note(fmt::format("looked in {}: {}", place.what, why.empty() ? "no packages" : why));
  return std::nullopt;
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

TorchFolder find_torch(const Variables& variables, const std::string& recorded) {
  const std::string wanted = interface_of(AOTC_LIBTORCH_VERSION);
  Diagnostic missing(ExitCode::toolchain, {},
                     fmt::format("LibTorch {} was not found; reading a .pt2 and comparing with eager need it", wanted));
  for (const TorchPlace& place : torch_places(variables, recorded))
    if (auto found = find_in(place, missing)) return *found;
  if (variable(variables, kVariable).empty())
    if (auto found = find_in(torch_place_of_python(variables), missing)) return *found;
  missing.note(fmt::format("install it with: pip install torch=={}.*; in an environment that is not active, name the environment in {}",
                           wanted, kVariable));
  throw std::move(missing);
}

const TorchFunctions* load_functions() {
  const fs::path mine = private_folder();
  const TorchFolder found = find_torch(process_variables(), (mine / "libtorch.path").string());
  // libaotc_torch.so asks for LibTorch by name alone; what is loaded already is what it gets.
  load(fs::path(found.libraries) / kLibrary, RTLD_LAZY);
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
  for (const std::string& site : sites_of_prefix(path)) folders.push_back(site + "/torch/lib");
  for (const std::string& folder : folders) {
    if (!is_file(fs::path(folder) / kLibrary)) continue;
    fs::path libraries = fs::path(folder).lexically_normal();
    if (!libraries.has_filename()) libraries = libraries.parent_path();  // "lib/"
    TorchFolder out{libraries.string(), version_of(libraries)};
    if (out.version.empty() || interface_of(out.version) == interface_of(wanted)) return out;
    return Result<TorchFolder>::fail(fmt::format("LibTorch {}, and this aotc is built against {}", out.version, interface_of(wanted)));
  }
  std::error_code e;
  return Result<TorchFolder>::fail(fs::is_directory(path, e) ? fmt::format("no {}", kLibrary) : "no such folder");
}

std::vector<TorchPlace> torch_places(const Variables& variables, const std::string& recorded) {
  if (const std::string only = variable(variables, kVariable); !only.empty()) return {{std::string(kVariable) + "=" + only, "", {only}}};
  std::vector<TorchPlace> out;
  TorchPlace built{recorded, "", {}};
  if (std::string line; std::getline(std::ifstream(recorded) >> std::ws, line) && !line.empty())
    built.paths.push_back(line);
  else
    built.none = "no such file";
  out.push_back(std::move(built));
  for (const PythonSites& sites : python_sites(variables)) out.push_back(place_of(sites));
  out.push_back(place_of({"the system's Python packages", "", sites_of_prefix("/usr")}));
  return out;
}

TorchPlace torch_place_of_python(const Variables& variables) { return place_of(sites_of_python(variables)); }

const TorchFunctions& torch_functions() {
  static const TorchFunctions* const functions = load_functions();
  return *functions;
}

std::unique_ptr<CompositeTracer> make_tracer(HasRule has_rule) { return torch_functions().make_tracer(std::move(has_rule)); }
std::unique_ptr<Reference> make_reference(const Program& program, const ReferenceOptions& options) {
  return torch_functions().make_reference(program, options);
}
Result<std::vector<TensorMeta>> result_types(const Program& program, const PNode& node) {
  return torch_functions().result_types(program, node);
}

}  // namespace aotc::import
