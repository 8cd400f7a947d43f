// The texts inside an archive: JSON, sizes, stack traces, pytrees.
#include "import/json.h"
#include "import/metadata.h"
#include "import/result_name.h"
#include "import/sym_text.h"
#include "support.h"

using namespace aotc;
using namespace aotc::import;
using namespace aotc::import::test;
using Catch::Matchers::Contains;

TEST_CASE("results are called by their place", "[import]") {
  CHECK(result_name("['past'][3]['keys']") == "past.3.keys");
  CHECK(result_name("[1]['keys']") == "output_1.keys");
  CHECK(result_name("['a b'][0]") == "a_b.0");
  CHECK(result_name("").empty());
  CHECK(result_name("[0][2]").empty());
  CHECK(result_name("['open").empty());
  CHECK(result_name("['']") == "_");
}

TEST_CASE("numbers beyond 64 bits are refused where an integer is asked for, and are an end of 64 bits where one will do") {
  const Json j = parse_json("[18446744073709551615, -9223372036854775809, 9223372036854775807, 2.5]", "m.json");
  const JsonRef m(j, "m.json");
  CHECK_THAT(refusal([&] { m.at(0).integer(); }), Contains("64 bits"));
  CHECK_THAT(refusal([&] { m.at(1).integer(); }), Contains("64 bits"));
  CHECK(m.at(0).nearest_integer() == INT64_MAX);
  CHECK(m.at(1).nearest_integer() == INT64_MIN);
  CHECK(m.at(2).integer() == INT64_MAX);
  CHECK_THAT(refusal([&] { m.at(3).nearest_integer(); }), Contains("an integer"));
}

TEST_CASE("JSON that two readers could read differently is refused") {
  const auto why = [](const std::string& text) { return refusal([&] { parse_json(text, "m.json"); }); };
  CHECK(why(R"({"a": [1, 2.5, "x", null, true]})") == "(accepted)");
  CHECK_THAT(why(R"({"a": 1, "a": 2})"), Contains("duplicate key \"a\""));
  CHECK_THAT(why("[NaN]"), Contains("not JSON"));
  CHECK_THAT(why("[1e999]"), Contains("m.json"));
  CHECK_THAT(why("[1] 2"), Contains("not JSON"));
  CHECK_THAT(why("{\n \"a\": }"), Contains("2:"));
  CHECK(why(std::string(64, '[') + std::string(64, ']')) == "(accepted)");
  CHECK_THAT(why(std::string(65, '[') + std::string(65, ']')), Contains("deeper than 64"));
  CHECK_THAT(why(std::string(1 << 20, '[')), Contains("deeper than 64"));
}

TEST_CASE("wrong JSON types are named with their path") {
  const Json j = parse_json(R"({"a": {"b": [1, "x"]}})", "m.json");
  const JsonRef r(j, "m.json");
  CHECK(refusal([&] { r["a"]["b"].at(1).integer(); }) == "m.json: $.a.b[1]: expected an integer, found \"x\"");
  CHECK_THAT(refusal([&] { r["c"]; }), Contains("missing key \"c\""));
}

TEST_CASE("sizes are read from sympy's texts") {
  SymTable syms;
  const SymId s0 = syms.add({.name = "s0", .min = 2, .max = 64}), s1 = syms.add({.name = "s1"});
  const Expr x = Expr::symbol(s0), y = Expr::symbol(s1);
  const auto symbol = [&](const std::string& n) { return Expr::symbol(syms.find(n).value()); };
  const auto read = [&](const std::string& t) {
    const auto e = parse_sym_text(t, syms, symbol);
    INFO(t << ": " << e.why());
    REQUIRE(e);
    return *e;
  };
  CHECK(read("Symbol('s0', positive=True, integer=True)") == x);
  CHECK(read("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-3))") == x * 2 - 3);
  CHECK(read("Max(Integer(5), Symbol('s0'), Symbol('s1'))") == max(max(Expr(5), x), y));
  CHECK(read("FloorDiv(Add(Symbol('s0'), Integer(1)), Integer(2))") == floordiv(x + 1, 2));
  CHECK(read("PythonMod(Symbol('s0'), Integer(3))") == mod(x, 3));
  CHECK(read("Pow(Symbol('s0'), Integer(2))") == x * x);
  CHECK(read("2*s0 + 1") == x * 2 + 1);
  CHECK(read("((s0 + 1)//2)") == floordiv(x + 1, 2));
  CHECK(read("-s0 + s1*(s0 - 1)") == y * (x - 1) - x);
  CHECK(read("s0**2") == x * x);
  CHECK(read("Max(1, s0)") == max(Expr(1), x));
  // A choice by a condition, as torch.sym_ite and the item() of a bool export it.
  const auto at = [&](const Expr& e, int64_t a, int64_t b) { return e.eval([&](SymId s) { return s == s0 ? a : b; }); };
  for (const char* choice :
       {"Piecewise(ExprCondPair(Integer(7), Equality(Symbol('s0'), Symbol('s1'))), ExprCondPair(s0, s0 < s1), ExprCondPair(s1 - 1, true))",
        "7 if s0 == s1 else s0 if s1 > s0 else s1 - 1", "torch.sym_ite(s0 != s1, Min(s0, s1 - 1), 7)"})
    for (const int64_t a : {2, 3, 4, 40}) CHECK(at(read(choice), a, 3) == (a == 3 ? 7 : std::min<int64_t>(a, 2)));
  CHECK(at(read("torch.sym_ite(And(s0 >= 3, Not(s0 == 5)), 1, 0)"), 5, 2) == 0);
  CHECK(at(read("torch.sym_ite(And(s0 >= 3, Not(s0 == 5)), 1, 0)"), 4, 2) == 1);
  CHECK(at(read("torch.sym_ite(Or(s0 <= 3, s0 > 5), 1, 0)"), 4, 2) == 0);
  // Upsampling by 2 and by 1.5, as interpolate exports them.
  CHECK(read("TruncToInt(Mul(Float('2.0', precision=53), ToFloat(Symbol('s0'))))") == x * 2);
  CHECK(read("FloorToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s0'))))") == floordiv(x * 3, 2));
  CHECK(read("floor(IntTrueDiv(Symbol('s0'), Integer(4)))") == floordiv(x, 4));

  const auto why = [&](const std::string& t) { return parse_sym_text(t, syms, symbol).why(); };
  CHECK_THAT(why("Piecewise(ExprCondPair(1, Equality(s0, 1)))"), Contains("leave values out"));
  CHECK_THAT(why("Piecewise(1)"), Contains("a condition"));
  CHECK_THAT(why("IntTrueDiv(Symbol('s0'), Integer(7))"), Contains("may not be an integer"));
  CHECK_THAT(why("sqrt(s0)"), Contains("the function sqrt"));
  CHECK_THAT(why("s0 +"), Contains("column"));
  CHECK_THAT(why("FloorDiv(s0, 0)"), Contains("true division") || Contains("zero"));
  CHECK_FALSE(parse_sym_text("9223372036854775807*s0*4", syms, symbol));
  CHECK_THAT(why(std::string(200, '(') + "s0" + std::string(200, ')')), Contains("deeper"));
  CHECK_THAT(why(std::string(200, '-') + "s0"), Contains("deeper"));
  CHECK_THAT(why(std::string(200, '(') + "s0" + std::string(200, ')')), Contains("deeper"));
  // Python rounds: 49 * (1 / 49) is below one, 1 / 49 is not above zero.
  CHECK(read("FloorToInt(IntTrueDiv(s0, 49))") == floordiv(x, 49));
  CHECK(read("CeilToInt(IntTrueDiv(s0, 3) + 1)") == ceildiv(x + 3, 3));
  CHECK_THAT(why("TruncToInt(Mul(49, IntTrueDiv(s0, 49)))"), Contains("rounds"));
  // 17/10 and 37/100 are nearer to their floats than the half of what a product rounds by; 0.29 * 100 is below 29.
  CHECK(read("FloorToInt(Mul(Float('1.7', precision=53), ToFloat(Symbol('s0'))))") == floordiv(x * 17, 10));
  CHECK(read("CeilToInt(0.37*ToFloat(s0))") == ceildiv(x * 37, 100));
  CHECK_THAT(why("TruncToInt(0.1234567*ToFloat(s0))"), Contains("0.1234567"));
  CHECK_THAT(why("CeilToInt(0.7*ToFloat(s0 - s1))"), Contains("rounds"));
  CHECK_THAT(why("CeilToInt(FloatTrueDiv(0.7*ToFloat(s0), 0.3))"), Contains("rounds"));
  CHECK_THAT(why("FloorToInt(0.7*ToFloat(s0 - s1))"), Contains("rounds"));
  CHECK_THAT(why("TruncToInt(0.7*ToFloat(s0) + 1)"), Contains("rounds"));
  CHECK_THAT(why("TruncToInt(1.7*ToFloat(s0) + 0.3)"), Contains("rounds"));
  CHECK_THAT(why("TruncToInt(1.7*(1.7*ToFloat(s0)))"), Contains("rounds"));
  // Powers by sizes that are known to be small.
  for (const char* text : {"PowByNatural(Integer(2), Mod(Symbol('s1'), Integer(5)))", "3**Min(s1, 4)", "(s1 + 1)**(s1 % 3)"}) {
    const Expr e = read(text);
    const std::function<int64_t(int64_t)> want = text[0] == 'P' ? [](int64_t n) { return int64_t{1} << n % 5; }
                                                 : text[0] == '3'
                                                     ? [](int64_t n) { return static_cast<int64_t>(std::pow(3, std::min<int64_t>(n, 4))); }
                                                     : [](int64_t n) { return static_cast<int64_t>(std::pow(n + 1, n % 3)); };
    for (int64_t n = 0; n < 30; ++n) CHECK(e.eval([&](SymId) { return n; }) == want(n));
  }
  CHECK_THAT(why("2**s1"), Contains("no bound"));
  CHECK_THAT(why("2**(s1 % 4 - 1)"), Contains("negative"));
}

TEST_CASE("a decimal number times a size, and a size by one, are rounded to whole ones as float64's are") {
  SymTable syms;
  const SymId s0 = syms.add({"s0", SymKind::shape, 1});
  const SymbolOf symbol = [&](std::string_view) { return Expr::symbol(s0); };
  std::vector<int64_t> sizes;
  for (int64_t n = 1; n < 5000; ++n) sizes.push_back(n);
  for (int64_t n = 1000; n < (int64_t{1} << 30); n += n / 30)
    for (const int64_t by : {10, 50, 100, 1000}) sizes.insert(sizes.end(), {n / by * by - 1, n / by * by, n / by * by + 1});
  struct Form {
    const char* text;  ///< of the decimal
    double (*value)(double n, double d);
  };
  constexpr Form kForms[] = {{"{}*ToFloat(s0)", [](double n, double d) { return d * n; }},
                             {"{}*(ToFloat(s0) - 0.5)", [](double n, double d) { return d * (n - 0.5); }},
                             {"FloatTrueDiv(ToFloat(s0), {})", [](double n, double d) { return n / d; }},
                             {"FloatTrueDiv(ToFloat(3*s0) - 0.75, {})", [](double n, double d) { return (3 * n - 0.75) / d; }}};
  struct Whole {
    const char* name;
    double (*of)(double);
  };
  constexpr Whole kWhole[] = {{"TruncToInt", std::trunc}, {"FloorToInt", std::floor}, {"CeilToInt", std::ceil}};
  for (const double d : {0.7, 1.1, 1.4, 2.3, 0.29, 0.57, 1.37, 0.67, 2.47, 3.76, 0.07, 1.13, 0.014, 0.3, 0.1, 0.9, 0.6, 1.7, 12.1})
    for (const Form& form : kForms)
      for (const Whole& whole : kWhole) {
        const auto e = parse_sym_text(fmt::format("{}({})", whole.name, fmt::format(fmt::runtime(form.text), d)), syms, symbol);
        INFO(whole.name << " " << form.text << " " << d << ": " << e.why());
        REQUIRE(e);
        std::vector<int64_t> wrong;
        for (const int64_t n : sizes)
          if (e->eval([&](SymId) { return n; }) != static_cast<int64_t>(whole.of(form.value(static_cast<double>(n), d))))
            wrong.push_back(n);
        CHECK(wrong.empty());
      }
}

TEST_CASE("the user's line is the innermost frame outside of PyTorch") {
  CHECK(source_line("File \"/home/a/model.py\", line 12, in forward\n    y = self.fc(x)\n"
                    "  File \"/v/site-packages/torch/nn/modules/linear.py\", line 134, in forward\n    return F.linear(x)") ==
        "model.py:12 in forward: y = self.fc(x)");
  CHECK(source_line("File \"/v/site-packages/torch/nn/a.py\", line 3, in f\n    g()") == "a.py:3 in f: g()");
  CHECK(source_line("").empty());
  CHECK(source_line("no frames here\nFile \"").empty());
  CHECK(module_path("L__self__,,m.M;L__self___enc,enc.layer.0,m.Layer") == "enc.layer.0");
  CHECK(module_path("").empty());
}

TEST_CASE("paths of a pytree") {
  const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
  const std::string spec = R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [
      {"type": "builtins.tuple", "context": "null", "children_spec": [)" +
                           leaf + R"(]},
      {"type": "builtins.dict", "context": "[\"mask\"]", "children_spec": [)" +
                           leaf + "]}]}]";
  CHECK(tree_paths(spec, true) == std::vector<std::string>{"args[0]", "kwargs['mask']"});
  CHECK(tree_paths("[1, 2]", true).empty());
  const auto paths = [&](const std::string& type, const std::string& context) {
    return tree_paths("[1, {\"type\": \"" + type + "\", \"context\": " + context + ", \"children_spec\": [" + leaf + ", " + leaf + "]}]",
                      false);
  };
  const std::vector<std::string> named = {"['logits']", "['past']"};
  CHECK(paths("Out", R"("[[\"logits\", \"past\"], [\"none\"]]")") == named);
  CHECK(paths("builtins.dict", R"("[\"logits\", \"past\"]")") == named);
  CHECK(paths("collections.defaultdict", R"("{\"default_factory_name\": \"int\", \"dict_context\": [\"logits\", \"past\"]}")") == named);
  CHECK(paths("Out", R"("[[\"logits\"], []]")") == std::vector<std::string>{"[0]", "[1]"});
  CHECK(tree_paths("{", true).empty());
  const std::string deep(100000, '['),
      context = R"({"type": "builtins.dict", "context": ")" + deep + R"(", "children_spec": [)" + leaf + "]}";
  CHECK_THROWS_AS(tree_paths(deep, true), Diagnostic);
  CHECK_THROWS_AS(tree_paths("[1, " + context + "]", true), Diagnostic);
}
