// Where NVRTC is looked for: a tree of empty files, the variables of an environment, and the order in which they count.
#include "emit/cuda/nvrtc_search.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "emit/cuda/nvrtc.h"

using namespace aotc;
using namespace aotc::emit::cuda;

namespace {

namespace fs = std::filesystem;

struct Tree {
  fs::path root = fs::temp_directory_path() / ("aotc nvrtc [1] " + std::to_string(getpid()));  // a name that glob could misread
  Tree() { fs::create_directories(root); }
  ~Tree() { fs::remove_all(root); }
  std::string at(const std::string& path) const { return (root / path).string(); }
  std::string file(const std::string& path, const std::string& text = "") const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
    return at(path);
  }
  std::string program(const std::string& path, const std::string& text) const {
    file(path, "#!/bin/sh\n" + text);
    fs::permissions(root / path, fs::perms::owner_all);
    return at(path);
  }
};

const NvrtcPlace& place(const std::vector<NvrtcPlace>& all, const std::string& what) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const NvrtcPlace& p) { return p.what.rfind(what, 0) == 0; });
  INFO(what);
  REQUIRE(it != all.end());
  return *it;
}

size_t order(const std::vector<NvrtcPlace>& all, const std::string& what) { return static_cast<size_t>(&place(all, what) - all.data()); }

using Files = std::vector<std::string>;

}  // namespace

TEST_CASE("every place where NVRTC is installed is looked in, in order") {
  const Tree t;
  const std::string site = "/lib/python3.11/site-packages/nvidia/";
  const std::string home = t.file("toolkit/lib64/libnvrtc.so.12"), path = t.file("other/targets/x86_64-linux/lib/libnvrtc.so");
  const std::string venv12 = t.file("venv" + site + "cuda_nvrtc/lib/libnvrtc.so.12"),
                    venv13 = t.file("venv" + site + "cu13/lib/libnvrtc.so.13");
  t.file("venv" + site + "cu13/lib/libnvrtc-builtins.so.13.0");
  const std::string conda = t.file("conda/lib/libnvrtc.so.12");
  const std::string debian = t.file("usr/lib/python3/dist-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  const std::string user = t.file("home/.local" + site + "cu14/lib/libnvrtc.so.14");
  const std::string pythonpath = t.file("extra/nvidia/cu13/lib/libnvrtc.so.13");
  t.program("usr/bin/python3.11", "");
  fs::create_symlink("python3.11", t.root / "usr/bin/python3");
  const auto all = nvrtc_places({{"CUDA_HOME", t.at("toolkit")},
                                 {"CUDA_PATH", t.at("other")},
                                 {"VIRTUAL_ENV", t.at("venv")},
                                 {"CONDA_PREFIX", t.at("conda")},
                                 {"PYTHONPATH", ":" + t.at("extra")},
                                 {"PATH", t.at("nowhere") + "::" + t.at("usr/bin")},
                                 {"HOME", t.at("home")}});
  CHECK(place(all, "CUDA_HOME").libraries == Files{home});
  CHECK(place(all, "CUDA_PATH").libraries == Files{path});
  CHECK(place(all, "the loader's path").libraries.front() == "libnvrtc.so.13");
  CHECK(place(all, "VIRTUAL_ENV").libraries == Files{venv13, venv12});
  CHECK(place(all, "CONDA_PREFIX").libraries == Files{conda});
  CHECK(place(all, "PYTHONPATH").libraries == Files{pythonpath});
  CHECK(place(all, "python3 of PATH").libraries == Files{debian});
  CHECK(place(all, "the user's").libraries == Files{user});
  CHECK(order(all, "CUDA_HOME") < order(all, "CUDA_PATH"));
  CHECK(order(all, "CUDA_PATH") < order(all, "the loader's path"));
  CHECK(order(all, "the loader's path") < order(all, "VIRTUAL_ENV"));
  CHECK(order(all, "VIRTUAL_ENV") < order(all, "python3 of PATH"));
}

TEST_CASE("the python3 of PATH: of a virtual environment, or where its links lead") {
  const Tree t;
  const std::string tail = "/lib/python3.12/site-packages/nvidia/cu13/lib/libnvrtc.so.13";
  const std::string base = t.file("opt/python" + tail), venv = t.file("venv" + tail);
  t.program("opt/python/bin/python3.12", "");
  fs::create_directories(t.root / "venv/bin");
  fs::create_directories(t.root / "links");
  fs::create_symlink(t.root / "opt/python/bin/python3.12", t.root / "venv/bin/python3");
  fs::create_symlink(t.root / "opt/python/bin/python3.12", t.root / "links/python3");
  t.file("venv/pyvenv.cfg", "home = /opt/python/bin\n");
  CHECK(place(nvrtc_places({{"PATH", t.at("venv/bin")}}), "python3 of PATH").libraries == Files{venv});
  CHECK(place(nvrtc_places({{"PATH", t.at("links")}}), "python3 of PATH").libraries == Files{base});
  CHECK(place(nvrtc_places({}), "python3 of PATH").folders == "there is none");
  // A launcher script says nothing by its place: it is asked.
  t.program("shims/python3",
            "echo; echo '" + t.at("opt/python/lib/python312.zip") + "'; echo '" + t.at("opt/python/lib/python3.12/site-packages") + "'\n");
  CHECK(place(nvrtc_places({{"PATH", t.at("shims")}}), "python3 of PATH").libraries.empty());
  CHECK(nvrtc_place_of_python({{"PATH", t.at("shims")}}).libraries == Files{base});
  t.program("broken/python3", "exit 1\n");
  CHECK(nvrtc_place_of_python({{"PATH", t.at("broken")}}).folders == "it does not run");
}

TEST_CASE("AOTC_NVRTC names a file or a folder, and nothing else counts then") {
  const Tree t;
  const std::string library = t.file("cuda/lib64/libnvrtc.so.12");
  for (const std::string& given : {library, t.at("cuda/lib64"), t.at("cuda")}) {
    const auto all = nvrtc_places({{"AOTC_NVRTC", given}, {"CUDA_HOME", t.at("cuda")}});
    REQUIRE(all.size() == 1);
    CHECK(all[0].libraries == Files{library});
  }
  const Result<Nvrtc> none = Nvrtc::load({{"AOTC_NVRTC", t.at("absent.so")}});
  REQUIRE(!none);
  CHECK(none.why().find("AOTC_NVRTC=" + t.at("absent.so")) != std::string::npos);
  CHECK(none.why().find("VIRTUAL_ENV") == std::string::npos);
}

TEST_CASE("a file that is no library is passed over, builtins beside NVRTC are found, and the message names every place") {
  const Tree t;
  // As NVRTC does, it asks for its builtins by name.
  const std::string source = t.file("stub.c",
                                    "#include <dlfcn.h>\n"
                                    "int f(void) { return 0; }\n"
                                    "int nvrtcVersion(int* a, int* b) {\n"
                                    "  *a = 12;\n"
                                    "  *b = dlopen(\"libnvrtc-builtins.so.12.4\", RTLD_NOW) ? 4 : 0;\n"
                                    "  return 0;\n"
                                    "}\n");
  std::string aliases;
  for (const char* name : {"CreateProgram", "CompileProgram", "GetProgramLogSize", "GetProgramLog", "GetCUBINSize", "GetCUBIN",
                           "GetPTXSize", "GetPTX", "DestroyProgram", "GetErrorString"})
    aliases += std::string(" -Wl,--defsym=nvrtc") + name + "=f";
  const std::string stub = t.at("home/lib64/libnvrtc.so.12");
  fs::create_directories(fs::path(stub).parent_path());
  REQUIRE(std::system(("cc -shared -fPIC -o '" + stub + "' '" + source + "'" + aliases).c_str()) == 0);
  REQUIRE(std::system(("cc -shared -fPIC -Wl,-soname,libnvrtc-builtins.so.12.4 -o '" + t.at("home/lib64/libnvrtc-builtins.so.12.4") +
                       "' -x c '" + t.file("empty.c", "int builtins;\n") + "'")
                          .c_str()) == 0);
  t.file("home/lib64/libnvrtc.so.13", "no library");
  const Result<Nvrtc> found = Nvrtc::load({{"CUDA_HOME", t.at("home")}});
  INFO(found.why());
  REQUIRE(found);
  CHECK(found->version() == "12.4");
  const auto all = nvrtc_places({{"CUDA_HOME", t.at("home")}});
  CHECK(place(all, "CUDA_HOME").folders.find(t.at("home/lib64")) != std::string::npos);
  for (const char* what :
       {"AOTC_NVRTC", "CUDA_HOME", "CUDA_PATH", "the loader's path", "VIRTUAL_ENV", "CONDA_PREFIX", "python3 of PATH", "/usr/local/cuda"})
    CHECK(!place(all, what).folders.empty());
}
