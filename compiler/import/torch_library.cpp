#include "import/torch_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>

#include "import/operator_table.h"
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

TorchPlace place_of(const PythonSites& sites) {
  TorchPlace out{sites.what, sites.none, {}};
  for (const std::string& site : sites.folders) out.paths.push_back(site + "/torch");
  return out;
}

/// Adds the LibTorch of the place's first path that has one; says in `missing` what the others have.
void find_in(const TorchPlace& place, std::vector<TorchFolder>& found, Diagnostic& missing) {
  std::string why = place.none;
  for (const std::string& path : place.paths) {
    const Result<TorchFolder> torch = torch_in(path);
    if (torch) return found.push_back(*torch);
    why += fmt::format("{}{}: {}", why.empty() ? "" : ", ", path, torch.why());
  }
  missing.note(fmt::format("looked in {}: {}", place.what, why.empty() ? "no packages" : why));
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

TorchPair find_torch(const Variables& variables, const fs::path& mine) {
  const std::vector<TorchSide> sides = torch_sides(mine.string(), AOTC_LIBTORCH_VERSION);
  Diagnostic missing(ExitCode::toolchain, {}, "LibTorch was not found; reading a .pt2 and comparing with eager need it");
  std::vector<TorchFolder> found;
  for (const TorchPlace& place : torch_places(variables, (mine / "libtorch.path").string(), mine.parent_path().parent_path().string())) {
    find_in(place, found, missing);
    if (!found.empty() && torch_pair(found, sides).alike) return torch_pair(found, sides);
  }
  if (variable(variables, kVariable).empty()) find_in(torch_place_of_python(variables), found, missing);
  if (!found.empty()) return torch_pair(found, sides);
  const TorchVersion version = torch_version(AOTC_LIBTORCH_VERSION);
  missing.note(fmt::format(
      "install it with: pip install torch=={}.* (Python {} or later); in an environment that is not active, name the environment in {}",
      version.str(), version < TorchVersion{2, 15} ? "3.10" : "3.11", kVariable));
  throw std::move(missing);
}

Diagnostic unfit(const TorchPair& pair, const std::string& why) {
  const std::string version = pair.side.version.str();
  return Diagnostic(ExitCode::toolchain, Loc{pair.side.file, "", "", ""},
                    fmt::format("is built against LibTorch {} and was tried with {} ({}): {}", version, pair.torch.version,
                                pair.torch.libraries, why))
      .note(fmt::format("install torch=={}.*, or build aotc against this LibTorch: -DAOTC_LIBTORCH={}", version,
                        fs::path(pair.torch.libraries).parent_path().string()));
}

/// Why it does not work, or nothing: in a process of its own, since what does not fit mostly crashes.
std::string misfit(const TorchFunctions& f) {
  constexpr unsigned kPatience_s = 300;  // what takes a second, on a machine that has much else to do
  const pid_t child = fork();
  if (child < 0) return {};  // no process to be had: what is asked of it will tell
  if (child == 0) {
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGALRM}) signal(fault, SIG_DFL);
    alarm(kPatience_s);
    _exit(f.works() ? 0 : 1);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? "" : "it gives wrong results";
  if (WTERMSIG(status) == SIGALRM) return fmt::format("it gave no answer in {} s", kPatience_s);
  return fmt::format("it crashes ({})", strsignal(WTERMSIG(status)));
}

struct Loaded {
  const TorchFunctions* functions = nullptr;
  TorchPair pair;
};

Loaded load_functions() {
  const TorchPair& pair = torch_here();
  // libaotc_torch.so asks for LibTorch by name alone; what is loaded already is what it gets.
  load(fs::path(pair.torch.libraries) / kLibrary, RTLD_LAZY);
  void* handle = nullptr;
  try {
    handle = load(pair.side.file, RTLD_NOW);
  } catch (const Diagnostic& d) {
    if (pair.alike) throw;
    throw unfit(pair, d.message());
  }
  const auto get = reinterpret_cast<GetTorchFunctions*>(dlsym(handle, kGetTorchFunctions));
  const TorchFunctions* f = get ? get() : nullptr;
  if (!f || std::string_view(f->aotc_version) != AOTC_VERSION)
    throw Diagnostic(ExitCode::toolchain, Loc{.file = pair.side.file},
                     fmt::format("is not of this aotc ({}): install both from one build", AOTC_VERSION));
  if (const std::string why = pair.alike ? "" : misfit(*f); !why.empty()) throw unfit(pair, why);
  return {f, pair};
}

std::optional<Loaded>& loaded() {
  static std::optional<Loaded> one;
  return one;
}

/// What the build wrote of the operators of torch_here(), where that is of the version that the build was with.
const OperatorTable& operators_here() {
  static const OperatorTable table = [] {
    const TorchPair& pair = torch_here();
    const fs::path path = fs::path(pair.side.file).replace_extension(".operators");
    std::string text(pair.alike && is_file(path) ? fs::file_size(path) : 0, '\0');
    if (!text.empty() && !std::ifstream(path, std::ios::binary).read(text.data(), static_cast<std::streamsize>(text.size()))) text.clear();
    return OperatorTable(std::move(text), AOTC_VERSION, pair.torch.version);
  }();
  return table;
}

}  // namespace

Result<TorchFolder> torch_in(const std::string& path) {
  std::vector<std::string> folders = {path, path + "/lib"};
  for (const std::string& site : sites_of_prefix(path)) folders.push_back(site + "/torch/lib");
  for (const std::string& folder : folders) {
    if (!is_file(fs::path(folder) / kLibrary)) continue;
    fs::path libraries = fs::path(folder).lexically_normal();
    if (!libraries.has_filename()) libraries = libraries.parent_path();  // "lib/"
    TorchFolder out{libraries.string(), version_of(libraries)};
    if (out.version.empty() || !(torch_version(out.version) < oldest_torch())) return out;
    return Result<TorchFolder>::fail(fmt::format("LibTorch {}; {} or later is needed", out.version, oldest_torch().str()));
  }
  std::error_code e;
  return Result<TorchFolder>::fail(fs::is_directory(path, e) ? fmt::format("no {}", kLibrary) : "no such folder");
}

std::vector<TorchSide> torch_sides(const std::string& folder, const std::string& version) {
  constexpr std::string_view kStem = "libaotc_torch-";
  std::vector<TorchSide> further;
  std::error_code e;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, e)) {
    const std::string stem = file.path().stem().string();
    if (file.path().extension() == ".so" && stem.rfind(kStem, 0) == 0)
      further.push_back({torch_version(stem.substr(kStem.size())), file.path().string()});
  }
  std::sort(further.begin(), further.end(), [](const TorchSide& a, const TorchSide& b) { return a.version < b.version; });
  further.insert(further.begin(), {torch_version(version), (fs::path(folder) / "libaotc_torch.so").string()});
  return further;
}

std::vector<TorchSide> torch_sides_here() { return torch_sides(private_folder().string(), AOTC_LIBTORCH_VERSION); }

TorchPair torch_pair(const std::vector<TorchFolder>& found, const std::vector<TorchSide>& sides) {
  for (const TorchFolder& torch : found) {
    if (torch.version.empty()) return {torch, sides.front()};
    for (const TorchSide& side : sides)
      if (side.version == torch_version(torch.version)) return {torch, side};
  }
  const TorchVersion version = torch_version(found.front().version);
  const TorchSide* best = &sides.front();
  for (const TorchSide& side : sides) {
    const bool later = version < side.version, best_later = version < best->version;
    if (later == best_later ? (later ? side.version < best->version : best->version < side.version) : best_later) best = &side;
  }
  return {found.front(), *best, false};
}

std::vector<TorchPlace> torch_places(const Variables& variables, const std::string& recorded, const std::string& prefix) {
  if (const std::string only = variable(variables, kVariable); !only.empty()) return {{std::string(kVariable) + "=" + only, "", {only}}};
  std::vector<TorchPlace> out;
  TorchPlace built{recorded, "", {}};
  std::ifstream in(recorded);
  for (std::string line; std::getline(in >> std::ws, line) && !line.empty();) built.paths.push_back(line);
  if (built.paths.empty()) built.none = "no such file";
  out.push_back(std::move(built));
  if (PythonSites own{fmt::format("the environment of this aotc, {}", prefix), "", sites_of_prefix(prefix)}; !own.folders.empty())
    out.push_back(place_of(own));
  for (const PythonSites& sites : python_sites(variables)) out.push_back(place_of(sites));
  out.push_back(place_of({"the system's Python packages", "", sites_of_prefix("/usr")}));
  return out;
}

TorchPlace torch_place_of_python(const Variables& variables) { return place_of(sites_of_python(variables)); }

const TorchPair& torch_here() {
  static const TorchPair pair = find_torch(process_variables(), private_folder());
  return pair;
}

std::optional<OpSchema> find_schema(const std::string& target) {
  if (!loaded())  // else users' operators may have been added
    if (std::optional<OpSchema> schema = operators_here().find(target)) return schema;
  return torch_functions().find_schema(target);
}

const TorchFunctions& torch_functions() {
  static std::once_flag once;
  std::call_once(once, [] { loaded() = load_functions(); });
  return *loaded()->functions;
}

std::string python_of_torch() {
  if (!loaded()) return {};
  // PREFIX/lib/python3.12/site-packages/torch/lib
  fs::path prefix = loaded()->pair.torch.libraries;
  for (int up = 0; up < 5; ++up) prefix = prefix.parent_path();
  for (const char* name : {"bin/python", "bin/python3"})
    if (const fs::path python = prefix / name; access(python.c_str(), X_OK) == 0) return python.string();
  return {};
}

std::string untried_libtorch() {
  if (!loaded() || loaded()->pair.alike) return {};
  return fmt::format("LibTorch {} ({}) is used by what is built against {}, the nearest that is here: build aotc against it to be sure",
                     loaded()->pair.torch.version, loaded()->pair.torch.libraries, loaded()->pair.side.version.str());
}

std::unique_ptr<CompositeTracer> make_tracer(HasRule has_rule) { return torch_functions().make_tracer(std::move(has_rule)); }
std::unique_ptr<Reference> make_reference(const Program& program, const ReferenceOptions& options) {
  return torch_functions().make_reference(program, options);
}
Result<std::vector<TensorMeta>> result_types(const Program& program, const PNode& node) {
  return torch_functions().result_types(program, node);
}

}  // namespace aotc::import
