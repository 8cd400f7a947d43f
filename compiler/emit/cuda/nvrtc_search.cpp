#include "emit/cuda/nvrtc_search.h"

#include <algorithm>
#include <filesystem>

namespace aotc::emit::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libnvrtc.so*";  // not libnvrtc-builtins.so
constexpr const char* kToolkitFolders[] = {"lib64", "lib", "targets/x86_64-linux/lib"};
constexpr const char* kPackageFolders[] = {"nvidia/cu[0-9]*/lib", "nvidia/cuda_nvrtc/lib"};  // CUDA 13 and later; 12 and 11

void look_in(NvrtcPlace& place, const std::string& folder) {
  place.folders += (place.folders.empty() ? "" : ", ") + folder;
  for (std::string& file : glob_matches(glob_literal(folder) + "/" + kLibrary)) place.libraries.push_back(std::move(file));
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

NvrtcPlace place_of(const PythonSites& sites) {
  NvrtcPlace place{sites.what, sites.none, {}};
  for (const std::string& site : sites.folders) {
    bool any = false;
    for (const char* tail : kPackageFolders)
      for (const std::string& folder : glob_matches(glob_literal(site) + "/" + tail)) look_in(place, folder), any = true;
    if (!any) place.folders += (place.folders.empty() ? "" : ", ") + site;
  }
  return place;
}

}  // namespace

std::vector<NvrtcPlace> nvrtc_places(const Variables& v) {
  std::vector<NvrtcPlace> out;
  std::error_code ec;
  if (const std::string given = variable(v, "AOTC_NVRTC"); !given.empty()) {
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
    const std::string root = variable(v, name);
    NvrtcPlace place{root.empty() ? name : name + ("=" + root), root.empty() ? "not set" : "", {}};
    for (const char* tail : kToolkitFolders)
      if (!root.empty()) look_in(place, root + "/" + tail);
    out.push_back(finished(place));
  }
  out.push_back({"the loader's path", "LD_LIBRARY_PATH and ldconfig", {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}});
  for (const PythonSites& sites : python_sites(v)) {
    NvrtcPlace place = place_of(sites);
    if (const std::string conda = variable(v, "CONDA_PREFIX"); !conda.empty() && sites.what == "CONDA_PREFIX=" + conda)
      look_in(place, conda + "/lib");
    out.push_back(finished(std::move(place)));
  }
  NvrtcPlace toolkits{"/usr/local/cuda*", "", {}};
  for (const std::string& root : glob_matches("/usr/local/cuda*"))
    for (const char* tail : kToolkitFolders) look_in(toolkits, root + "/" + tail);
  out.push_back(finished(toolkits));
  return out;
}

NvrtcPlace nvrtc_place_of_python(const Variables& v) { return finished(place_of(sites_of_python(v))); }

}  // namespace aotc::emit::cuda
