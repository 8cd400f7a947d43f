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

/// The first place that has a LibTorch.
std::string first(const std::vector<TorchPlace>& places) {
  for (const TorchPlace& place : places)
    for (const std::string& path : place.paths)
      if (const auto found = torch_in(path)) return found->libraries;
  return "none";
}

}  // namespace

TEST_CASE("LibTorch is found in a package, its lib folder, an environment and an unpacked one; one that is too old is refused") {
  const Tree t;
  const std::string package = t.torch("env/lib/python3.11/site-packages/torch", "2.13.1+cu130"), libraries = package + "/lib";
  for (const std::string& path : {package, libraries, libraries + "/", t.at("env")}) {
    const auto found = torch_in(path);
    INFO(path << ": " << found.why());
    REQUIRE(found);
    CHECK(fs::path(found->libraries).lexically_relative(libraries).string().size() <= 1);
    CHECK(found->version == "2.13.1+cu130");
  }
  t.file("unpacked/lib/libtorch_cpu.so");
  CHECK(torch_in(t.at("unpacked"))->version.empty());
  t.file("unpacked/build-version", "2.13.0+cpu\n");
  CHECK(torch_in(t.at("unpacked"))->version == "2.13.0+cpu");
  for (const char* old : {"2.1.3", "2.10.0", "1.13.1"}) {
    const auto refused = torch_in(t.torch(std::string("old-") + old, old));
    INFO(old);
    REQUIRE(!refused);
    CHECK(refused.why() == std::string("LibTorch ") + old + "; 2.11 or later is needed");
  }
  for (const char* other : {"2.11.0", "2.130.0", "3.0.0", "2.14.0a0+git123"})
    CHECK(torch_in(t.torch(std::string("other-") + other, other)));
  CHECK(torch_in(t.at("absent")).why() == "no such folder");
  CHECK(torch_in(t.at("env/lib")).why() == "no libtorch_cpu.so");
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
  CHECK(first(torch_places(v, recorded, "")) == named + "/lib");
  CHECK(torch_places(v, recorded, "").size() == 1);
  v["AOTC_LIBTORCH"] = t.at("home");  // no LibTorch there, and nothing else counts
  CHECK(first(torch_places(v, recorded, "")) == "none");
  v.erase("AOTC_LIBTORCH");
  CHECK(first(torch_places(v, recorded, "")) == built + "/lib");
  fs::remove_all(built);
  CHECK(first(torch_places(v, recorded, "")) == active + "/lib");
  CHECK(first(torch_places(v, recorded, t.at("named"))) == named + "/lib");  // where aotc is installed
  t.torch("active" + tail, "2.10.0");                                        // passed over
  CHECK(first(torch_places(v, t.at("absent"), "")) == path + "/lib");
  CHECK(first({torch_place_of_python(v)}) == path + "/lib");
  v.erase("PATH");
  CHECK(first(torch_places(v, t.at("absent"), "")) == user + "/lib");
  CHECK(torch_place_of_python(v).none == "there is no python3 in PATH");
}

TEST_CASE("LibTorch and what is compiled against it go together by 2.x; where none do, the latest that is not later is tried") {
  const std::vector<TorchSide> sides = {{{2, 13}, "a"}, {{2, 11}, "b"}, {{2, 15}, "c"}};
  const auto pair = [&](const std::vector<std::string>& found) {
    std::vector<TorchFolder> folders;
    for (const std::string& version : found) folders.push_back({"/" + version, version});
    const TorchPair p = torch_pair(folders, sides);
    return p.torch.version + " " + p.side.file + (p.alike ? "" : " tried");
  };
  CHECK(pair({"2.13.0+cpu"}) == "2.13.0+cpu a");
  CHECK(pair({"2.11.0", "2.13.0"}) == "2.11.0 b");
  CHECK(pair({"2.12.1", "2.15.0+cu132"}) == "2.15.0+cu132 c");
  CHECK(pair({"2.12.1", "2.16.0"}) == "2.12.1 b tried");
  CHECK(pair({"2.16.0", "2.12.1"}) == "2.16.0 c tried");
  CHECK(pair({"2.14.0"}) == "2.14.0 a tried");
  CHECK(pair({""}) == " a");
  CHECK(torch_pair({{"/x", "2.10.0"}}, {{{2, 15}, "c"}, {{2, 13}, "a"}}).side.file == "a");
}

TEST_CASE("what is compiled against LibTorch is found by its name, the first one whatever its version") {
  const Tree t;
  for (const char* name :
       {"libaotc_torch.so", "libaotc_torch-2.15.so", "libaotc_torch-2.9.so", "libaotc_torch-2.15.txt", "libother-2.12.so"})
    t.file(std::string("lib/") + name);
  const std::vector<TorchSide> sides = torch_sides(t.at("lib"), "2.13.0+cpu");
  REQUIRE(sides.size() == 3);
  CHECK(sides[0].version == TorchVersion{2, 13});
  CHECK(sides[0].file == t.at("lib/libaotc_torch.so"));
  CHECK(sides[1].version == TorchVersion{2, 9});
  CHECK(sides[2].file == t.at("lib/libaotc_torch-2.15.so"));
}

TEST_CASE("versions of torch are compared as numbers, and an archive of a later one than any that was tried is told") {
  CHECK(torch_version("2.13.0+cpu") == TorchVersion{2, 13});
  CHECK(torch_version("2.9.1") < torch_version("2.13.0"));
  CHECK(torch_version("2.13") < torch_version("3.0.0a0+git1"));
  for (const char* none : {"", "2", "x.1", "2.", "+cpu"}) CHECK(torch_version(none) == TorchVersion{});
  for (const char* tried : {"2.11.0", "2.13.0+cpu", "2.15.0", "2.5.1", ""}) CHECK(untried_archive(tried).empty());
  CHECK(untried_archive(newest_torch().str() + ".9").empty());
  const TorchVersion next{newest_torch().major, newest_torch().minor + 1};
  CHECK_THAT(untried_archive(next.str() + ".0"), Catch::Contains("the archive is of torch " + next.str() + ".0"));
}
