// The file of operators says what LibTorch says.
#include "import/operator_table.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <limits>

#include "import/torch_functions.h"
#include "import/torch_library.h"

namespace aotc::import {
namespace {

OpSchema schema_of_all_defaults() {
  const double inf = std::numeric_limits<double>::infinity();
  OpSchema s;
  const auto add = [&](const char* name, ParamType type, std::optional<Arg> fallback) {
    s.params.push_back({.name = name, .type = type, .optional = s.params.size() % 2 == 1, .fallback = std::move(fallback)});
  };
  add("self", ParamType::tensor, std::nullopt);
  s.params.back().alias = "a", s.params.back().written = true;
  add("none", ParamType::tensor, NoneArg{});
  add("integer", ParamType::integer, Expr(-3));
  add("real", ParamType::real, 0.1);
  add("unbounded", ParamType::real, -inf);
  add("boolean", ParamType::boolean, true);
  add("text", ParamType::text, std::string("a\tb\n\"c\""));
  add("texts", ParamType::text_list, std::vector<std::string>{"x", ""});
  add("ints", ParamType::int_list, std::vector<Expr>{Expr(1), Expr(2)});
  add("no_ints", ParamType::int_list, std::vector<Expr>{});
  add("reals", ParamType::real_list, std::vector<double>{1.5, inf});
  add("bools", ParamType::bool_list, std::vector<bool>{true, false});
  add("dtype", ParamType::dtype, DType::bf16);
  add("device", ParamType::device, DeviceArg{"cpu"});
  add("layout", ParamType::layout, LayoutArg{"strided"});
  add("format", ParamType::memory_format, MemoryFormatArg{"preserve"});
  add("complex", ParamType::scalar, std::complex<double>(0.1, -2));
  add("tensors", ParamType::tensor_list, TensorList{});
  add("opt_tensors", ParamType::opt_tensor_list, OptTensorList{});
  s.results = {{ParamType::tensor, "a"}, {ParamType::other, ""}};
  return s;
}

bool same(const std::optional<Arg>& a, const std::optional<Arg>& b) {
  if (!a || !b) return !a && !b;
  return a->index() == b->index() && arg_text(*a, SymTable{}) == arg_text(*b, SymTable{});
}

void check_same(const OpSchema& a, const OpSchema& b) {
  REQUIRE(a.params.size() == b.params.size());
  REQUIRE(a.results.size() == b.results.size());
  for (size_t i = 0; i < a.params.size(); ++i) {
    INFO(a.params[i].name);
    CHECK(a.params[i].name == b.params[i].name);
    CHECK(a.params[i].type == b.params[i].type);
    CHECK(a.params[i].optional == b.params[i].optional);
    CHECK(a.params[i].alias == b.params[i].alias);
    CHECK(a.params[i].written == b.params[i].written);
    CHECK(same(a.params[i].fallback, b.params[i].fallback));
  }
  for (size_t i = 0; i < a.results.size(); ++i) {
    CHECK(a.results[i].type == b.results[i].type);
    CHECK(a.results[i].alias == b.results[i].alias);
  }
}

TEST_CASE("a schema and its text say the same, whatever the defaults") {
  const OpSchema s = schema_of_all_defaults();
  const std::optional<std::string> text = schema_text(s);
  REQUIRE(text);
  CHECK(text->find_first_of("\t\n") == std::string::npos);
  const std::optional<OpSchema> back = parse_schema(*text);
  REQUIRE(back);
  check_same(s, *back);
  CHECK(std::get<double>(*back->find("real")->fallback) == 0.1);
}

TEST_CASE("a default without a form, and a damaged text, are left to LibTorch") {
  OpSchema s;
  s.params.push_back({.name = "x", .fallback = Arg(TensorRef{"t"})});
  CHECK_FALSE(schema_text(s));
  for (const char* text : {"", "{", "{}", "[]", R"({"params":[{"name":"x","type":"Tonsor"}],"results":[]})",
                           R"({"params":[{"name":"x","type":"int","default":{"huge":1}}],"results":[]})"})
    CHECK_FALSE(parse_schema(text));
}

TEST_CASE("a table is of one aotc and one LibTorch") {
  const OpSchema s = schema_of_all_defaults();
  const std::string text = operator_table_text("1.2", "2.13.0+cpu", {{"b.x.default", s}, {"a.x.default", {}}, {"a.x", s}});
  const OperatorTable table(text, "1.2", "2.13.0+cu130");
  for (const char* target : {"a.x", "b.x.default"}) {
    const std::optional<OpSchema> found = table.find(target);
    REQUIRE(found);
    check_same(s, *found);
  }
  REQUIRE(table.find("a.x.default"));
  CHECK(table.find("a.x.default")->params.empty());
  for (const char* target : {"", "a", "a.x.d", "c", "#"}) CHECK_FALSE(table.find(target));
  CHECK_FALSE(OperatorTable(text, "1.3", "2.13.0").find("a.x"));
  CHECK_FALSE(OperatorTable(text, "1.2", "2.13.1").find("a.x"));
  CHECK_FALSE(OperatorTable(text, "1.2", "").find("a.x"));
  CHECK_FALSE(OperatorTable("", "1.2", "2.13.0").find("a.x"));
  const std::string nightly = operator_table_text("1.2", "2.15.0a0+git1", {{"a.x", s}}),
                    unknown = operator_table_text("1.2", "", {{"a.x", s}});
  CHECK(OperatorTable(nightly, "1.2", "2.15.0a0+git1").find("a.x"));
  CHECK_FALSE(OperatorTable(nightly, "1.2", "2.15.0a0+git2").find("a.x"));
  CHECK_FALSE(OperatorTable(unknown, "1.2", "").find("a.x"));
}

TEST_CASE("the table of this build says of every operator what LibTorch says") {
  const TorchPair& pair = torch_here();
  const std::string path = pair.side.file.substr(0, pair.side.file.size() - std::string(".so").size()) + ".operators";
  std::ifstream in(path, std::ios::binary);
  if (!in || !pair.alike) {
    WARN("there is none for this LibTorch");
    return;
  }
  const TorchFunctions& torch = torch_functions();
  const OperatorTable table(std::string(std::istreambuf_iterator<char>(in), {}), torch.aotc_version, pair.torch.version);
  const std::vector<std::string> targets = torch.operators();
  CHECK(targets.size() > 2000);
  size_t left_out = 0;
  for (const std::string& target : targets) {
    INFO(target);
    const std::optional<OpSchema> known = torch.find_schema(target), told = table.find(target);
    left_out += known && !told;
    CHECK((known || !told));
    if (known && told) check_same(*known, *told);
  }
  CHECK(left_out == 0);
}

}  // namespace
}  // namespace aotc::import
