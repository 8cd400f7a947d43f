#include "emit/cuda/nvrtc_search.h"

#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/process.h"

extern "C" char** environ;

namespace aotc::emit::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libnvrtc.so*";  // not libnvrtc-builtins.so
constexpr const char* kToolkitFolders[] = {"lib64", "lib", "targets/x86_64-linux/lib"};
constexpr const char* kSiteFolders[] = {"lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages",
                                        "lib64/python3*/site-packages"};
constexpr const char* kPackageFolders[] = {"nvidia/cu[0-9]*/lib", "nvidia/cuda_nvrtc/lib"};  // CUDA 13 and later; 12 and 11

std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> out;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

/// A path for glob(): what the user's folders are called is no pattern.
std::string literal(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string value(const Variables& v, const std::string& name) {
  const auto it = v.find(name);
  return it == v.end() ? std::string() : it->second;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(at, from), text.size());
    if (to > from) out.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

void look_in(NvrtcPlace& place, const std::string& folder) {
  place.folders += (place.folders.empty() ? "" : ", ") + folder;
  for (std::string& file : matches(literal(folder) + "/" + kLibrary)) place.libraries.push_back(std::move(file));
}

void look_in_site(NvrtcPlace& place, const std::string& site) {
  bool any = false;
  for (const char* tail : kPackageFolders)
    for (const std::string& folder : matches(literal(site) + "/" + tail)) look_in(place, folder), any = true;
  if (!any) place.folders += (place.folders.empty() ? "" : ", ") + site;
}

void look_in_prefix(NvrtcPlace& place, const std::string& prefix) {
  for (const char* tail : kSiteFolders)
    for (const std::string& site : matches(literal(prefix) + "/" + tail)) look_in_site(place, site);
}

NvrtcPlace finished(NvrtcPlace place) {
  if (place.folders.empty()) place.folders = "no such folders";
  // 13 before 12; a library has several names, the shortest comes first of each folder's
  std::stable_sort(place.libraries.begin(), place.libraries.end(), [](const std::string& a, const std::string& b) {
    const auto major = [](const std::string& s) { return std::atoi(s.c_str() + std::min(s.size(), s.rfind(".so") + 4)); };
    return major(a) > major(b);
  });
  return place;
}

std::optional<std::string> find_python(const Variables& v) {
  for (const std::string& folder : split(value(v, "PATH"), ':')) {
    const std::string file = folder + "/python3";
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

/// The installation that the python3 of PATH belongs to: a virtual environment says so beside its bin, others are where the links lead.
NvrtcPlace default_python(const Variables& v) {
  const auto python = find_python(v);
  if (!python) return {"python3 of PATH", "there is none", {}};
  NvrtcPlace place{"python3 of PATH (" + *python + ")", "", {}};
  std::error_code ec;
  const fs::path prefix = fs::path(*python).parent_path().parent_path();
  look_in_prefix(place, prefix.string());
  const fs::path real = fs::canonical(*python, ec).parent_path().parent_path();
  if (!ec && real != prefix && !fs::exists(prefix / "pyvenv.cfg", ec)) look_in_prefix(place, real.string());
  return finished(place);
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

std::vector<NvrtcPlace> nvrtc_places(const Variables& v) {
  std::vector<NvrtcPlace> out;
  std::error_code ec;
  if (const std::string given = value(v, "AOTC_NVRTC"); !given.empty()) {
    NvrtcPlace place{"AOTC_NVRTC=" + given, "", {}};
    if (fs::is_directory(given, ec)) {
      look_in(place, given);
      for (const char* tail : kToolkitFolders)
        if (fs::is_directory(given + "/" + tail, ec)) look_in(place, given + "/" + tail);
    } else {
      place.folders = "as a file";
      place.libraries = {given};
    }
    return {finished(place)};
  }
  out.push_back({"AOTC_NVRTC", "not set", {}});
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string root = value(v, name);
    NvrtcPlace place{root.empty() ? name : name + ("=" + root), root.empty() ? "not set" : "", {}};
    for (const char* tail : kToolkitFolders)
      if (!root.empty()) look_in(place, root + "/" + tail);
    out.push_back(finished(place));
  }
  out.push_back({"the loader's path", "LD_LIBRARY_PATH and ldconfig", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}});
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const std::string root = value(v, name);
    NvrtcPlace place{root.empty() ? name : name + ("=" + root), root.empty() ? "not set" : "", {}};
    if (!root.empty()) look_in_prefix(place, root);
    if (!root.empty() && std::string(name) == "CONDA_PREFIX") look_in(place, root + "/lib");
    out.push_back(finished(place));
  }
  if (const auto sites = split(value(v, "PYTHONPATH"), ':'); !sites.empty()) {
    NvrtcPlace place{"PYTHONPATH", "", {}};
    for (const std::string& site : sites) look_in_site(place, site);
    out.push_back(finished(place));
  }
  out.push_back(default_python(v));
  const std::string home = value(v, "HOME"), base = value(v, "PYTHONUSERBASE");
  if (const std::string user = !base.empty() ? base : home.empty() ? "" : home + "/.local"; !user.empty()) {
    NvrtcPlace place{"the user's Python packages", "", {}};
    look_in_prefix(place, user);
    out.push_back(finished(place));
  }
  NvrtcPlace toolkits{"/usr/local/cuda*", "", {}};
  for (const std::string& root : matches("/usr/local/cuda*"))
    for (const char* tail : kToolkitFolders) look_in(toolkits, root + "/" + tail);
  out.push_back(finished(toolkits));
  return out;
}

NvrtcPlace nvrtc_place_of_python(const Variables& v) {
  const auto python = find_python(v);
  if (!python) return {"sys.path of python3", "there is no python3 in PATH", {}};
  NvrtcPlace place{"sys.path of " + *python, "", {}};
  const ProcessResult r = run_process({*python, "-c", "import sys; print('\\n'.join(sys.path))"});
  if (!r.ok()) {
    place.folders = "it does not run";
    return place;
  }
  for (const std::string& site : split(r.output, '\n'))
    if (fs::path(site).is_absolute() && fs::is_directory(site)) look_in_site(place, site);
  return finished(place);
}

}  // namespace aotc::emit::cuda
