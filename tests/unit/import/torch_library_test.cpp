// Where LibTorch is looked for: a tree of empty files, the variables of an environment, and the order in which they count.
#include "import/torch_library.h"

#include <unistd.h>

#include <algorithm>

#include "support.h"

using namespace aotc;
using namespace aotc::import;

namespace {

namespace fs = std::filesystem;

struct Tree {
  fs::path root = fs::temp_directory_path() / ("aotc torch [1] " + std::to_string(getpid()));  // a name that glob could misread
  Tree() { fs::create_directories(root); }
  ~Tree() { fs::remove_all(root); }
  std::string at(const std::string& path) const { return (root / path).string(); }
  std::string file(const std::string& path, const std::string& text = "") const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
    return at(path);
  }
  /// A torch package without content.
  std::string torch(const std::string& path, const std::string& version) const {
    file(path + "/lib/libtorch_cpu.so");
    file(path + "/version.py", "from typing import Optional\n__all__ = ['__version__', 'debug']\n__version__ = '" + version + "'\n");
    return at(path);
  }
};

/// The first place that has LibTorch 2.13.
std::string first(const std::vector<TorchPlace>& places) {
  for (const TorchPlace& place : places)
    for (const std::string& path : place.paths)
      if (const auto found = torch_in(path, "2.13.0")) return found->libraries;
  return "none";
}

}  // namespace

TEST_CASE("LibTorch is found in a package, its lib folder, an environment and an unpacked one; another 2.x is refused") {
  const Tree t;
  const std::string package = t.torch("env/lib/python3.11/site-packages/torch", "2.13.1+cu130"), libraries = package + "/lib";
  for (const std::string& path : {package, libraries, libraries + "/", t.at("env")}) {
    const auto found = torch_in(path, "2.13.0+cpu");
    INFO(path << ": " << found.why());
    REQUIRE(found);
    CHECK(fs::path(found->libraries).lexically_relative(libraries).string().size() <= 1);
    CHECK(found->version == "2.13.1+cu130");
  }
  t.file("unpacked/lib/libtorch_cpu.so");
  CHECK(torch_in(t.at("unpacked"), "2.13.0")->version.empty());
  t.file("unpacked/build-version", "2.13.0+cpu\n");
  CHECK(torch_in(t.at("unpacked"), "2.13.0")->version == "2.13.0+cpu");
  for (const char* other : {"2.1.3", "2.11.0", "2.130.0", "3.13.0", "2.14.0a0+git123"}) {
    const auto refused = torch_in(t.torch(std::string("other-") + other, other), "2.13.0");
    INFO(other);
    REQUIRE(!refused);
    CHECK(refused.why() == std::string("LibTorch ") + other + ", and this aotc is built against 2.13");
  }
  CHECK(torch_in(t.at("absent"), "2.13.0").why() == "no such folder");
  CHECK(torch_in(t.at("env/lib"), "2.13.0").why() == "no libtorch_cpu.so");
}

TEST_CASE("places of LibTorch count in order, and AOTC_LIBTORCH alone when it is set") {
  const Tree t;
  const std::string tail = "/lib/python3.12/site-packages/torch";
  const std::string built = t.torch("built/torch", "2.13.0"), named = t.torch("named" + tail, "2.13.0"),
                    active = t.torch("active" + tail, "2.13.0"), path = t.torch("path" + tail, "2.13.0"),
                    user = t.torch("home/.local" + tail, "2.13.0");
  fs::permissions(t.file("path/bin/python3", "#!/bin/sh\necho '" + t.at("path/lib/python3.12/site-packages") + "'\n"),
                  fs::perms::owner_all);
  const std::string recorded = t.file("libtorch.path", built + "\n");
  Variables v = {{"VIRTUAL_ENV", t.at("active")}, {"PATH", t.at("path/bin")}, {"HOME", t.at("home")}, {"AOTC_LIBTORCH", t.at("named")}};
  CHECK(first(torch_places(v, recorded)) == named + "/lib");
  CHECK(torch_places(v, recorded).size() == 1);
  v["AOTC_LIBTORCH"] = t.at("home");  // no LibTorch there, and nothing else counts
  CHECK(first(torch_places(v, recorded)) == "none");
  v.erase("AOTC_LIBTORCH");
  CHECK(first(torch_places(v, recorded)) == built + "/lib");
  fs::remove_all(built);
  CHECK(first(torch_places(v, recorded)) == active + "/lib");
  t.torch("active" + tail, "2.12.0");  // passed over
  CHECK(first(torch_places(v, t.at("absent"))) == path + "/lib");
  CHECK(first({torch_place_of_python(v)}) == path + "/lib");
  v.erase("PATH");
  CHECK(first(torch_places(v, t.at("absent"))) == user + "/lib");
  CHECK(torch_place_of_python(v).none == "there is no python3 in PATH");
}
