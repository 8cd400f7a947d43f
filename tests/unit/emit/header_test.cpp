// The generated header, for names that an archive may hold: it compiles as C11 and C++17 without a warning, and says the names.
#include "emit/header.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "emit/c_names.h"
#include "sym/c_text.h"

using namespace aotc;
using namespace aotc::emit;

namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kNames = {"x",
                                         "x",
                                         "x_2",
                                         "a b",
                                         "a_b",
                                         "a.b",
                                         "",
                                         " ",
                                         "line\nbreak",
                                         "return\r\n",
                                         "*/ int evil(void); /*",
                                         "/* open",
                                         "// line \\",
                                         "trailing\\",
                                         "?\?/",
                                         "?\?\?/",
                                         "*",
                                         "/",
                                         "/*/",
                                         "quote\"s'",
                                         "%s %d {} {0}",
                                         "gr\xc3\xb6\xc3\x9f"
                                         "e",
                                         "\xe6\xa8\xa1\xe5\x9e\x8b",
                                         "\xe5\x9e\x8b",
                                         "\xff\xfe",
                                         "\xc3",
                                         "\xe2\x80\xae"
                                         "evil",
                                         "int",
                                         "class",
                                         "template",
                                         "and",
                                         "bool",
                                         "_Bool",
                                         "__func__",
                                         "__LINE__",
                                         "_X",
                                         "_",
                                         "__",
                                         "1st",
                                         "NULL",
                                         "EOF",
                                         "stdin",
                                         "errno",
                                         "I",
                                         "linux",
                                         "int64_t",
                                         "uint64_t",
                                         "size_t",
                                         "aotc_tensor",
                                         "aotc_status",
                                         "aotc_host_tensor",
                                         "in",
                                         "out",
                                         "api",
                                         "context",
                                         "sizes",
                                         "dims_in0",
                                         "dims_out1",
                                         "requires",
                                         "co_await",
                                         "typeof",
                                         "alignof",
                                         "noreturn",
                                         "inline",
                                         "this",
                                         "none",
                                         "INT64_MAX",
                                         "memset",
                                         "dlopen",
                                         "main",
                                         "v",
                                         "v_",
                                         "vv",
                                         std::string("zero\0inside", 11),
                                         std::string(300, 'n')};

/// A graph whose inputs, outputs, states and symbols have these names.
Graph hostile() {
  Graph g;
  std::vector<SymId> syms;
  for (const std::string& name : kNames) {
    SymInfo info;
    info.name = name;
    info.min = 1, info.max = 64;
    syms.push_back(g.syms.add(info));
  }
  for (size_t i = 0; i < kNames.size(); ++i) {
    const ValueId v = g.add_input(kNames[i], {i % 2 ? DType::f32 : DType::i64, {Expr::symbol(syms[i]), Expr::symbol(syms[0]) * 2 + 1}});
    g.outputs.push_back({kNames[i], v, "", -1});
    g.add_state(kNames[i], {DType::f32, {3}}, kNone<ConstId>);
  }
  return g;
}

struct Folder {
  fs::path path = fs::temp_directory_path() / ("aotc_header_" + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path / name, std::ios::binary) << text; }
  bool compiles(const std::string& command) const {
    const bool ok = std::system(("cd " + path.string() + " && " + command + " 2> log.txt").c_str()) == 0;
    if (!ok) UNSCOPED_INFO(log().substr(0, 4000));
    return ok;
  }
  std::string log() const {
    std::ifstream file(path / "log.txt");
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

}  // namespace

TEST_CASE("headers of hostile names compile as C11 and C++17, several in one program") {
  const Folder f;
  const Graph g = hostile();
  std::string user;
  int n = 0;
  for (const std::string& stem :
       {std::string("model"), std::string("*/ #error \n"), std::string("\xe6\xa8\xa1"), std::string("\xe5\x9e\x8b"), std::string("int"),
        std::string("Model"), std::string("aotc"), std::string("aotc_context"), std::string("aotc-elf"), std::string("aotc_demo")}) {
    const std::string name = "h" + std::to_string(n++) + ".h";
    // Names of methods and tensors that meet: a + b_c, a_b + c.
    const std::vector<HeaderMethod> one = {{"forward", g}}, several = {{"a", g}, {"a_x", g}, {"min", g}, {"once", g}};
    f.write(name, emit_header(n % 2 ? several : one, stem, "1.2"));
    user += "#include \"" + name + "\"\n";
    user += "aotc_status use" + name.substr(0, 2) + "(const aotc_api* api, aotc_model* m, aotc_context** c);\n";
    user += "aotc_status use" + name.substr(0, 2) + "(const aotc_api* api, aotc_model* m, aotc_context** c) { return " +
            header_prefix(stem) + "_context_create(api, m, 1, AOTC_CONTEXT_FLUSH_DENORMALS, c); }\n";
  }
  f.write("user.c", user);
  const std::string flags = " -Wall -Wextra -Wpedantic -Werror -Wno-unused-function -D_POSIX_C_SOURCE=200809L -fsyntax-only ";
  CHECK(f.compiles("cc -std=c11" + flags + "user.c"));
  CHECK(f.compiles("c++ -std=c++17 -x c++" + flags + "user.c"));
}

TEST_CASE("a header that includes the public ones is short, and goes with one that has them in it") {
  const Folder f;
  Graph g;
  const ValueId x = g.add_input("x", {DType::f32, {3}});
  g.outputs.push_back({"out", x, "", -1});
  const std::vector<HeaderMethod> one = {{"forward", g}}, two = {{"a", g}, {"b", g}};
  const std::string shared = emit_header(one, "shared", "1.2", {false, true});
  CHECK_THAT(shared,
             Catch::Contains("#include \"aotc/loader.h\"") && Catch::Contains("needs only the headers of that aotc and the C library"));
  CHECK(std::count(shared.begin(), shared.end(), '\n') < 100);
  f.write("shared.h", shared);
  f.write("linked.h", emit_header(two, "linked", "1.2", {true, true}));
  f.write("alone.h", emit_header(two, "alone", "1.2"));
  f.write("first.c", "#include \"shared.h\"\n#include \"linked.h\"\n#include \"alone.h\"\n");
  f.write("last.c", "#include \"alone.h\"\n#include \"linked.h\"\n#include \"shared.h\"\n");
  f.write("before.h", "#define AOTC_H_\n#define AOTC_SEAL_H_\n#define AOTC_LOADER_H_\n");  // of an aotc without revisions
  f.write("old.c", "#include \"before.h\"\n#include \"alone.h\"\n");
  const std::string flags =
      " -Wall -Wextra -Wpedantic -Werror -Wno-unused-function -D_POSIX_C_SOURCE=200809L -fsyntax-only -I" AOTC_TEST_DIR
      "/../runtime/include ";
  for (const char* user : {"first.c", "last.c"}) {
    CHECK(f.compiles("cc -std=c11" + flags + user));
    CHECK(f.compiles("c++ -std=c++17 -x c++" + flags + user));
  }
  CHECK_FALSE(f.compiles("cc -std=c11" + flags + "old.c"));
  CHECK_THAT(f.log(), Catch::Contains("include alone.h before headers that an older aotc generated"));
}

TEST_CASE("a header of several methods has functions of each, which run it by its number") {
  Graph one, two;
  const ValueId x = one.add_input("x", {DType::f32, {3}}), y = two.add_input("y", {DType::i64, {5}});
  one.outputs.push_back({"out", x, "", -1});
  two.outputs.push_back({"out", y, "", -1});
  const std::string text = emit_header({{"prefill", one}, {"decode", two}}, "net", "1.2");
  for (const char* part :
       {"net_prefill_run(const aotc_api* api, aotc_context* context, const net_prefill_sizes* sizes,\n    const float* x",
        "api->run_method(context, 0, in, 1, out, 1)", "api->run_method(context, 1, in, 1, out, 1)",
        "net_decode_run(const aotc_api* api, aotc_context* context, const net_decode_sizes* sizes,\n    const int64_t* y",
        "net_decode_y_elems", "enum { net_method_prefill = 0, net_method_decode = 1 };"})
    CHECK_THAT(text, Catch::Contains(part));
  CHECK(text.find("net_run(") == std::string::npos);
}

TEST_CASE("names of the ABI are not taken by an artifact's") {
  CHECK(header_prefix("aotc") == "m_aotc");
  CHECK(header_prefix("aotc_library") == "m_aotc_library");
  CHECK(header_prefix("aotc_demo") == "aotc_demo");
  CHECK(header_prefix("int") == "int");
  CHECK(emit_header({{"forward", Graph()}}, "aotc", "1.2").find("m_aotc_library_open, model_create") != std::string::npos);
}

TEST_CASE("identifiers are new, unreserved and readable") {
  CHECK(c_identifier("gr\xc3\xb6\xc3\x9f"
                     "e") == "gr_u00f6_u00dfe");
  CHECK(c_identifier("2x") == "m_2x");
  CHECK(c_identifier("") == "m_");
  CNames names({"in"});
  CHECK(names.add("x") == "x");
  CHECK(names.add("x") == "x_2");
  CHECK(names.add("x_2") == "x_2_2");
  CHECK(names.add("in") == "in_2");
  CHECK(names.add("int") == "int_");
  CHECK(names.add("__x") == "v_x");
  CHECK(names.add("int32_t") == "int32_t_");
  CHECK(names.add("K") == "K");
  std::set<std::string> all;
  CNames many;
  for (int round = 0; round < 3; ++round)
    for (const std::string& n : kNames) CHECK(all.insert(many.add(n)).second);
}

TEST_CASE("any text in a comment is one line of printable characters that does not end it") {
  for (const std::string& n : kNames) {
    const std::string text = c_comment(n);
    INFO(text);
    CHECK(text.find("*/") == std::string::npos);
    CHECK(text.find("/*") == std::string::npos);
    CHECK(text.find("?"
                    "?") == std::string::npos);
    CHECK((text.empty() || text.back() != '\\'));
    for (const char c : text) CHECK((c >= 32 && c < 127));
  }
  CHECK(c_comment("x\ny") == "x\\x0ay");
  CHECK(c_comment("plain name[0]") == "plain name[0]");
}
