#include "base/python_sites.h"

#include <glob.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/process.h"

extern "C" char** environ;

namespace aotc {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSiteFolders[] = {"lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages",
                                        "lib64/python3*/site-packages"};

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(at, from), text.size());
    if (to > from) out.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

std::optional<std::string> find_python(const Variables& v) {
  for (const std::string& folder : split(variable(v, "PATH"), ':')) {
    const std::string file = folder + "/python3";
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

}  // namespace

Variables process_variables() {
  Variables out;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    if (const size_t eq = text.find('='); eq != std::string::npos && eq + 1 < text.size()) out[text.substr(0, eq)] = text.substr(eq + 1);
  }
  return out;
}

std::string variable(const Variables& v, const std::string& name) {
  const auto it = v.find(name);
  return it == v.end() ? std::string() : it->second;
}

/// The installation that the python3 of PATH belongs to: a virtual environment says so beside its bin, others are where the links lead.
PythonSites sites_of_path(const Variables& v) {
  const auto python = find_python(v);
  if (!python) return {"python3 of PATH", "there is none", {}};
  std::error_code ec;
  const fs::path prefix = fs::path(*python).parent_path().parent_path();
  PythonSites out{"python3 of PATH (" + *python + ")", "", sites_of_prefix(prefix.string())};
  const fs::path real = fs::canonical(*python, ec).parent_path().parent_path();
  if (!ec && real != prefix && !fs::exists(prefix / "pyvenv.cfg", ec))
    for (std::string& site : sites_of_prefix(real.string())) out.folders.push_back(std::move(site));
  return out;
}

std::vector<std::string> glob_matches(const std::string& pattern) {
  std::vector<std::string> out;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

std::string glob_literal(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::vector<std::string> sites_of_prefix(const std::string& prefix) {
  std::vector<std::string> out;
  for (const char* tail : kSiteFolders)
    for (std::string& site : glob_matches(glob_literal(prefix) + "/" + tail)) out.push_back(std::move(site));
  return out;
}

std::vector<PythonSites> python_sites(const Variables& v) {
  std::vector<PythonSites> out;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string root = variable(v, name);
    if (root.empty())
      out.push_back({name, "not set", {}});
    else
      out.push_back({name + ("=" + root), "", sites_of_prefix(root)});
  }
  if (std::vector<std::string> sites = split(variable(v, "PYTHONPATH"), ':'); !sites.empty())
    out.push_back({"PYTHONPATH", "", std::move(sites)});
  out.push_back(sites_of_path(v));
  const std::string home = variable(v, "HOME"), base = variable(v, "PYTHONUSERBASE");
  if (const std::string user = !base.empty() ? base : home.empty() ? "" : home + "/.local"; !user.empty())
    out.push_back({"the user's Python packages", "", sites_of_prefix(user)});
  return out;
}

PythonSites sites_of_python(const Variables& v) {
  const auto python = find_python(v);
  if (!python) return {"sys.path of python3", "there is no python3 in PATH", {}};
  PythonSites out{"sys.path of " + *python, "", {}};
  const ProcessResult r = run_process({*python, "-c", "import sys; print('\\n'.join(sys.path))"});
  if (!r.ok()) {
    out.none = "it does not run";
    return out;
  }
  for (std::string& site : split(r.output, '\n'))
    if (fs::path(site).is_absolute() && fs::is_directory(site)) out.folders.push_back(std::move(site));
  return out;
}

}  // namespace aotc
